"""The whole page: one HTML file that loads nothing, runs nothing and escapes all text."""

from __future__ import annotations

import base64
import hashlib
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup

from algorithms.reports.noise import noise_of_runs
from algorithms.reports.page import diagrams, figures, tables
from algorithms.reports.page.charts import colour
from algorithms.reports.page.claims import Claims
from algorithms.reports.page.columns import Column, RunGroup, group_columns
from algorithms.reports.page.diagrams import Probe
from algorithms.reports.page.tables import Diagnoses, verdict
from algorithms.reports.run_files import RunRecord, printable
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
        regret_noise: what the judge itself and the teacher lose; "" where that is not known.
        entropy: held-out entropy, start to end.
        verdicts: the doctor's verdicts, with their counts.
    """

    name: str
    classes: str
    seeds: str
    regret: tuple[str, str] | None
    regret_share: str
    regret_noise: str
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


def headline_of_groups(groups: Sequence[RunGroup]) -> list[str]:
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
        regret_noise=noise_of_runs() or "",
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


_HERE = Path(__file__).parent
_TEMPLATE, _STYLE = "page.html.j2", "page.css"


@dataclass(frozen=True)
class PageNotes:
    """What a page shows beside the run folders' own files. All are optional; each maps a run's folder to its part.

    Attributes:
        diagnoses: the doctor's, as `Diagnosis.to_dict()` gives them.
        probes: probe positions with the policy's moves.
        presets: default settings of a run's preset, flat; shown where there is one column.
        claims: what may be claimed of the runs.
        notes: sentences on what was left out, and why.
    """

    diagnoses: Diagnoses = field(default_factory=dict)
    probes: Mapping[str, Sequence[Probe]] = field(default_factory=dict)
    presets: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    claims: Sequence[Claims] = ()
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class _Section:
    """A heading with its figures, and sentences for what is not on record."""

    title: str
    lead: str
    figures: Sequence[figures.Figure]
    sentences: Sequence[str]


@dataclass(frozen=True)
class _View:
    """What the page shows of one group of columns.

    Attributes:
        letter: of the group.
        title: its task, where it differs from that of the other groups.
        several: whether it has more than one column.
        headline: sentences.
        cards: one for each column.
        claims: of the group.
        curves: learning first, then the others.
        mechanism: sections.
        boards: of the probe positions.
        settings: that differ between the columns, or from the preset.
        common: the settings that do not differ.
    """

    letter: str
    title: str
    several: bool
    headline: Sequence[str]
    cards: Sequence[Card]
    claims: Sequence[Claims]
    curves: Sequence[_Section]
    mechanism: Sequence[_Section]
    boards: Sequence[dict]
    settings: tables.Table
    common: tables.Table


def build_page(title: str, runs: Sequence[RunRecord], page_notes: PageNotes | None = None) -> str:
    """The HTML of the page; the same files give the same page, byte for byte.

    Args:
        title: heading, escaped like every other text.
        runs: at least one.
        page_notes: what the page shows beside the files.

    Raises:
        ValueError: no run.
    """
    if not runs:
        raise ValueError("0 runs: a page needs at least one")
    page_notes = PageNotes() if page_notes is None else page_notes
    groups = group_columns(runs)
    columns = [column for group in groups for column in group.columns]
    template, style = _sources()
    several = len(groups) > 1
    parts = differing_parts([group.task for group in groups])
    views = [_view(group, parts, page_notes) for group in groups]
    return template.render(
        title=printable(title),
        style=Markup(style),  # our own file
        style_hash=base64.b64encode(hashlib.sha256(style.encode()).digest()).decode(),
        headline=headline_of_groups(groups) if several else views[0].headline,
        groups=views,
        groups_table=tables.groups_table(groups),
        claims=[one for one in page_notes.claims if not one.group],
        told=tables.told(columns, page_notes.diagnoses),
        definitions=diagrams.definitions() if page_notes.probes else "",
        provenance=tables.provenance_table(columns),
        machine=tables.machine_table(columns),
        notes=_notes(columns, page_notes),
    )


def _view(group: RunGroup, parts: Sequence[str], page_notes: PageNotes) -> _View:
    columns = group.columns
    claims = [one for one in page_notes.claims if one.group == group.letter]
    return _View(
        letter=group.letter,
        title="; ".join(f"{part}: {group.task.get(part, tables.UNKNOWN)}" for part in parts),
        several=len(columns) > 1,
        headline=headline(columns, claims),
        cards=cards(columns, page_notes.diagnoses),
        claims=claims,
        curves=_curves(columns),
        mechanism=_mechanism(columns),
        boards=_boards(columns, page_notes.probes),
        settings=_settings(columns, page_notes),
        common=tables.common_table(columns),
    )


@lru_cache(maxsize=1)
def _sources() -> tuple[Template, str]:
    """(template, style sheet) of the page."""
    environment = Environment(
        loader=FileSystemLoader(_HERE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.globals["swatch"] = figures.swatch
    environment.filters["breakable"] = _breakable
    return environment.get_template(_TEMPLATE), (_HERE / _STYLE).read_text(encoding="utf-8")


def _breakable(name: str) -> Markup:
    """The name, which a narrow column may break after an underscore."""
    return Markup("_<wbr>").join(name.split("_"))


def _curves(columns: Sequence[Column]) -> list[_Section]:
    learning, lacking = figures.curve_figures(columns, figures.LEARNING)
    phase = figures.phase_figure(columns)
    if isinstance(phase, str):
        lacking.append(phase)
    else:
        learning.insert(1, phase)
    several = any(len(column.runs) > 1 for column in columns)
    how = "Lines are means over the seeds, bands reach from the lowest to the highest seed. "
    return [
        _Section("Learning", (how if several else "") + "Hover over a point for its numbers.",
                 learning, lacking),
        _section("Where the learning signal is lost", "", [figures.chain_figure(columns)]),
        _Section("How far an update moves the policy", "",
                 *figures.curve_figures(columns, figures.STEP_SIZE)),
        _Section("Coefficients", "", *figures.curve_figures(columns, figures.COEFFICIENTS)),
    ]  # fmt: skip


def _mechanism(columns: Sequence[Column]) -> list[_Section]:
    shares = [figure for column in columns for figure in figures.share_figures(column)]
    return [
        _section(
            "Who spends the gradient",
            "Share of each loss term in the gradient, beside its share of the loss' value. The value says "
            "nothing about who pulls: centred advantages make the policy's loss 0.",
            shares,
        ),
        _section(
            "Entropy change: predicted and measured",
            "On the fixed probe positions; a dot is one look at one update.",
            figures.prediction_figures(columns),
        ),
        _section(
            "Clips and moved mass, by the probability of the move",
            "A move that the policy rarely plays and one that it nearly always plays meet the clips differently.",
            figures.probability_figures(columns),
        ),
    ]


def _section(title: str, lead: str, found: Sequence[figures.Figure | str]) -> _Section:
    drawn = [one for one in found if not isinstance(one, str)]
    return _Section(title, lead, drawn, [one for one in found if isinstance(one, str)])


def _boards(columns: Sequence[Column], probes: Mapping[str, Sequence[Probe]]) -> list[dict]:
    """For each column with probes its first run's: titles and pictures."""
    shown = []
    for column in columns:
        run = next((run for run in column.runs if probes.get(str(run.path))), None)
        if run is not None:
            found = probes[str(run.path)]
            pictures = [
                {
                    "probe": probe,
                    "side": diagrams.side_to_move(probe.fen),
                    "policies": [
                        (policy, diagrams.board_svg(probe, policy), diagrams.summary(policy))
                        for policy in (probe.before, probe.after)
                    ],
                }
                for probe in found
            ]
            viewer = printable(shlex.join(["chess-lab", "board", str(run.path)]))
            shown.append(
                {"name": column.name, "run": run.name, "pictures": pictures, "viewer": viewer}
            )
    return shown


def _settings(columns: Sequence[Column], page_notes: PageNotes) -> tables.Table:
    first = columns[0].runs[0]
    return tables.settings_table(columns, page_notes.presets.get(str(first.path)))


def _notes(columns: Sequence[Column], page_notes: PageNotes) -> list[str]:
    notes = list(page_notes.notes)
    notes += filter(None, [tables.mixed_evaluators(columns)])
    for column in columns:
        if column.repeated_seeds:
            notes.append(
                f"{column.name}: two runs have the same seed ({column.seeds}), so the band is too narrow."
            )
        lengths = sorted({int(run.rows[-1]["step"] or 0) for run in column.runs})
        if len(lengths) > 1:
            notes.append(
                f"{column.name}: its runs have {lengths[0]} to {lengths[-1]} updates; lines end where the "
                "shortest does, the headline has each run's own end."
            )
        notes += [f"{run.name}: {note}" for run in column.runs for note in run.notes]
    return notes
