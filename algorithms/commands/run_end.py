"""What `chess-lab train` and `pretrain` do when a run has ended: say so, and turn it into an exit code."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from algorithms.commands.json_file import write_json


class Result(Protocol):
    """What a run came to."""

    @property
    def stopped_by(self) -> str | None:
        """What ended the run early: the name of a signal or a reason; None at the end of the budget."""

    def lines(self) -> list[str]:
        """The result for people."""

    def to_dict(self) -> dict[str, Any]:
        """The result for programs."""


def end_of_run(result: Result, json: Path | None, further: Callable[[bool], list[str]]) -> int:
    """Exit code; prints the result, what stopped the run, and the commands that go on from it.

    Args:
        result: of the run.
        json: the file that --json names.
        further: the last lines, given whether a signal stopped the run.
    """
    print("\n".join(["", *result.lines()]))
    write_json(json, result.to_dict())
    stopped_by = result.stopped_by
    stopped = stopped_by in signal.Signals.__members__
    if stopped_by is not None:
        print(f"stopped{' by' if stopped else ':'} {stopped_by}")
    print("\n".join(further(stopped)))
    return 128 + signal.Signals[stopped_by].value if stopped and stopped_by else 0
