"""A log of another trainer as columns of quantities: rows of one step together, restarts and damage noted."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import math
from array import array
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from algorithms.doctor.pace import settings_of
from algorithms.foreign import files
from algorithms.foreign.files import LogError, Row
from algorithms.foreign.trainer import QUANTITIES, Column, Trainer
from algorithms.foreign.trainers import TRAINERS, table

PEEKED = 200
"""Rows by which the trainer is guessed."""

NAMED = 8
"""Names of a log that a message has at most."""

OF_UPDATES = (
    "reward",
    "entropy",
    "dead",
    "grad_norm",
    "loss",
    "clip",
    "clip_low",
    "kl_update",
    "kl_signed",
    "learning_rate",
)
"""A step that has one of these is an update."""

FILLED = 1 / 4
"""A larger share of updates that repeat the values of the one before were filled in."""

Floats = NDArray[np.float64]


@dataclasses.dataclass(frozen=True, eq=False)
class Log:
    """A log.

    Attributes:
        trainer: who wrote it.
        guessed: whether that was guessed.
        format: of the file.
        step: float64 [N], rising.
        columns: quantity -> float64 [N]; NaN where a step has none.
        config: the trainer's options, where they were given.
        notes: what a reader should know about the file, as sentences.
        is_one_run: whether the steps never go back to their beginning.
        is_counted: whether the rows have no steps, and were counted.
    """

    trainer: Trainer
    guessed: bool
    format: str
    step: Floats
    columns: Mapping[str, Floats]
    config: Mapping[str, Any]
    notes: tuple[str, ...]
    is_one_run: bool = True
    is_counted: bool = False

    def has(self, *names: str) -> bool:
        """Whether there is a number of each."""
        return all(len(self.points(name)[0]) > 0 for name in names)

    def points(self, name: str) -> tuple[Floats, Floats]:
        """(steps, values) that the log has of a quantity."""
        values = self.columns.get(name)
        if values is None:
            return np.empty(0), np.empty(0)
        known = np.isfinite(values)
        return self.step[known], values[known]

    def values(self, name: str) -> Floats:
        """The values alone."""
        return self.points(name)[1]

    def begin(self, name: str) -> float:
        """Mean of the first three values; NaN where there is none."""
        return _mean(self.values(name)[:3])

    def end(self, name: str) -> float:
        """Mean of the last tenth of the values, of three at least; NaN where there is none."""
        return _mean(self.values(name)[-max(3, round(0.1 * len(self.values(name)))) :])

    @functools.cached_property
    def num_updates(self) -> int:
        """Steps with numbers of an update."""
        return len(self._update_steps)

    @functools.cached_property
    def gap(self) -> float:
        """Steps from one logged update to the next, at the median."""
        return float(np.median(np.diff(self._update_steps))) if self.num_updates > 1 else 1.0

    @functools.cached_property
    def first_gap(self) -> float:
        """Steps of one update: of trainers that count samples, the least distance of two."""
        if not self.trainer.row_is_batch or self.num_updates < 2:
            return 1.0
        return float(np.diff(self._update_steps).min())

    @property
    def every_step(self) -> bool:
        """Whether each update has a row of its own."""
        return self.gap == self.first_gap and not self.is_counted

    @functools.cached_property
    def passes(self) -> float:
        """Passes over a batch, by the options or at the median; NaN where neither tells."""
        given = self.given("passes")
        if given > 0:
            return given
        if not self.has("passes_done", "batches_done"):
            return math.nan
        done = np.stack([self.columns["passes_done"], self.columns["batches_done"]])
        passes, batches = np.diff(done[:, np.isfinite(done).all(0)])
        return float(np.median(passes / np.maximum(batches, 1))) if len(passes) else math.nan

    def given(self, role: str) -> float:
        """The value of an option in the trainer's own settings; NaN where they were not given or have none."""
        value = self.config.get(self.trainer.option(role).lstrip("-"))
        known = isinstance(value, int | float) and not isinstance(value, bool)
        return float(value) if known else math.nan  # type: ignore[arg-type]

    @functools.cached_property
    def is_filled(self) -> bool:
        """Whether missing values were filled in with earlier ones."""
        names = [name for name in ("entropy", "reward", "grad_norm") if name in self.columns]
        if len(names) < 2 or self.num_updates < 8:
            return False
        rows = np.stack([self.columns[name] for name in names])
        same = (np.diff(rows[:, np.isfinite(rows).all(0)]) == 0).all(0)
        moved = np.flatnonzero(~same)
        if not len(moved):
            return False
        # What is the same up to the end is a policy that stands still.
        return bool(same[: moved[-1] + 1].mean() > FILLED)

    @functools.cached_property
    def uses(self) -> int | None:
        """Steps of the optimizer for each batch that is sampled; None where the log does not tell."""
        if (given := self.trainer.uses(self.config)) is not None:
            return given
        if self.trainer.row_is_batch:
            return None
        rewarded, updated = self.points("reward")[0], self.points("entropy")[0]
        if not self.every_step or len(rewarded) < 2 or len(updated) < 2:
            return None
        return int(np.median(np.diff(rewarded)))

    @functools.cached_property
    def _update_steps(self) -> Floats:
        known = [np.isfinite(self.columns[name]) for name in OF_UPDATES if name in self.columns]
        return self.step[np.any(known, axis=0)] if known else np.empty(0)


