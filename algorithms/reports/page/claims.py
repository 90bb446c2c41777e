"""What may be claimed of the runs, for the page: from a comparison's own file, or from an analysis of the runs.

As sentences, and as a matrix: one cell for each pair of columns, and why a claim is not made.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from algorithms.reports.page.columns import RunGroup
from algorithms.reports.pairwise import Comparison
from algorithms.reports.run_files import RunFileError, printable, read_object
from algorithms.reports.statistics import ALPHA, Interval, minimum_seeds
from algorithms.reports.tasks import differing_parts

_AT_LEVEL = re.compile(r"(?P<name>.*) \(at (?P<level>\d+) % of the starting regret\)", re.DOTALL)

Mixed = Callable[[str, str], str]
"""(ours, theirs) -> the parts of the task in which two columns differ; "" where they share it."""


@dataclass(frozen=True)
class MatrixCell:
    """One pair: the row's column minus the other.

    Attributes:
        difference: interquartile mean of the seeds' differences.
        interval: for it, 95 %.
        level: where the two were read, where that is a choice of each pair.
        verdict: "higher" or "lower" where that may be claimed, otherwise why nothing may.
        claimed: whether a difference may be claimed.
    """

    difference: str
    interval: str
    level: str
    verdict: str
    claimed: bool


@dataclass(frozen=True)
class Matrix:
    """All pairs of one quantity, each once: above the diagonal.

    Attributes:
        lower_is_better: direction of the quantity.
        header: names of the columns: all but the first.
        rows: (name, cells): all but the last; None where the pair stands elsewhere.
    """

    lower_is_better: bool
    header: Sequence[str]
    rows: Sequence[tuple[str, Sequence[MatrixCell | None]]]

    @property
    def any_claimed(self) -> bool:
        """Whether a difference may be claimed at all."""
        return any(cell is not None and cell.claimed for _, cells in self.rows for cell in cells)

    def pairs_of(self, name: str) -> list[MatrixCell]:
        """The cells in which the column is one of the two."""
        return [
            cell
            for row, cells in self.rows
            for column, cell in zip(self.header, cells, strict=True)
            if cell is not None and name in (row, column)
        ]

    @property
    def with_levels(self) -> bool:
        """Whether each pair was read at a level of its own."""
        return any(cell is not None and cell.level for _, cells in self.rows for cell in cells)

    @property
    def counted(self) -> str:
        """How many of the differences may be claimed, as a sentence."""
        cells = [cell for _, cells in self.rows for cell in cells if cell is not None]
        held = sum(cell.claimed for cell in cells)
        if len(cells) == 1:
            return f"The difference may {'be' if held else 'not be'} claimed"
        return f"{held} of {len(cells)} differences may be claimed"


def make_matrix(
    quantity: Mapping[str, Any], names: Mapping[str, str], mixed: Mixed = lambda ours, theirs: ""
) -> Matrix | None:
    """The matrix of a quantity of comparison.json; None where no pair was compared.

    Args:
        quantity: as `algorithms.comparison.analysis` writes it.
        names: the comparison's name of a column -> the page's; one that is not in it keeps its own.
        mixed: tells columns (by the comparison's names) that had different tasks.
    """
    cells: dict[tuple[str, str], MatrixCell] = {}
    order: dict[str, None] = {}
    for values in quantity.get("comparisons", []):
        each, level = _comparison(values)
        order |= dict.fromkeys((each.ours, each.theirs))
        cells[each.ours, each.theirs] = _cell(each, level, mixed(each.ours, each.theirs))
    for pair, level in quantity.get("level_percent", {}).items():
        ours, _, theirs = pair.partition(" | ")
        if level is None:
            order |= dict.fromkeys((ours, theirs))
            cells[ours, theirs] = MatrixCell("–", "", "", "no common level of regret", False)
    if not quantity.get("comparisons"):
        return None
    # The comparison went through its pairs in the order of its columns; here a column may come first as
    # the second of a pair, so the order is made from the pairs.
    columns = sorted(order, key=lambda name: sum(name == theirs for _, theirs in cells))
    rows = [
        (_named(ours, names), [cells.get((ours, theirs)) for theirs in columns[1:]])
        for ours in columns[:-1]
    ]
    header = [_named(name, names) for name in columns[1:]]
    return Matrix(not quantity["higher_is_better"], header, rows)


def _comparison(values: Mapping[str, Any]) -> tuple[Comparison, str]:
    """(the pair under its columns' own names, the level at which it was read)."""
    intervals = {key: Interval(**values[key]) for key in ("interval", "improvement_interval")}
    each = Comparison(**{**values, **intervals})
    found = [_AT_LEVEL.fullmatch(name) for name in (each.ours, each.theirs)]
    if found[0] is None or found[1] is None:
        return each, ""
    ours, theirs = (match["name"] for match in found if match)
    return replace(each, ours=ours, theirs=theirs), f"at {found[0]['level']} %"


def _cell(each: Comparison, level: str, mixed: str) -> MatrixCell:
    interval = f"{_signed(each.interval.low)} to {_signed(each.interval.high)}"
    claimed = not mixed and each.holds
    return MatrixCell(_signed(each.difference), interval, level, _verdict(each, mixed), claimed)


def _verdict(each: Comparison, mixed: str) -> str:
    """Which way the difference goes where it may be claimed, otherwise the first reason why it may not."""
    needed = minimum_seeds(each.family)
    if mixed:
        return f"not comparable: other {mixed}"
    if each.identical:
        return "identical"
    if each.holds:
        return "higher" if each.interval.low > 0 else "lower"
    if each.seeds < needed:
        return f"too few seeds: {each.seeds}\N{NO-BREAK SPACE}of\N{NO-BREAK SPACE}{needed}"
    if not each.interval.excludes(0.0):
        return "interval includes 0"
    corrected = " after Holm’s correction" if each.p_value <= ALPHA else ""
    return f"p {each.p_adjusted if corrected else each.p_value:.2g}{corrected}"


def _signed(value: float) -> str:
    return f"{value:+.3g}".replace("-", "−")


def _named(name: str, names: Mapping[str, str]) -> str:
    return names.get(name, printable(name))


COMPARISON_FILE = "comparison.json"
CONTROL = "control+"  # columns of a comparison that repeat others


@dataclass(frozen=True)
class Claims:
    """Sentences on one subject.

    Attributes:
        subject: what was compared.
        sentences: what may be claimed.
        matrix: of all pairs; None where there are none, or the subject is another.
        group: the letter of the page's group that it is about; "" where it is about several or none.
    """

    subject: str
    sentences: Sequence[str]
    matrix: Matrix | None = None
    group: str = ""


def comparison_file(folder: Path) -> Path | None:
    """The file of the comparison that made this folder or that of its runs; None where there is none."""
    above = [folder.resolve().parent] if folder.resolve().name == "runs" else []
    for place in (folder, *above):
        path = place / COMPARISON_FILE
        if path.exists() or path.is_symlink():
            return path
    return None


def read_claims(path: Path, groups: Sequence[RunGroup] = ()) -> list[Claims]:
    """The claims of a finished comparison.

    Args:
        path: its comparison.json.
        groups: of the page: its columns are then named as there.

    Raises:
        RunFileError: the file is damaged, a symbolic link, or has another form.
    """
    values = read_object(path)
    try:
        own = _OwnNames(groups)
        return [*_families(values["families"], own), *_others(values)]
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise RunFileError(
            f"{path} is not as `chess-lab compare` writes it ({error!r}): run the comparison again"
        ) from None


def family_claims(family: Mapping[str, Any], group: RunGroup) -> list[Claims]:
    """The claims of one family of columns that are named as on the page."""
    seeds = _seeds(family)
    found = [
        _claims(f"{each['quantity']} ({seeds})", _sentences(each), make_matrix(each, {}), group)
        for each in family["quantities"]
    ]
    if not any(one.matrix for one in found):
        # Each figure gives the same reason.
        found = [_claims("Nothing", found[0].sentences[:1], group=group)]
    if family["left_out"]:
        found.append(_claims("Left out", family["left_out"], group=group))
    return found


class _OwnNames:
    """The page's names for the columns of a comparison, found by the folders of their runs.

    Args:
        groups: of the page; without any every column keeps the comparison's name.
    """

    def __init__(self, groups: Sequence[RunGroup]) -> None:
        self.several = len(groups) > 1
        self.parts = {group.letter: group.task for group in groups}
        places: dict[str, set[tuple[str, str]]] = {}
        for group in groups:
            for column in group.columns:
                for run in column.runs:
                    place = re.fullmatch(r"(?:runs/)?([^/]+)/seed-\d+", run.name)
                    if place and not place[1].startswith(CONTROL):
                        places.setdefault(place[1], set()).add((group.letter, column.name))
        self._places = {
            name: next(iter(found))
            for name, found in places.items()
            if len(found) == 1 and list(places.values()).count(found) == 1
        }

    def group_of(self, columns: Sequence[str]) -> str:
        """The letter of the one group that all columns are in, or ""."""
        letters = {self._places.get(name, ("", ""))[0] for name in columns}
        return letters.pop() if len(letters) == 1 else ""

    def names(self, columns: Sequence[str]) -> dict[str, str]:
        """The comparison's name -> the page's, with the group's letter where they are of several."""
        within = self.group_of(columns) or not self.several
        return {
            name: self._places[name][1] if within else ": ".join(self._places[name])
            for name in columns
            if name in self._places
        }

    def mixed(self, ours: str, theirs: str) -> str:
        """Parts of the task in which two columns differ, in words; "" where none, or nothing is known."""
        first, second = (
            self.parts.get(self._places.get(each, ("", ""))[0]) for each in (ours, theirs)
        )
        return ", ".join(differing_parts([first, second])) if first and second else ""


def _families(families: Mapping[str, Any], own: _OwnNames) -> list[Claims]:
    several = len(families) > 1
    found: list[Claims] = []
    nothing: dict[str, list[str]] = {}  # group -> subjects without a pair to compare, and why
    for name, family in families.items():
        seeds = _seeds(family) + (f", {printable(name)}" if several else "")
        columns = [column["name"] for column in family.get("columns", [])]
        names, letter = own.names(columns), own.group_of(columns)
        for quantity in family["quantities"]:
            subject = printable(f"{quantity['quantity']} ({seeds})")
            said = [_renamed(sentence, names) for sentence in _sentences(quantity)]
            matrix = make_matrix(quantity, names, own.mixed)
            if matrix is None:
                why = " ".join(said).removeprefix("nothing: ")
                nothing.setdefault(letter, []).append(f"{subject}: {why}")
            else:
                found.append(Claims(subject, said, matrix, letter))
        if family["left_out"]:
            sentences = [_renamed(sentence, names) for sentence in family["left_out"]]
            found.append(Claims(f"Left out ({seeds})", sentences, group=letter))
    found += [Claims("Nothing", sentences, group=letter) for letter, sentences in nothing.items()]
    return found


def _seeds(family: Mapping[str, Any]) -> str:
    count = len(family["seeds"])
    return f"{count} seed" if count == 1 else f"{count} seeds"


def _sentences(quantity: Mapping[str, Any]) -> list[str]:
    return [printable(sentence) for sentence in (*quantity["claims"], *quantity["not_compared"])]


def _renamed(sentence: str, names: Mapping[str, str]) -> str:
    """The sentence with the page's names in place of the comparison's."""
    if not names:
        return printable(sentence)
    longest_first = sorted(names, key=len, reverse=True)
    known = re.compile(rf"(?<![\w.,=+-])({'|'.join(map(re.escape, longest_first))})(?![\w=+-])")
    return known.sub(lambda match: names[match[1]], printable(sentence))


def _others(values: Mapping[str, Any]) -> list[Claims]:
    broken = [f"{each['cell']}: {each['reason']}" for each in values["broken"]]
    parts = {
        "Not comparable, compared all the same": values["mixed"],
        "Controls, which must coincide": [each["sentence"] for each in values["controls"]],
        "Broken runs": broken,
        "Learning rates": [values["tuning_says"]],
    }
    return [_claims(subject, sentences) for subject, sentences in parts.items() if sentences]


def _claims(
    subject: str,
    sentences: Sequence[str],
    matrix: Matrix | None = None,
    group: RunGroup | None = None,
) -> Claims:
    said = [printable(sentence) for sentence in sentences]
    return Claims(printable(subject), said, matrix, group.letter if group else "")
