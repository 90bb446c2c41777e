"""A run of a grid, and its outcome."""

from __future__ import annotations

import dataclasses
import itertools
import re
import shutil
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from algorithms.networks.settings import DEFAULT_NETWORK, NetworkConfig
from algorithms.run_folder.atomic_files import read_json
from algorithms.run_folder.stopping import SIGNALS

RESULT_FILE = "result.json"
TAIL_LINES = 8

ENGINES_OPTIONS = {
    "train": ("--env.num-engines", "--env.num-threads"),
    "causes": ("--num-engines",),
}
"""Command -> its options for the number of engines and of threads, which change no score."""

State = Literal["waiting", "running", "finished", "stopped", "failed"]


@dataclasses.dataclass(frozen=True)
class GridRun:
    """One run.

    Attributes:
        name: unique in the grid.
        arguments: of `chess-lab`, without --run-dir, --json and --resume, which the grid adds. So it does with the
            number of engines, where they name none.
        folder: its run folder, below the grid's own.
        resume: whether an unfinished one can be continued from a checkpoint.
        said_again: arguments to repeat where it is continued: the names that are not taken from the folder.
    """

    name: str
    arguments: tuple[str, ...]
    folder: Path
    resume: bool = True
    said_again: tuple[str, ...] = ()

    def asks_for(self, recorded: Sequence[str]) -> bool:
        """Whether arguments recorded earlier ask for this run."""
        return _asked(recorded) == _asked(self.arguments)

    def with_engines(self, number: int) -> list[str]:
        """The words that give a process of the run its engines and threads, where its arguments do not."""
        options = ENGINES_OPTIONS.get(self.arguments[0], ())
        return [word for o in options if o not in self.arguments for word in (o, str(number))]

    def words(self, engines: int) -> list[str]:
        """What `chess-lab` is given; called where the run starts: the folder of one that starts anew is removed."""
        rest = ["--json", str(self.folder / RESULT_FILE), *self.with_engines(engines)]
        if self.resume and has_checkpoint(self.folder):
            again = [self.arguments[0], *self.said_again]
            return [*again, "--resume", str(self.folder), *rest]
        if self.folder.exists():
            shutil.rmtree(self.folder)
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        return [*self.arguments, "--run-dir", str(self.folder), *rest]

    @property
    def log(self) -> Path:
        """The file beside the folder with the output of the process."""
        return self.folder.with_name(f"{self.folder.name}.log")

    def result(self) -> dict[str, Any] | None:
        """The result that its process wrote at the end; None while it is unfinished."""
        values = read_json(self.folder / RESULT_FILE)
        ended = bool(values) and stopped_by(values) not in signal.Signals.__members__
        return values if ended else None


def _asked(arguments: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """{flag: its values}, "" for what stands before the first, of `chess-lab` arguments.

    A default that is named changes nothing: the network, and its step size. Nor do the number of engines and the file
    of scores.
    """
    flag, found = "", dict[str, tuple[str, ...]]()
    for text in arguments:
        if text.startswith("--"):
            flag = text
        found[flag] = found.get(flag, ()) + ((text,) if text != flag else ())
    for option in (*itertools.chain(*ENGINES_OPTIONS.values()), "--env.cache"):
        found.pop(option, None)
    if arguments[:1] and arguments[0] == "train":
        (network,) = found.setdefault("--policy.network", (DEFAULT_NETWORK,))
        rate = NetworkConfig(network=network).learning_rate
        found.setdefault("--optimizer.learning-rate", (str(rate),))
    return found


def stopped_by(result: dict[str, Any]) -> str | None:
    """What ended a run early, from its result or that of the cause that it was run for; or None."""
    inner = result.get("result", result)  # `causes run` has the run's own result inside its own
    return inner.get("stopped_by") if isinstance(inner, dict) else None


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The outcome of a run.

    Attributes:
        grid_run: the run.
        state: `finished`, `failed`, `stopped` (by a signal; it can be continued) or `waiting`.
        exit_code: of its process; negative for the signal that killed it, None where none ended.
        log_tail: last lines of a failed run's log.
    """

    grid_run: GridRun
    state: State
    exit_code: int | None = None
    log_tail: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class GridResult:
    """The outcome of a grid.

    Attributes:
        outcomes: one for each run, in the order given.
        stopped_by: the signal that ended the grid early, or None.
    """

    outcomes: tuple[Outcome, ...]
    stopped_by: str | None

    @property
    def exit_code(self) -> int:
        """0 where all runs are finished, 128 + signal after one, otherwise 1."""
        if self.stopped_by is not None:
            return 128 + signal.Signals[self.stopped_by].value
        return 0 if all(each.state == "finished" for each in self.outcomes) else 1

    def lines(self) -> list[str]:
        """The runs that did not finish, and why; empty where all did."""
        found = []
        for each in self.outcomes:
            if each.state == "failed":
                found.append(
                    f"FAILED {each.grid_run.name}: exit code {each.exit_code}; {each.grid_run.log}"
                )
                found += [f"    {line}" for line in each.log_tail]
            elif each.state != "finished":
                found.append(f"unfinished: {each.grid_run.name}")
        return found


def state_after(grid_run: GridRun, code: int, *, killed: bool) -> State:
    """What an ended process leaves: a run that was asked to stop is no failure, it can be continued."""
    if code == 0 and grid_run.result() is not None:
        return "finished"
    asked = [*SIGNALS, *([signal.SIGKILL] if killed else [])]
    return "stopped" if code in {s for each in asked for s in (-each, 128 + each)} else "failed"


def last_lines(path: Path) -> list[str]:
    """Last lines of a log, without colours and empty lines."""
    text = path.read_text(encoding="utf-8", errors="replace")[-20_000:]
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line).rstrip() for line in text.splitlines()]
    return [line for line in lines if line][-TAIL_LINES:]


def has_checkpoint(folder: Path) -> bool:
    """Whether a run can be continued: a kill may fall into the writing of its config.json."""
    return any((folder / "checkpoints").glob("update-*")) and bool(
        read_json(folder / "config.json")
    )