def read_log(
    path: Path,
    source: str | None = None,
    names: Mapping[str, str] | None = None,
    config: Path | None = None,
) -> Log:
    """The log in a file or folder.

    Args:
        path: a file, or a folder with a log of a known name.
        source: name of the trainer, or a format; None guesses.
        names: theirs -> ours, for a table of another program.
        config: a JSON or YAML file with the trainer's options.

    Raises:
        LogError: it cannot be read, or no name in it is known.
    """
    found, notes = files.find(path), list[str]()
    form = files.format_of(found)
    rows = files.rows(found, notes)
    first = list(itertools.islice(rows, PEEKED))
    if not first:
        raise LogError(f"{found} has no rows")
    theirs = {name for row in first for name in row}
    if names:
        trainer, guessed = table(names), False
    elif source in TRAINERS:
        trainer, guessed = TRAINERS[source], False
    else:
        trainer, guessed = _guess(theirs), True
    if not names and not trainer.known(theirs):
        raise LogError(
            f"{found}: no name in it is known ({_some(theirs)}): say what they are by --map theirs=ours, "
            f"where ours is one of step, {', '.join(QUANTITIES)}"
        )
    columns = _Columns(trainer)
    for row in itertools.chain(first, rows):
        columns.add(row)
    if absent := set(names or ()) - columns.names:
        raise LogError(
            f"{found}: --map names {_some(absent)}, and no numbers go by that name; "
            f"there are {_some(columns.names)}"
        )
    if trainer.name == "table" and (unread := columns.unread):
        notes.append(f"not read, as no --map says what it is: {_some(unread)}")
    return Log(
        trainer,
        guessed,
        form,
        *columns.read(),
        _options(config) if config else {},
        (*notes, *columns.notes()),
        columns.is_one_run,
        columns.is_counted,
    )


def _some(names: Iterable[str]) -> str:
    """The first names of a log, and how many others there are."""
    shown = sorted(names)
    more = len(shown) - NAMED
    return ", ".join(shown[:NAMED]) + (f" and {more} more" if more > 0 else "")


def _guess(theirs: Iterable[str]) -> Trainer:
    """The trainer that most of the names are of."""
    names = list(theirs)
    return max((*TRAINERS.values(), table({})), key=lambda trainer: len(trainer.known(names)))


