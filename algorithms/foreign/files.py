"""Rows of a file as other programs write them: JSON, lines of JSON, CSV, TensorBoard, or what a trainer printed.

The content decides, not the name.

A last line that was cut by a kill is left out and said. Any other damage is an error that names the line.
"""

from __future__ import annotations

import ast
import csv
import json
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

LARGEST_DOCUMENT = 64 * 2**20
"""Bytes of a JSON document: it is read as a whole, in about four times its size. Lines of JSON have no limit."""

_VERL_ROW = re.compile(r"\bstep:\d+ - ")
_VERL_CELL = re.compile(r"([\w./@-]+(?:\(1e-\d\))?):(?:np\.\w+\()?(-?[\d.]+(?:e[+-]?\d+)?|nan)")

Row = dict[str, float]


class LogError(ValueError):
    """A log cannot be read; the message names the file, what is wrong and what to do."""


def find(path: Path) -> Path:
    """The file that is meant by a folder: its trainer_state.json, progress.csv, metrics.jsonl, or the folder itself.

    Raises:
        LogError: there is nothing there that is known.
    """
    if not path.is_dir():
        if not path.exists():
            raise LogError(f"{path} does not exist")
        return path.parent if _is_events(path) else path
    for name in ("trainer_state.json", "progress.csv", "metrics.jsonl"):
        if (path / name).is_file():
            return path / name
    saved = [each for each in path.glob("checkpoint-*/trainer_state.json") if _number(each) >= 0]
    if saved:
        return max(saved, key=_number)
    if any(map(_is_events, path.rglob("events.out.tfevents.*"))):
        return path
    raise LogError(
        f"{path} holds no trainer_state.json, progress.csv, metrics.jsonl, checkpoint-*/trainer_state.json or "
        "TensorBoard events: give the file itself"
    )


def _number(saved: Path) -> int:
    number = saved.parent.name.rpartition("-")[2]
    return int(number) if number.isdigit() else -1


def _is_events(path: Path) -> bool:
    return path.name.startswith("events.out.tfevents.")


def format_of(path: Path) -> str:
    """One of json, jsonl, csv, console and tensorboard.

    Raises:
        LogError: the content is none of them.
    """
    if path.is_dir():
        return "tensorboard"
    with path.open("rb") as file:
        head = file.read(1 << 20).removeprefix(b"\xef\xbb\xbf").lstrip()
    if not head:
        raise LogError(f"{path} is empty")
    first = head.splitlines()[0].strip()
    if any(_printed(line) for line in head.decode("utf-8", "replace").splitlines()):
        return "console"
    if first[:1] == b"[":
        return "json"
    if first[:1] == b"{":
        try:
            row = json.loads(first)
        except ValueError:
            return "json"  # goes on in the next line
        return "json" if isinstance(row, dict) and "log_history" in row else "jsonl"
    if b"," in first and b"\0" not in first:
        return "csv"
    raise LogError(
        f"{path} begins with {first[:40]!r}: expected JSON, lines of JSON, CSV, what TRL or verl printed, or a "
        "TensorBoard folder"
    )


def rows(path: Path, notes: list[str]) -> Iterator[Row]:
    """The rows of a file, with the numbers that each has; what was left out is added to the notes.

    Raises:
        LogError: it cannot be read.
    """
    read = {
        "json": _document,
        "jsonl": _lines,
        "csv": _csv,
        "console": _console,
        "tensorboard": _events,
    }
    try:
        yield from read[format_of(path)](path, notes)
    except UnicodeDecodeError as error:
        raise LogError(f"{path} is no UTF-8 text (byte {error.start}): it is damaged") from None
    except OSError as error:
        raise LogError(f"{path} cannot be read ({error.strerror})") from None


def _document(path: Path, notes: list[str]) -> Iterator[Row]:
    size = path.stat().st_size
    if size > LARGEST_DOCUMENT:
        raise LogError(
            f"{path} is a JSON document of {size >> 20} MB, and {LARGEST_DOCUMENT >> 20} is the most that is read as "
            "a whole: write its rows as lines of JSON"
        )
    try:
        found = json.loads(path.read_text("utf-8-sig"))
    except ValueError as error:
        raise LogError(f"{path} is damaged or cut off ({error})") from None
    if isinstance(found, dict):
        found = found.get("log_history", found.get("history"))
    if not isinstance(found, list) or not all(isinstance(row, dict) for row in found):
        raise LogError(f"{path} holds no list of rows, as `log_history` is one")
    for row in found:
        yield dict(_flat(row))


