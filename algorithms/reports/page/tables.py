"""The page's tables and texts: settings that differ, where each run comes from, results, and the doctor's diagnoses."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from algorithms.core.checks import times
from algorithms.reports.judges import judge_in_words
from algorithms.reports.page.charts import colour
from algorithms.reports.page.columns import BOOKKEEPING, MISSING, Column, RunGroup
from algorithms.reports.run_files import RunRecord, printable
from algorithms.reports.tasks import differing_parts

UNKNOWN = "not on record"
MAX_NAMES = 8  # of one group's columns in the table of groups


@dataclass(frozen=True)
class TableCell:
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
    rows: Sequence[Sequence[TableCell]]


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
    for key in differing_parts(settings):
        values = [one.get(key, MISSING) for one in settings]
        cells = [TableCell(text, text != values[0], _is_number(text)) for text in values]
        rows.append([TableCell(key), *cells])
    return Table(["setting", *names], rows)


def common_table(columns: Sequence[Column]) -> Table:
    """The settings that are the same in all columns, a row each."""
    apart = differing_parts([column.settings for column in columns])
    common = columns[0].settings.items()
    rows = [[TableCell(key), TableCell(text)] for key, text in common if key not in apart]
    return Table(["setting", "in every column" if len(columns) > 1 else "value"], rows)


def groups_table(groups: Sequence[RunGroup]) -> Table:
    """A row per group: in what the tasks differ, and the columns of each."""
    parts = differing_parts([group.task for group in groups])
    rows = []
    for group in groups:
        told = [group.task.get(part, UNKNOWN) for part in parts]
        base = [groups[0].task.get(part, UNKNOWN) for part in parts]
        cells = [TableCell(text, text != first) for text, first in zip(told, base, strict=True)]
        rest = len(group.columns) - MAX_NAMES
        names = [column.name for column in group.columns[:MAX_NAMES]]
        names += [f"and {rest} more"] if rest > 0 else []
        own = [
            TableCell(group.letter),
            TableCell(str(group.runs), is_number=True),
            TableCell("; ".join(names)),
        ]
        rows.append([*own, *cells])
    return Table(["group", "runs", "columns", *parts], rows)


def provenance_table(columns: Sequence[Column]) -> Table:
    """A row per run: its folder, code, evaluator, machine, start and command."""
    rows = []
    for column in columns:
        for run in column.runs:
            texts = [
                run.name,
                "?" if run.seed is None else str(run.seed),
                _commit(run),
                _rewarded_by(run),
                _said(run, "device"),
                _said(run, "started"),
                _command(run),
            ]
            rows.append([*map(TableCell, (column.name_of(run), *texts))])
    return Table(
        ["run", "folder", "seed", "commit", "evaluator", "device", "started", "command"], rows
    )


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
        rows.append([TableCell(name), TableCell("; ".join(texts), differs=len(found) > 1)])
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


def _rewarded_by(run: RunRecord) -> str:
    """The evaluator in words, with its id where that says more."""
    evaluator_id = _said(run, "evaluator")
    words = judge_in_words(evaluator_id)
    return evaluator_id if words == evaluator_id else f"{words} ({evaluator_id})"


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


NO_VERDICT = "not diagnosed"
UNTOLD = "cannot tell"  # in an outcome, and as a verdict

# A run's folder -> what `Diagnosis.to_dict()` gives.
Diagnoses = Mapping[str, Mapping[str, Any]]


def told(groups: Sequence[RunGroup], diagnoses: Diagnoses) -> list[dict[str, Any]]:
    """What the doctor says, run by run, as the template writes it; runs without a diagnosis are absent."""
    found = []
    for group in groups:
        where = f"{group.letter}: " if len(groups) > 1 else ""
        for column in group.columns:
            for run in column.runs:
                diagnosis = diagnoses.get(str(run.path))
                if diagnosis is not None:
                    name = where + column.name_of(run)
                    found.append(_told(name, colour(column.index), diagnosis, run))
    return found


def verdict(diagnosis: Mapping[str, Any] | None) -> str:
    """The doctor's verdict; `NO_VERDICT` without a diagnosis."""
    return NO_VERDICT if diagnosis is None else str(diagnosis["verdict"])


def _told(name: str, classes: str, diagnosis: Mapping[str, Any], run: RunRecord) -> dict[str, Any]:
    outcome = diagnosis["outcome"]
    learning, entropy = outcome["learning"], f"entropy {outcome['entropy']}"
    if learning == UNTOLD:
        learning = "whether it learns is not known"
    if outcome["entropy"] == UNTOLD:
        entropy = "what became of its entropy is not known"
    return {
        "run": name,
        "classes": classes,
        "verdict": diagnosis["verdict"],
        "outcome": f"{learning}, {entropy}",
        "regret": _regret(outcome),
        "entropy": _from_to(outcome["entropy_nats"], 2),
        "stages": _stages(diagnosis["stages"]),
        "costs": outcome["notes"],
        "causes": [_cause(cause, run) for cause in diagnosis["causes"]],
        "untold": _not_told(diagnosis["cannot_tell"]),
        "ruled_out": diagnosis["ruled_out"],
        "notes": diagnosis["notes"],
    }


def _stages(stages: Mapping[str, Any]) -> list[str]:
    if stages["lost"]:
        return [
            f"{lost['stage']}, from update {lost['since_update']}: {lost['kept']:.2f} of it is kept"
            for lost in stages["lost"]
        ]
    return ["at no stage" if stages["measured"] else "not measured"]


def _cause(cause: Mapping[str, Any], run: RunRecord) -> dict[str, Any]:
    harm = f"{times(cause['size'])} × the least harmful"
    return {
        **cause,
        "harm": harm if cause["harmful"] else "harmless at this size",
        "sure": f"{cause['confidence']:.0%}",
        "confirm": confirming(cause, run),
    }


def confirming(cause: Mapping[str, Any], run: RunRecord) -> str:
    """The command that would confirm a cause of a run, to be copied."""
    return str(cause["confirm"]).replace("RUN", printable(shlex.quote(str(run.path))))


def _not_told(causes: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Causes that cannot be told for one reason stand together."""
    together: dict[tuple[tuple[str, ...], str, str], dict[str, Any]] = {}
    for cause in causes:
        missing = tuple(cause["missing"])
        logged_by = cause["logged_by"] if missing else ""
        key = missing, cause["because"], logged_by
        one = together.setdefault(key, {**cause, "logged_by": logged_by, "names": []})
        one["names"].append(cause["name"])
    return list(together.values())


def _regret(outcome: Mapping[str, Any]) -> str:
    ends, interval = outcome["regret_cp"], outcome["regret_change_95"]
    if ends is None:
        return ""
    change = f"{ends[1] / ends[0] - 1:+.0%}" if ends[0] > 0 else ""
    if change and interval is not None:
        change += f", 95 % interval {interval[0]:+.0%} to {interval[1]:+.0%}"
    return f"{_from_to(ends, 0)}{f' ({change})' if change else ''}".replace("-", "−")


def _from_to(ends: Sequence[float] | None, digits: int) -> str:
    return "" if ends is None else f"{ends[0]:.{digits}f} → {ends[1]:.{digits}f}"
