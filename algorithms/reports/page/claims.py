"""What may be claimed of the runs, for the page: from a comparison's own file, or from an analysis of the runs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from algorithms.reports.page.columns import Group
from algorithms.reports.page.matrix import Matrix, make_matrix
from algorithms.reports.run_files import RunFileError, printable, read_object
from algorithms.reports.tasks import differing_parts

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


def read_claims(path: Path, groups: Sequence[Group] = ()) -> list[Claims]:
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


def family_claims(family: Mapping[str, Any], group: Group) -> list[Claims]:
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

    def __init__(self, groups: Sequence[Group]) -> None:
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
    found = []
    for name, family in families.items():
        seeds = _seeds(family) + (f", {printable(name)}" if several else "")
        columns = [column["name"] for column in family.get("columns", [])]
        names, letter = own.names(columns), own.group_of(columns)
        for quantity in family["quantities"]:
            found.append(
                Claims(
                    printable(f"{quantity['quantity']} ({seeds})"),
                    [_renamed(sentence, names) for sentence in _sentences(quantity)],
                    make_matrix(quantity, names, own.mixed),
                    letter,
                )
            )
        if family["left_out"]:
            sentences = [_renamed(sentence, names) for sentence in family["left_out"]]
            found.append(Claims(f"Left out ({seeds})", sentences, group=letter))
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
    subject: str, sentences: Sequence[str], matrix: Matrix | None = None, group: Group | None = None
) -> Claims:
    said = [printable(sentence) for sentence in sentences]
    return Claims(printable(subject), said, matrix, group.letter if group else "")
