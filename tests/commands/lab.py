"""`chess-lab` in this process, for tests of several rooms."""

from __future__ import annotations

import contextlib
import io
import os
import re
import signal
import sys
from pathlib import Path
from typing import Any, NamedTuple

from algorithms import cli

_BIN = Path(sys.executable).parent
ENV = {**os.environ, "OMP_NUM_THREADS": "1", "PATH": f"{_BIN}{os.pathsep}{os.environ['PATH']}"}
"""For `chess-lab` in a process of its own: PATH knows the command, as in an activated environment."""


def usual_signals() -> None:
    """For `preexec_fn`: a shell ignores Ctrl-C in the background, and `nohup` the end of the terminal."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


class Answer(NamedTuple):
    """How a command ended, and what it wrote to the standard output and the standard error."""

    code: int
    out: str
    err: str


def unwrapped(text: str) -> str:
    """The text with every message in one line, however many it takes in 80 columns."""
    return re.sub(r"\n  (?=\S)", " ", text)


def wrapped_answer(*arguments: Any) -> Answer:
    """The answer to a command line; where the parser ends the process itself, that is its end."""
    with (
        contextlib.redirect_stdout(io.StringIO()) as out,
        contextlib.redirect_stderr(io.StringIO()) as err,
    ):
        try:
            code = cli.main([*map(str, arguments)])
        except SystemExit as left:
            code = int(left.code or 0)
    return Answer(code, out.getvalue(), err.getvalue())


def chess_lab(*arguments: Any) -> Answer:
    """The same with every error in one line: where its lines end depends on the paths in it."""
    code, out, err = wrapped_answer(*arguments)
    return Answer(code, out, unwrapped(err))


def evaluate(*arguments: Any) -> Answer:
    """The answer to `chess-lab eval` with these arguments."""
    return chess_lab("eval", *arguments)
