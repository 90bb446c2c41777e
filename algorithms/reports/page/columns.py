"""Runs sorted into columns: one column is one label with one set of settings, its seeds are the spread."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from algorithms.reports.run_files import RunRecord, printable

# Settings that name a run or say where it computes, and so set no two columns apart.
BOOKKEEPING = frozenset(
    {
        "run_dir",
        "seed",
        "track",
        "preset",
        "cause",
        "num_threads",
        "checkpoint_interval_updates",
        "env.cache",
        "env.num_engines",
    }
)
MISSING = "not set"
MAX_CHARACTERS = 160


@dataclass(frozen=True, eq=False)
class Column:
    """Runs that differ in nothing but the seed.

    Attributes:
        name: the label, and the settings that tell it from other columns of that label.
        index: its place on the page, which decides its colour.
        runs: at least one, by seed.
        settings: every setting, flat: `optimizer.learning_rate` -> its value as text.
    """

    name: str
    index: int
    runs: tuple[RunRecord, ...]
    settings: Mapping[str, str]

    @property
    def seeds(self) -> str:
        """The runs' seeds, as text."""
        return ", ".join("?" if run.seed is None else str(run.seed) for run in self.runs)

    @property
    def repeated_seeds(self) -> bool:
        """Whether two of its runs have the same known seed: their spread is then too small."""
        known = [run.seed for run in self.runs if run.seed is not None]
        return len(set(known)) < len(known)


def flatten(config: Mapping[str, Any]) -> dict[str, str]:
    """Every setting under its dotted name, as short text."""
    return dict(_leaves(config, ""))


def group_runs(runs: Sequence[RunRecord]) -> list[Column]:
    """The columns, in the order in which their first run comes."""
    settings = {id(run): _telling(run) for run in runs}
    same_label: dict[str, list[RunRecord]] = {}
    for run in runs:
        same_label.setdefault(_full_label(run), []).append(run)
    grouped: dict[tuple[str, str], list[RunRecord]] = {}
    for run in runs:
        label = _full_label(run)
        alike = [settings[id(other)] for other in same_label[label]]
        own = []
        for key in differing_settings(alike):
            shown = _shortened([each.get(key, MISSING) for each in alike])
            own.append(f"{_short(key)} {shown[settings[id(run)].get(key, MISSING)]}")
        grouped.setdefault((label, ", ".join(own)), []).append(run)
    columns: list[Column] = []
    for (label, difference), members in grouped.items():
        members.sort(key=lambda run: (run.seed is None, run.seed or 0, run.name))
        columns.append(
            Column(
                name=", ".join(filter(None, (label, difference))),
                index=len(columns),
                runs=tuple(members),
                settings=settings[id(members[0])],
            )
        )
    return columns


def differing_settings(settings: Sequence[Mapping[str, str]]) -> list[str]:
    """Names of the settings that are not the same in all, in their own order."""
    names = dict.fromkeys(name for values in settings for name in values)
    return [name for name in names if len({values.get(name, MISSING) for values in settings}) > 1]


def _telling(run: RunRecord) -> dict[str, str]:
    return {name: text for name, text in flatten(run.config).items() if name not in BOOKKEEPING}


def _full_label(run: RunRecord) -> str:
    cause = run.config.get("cause")
    return f"{run.label} ({printable(cause)})" if isinstance(cause, str) and cause else run.label


def _short(name: str) -> str:
    return name.rpartition(".")[2]


def _shortened(values: Sequence[str]) -> dict[str, str]:
    """{value: what a name shows of it}: numbers to four digits, where that still tells them apart."""
    short = {value: _four_digits(value) for value in values}
    return short if len(set(short.values())) == len(short) else {value: value for value in values}


def _four_digits(text: str) -> str:
    try:
        number = float(text)
    except ValueError:
        return text
    return f"{number:.4g}" if len(f"{number:.4g}") < len(text) else text


def _leaves(values: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, str]]:
    for name, value in values.items():
        key = printable(f"{prefix}{name}")[:MAX_CHARACTERS]
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, f"{key}.")
        else:
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            cut = printable(text)
            yield key, cut if len(cut) <= MAX_CHARACTERS else cut[: MAX_CHARACTERS - 1] + "…"
