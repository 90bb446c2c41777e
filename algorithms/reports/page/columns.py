"""Runs sorted into columns: one column is one label with one set of settings, its seeds are the spread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from algorithms.reports.run_files import RunRecord, printable
from algorithms.reports.tasks import flatten, group_by_task

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
SHOWN = 3  # settings in a name; where more differ, it has as few as tell the columns apart
FEW_LETTERS = 28
PLAIN = {"null": "none", "true": "on", "false": "off"}


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


@dataclass(frozen=True, eq=False)
class Group:
    """Columns that had the same task, and so may be compared.

    Attributes:
        letter: what the page calls it: A, B, ..., Z, AA, ...
        task: every part of the task in plain words -> what it is.
        columns: at least one.
    """

    letter: str
    task: Mapping[str, str]
    columns: tuple[Column, ...]

    @property
    def runs(self) -> int:
        """How many there are."""
        return sum(len(column.runs) for column in self.columns)


def group_columns(runs: Sequence[RunRecord]) -> list[Group]:
    """The runs as columns, grouped by their task; both in the order in which their first run comes."""
    return [
        Group(_letter(place), each.task, tuple(group_runs(each.runs)))
        for place, each in enumerate(group_by_task(runs))
    ]


def group_runs(runs: Sequence[RunRecord]) -> list[Column]:
    """The columns, in the order in which their first run comes."""
    settings = {id(run): _telling(run) for run in runs}
    grouped: dict[tuple[str, tuple[tuple[str, str], ...]], list[RunRecord]] = {}
    for run in runs:
        own = tuple(sorted(settings[id(run)].items()))
        grouped.setdefault((_full_label(run), own), []).append(run)
    names = _names([(label, dict(own)) for label, own in grouped])
    columns = []
    for index, (name, members) in enumerate(zip(names, grouped.values(), strict=True)):
        members.sort(key=lambda run: (run.seed is None, run.seed or 0, run.name))
        columns.append(Column(name, index, tuple(members), settings[id(members[0])]))
    return columns


def differing_settings(settings: Sequence[Mapping[str, str]]) -> list[str]:
    """Names of the settings that are not the same in all, in their own order."""
    names = dict.fromkeys(name for values in settings for name in values)
    return [name for name in names if len({values.get(name, MISSING) for values in settings}) > 1]


def common_settings(settings: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """The settings that are the same in all, with their values, in their own order."""
    apart = set(differing_settings(settings))
    return {name: text for name, text in settings[0].items() if name not in apart}


def _letter(place: int) -> str:
    before, last = divmod(place, 26)
    return (_letter(before - 1) if before else "") + chr(ord("A") + last)


def _telling(run: RunRecord) -> dict[str, str]:
    return {name: text for name, text in flatten(run.config).items() if name not in BOOKKEEPING}


def _full_label(run: RunRecord) -> str:
    cause = run.config.get("cause")
    return f"{run.label} ({printable(cause)})" if isinstance(cause, str) and cause else run.label


def _names(columns: Sequence[tuple[str, Mapping[str, str]]]) -> list[str]:
    """A name for each (label, settings): the label, and what sets it apart from others of that label."""
    names: list[str] = []
    for label, own in columns:
        alike = [settings for other, settings in columns if other == label]
        differing = differing_settings(alike)
        chosen = differing if len(differing) <= SHOWN else _telling_apart(differing, alike)
        parts = [label]
        for key, word in zip(chosen, _short_keys(chosen), strict=True):
            shown = _shortened([each.get(key, MISSING) for each in alike])
            parts.append(f"{word} {shown[own.get(key, MISSING)]}")
        if len(differing) > len(chosen):
            parts.append(f"+{len(differing) - len(chosen)} more")
        names.append(", ".join(parts))
    return [name if names.count(name) == 1 else f"{name} ({names[:i].count(name) + 1})"
            for i, name in enumerate(names)]  # fmt: skip


def _telling_apart(keys: Sequence[str], alike: Sequence[Mapping[str, str]]) -> list[str]:
    """As few of the keys as tell all settings apart, found one by one, in their own order."""
    chosen: list[str] = []

    def kinds(tried: Sequence[str]) -> int:
        return len({tuple(each.get(key, MISSING) for key in tried) for each in alike})

    while kinds(chosen) < kinds(keys):
        chosen.append(max(keys, key=lambda key: kinds([*chosen, key])))
    return [key for key in keys if key in chosen]


def _short_keys(keys: Sequence[str]) -> list[str]:
    """The last part of each dotted name, or the whole where two end alike."""
    ends = [key.rpartition(".")[2] for key in keys]
    return [end if ends.count(end) == 1 else key for key, end in zip(keys, ends, strict=True)]


def _shortened(values: Sequence[str]) -> dict[str, str]:
    """{value: what a name shows of it}: few digits and few letters, where these still tell them apart."""
    for write in (_few_letters, _four_digits):
        short = {value: write(value) for value in values}
        if len(set(short.values())) == len(short):
            return short
    return {value: value for value in values}


def _few_letters(text: str) -> str:
    plain = PLAIN.get(text, _four_digits(text))
    return plain if len(plain) <= FEW_LETTERS else f"{plain[: FEW_LETTERS - 1]}…"


def _four_digits(text: str) -> str:
    try:
        number = float(text)
    except ValueError:
        return text
    return f"{number:.4g}" if len(f"{number:.4g}") < len(text) else text
