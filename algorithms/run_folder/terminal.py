"""Texts on a terminal: nothing in them is obeyed in place of being shown; and errors for people."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterable, Iterator
from typing import Any, TextIO, cast

from algorithms.core.checks import message_lines

# Control characters but for tab and line feed, what changes the direction of writing, what has no width, and halves of
# characters (a file name that is no UTF-8), which no stream can encode.
_OBEYED = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]"
)


def visible(text: str) -> str:
    r"""The text in which each character that a terminal would obey is written as Python writes it, such as \x1b."""
    return _OBEYED.sub(lambda found: ascii(found[0])[1:-1], text)


class VisibleText:
    """A stream to which text is written as `visible` shows it; all else is as of the stream inside.

    Texts of strangers (names, settings, metrics, errors) come to the terminal in many places, so the escaping is where
    all of them pass.

    Attributes:
        stream: the one inside, for those who write what a terminal shall obey.
    """

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        """Writes the text; returns its length, as streams do."""
        self.stream.write(visible(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Writes each of them."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def print_visibly() -> None:
    """Makes the standard output and the standard error show what is printed from now on as `visible` does."""
    # Either is None in a process without them.
    sys.stdout = sys.stdout and cast(TextIO, VisibleText(sys.stdout))
    sys.stderr = sys.stderr and cast(TextIO, VisibleText(sys.stderr))


@contextlib.contextmanager
def printing_visibly() -> Iterator[None]:
    """A context in which `print_visibly` holds."""
    before = sys.stdout, sys.stderr
    print_visibly()
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def complain(command: str, error: object) -> None:
    """Prints what is wrong to the standard error.

    Args:
        command: whose message it is, such as "chess-lab train".
        error: what is wrong and what to do; of an exception of a user's own code, the line is added.
    """
    if isinstance(error, BaseException):
        # Not before something is wrong: it takes time.
        from chess_env.custom_objects import explained

        error = explained(error)
    print("\n".join(message_lines(f"{command}: {error}")), file=sys.stderr)
