"""Which runs had the same task, so that their results may be compared. The only definition of a task."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from algorithms.reports.run_files import RunRecord, printable

TASK: Mapping[str, tuple[str, ...]] = {
    "network": ("policy.",),
    "start weights": ("init_from",),
    "evaluator": ("env.evaluator",),
    "reward": ("env.reward",),
    "start positions": ("env.start_positions",),
    "length of a game": ("env.max_plies",),
    "opponent": ("env.opponent",),
    "form of the rollouts": ("rollout.form",),
    "temperature of sampling and evaluation": ("rollout.temperature",),
    "budget": ("total_moves",),
}
"""Parts of a task, in plain words -> their settings; a name that ends in a dot is a section."""

START = "held-out regret before the first update"
"""A part of a task without a setting: the measured quality of the start weights."""

START_TOLERANCE = 1e-6
"""Relative difference of two held-out start values that is still rounding."""

# What a setting that is absent, or null, stands for.
_NONE: Mapping[str, str] = {
    "start weights": "random",
    "reward": "of the game",
    "length of a game": "no limit",
    "opponent": "itself",
}
_UNKNOWN = "not on record"
MAX_CHARACTERS = 160


def flatten(config: Mapping[str, Any]) -> dict[str, str]:
    """Every setting under its dotted name, as short text."""
    return dict(_leaves(config, ""))


def task_of(run: RunRecord) -> dict[str, str]:
    """The run's task as its files tell it: a part of `TASK` in plain words -> what it is."""
    settings = flatten(run.config)
    found = {part: _said(part, starts, settings) for part, starts in TASK.items()}
    evaluator = run.environment.get("evaluator")
    if isinstance(evaluator, str) and evaluator:
        # The setting may be "auto"; the record names what paid, with its version.
        found["evaluator"] = printable(evaluator)
    return found


def group_by_task(runs: Sequence[RunRecord]) -> list[tuple[dict[str, str], list[RunRecord]]]:
    """(every part of a task in plain words -> what it is, the runs of it) in the order in which a task first comes.

    Runs of one task agree in every part of `TASK`. Of one seed, and where they start from given weights
    of any seed, they also start at the same held-out regret: where they do not, their weights differ,
    whatever the settings say.
    """
    tasks: list[dict[str, str]] = []
    members: list[list[RunRecord]] = []
    for run in runs:
        task = task_of(run)
        fits = [i for i, other in enumerate(tasks) if other == task and _one_start(members[i], run)]
        if fits:
            members[fits[0]].append(run)
        else:
            tasks.append(task)
            members.append([run])
    # Where settings alone tell all groups apart, what they start at says nothing more.
    starts = [""] * len(tasks) if _distinct(tasks) else _start_texts(tasks, members)
    return [
        (task | ({START: start} if start else {}), own)
        for task, start, own in zip(tasks, starts, members, strict=True)
    ]


def differing_parts(every: Sequence[Mapping[str, str]]) -> list[str]:
    """Names of what is not the same in all, in their own order: the parts of tasks, or settings."""
    names = dict.fromkeys(name for one in every for name in one)
    return [name for name in names if len({one.get(name) for one in every}) > 1]


def start_regret(run: RunRecord) -> float | None:
    """Held-out regret before the first update, centipawns; None where it is not on record."""
    series = run.series("eval/regret_cp")
    found = series.value[series.step == 0]
    return float(found[0]) if len(found) and math.isfinite(found[0]) else None


def _one_start(members: Sequence[RunRecord], run: RunRecord) -> bool:
    """Whether `run` starts where each of the members starts that must start there."""
    own = start_regret(run)
    given = run.config.get("init_from") is not None
    for other in members:
        theirs = start_regret(other)
        if own is None or theirs is None or not (given or run.seed == other.seed):
            continue
        if not math.isclose(own, theirs, rel_tol=START_TOLERANCE):
            return False
    return True


def _distinct(tasks: Sequence[Mapping[str, str]]) -> bool:
    return len({tuple(task.items()) for task in tasks}) == len(tasks)


def _start_texts(
    tasks: Sequence[Mapping[str, str]], members: Sequence[Sequence[RunRecord]]
) -> list[str]:
    """What the runs of each group start at, with as many digits as tell groups of one task apart."""
    for form in (".2f", ".8g"):
        texts = [_start_text(own, form) for own in members]
        if _distinct([{**task, START: text} for task, text in zip(tasks, texts, strict=True)]):
            return texts
    return [f"{text}, weights {i}" for i, text in enumerate(texts, start=1)]


def _start_text(runs: Sequence[RunRecord], form: str) -> str:
    found = [regret for run in runs if (regret := start_regret(run)) is not None]
    if not found:
        return _UNKNOWN
    low, high = format(min(found), form), format(max(found), form)
    return f"{low if low == high else f'{low} to {high}'} centipawns"


def _said(part: str, starts: tuple[str, ...], settings: Mapping[str, str]) -> str:
    """What the settings say of a part of the task."""
    if not settings:
        return _UNKNOWN
    found = {
        name: text
        for name, text in settings.items()
        if any(name == start or (start[-1] == "." and name.startswith(start)) for start in starts)
    }
    if part == "network":
        return _network(found)
    text = next(iter(found.values()), "null")
    if text == "null":
        return _NONE.get(part, _UNKNOWN)
    return f"{int(text):,} scored moves" if part == "budget" and text.isdecimal() else text


def _network(settings: Mapping[str, str]) -> str:
    """Name and size, and what was set besides; a record of before a setting existed says the same without it."""
    values = {name.partition(".")[2]: text for name, text in settings.items()}
    named = [values.pop(name) for name in ("network", "size") if name in values]
    values.pop("dropout", None)  # reinforcement learning never drops anything
    others = [f"{name} {text}" for name, text in values.items() if text not in ("null", "[]")]
    return ", ".join([" ".join(named), *others] if named else others) or _UNKNOWN


def _leaves(values: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, str]]:
    for name, value in values.items():
        key = printable(f"{prefix}{name}")[:MAX_CHARACTERS]
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, f"{key}.")
        else:
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            cut = printable(text)
            yield key, cut if len(cut) <= MAX_CHARACTERS else cut[: MAX_CHARACTERS - 1] + "…"
