"""Run folders found and read: metrics.jsonl, config.json and environment.json, with NumPy only.

Whatever lies in a run folder was written by a process that may have been killed, or by somebody else.
A last line cut by a kill is left out and noted; any other damage is an error that names file and line.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from algorithms.run_folder.atomic_files import (
    CHECKSUM,
    CONFIG_FILE,
    ENVIRONMENT_FILE,
    METRICS_FILE,
    edited_files,
    parse_json,
    read_file,
    settings_intact,
)
from algorithms.run_folder.run_log import LARGEST_VALUE, checked_row, record_lines, rows_of


class RunFileError(ValueError):
    """A run folder cannot be read; the message names the file, what is wrong and what to do."""


@dataclass(frozen=True, eq=False)
class Series:
    """One metric of one run, at the rows that have it.

    Attributes:
        step: int64 [K], updates done, rising.
        scored_moves: float64 [K], the budget spent so far; nan where the row does not say.
        wall_s: float64 [K], seconds of the run so far, pauses left out; nan where the row does not say.
        value: float64 [K]; nan where the record holds null, because the value was not finite, or a value
            beyond `LARGEST_VALUE`.
    """

    step: NDArray[np.int64]
    scored_moves: NDArray[np.float64]
    wall_s: NDArray[np.float64]
    value: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.step)

    @property
    def finite(self) -> NDArray[np.float64]:
        """float64 [F]: the values that are numbers, in order."""
        return self.value[np.isfinite(self.value)]


@dataclass(frozen=True, eq=False)
class RunRecord:
    """The contents of a run folder.

    Attributes:
        path: the folder.
        name: how a page calls the run; unprintable characters are replaced.
        rows: the rows of metrics.jsonl, their values float, or None for null and beyond `LARGEST_VALUE`.
        config: config.json; empty where it is missing.
        environment: environment.json; empty where it is missing.
        notes: what a reader should know about the files, as sentences.
    """

    path: Path
    name: str
    rows: Sequence[Mapping[str, float | None]]
    config: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def series(self, metric: str) -> Series:
        """The metric at the rows that have it; of length 0 where none has."""
        at, values = self._columns.get(metric, ([], []))
        rows = np.array(at, np.int64)
        moves, wall_s = (self._amounts[name][rows] for name in ("scored_moves", "time/wall_s"))
        return Series(self._step[rows], moves, wall_s, np.array(values, np.float64))

    def metrics(self, prefix: str) -> list[str]:
        """Names that begin with `prefix`, in the order of their first appearance."""
        return [name for name in self._columns if name.startswith(prefix)]

    @cached_property
    def _columns(self) -> dict[str, tuple[list[int], list[float]]]:
        """Metric -> (rows that have it, values there): a page asks for each metric several times."""
        columns: dict[str, tuple[list[int], list[float]]] = {}
        for i, row in enumerate(self.rows):
            for name, value in row.items():
                at, values = columns.setdefault(name, ([], []))
                at.append(i)
                values.append(_number(value))
        return columns

    @cached_property
    def _step(self) -> NDArray[np.int64]:
        return np.array([_number(row["step"]) for row in self.rows], np.int64)

    @cached_property
    def _amounts(self) -> dict[str, NDArray[np.float64]]:
        return {
            name: np.array([_number(row.get(name)) for row in self.rows], np.float64)
            for name in ("scored_moves", "time/wall_s")
        }

    @property
    def seed(self) -> int | None:
        """The run's seed; None where config.json does not say."""
        seed = self.config.get("seed")
        return seed if isinstance(seed, int) and not isinstance(seed, bool) else None

    @property
    def label(self) -> str:
        """Name of the trained preset or algorithm; the folder's name where that is unknown."""
        algorithm = self.config.get("algorithm")
        named = algorithm.get("name") if isinstance(algorithm, Mapping) else None
        for candidate in (self.config.get("preset"), named):
            if isinstance(candidate, str) and candidate:
                return printable(candidate)
        return self.name


def printable(text: str) -> str:
    """`text` with every control, direction-changing or undecodable character replaced by U+FFFD."""
    return "".join(c if c.isprintable() else "\ufffd" for c in text)


