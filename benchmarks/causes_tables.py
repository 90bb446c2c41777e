"""Text and tables of docs/causes.md that say what a matrix of causes came to."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from algorithms.collapse.causes import DOCTOR_CLASSES
from benchmarks.records.causes import BROKEN, HEALTHY, NOTHING


def number(value: float | None) -> str:
    """Three significant digits, from a thousand on without a fraction."""
    if value is None:
        return "not measured"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def spread(values: Sequence[float | None]) -> str:
    """Median [lowest, highest] of what was measured."""
    known = [value for value in values if value is not None]
    if not known:
        return "not measured"
    middle, low, high = map(number, (statistics.median(known), min(known), max(known)))
    return middle if low == high else f"{middle} [{low}, {high}]"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    grid_runs = [list(header), ["---"] * len(header), *([*row] for row in rows)]
    return "".join("| " + " | ".join(each) + " |\n" for each in grid_runs)


def counted(said: Sequence[Sequence[str] | None]) -> str:
    """How often the doctor named which class first."""
    first = [BROKEN if names is None else names[0] if names else NOTHING for names in said]
    return ", ".join(f"{name} {first.count(name)}" for name in dict.fromkeys(first))


def how_it_was_run(found: Mapping[str, Any]) -> str:
    """Seeds, commit, machine and time of a matrix."""
    settings, machine, wall = found["settings"], found["machine"], found["wall"]
    seeds = ", ".join(map(str, settings["seeds"]))
    origin = settings["seeds_from"]
    since = (
        f", the first different groups of four hexadecimal digits of `{origin}`" if origin else ""
    )
    pairs = sum(len(each["diagnoses"]["on"]) for each in found["causes"].values())
    failed = ", ".join(found["failed"]) or "none"
    return (
        f"{pairs} pairs of {len(found['causes'])} causes, seeds {seeds}{since}; at commit "
        f"`{settings['commit']}` on {machine['processor']}, {machine['cores']} cores, "
        f"{settings['jobs']} runs at a time, one thread each: median {number(wall['median_s'])} s a "
        f"run, {wall['elapsed_s'] / 60:.0f} minutes in all. Broken runs: {failed}.\n"
    )


def confusion(judged: Mapping[str, Any]) -> str:
    """The doctor's confusion matrix: rows are what it was, columns what was named first."""
    said = [*DOCTOR_CLASSES, NOTHING, BROKEN]
    columns = [name for name in said if name in DOCTOR_CLASSES or name == NOTHING]
    if any(BROKEN in counts for counts in judged["confusion"].values()):
        columns.append(BROKEN)
    heads = [
        str(DOCTOR_CLASSES.index(name) + 1) if name in DOCTOR_CLASSES else name for name in columns
    ]
    rows = []
    for true in (*DOCTOR_CLASSES, HEALTHY):
        counts = judged["confusion"].get(true, {})
        label = f"{DOCTOR_CLASSES.index(true) + 1} {true}" if true != HEALTHY else "cured twins"
        right = NOTHING if true == HEALTHY else true
        grid_runs = [str(counts.get(name, "")) for name in columns]
        rows.append(
            [
                label,
                *(
                    f"**{c}**" if c and n == right else c
                    for n, c in zip(columns, grid_runs, strict=True)
                ),
            ]
        )
    return table(("it was / named first", *heads), rows)


def judged_doctor(found: Mapping[str, Any]) -> str:
    """Shares, confusion matrix and false alarms of the doctor in one matrix."""
    judged = found["doctor"]
    first, in_two, alarms = (
        "not measured" if judged[name] is None else f"{judged[name]:.1%}"
        for name in ("right_first", "right_in_two", "false_alarms")
    )
    named = [
        f"`{name}`, seed {seed}: {', '.join(said)}"
        for name, each in found["causes"].items()
        for seed, said in zip(found["settings"]["seeds"], each["diagnoses"]["cured"], strict=True)
        if said
    ]
    return (
        f"Right class first in {first} of {judged['runs']} runs, among the first two in {in_two}. "
        f"False alarms on {alarms} of {judged['twins']} cured twins"
        f"{': ' + '; '.join(named) if named else ''}.\n\n{confusion(judged)}"
    )
