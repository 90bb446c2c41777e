"""The text before the page's charts: the result of each column."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from algorithms.reports.page.claims import Claims
from algorithms.reports.page.columns import Column, Group
from algorithms.reports.page.diagnoses import Diagnoses, verdict
from algorithms.reports.page.svg import colour
from algorithms.reports.run_files import RunRecord
from algorithms.reports.tasks import differing_parts

FEW_GROUPS = 4  # up to here a sentence lists what is in each
FEW_SEEDS = 8  # below this, no claim about columns is made on this page


@dataclass(frozen=True)
class Card:
    """The headline of one column.

    Attributes:
        name: the column's.
        classes: of its colour.
        seeds: its runs, in words.
        regret: held-out regret, start to end; None where it is not on record.
        regret_share: the end as a share of the start, in words.
        entropy: held-out entropy, start to end.
        verdicts: the doctor's verdicts, with their counts.
    """

    name: str
    classes: str
    seeds: str
    regret: tuple[str, str] | None
    regret_share: str
    entropy: tuple[str, str] | None
    verdicts: Sequence[str]


def cards(columns: Sequence[Column], diagnoses: Diagnoses) -> list[Card]:
    """A headline for each column: means over its runs' first and last evaluation."""
    return [_card(column, diagnoses) for column in columns]


def headline(columns: Sequence[Column], claims: Sequence[Claims] = ()) -> list[str]:
    """Sentences on columns of one task: their results, and what a reader must not conclude."""
    runs = sum(len(column.runs) for column in columns)
    sentences = [f"{_counted(runs, 'run')} in {_counted(len(columns), 'column')}."]
    ends = {c: e for c in columns if (e := _ends(c.runs, "eval/regret_cp")) is not None}
    entropies = {c: e for c in columns if (e := _ends(c.runs, "eval/entropy")) is not None}
    if len(columns) == 1:
        return [*sentences, *_one_column(ends.get(columns[0]), entropies.get(columns[0]))]
    tested = False
    if ends:
        best = min(ends, key=lambda column: ends[column][1])
        sentences.append(
            f"Lowest held-out regret at the end: {best.name}, {ends[best][1]:.0f} centipawns "
            f"(start {ends[best][0]:.0f})."
        )
        pairs = [cell for one in claims if one.matrix is not None and one.matrix.lower_is_better
                 for cell in one.matrix.pairs_of(best.name)]  # fmt: skip
        tested = bool(pairs)
        if tested:
            held = sum(cell.claimed for cell in pairs)
            which = {0: "none", len(pairs): "all"}.get(held, str(held))
            sentences.append(
                f"Of its {_counted(len(pairs), 'difference')} in regret from other columns {which} "
                "may be claimed."
                if len(pairs) > 1
                else f"That it is lower {'may' if held else 'may not'} be claimed."
            )
    if entropies:
        widest = max(entropies, key=lambda column: entropies[column][1])
        sentences.append(
            f"Most held-out entropy left: {widest.name}, {entropies[widest][1]:.2f} nats."
        )
    fewest = min(len(column.runs) for column in columns)
    if fewest < FEW_SEEDS and not tested:
        sentences.append(
            f"With {_counted(fewest, 'seed')} in a column, a difference between columns may be chance: "
            "the curves describe, chess-lab compare tests."
        )
    return sentences


def headline_of_groups(groups: Sequence[Group]) -> list[str]:
    """Sentences on runs of several tasks: that there is no winner, how the groups differ, and what each holds."""
    runs = sum(group.runs for group in groups)
    parts = differing_parts([group.task for group in groups])
    held = [
        f"{group.letter} has {_listed([f'“{column.name}”' for column in group.columns])} "
        f"({_counted(group.runs, 'run')})"
        for group in groups
    ]
    where = (
        f"{'; '.join(held)}." if len(groups) <= FEW_GROUPS else "The table says what is in each."
    )
    return [
        f"{_counted(runs, 'run')} in {len(groups)} groups that cannot be compared: "
        f"they differ in {_listed(parts)}. {where}",
        "So no winner is named across the groups; each has its own headline.",
    ]


def _card(column: Column, diagnoses: Diagnoses) -> Card:
    regret, entropy = (_ends(column.runs, f"eval/{name}") for name in ("regret_cp", "entropy"))
    verdicts = Counter(verdict(diagnoses.get(str(run.path))) for run in column.runs)
    total = len(column.runs)
    share = ""
    if regret is not None and regret[0] > 0:
        share = f"{regret[1] / regret[0]:.0%} of the start"
    return Card(
        name=column.name,
        classes=colour(column.index),
        seeds=f"seed {column.seeds}" if total == 1 else f"{total} runs, seeds {column.seeds}",
        regret=None if regret is None else (f"{regret[0]:.0f}", f"{regret[1]:.0f}"),
        regret_share=share,
        entropy=None if entropy is None else (f"{entropy[0]:.2f}", f"{entropy[1]:.2f}"),
        verdicts=[
            text if total == 1 else f"{text} ({count} of {total})"
            for text, count in verdicts.most_common()
        ],
    )


def _one_column(
    regret: tuple[float, float] | None, entropy: tuple[float, float] | None
) -> list[str]:
    sentences = []
    if regret is not None:
        sentences.append(
            f"Held-out regret {_verb(*regret)} {regret[0]:.0f} to {regret[1]:.0f} centipawns per move."
        )
    if entropy is not None:
        sentences.append(
            f"Held-out entropy {_verb(*entropy)} {entropy[0]:.2f} to {entropy[1]:.2f} nats."
        )
    return sentences or ["No evaluation is on record: neither regret nor entropy can be told."]


def _verb(start: float, end: float) -> str:
    return "fell from" if end < start else "went from"


def _ends(runs: Sequence[RunRecord], metric: str) -> tuple[float, float] | None:
    """(first, last) finite value, means over the runs; None where a run has none."""
    values = [run.series(metric).finite for run in runs]
    if not all(len(found) for found in values):
        return None
    return float(np.mean([v[0] for v in values])), float(np.mean([v[-1] for v in values]))


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
