"""What a grid asks of an executor, and what it is told."""

from __future__ import annotations

import dataclasses
import signal
from pathlib import Path
from typing import Protocol

WAIT_S = 0.1
"""Longest wait for an event, so that a signal is passed on soon."""


@dataclasses.dataclass(frozen=True)
class Cell:
    """One process of `chess-lab`.

    Attributes:
        name: unique among the cells that run.
        arguments: of `chess-lab`.
        log: the file to which its output is appended; its folder is there.
    """

    name: str
    arguments: tuple[str, ...]
    log: Path


@dataclasses.dataclass(frozen=True)
class Started:
    """The cell `name` runs. `node` is the machine's name, "" for this one."""

    name: str
    node: str


@dataclasses.dataclass(frozen=True)
class Ended:
    """The process of the cell `name` ended with `exit_code`, negative for the signal that killed it."""

    name: str
    exit_code: int


@dataclasses.dataclass(frozen=True)
class Lost:
    """The cell `name` runs nowhere any more, without a fault of its own: `why` says what became of it."""

    name: str
    why: str


@dataclasses.dataclass(frozen=True)
class Note:
    """Something that the user should know, in `text`."""

    text: str


Event = Started | Ended | Lost | Note


class Executor(Protocol):
    """Runs cells, and tells of each start and end."""

    @property
    def at_a_time(self) -> int | None:
        """Cells that it takes at a time; None where it queues all that it is given."""

    @property
    def engines(self) -> int:
        """Engines of each cell: Stockfish processes, or threads of the built-in evaluator."""

    def about(self, num_cells: int) -> str:
        """How many cells run at a time, and what each of them gets.

        Args:
            num_cells: that are to run, at least 1.
        """

    def begin(self, cell: Cell) -> None:
        """Starts a cell, or queues it."""

    def events(self) -> list[Event]:
        """What has happened since the last call, in order; waits for `WAIT_S` where nothing has."""

    def stop(self, number: signal.Signals) -> None:
        """Sends the signal to every cell that runs; one that is queued is lost."""
