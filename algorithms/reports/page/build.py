"""The whole page: one HTML file that loads nothing, runs nothing and escapes all text."""

from __future__ import annotations

import base64
import hashlib
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup

from algorithms.reports.page import boards, diagnoses, figures, mechanism, summary, tables
from algorithms.reports.page.boards import Probe
from algorithms.reports.page.claims import Claims
from algorithms.reports.page.columns import Column, Group, group_columns
from algorithms.reports.run_files import RunRecord, printable
from algorithms.reports.tasks import differing_parts

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

    diagnoses: diagnoses.Diagnoses = field(default_factory=dict)
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
    cards: Sequence[summary.Card]
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
        headline=summary.headline_of_groups(groups) if several else views[0].headline,
        groups=views,
        groups_table=tables.groups_table(groups),
        claims=[one for one in page_notes.claims if not one.group],
        told=diagnoses.told(columns, page_notes.diagnoses),
        definitions=boards.definitions() if page_notes.probes else "",
        provenance=tables.provenance_table(columns),
        machine=tables.machine_table(columns),
        notes=_notes(columns, page_notes),
    )


def _view(group: Group, parts: Sequence[str], page_notes: PageNotes) -> _View:
    columns = group.columns
    claims = [one for one in page_notes.claims if one.group == group.letter]
    return _View(
        letter=group.letter,
        title="; ".join(f"{part}: {group.task.get(part, tables.UNKNOWN)}" for part in parts),
        several=len(columns) > 1,
        headline=summary.headline(columns, claims),
        cards=summary.cards(columns, page_notes.diagnoses),
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
        _Section("How far an update moves the policy", "",
                 *figures.curve_figures(columns, figures.STEP_SIZE)),
        _Section("Coefficients", "", *figures.curve_figures(columns, figures.COEFFICIENTS)),
    ]  # fmt: skip


def _mechanism(columns: Sequence[Column]) -> list[_Section]:
    shares = [figure for column in columns for figure in mechanism.share_figures(column)]
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
            mechanism.prediction_figures(columns),
        ),
        _section(
            "Clips and moved mass, by the probability of the move",
            "A move that the policy rarely plays and one that it nearly always plays meet the clips differently.",
            mechanism.probability_figures(columns),
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
                    "side": boards.side_to_move(probe.fen),
                    "policies": [
                        (policy, boards.board_svg(probe, policy), boards.summary(policy))
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