def _lines(path: Path, notes: list[str]) -> Iterator[Row]:
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except ValueError as error:
                if not line.endswith(b"\n"):
                    notes.append("the last line is cut off and was left out")
                    return
                raise LogError(f"{path}, line {number} is damaged ({error})") from None
            if not isinstance(row, dict):
                raise LogError(f"{path}, line {number} holds {str(row)[:40]!r}, expected an object")
            yield dict(_flat(row))


def _flat(row: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, float]]:
    """Names and numbers; what is nested gets the names of both, but for the `data` that verl wraps a row in."""
    for name, value in row.items():
        if isinstance(value, dict):
            yield from _flat(value, "" if name == "data" and not before else f"{before}{name}/")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield f"{before}{name}", float(value)
        elif value is None or value in ("NaN", "Infinity", "-Infinity"):
            yield f"{before}{name}", math.nan


def _console(path: Path, notes: list[str]) -> Iterator[Row]:
    with path.open(encoding="utf-8", errors="replace") as file:
        for line in file:
            for part in line.split("\r"):  # a progress bar writes over its line
                if row := _printed(part):
                    yield row


def _printed(line: str) -> Row:
    """What TRL or verl printed of a step; empty for any other line."""
    line = line.strip()
    if line.startswith("{'") and line.endswith("}"):
        try:
            row = ast.literal_eval(line)
        except (ValueError, SyntaxError):
            return {}
        return {n: v for n, cell in row.items() if (v := _value(str(cell))) is not None}
    if found := _VERL_ROW.search(line):
        return {n: float(v) for n, v in _VERL_CELL.findall(line[found.start() :])}
    return {}


def _csv(path: Path, notes: list[str]) -> Iterator[Row]:
    whole = True

    def lines(file: BinaryIO) -> Iterator[str]:
        nonlocal whole
        for number, line in enumerate(file):
            whole = line.endswith(b"\n")
            yield line.decode("utf-8" if number else "utf-8-sig")

    with path.open("rb") as file:
        table = csv.reader(lines(file))
        head = _of_one_run(path, [name.strip() for name in next(table)])
        for cells in table:
            if not whole:
                notes.append("the last line has no end and was left out")
                return
            if len(cells) != len(head) and cells:
                raise LogError(
                    f"{path}, line {table.line_num} has {len(cells)} cells, expected {len(head)}"
                )
            values = ((name, _value(cell)) for name, cell in zip(head, cells, strict=False))
            yield {name: value for name, value in values if name and value is not None}


def _value(cell: str) -> float | None:
    try:
        return float(cell) if cell else None
    except ValueError:
        return None


def _of_one_run(path: Path, head: list[str]) -> list[str]:
    """The names of a table; those of a chart that W&B exported lose the run's name, and its bounds are left out.

    Raises:
        LogError: it has columns of several runs.
    """
    if not any(" - " in name for name in head):
        return head
    runs = {name.partition(" - ")[0] for name in head if " - " in name}
    if len(runs) > 1:
        raise LogError(f"{path} has columns of {len(runs)} runs: export the chart of one run")
    bounds = ("__MIN", "__MAX")
    return ["" if name.endswith(bounds) else name.partition(" - ")[2] or name for name in head]


def _events(folder: Path, notes: list[str]) -> Iterator[Row]:
    try:
        from tensorboard.backend.event_processing import event_accumulator
    except ImportError:
        raise LogError("a TensorBoard folder needs its reader: pip install tensorboard") from None
    merged: dict[int, Row] = {}
    places = sorted({path.parent for path in folder.rglob("events.out.tfevents.*")})
    if len(places) > 1:
        names = ", ".join(str(place.relative_to(folder)) for place in places[:4])
        raise LogError(f"{folder} holds events of several runs ({names}): give one of them")
    read = event_accumulator.EventAccumulator(str(places[0]), size_guidance={"scalars": 0})
    read.Reload()
    for tag in read.Tags()["scalars"]:
        for event in read.Scalars(tag):
            merged.setdefault(event.step, {"step": float(event.step)})[tag] = event.value
    yield from (merged[step] for step in sorted(merged))