def read_metrics(run_dir: Path) -> list[dict[str, float | None]]:
    """The rows of a run's metrics.jsonl, values float or None (null); a last line cut by a kill is left out.

    Raises:
        RunFileError: it is missing, holds no complete row, or is damaged before its last line.
    """
    return _rows(run_dir / METRICS_FILE)[0]


def metric_rows(run_dir: Path) -> Iterator[dict[str, float | None]]:
    """The same, one by one, so that a long record takes no memory; none where there is no complete row."""
    path = run_dir / METRICS_FILE
    return (row for _, row in _checked(path, record_lines(path)))


def read_run(folder: Path, name: str | None = None) -> RunRecord:
    """The record of one run folder.

    Args:
        folder: it must hold a metrics.jsonl; config.json and environment.json may be missing.
        name: how to call the run; the folder's own name where None.

    Raises:
        RunFileError: a file is missing, is damaged before its last line, or says what no run says.
    """
    rows, notes = _rows(folder / METRICS_FILE)
    config = _read_or_note(folder / CONFIG_FILE, notes)
    notes += doubts_of(folder)
    if config and config.pop(CHECKSUM, None) is None:
        notes.append(f"{CONFIG_FILE} has no checksum: damage would not be seen.")
    environment = _read_or_note(folder / ENVIRONMENT_FILE, notes)
    again = environment.get("resumed")
    edited = edited_files([environment, *again] if isinstance(again, list) else [])
    notes += [
        f"{printable(file)} was edited before the run went on: its rows come from different code."
        for file in edited
    ]
    return RunRecord(
        path=folder,
        name=printable(name if name is not None else folder.resolve().name),
        rows=rows,
        config=config,
        environment=environment,
        notes=tuple(notes),
    )


def read_object(path: Path) -> dict[str, Any]:
    """The JSON object in a file.

    Raises:
        RunFileError: it is missing, a symbolic link, damaged, or holds no object.
    """
    try:
        values = parse_json(_text(path))
    except RunFileError:
        raise
    except ValueError as error:
        raise RunFileError(f"{path} is damaged ({error})") from None
    if not isinstance(values, dict):
        raise RunFileError(f"{path} holds {str(values)[:40]!r}, expected an object")
    return values


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)


def _refuse_link(path: Path) -> None:
    if path.is_symlink():
        raise RunFileError(f"{path} is a symbolic link and is not followed: copy the file here")


def _text(path: Path) -> str:
    _refuse_link(path)
    try:
        return read_file(path).decode("utf-8")
    except UnicodeDecodeError as error:
        raise RunFileError(f"{path} is no UTF-8 text (byte {error.start}): it is damaged") from None
    except ValueError as error:
        raise RunFileError(str(error)) from None
    except OSError as error:
        raise RunFileError(f"{path} cannot be read ({error.strerror})") from None


def _checked(
    path: Path, lines: Iterable[str]
) -> Iterator[tuple[dict[str, float | None], dict[str, float | None]]]:
    """(row, the same of `checked_row`) for each of a record's lines."""
    try:
        _refuse_link(path)
        path.stat()
        last_step = -1
        for number, (row, _) in enumerate(rows_of(lines, str(path)), start=1):
            clean = checked_row(row, last_step, f"{path}, line {number}")
            last_step = int(clean["step"] or 0)
            yield row, clean
    except RunFileError:
        raise
    except ValueError as error:
        raise RunFileError(str(error)) from None
    except OSError as error:
        raise RunFileError(f"{path} cannot be read ({error.strerror})") from None


def _rows(path: Path) -> tuple[list[dict[str, float | None]], list[str]]:
    """(rows, notes on them); their values are checked, and null where they are not finite or beyond all measure."""
    rows: list[dict[str, float | None]] = []
    lines = nulls = beyond = 0

    def counted() -> Iterator[str]:
        nonlocal lines
        for line in record_lines(path):
            lines += 1
            yield line

    for row, clean in _checked(path, counted()):
        rows.append(clean)
        nulls += sum(value is None for value in row.values())
        beyond += sum(value is None and row[key] is not None for key, value in clean.items())
    if not rows:
        raise RunFileError(f"{path} holds no complete row yet: let the run go on")
    notes = []
    if len(rows) < lines:
        notes.append(f"The last line of {METRICS_FILE} is cut off and was left out.")
    if nulls:
        notes.append(f"{nulls:,} values are null: they were not finite. Lines have gaps there.")
    if beyond:
        notes.append(
            f"{beyond:,} values lie beyond {LARGEST_VALUE:g}, as no measurement does. "
            "Lines have gaps there."
        )
    return rows, notes