class _Columns:
    """Columns that grow row by row."""

    def __init__(self, trainer: Trainer) -> None:
        self._trainer = trainer
        self.names = set[str]()
        self._known: dict[str, Column] = {}
        self._step = array("d")
        self._columns: dict[str, array[float]] = {}
        self._counts: dict[str, int] = {}
        self._restarts = 0
        self.is_one_run = True
        self.is_counted = False

    def add(self, row: Row) -> None:
        """A row more; one of the same step goes with those before it."""
        if not self.is_one_run:
            return
        if not self.names.issuperset(row):  # some names come late, as those of the first evaluation
            self.names.update(row)
            self._known = self._trainer.known(self.names)
        known = [name for name in row if name in self._known]
        if not known:
            return
        step = next((row[name] for name in self._trainer.steps if name in row), math.nan)
        if math.isnan(
            step
        ):  # a row of updates is a step more, one of an evaluation belongs to the last
            self.is_counted = True
            is_update = any(self._known[name].quantity in OF_UPDATES for name in known)
            step = max(self._step[-1] if self._step else 0.0, 0.0) + is_update
        if not self._step or step > self._step[-1]:
            self._begin(step)
        elif step < self._step[-1]:
            self._go_back(step)
            if not self.is_one_run:
                return
        for name in known:
            quantity, value = self._known[name].quantity, self._known[name].factor * row[name]
            if math.isnan(value):
                continue
            if quantity not in self._columns:
                self._columns[quantity] = array("d", [math.nan]) * len(self._step)
            column = self._columns[quantity]
            count = self._counts.get(quantity, 0)
            column[-1] = value if count == 0 else (count * column[-1] + value) / (count + 1)
            self._counts[quantity] = count + 1

    @property
    def unread(self) -> set[str]:
        """Names that are neither known nor of the step."""
        return self.names - self._known.keys() - set(self._trainer.steps)

    def read(self) -> tuple[Floats, dict[str, Floats]]:
        """(step, columns)."""
        columns = {name: np.frombuffer(each) for name, each in self._columns.items()}
        return np.frombuffer(self._step), columns

    def notes(self) -> list[str]:
        """On restarts."""
        if not self.is_one_run:
            return ["the steps go back to their beginning: the log holds more than one run"]
        if self._restarts:
            times = "once" if self._restarts == 1 else f"{self._restarts} times"
            return [f"the steps go back {times}: of a restart the later rows were taken"]
        if self.is_counted:
            return [
                "the rows have no steps: they were counted, and each may be the mean of several"
            ]
        return []

    def _begin(self, step: float) -> None:
        self._step.append(step)
        for column in self._columns.values():
            column.append(math.nan)
        self._counts = {}

    def _go_back(self, step: float) -> None:
        """A run that went on from an earlier checkpoint writes some steps again."""
        kept = int(np.searchsorted(np.array(self._step), step))
        if kept <= 1:
            self.is_one_run = False
            return
        self._restarts += 1
        for column in (self._step, *self._columns.values()):
            del column[kept:]
        self._begin(step)


def _options(path: Path) -> dict[str, Any]:
    """The trainer's options, nested ones as "outer.inner".

    Raises:
        LogError: it cannot be read.
    """
    try:
        text = path.read_text("utf-8")
        if path.suffix in (".yaml", ".yml"):
            import yaml  # type: ignore[import-untyped]

            found = yaml.safe_load(text)
        else:
            found = json.loads(text)
    except ImportError:
        raise LogError(f"{path} needs PyYAML: pip install pyyaml, or give it as JSON") from None
    except (OSError, ValueError) as error:
        raise LogError(f"{path} cannot be read ({error})") from None
    except Exception as error:  # YAML's errors have a class of their own
        raise LogError(f"{path} is no YAML ({str(error).splitlines()[0]})") from None
    if not isinstance(found, dict):
        raise LogError(f"{path} holds no options by name")
    return dict(settings_of(found, free=frozenset()))


def _mean(values: Sequence[float] | Floats) -> float:
    return float(np.mean(values)) if len(values) else math.nan
