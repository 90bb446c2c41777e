"""The page's tables: which settings differ, and where each run comes from."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from algorithms.reports.page.columns import (
    BOOKKEEPING,
    MISSING,
    Column,
    Group,
    common_settings,
    differing_settings,
)
from algorithms.reports.run_files import RunRecord, printable
from algorithms.reports.tasks import differing_parts

UNKNOWN = "not on record"
MAX_NAMES = 8  # of one group's columns in the table of groups


@dataclass(frozen=True)
class Cell:
    """A value and whether it differs from the base of the table.

    Attributes:
        text: the value.
        differs: from the first column, or from the preset.
        is_number: numbers are set to the right.
    """

    text: str
    differs: bool = False
    is_number: bool = False


@dataclass(frozen=True)
class Table:
    """A table with a header row; the first cell of a row is its name.

    Attributes:
        header: names of the columns.
        rows: cells, as many in each as the header has.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[Cell]]


def settings_table(columns: Sequence[Column], preset: Mapping[str, str] | None) -> Table:
    """The settings that are not the same everywhere, a row each; without rows where all are.

    Args:
        columns: at least one; the first is what the others are compared with.
        preset: for a single column, the settings of its preset as it comes; it then stands first.
    """
    names = [column.name for column in columns]
    settings = [column.settings for column in columns]
    if len(columns) == 1 and preset is not None:
        told = {key: text for key, text in preset.items() if key not in BOOKKEEPING}
        names, settings = ["the preset", *names], [told, *settings]
    rows = []
    for key in differing_settings(settings):
        values = [one.get(key, MISSING) for one in settings]
        cells = [Cell(text, text != values[0], _is_number(text)) for text in values]
        rows.append([Cell(key), *cells])
    return Table(["setting", *names], rows)


def common_table(columns: Sequence[Column]) -> Table:
    """The settings that are the same in all columns, a row each."""
    common = common_settings([column.settings for column in columns])
    rows = [[Cell(key), Cell(text)] for key, text in common.items()]
    return Table(["setting", "in every column" if len(columns) > 1 else "value"], rows)


def groups_table(groups: Sequence[Group]) -> Table:
    """A row per group: in what the tasks differ, and the columns of each."""
    parts = differing_parts([group.task for group in groups])
    rows = []
    for group in groups:
        told = [group.task.get(part, UNKNOWN) for part in parts]
        base = [groups[0].task.get(part, UNKNOWN) for part in parts]
        cells = [Cell(text, text != first) for text, first in zip(told, base, strict=True)]
        rest = len(group.columns) - MAX_NAMES
        names = [column.name for column in group.columns[:MAX_NAMES]]
        names += [f"and {rest} more"] if rest > 0 else []
        own = [Cell(group.letter), Cell(str(group.runs), is_number=True), Cell("; ".join(names))]
        rows.append([*own, *cells])
    return Table(["group", "runs", "columns", *parts], rows)


def provenance_table(columns: Sequence[Column]) -> Table:
    """A row per run: seed, code, evaluator, machine, start and command."""
    rows = []
    for column in columns:
        for run in column.runs:
            seed = "?" if run.seed is None else str(run.seed)
            texts = [
                _commit(run),
                _said(run, "evaluator"),
                _said(run, "device"),
                _said(run, "started"),
                _command(run),
            ]
            rows.append([Cell(run.name), Cell(seed, is_number=True), *map(Cell, texts)])
    return Table(["run", "seed", "commit", "evaluator", "device", "started", "command"], rows)


def machine_table(columns: Sequence[Column]) -> Table:
    """Versions and machine; one value where all runs agree, otherwise every value with its runs."""
    values: dict[str, dict[str, list[str]]] = {}
    for column in columns:
        for run in column.runs:
            for name, text in _machine(run).items():
                values.setdefault(name, {}).setdefault(text, []).append(run.name)
    rows = []
    for name, found in values.items():
        texts = (
            list(found)
            if len(found) == 1
            else [f"{text} ({', '.join(runs)})" for text, runs in found.items()]
        )
        rows.append([Cell(name), Cell("; ".join(texts), differs=len(found) > 1)])
    return Table(["what", "version"], rows)


def mixed_evaluators(columns: Sequence[Column]) -> str | None:
    """A warning where the runs were not all rewarded by the same evaluator; None where they were."""
    found = sorted({_said(run, "evaluator") for column in columns for run in column.runs})
    if len(found) < 2:
        return None
    return f"The runs were rewarded by different evaluators: {', '.join(found)}. Rewards cannot be compared."


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _said(run: RunRecord, name: str) -> str:
    value = run.environment.get(name)
    return UNKNOWN if value is None else printable(str(value))


def _commit(run: RunRecord) -> str:
    git = run.environment.get("git")
    commit = git.get("commit") if isinstance(git, Mapping) else None
    if not isinstance(commit, str):
        return UNKNOWN
    changed = " with changes" if isinstance(git, Mapping) and git.get("dirty") else ""
    return printable(commit[:12]) + changed


def _command(run: RunRecord) -> str:
    command = run.environment.get("command")
    if not isinstance(command, list) or not command:
        return UNKNOWN
    return printable(shlex.join(str(part) for part in command))


def _machine(run: RunRecord) -> dict[str, str]:
    names = ("python", "platform", "cpu", "cpu_count", "torch_threads")
    values = {name: _said(run, name) for name in names if name in run.environment}
    packages = run.environment.get("packages")
    if isinstance(packages, Mapping):
        values |= {printable(str(name)): printable(str(v)) for name, v in packages.items()}
    return values