def _read_or_note(path: Path, notes: list[str]) -> dict[str, Any]:
    if path.exists() or path.is_symlink():
        return read_object(path)
    notes.append(f"{path.name} is missing.")
    return {}


def doubts_of(run_dir: Path) -> list[str]:
    """Notes on the checksum of a run's settings."""
    if settings_intact(run_dir) is False:
        return [f"{CONFIG_FILE} does not match its checksum: it was damaged or edited."]
    return []


# Where `chess-lab compare` keeps the runs on its tuning seeds.
NEVER_REPORTED = ("tuning", "calibration")


def find_run_folders(root: Path) -> tuple[list[Path], list[str]]:
    """(run folders, notes): the folders with a metrics.jsonl at `root` or below, sorted by path.

    A symbolic link below `root` is not followed; each such link that is a folder or a metrics.jsonl is
    noted. Inside a run folder no further run is looked for, nor in a folder of `NEVER_REPORTED` name.

    Raises:
        RunFileError: `root` is no folder.
    """
    if not root.is_dir():
        what = "is a file" if root.exists() else "does not exist"
        raise RunFileError(f"{str(root)!r} {what}: give a run folder or a folder of run folders")
    found: list[Path] = []
    notes: list[str] = []
    for folder, below, files in os.walk(root, followlinks=False):
        here = Path(folder)
        links = [name for name in below if (here / name).is_symlink()]
        record = here / METRICS_FILE
        if METRICS_FILE in files and record.is_symlink():
            links.append(METRICS_FILE)
        elif METRICS_FILE in files:
            found.append(here)
            below.clear()
        hidden = [name for name in below if name in NEVER_REPORTED and (here / name).is_dir()]
        below[:] = [name for name in below if name not in hidden]
        notes += [
            f"{printable(str((here / name).relative_to(root)))} was left out: what is chosen on tuning "
            "seeds is not reported. Give that folder itself to see its runs."
            for name in hidden
        ]
        notes += [
            f"{printable(str((here / name).relative_to(root)))} is a symbolic link and was not followed."
            for name in sorted(links)
            if here not in found
        ]
    return sorted(found), sorted(notes)


Rows = Sequence[Mapping[str, float | None]]
"""The rows of a metrics.jsonl, in order; null where a value was not finite."""


def _quarter(values: list[float]) -> int:
    return max(1, len(values) // 4)


READINGS: dict[str, Callable[[list[float]], float]] = {
    "first": lambda values: values[0],
    "last": lambda values: values[-1],
    "early": lambda values: float(np.mean(values[: _quarter(values)])),
    "late": lambda values: float(np.mean(values[-_quarter(values) :])),
    "mean": lambda values: float(np.mean(values)),
    "median": lambda values: float(np.median(values)),
    "min": min,
    "max": max,
    "gain": lambda values: values[-1] - values[0],
}
"""How the values of a metric become one: `early` and `late` are the means of the first and the last
quarter of the rows that have it, `gain` is the last minus the first."""


def series(rows: Rows, metric: str) -> list[float]:
    """The finite values of a metric, in order; rows without it are passed over."""
    found = (row.get(metric) for row in rows)
    return [float(v) for v in found if isinstance(v, (int, float)) and math.isfinite(v)]


def read(rows: Rows, reading: str) -> float:
    """The number that `reading` ("last eval/entropy") asks for; NaN where no row has the metric.

    Raises:
        ValueError: no such reading; the known ones are named.
    """
    how, _, metric = reading.partition(" ")
    if how not in READINGS or not metric:
        known = ", ".join(READINGS)
        raise ValueError(f'reading is {reading!r}: expected "HOW METRIC" with HOW one of {known}')
    values = series(rows, metric)
    return READINGS[how](values) if values else math.nan
