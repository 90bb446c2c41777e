"""The whole page: one HTML file that loads nothing, runs its own script alone and escapes all text."""

from __future__ import annotations

import base64
import hashlib
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

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
from algorithms.reports.statistics import Interval, interquartile_mean
from algorithms.reports.tasks import differing_parts

FEW_GROUPS = 4  # up to here a sentence lists what is in each
FEW_SEEDS = 8  # below this, no claim about columns is made on this page
UNTOLD = (tables.UNTOLD, "too short", tables.NO_VERDICT)  # verdicts that are neither good nor bad
INTERVALS = "Interquartile means over the seeds with their 95 % intervals, as chess-lab compare prints them."


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


def _card(column: Column, diagnoses: Diagnoses) -> dict[str, Any]:
    """The headline of one column: interquartile means over its runs' first and last evaluation."""
    regret, entropy = (_ends(column.runs, f"eval/{name}") for name in ("regret_cp", "entropy"))
    verdicts = Counter(verdict(diagnoses.get(str(run.path))) for run in column.runs)
    total = len(column.runs)
    share = figures.at_end(column, "eval/regret_cp", share_of_start=True)
    nats = figures.at_end(column, "eval/entropy")
    return {
        "name": column.name,
        "classes": colour(column.index),
        "seeds": f"seed {column.seeds}" if total == 1 else f"{total} runs, seeds {column.seeds}",
        "average": "" if total == 1 else "Interquartile means over the seeds [95 % intervals].",
        "regret": None if regret is None else [f"{end:.0f}" for end in regret],
        "regret_share": "" if share is None else f"{share[0]:.1f} % of the start{_interval(share[1], 1)}",
        "regret_noise": noise_of_runs() or "",
        "entropy": None if entropy is None else [f"{end:.2f}" for end in entropy],
        "entropy_interval": "" if nats is None else _interval(nats[1], 2),
        "verdicts": [
            (_kind(text), text if total == 1 else f"{text} ({count} of {total})")
            for text, count in verdicts.most_common()
        ],
        "causes": _causes(column.runs, diagnoses),
    }  # fmt: skip


def _interval(interval: Interval | None, digits: int) -> str:
    return "" if interval is None else f" [{interval.low:.{digits}f}, {interval.high:.{digits}f}]"


def _kind(text: str) -> str:
    """How a verdict is coloured."""
    return "good" if text.startswith("learning") else "" if text in UNTOLD else "bad"


def _causes(runs: Sequence[RunRecord], diagnoses: Diagnoses) -> list[dict[str, str]]:
    """The harmful causes of a column's runs, the one in most runs first."""
    named: dict[str, list[tuple[RunRecord, Mapping[str, Any]]]] = {}
    for run in runs:
        for cause in diagnoses.get(str(run.path), {}).get("causes", ()):
            if cause["harmful"]:
                named.setdefault(cause["name"], []).append((run, cause))
    found = []
    for causes in sorted(named.values(), key=len, reverse=True):
        run, surest = max(causes, key=lambda each: each[1]["confidence"])
        sure = f"{surest['confidence']:.0%}"
        sure = sure if len(runs) == 1 else f"up to {sure}, in {len(causes)} of {len(runs)} runs"
        found.append({**surest, "sure": sure, "confirm": tables.confirming(surest, run)})
    return found


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
    """(first, last) finite value, interquartile means over the runs; None where a run has none."""
    values = [run.series(metric).finite for run in runs]
    if not all(len(found) for found in values):
        return None
    first, last = interquartile_mean([[v[0] for v in values], [v[-1] for v in values]])
    return float(first), float(last)


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


_HERE = Path(__file__).parent
_TEMPLATE, _STYLE, _SCRIPT = "page.html.j2", "page.css", "page.js"


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
    template, style, script = _sources()
    several = len(groups) > 1
    parts = differing_parts([group.task for group in groups])
    views = [_view(group, parts, page_notes) for group in groups]
    return template.render(
        title=printable(title),
        style=Markup(style),  # our own file
        script=Markup(script),
        style_hash=_hash(style),
        script_hash=_hash(script),
        headline=headline_of_groups(groups) if several else views[0]["headline"],
        groups=views,
        groups_table=tables.groups_table(groups),
        claims=[one for one in page_notes.claims if not one.group],
        told=tables.told(groups, page_notes.diagnoses),
        definitions=diagrams.definitions() if page_notes.probes else "",
        provenance=tables.provenance_table(columns),
        machine=tables.machine_table(columns),
        notes=_notes(columns, page_notes),
    )


def _view(group: RunGroup, parts: Sequence[str], page_notes: PageNotes) -> dict[str, Any]:
    """What the page shows of one group of columns."""
    columns = group.columns
    claims = [one for one in page_notes.claims if one.group == group.letter]
    return {
        "letter": group.letter,
        "title": "; ".join(f"{part}: {group.task.get(part, tables.UNKNOWN)}" for part in parts),
        "several": len(columns) > 1,
        "headline": headline(columns, claims),
        "cards": [_card(column, page_notes.diagnoses) for column in columns],
        "claims": claims,
        # Without a claimed difference the page shows what was learned first.
        "claimed": any(one.matrix is not None and one.matrix.any_claimed for one in claims),
        "at_end": _section("At the end", INTERVALS, figures.end_figures(columns)),
        "learning": _learning(columns),
        "signal": _section(
            "Where the learning signal is lost, and who spends the gradient",
            "",
            [figures.chain_figure(columns), *figures.share_figures(columns)],
        ),
        "more": _more(columns),
        "boards": _boards(columns, page_notes.probes),
        "settings": _settings(columns, page_notes),
        "common": tables.common_table(columns),
    }


@lru_cache(maxsize=1)
def _sources() -> tuple[Template, str, str]:
    """(template, style sheet, script) of the page."""
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
    style, script = ((_HERE / name).read_text(encoding="utf-8") for name in (_STYLE, _SCRIPT))
    return environment.get_template(_TEMPLATE), style, script


def _hash(text: str) -> str:
    """By which the page's policy knows its own style sheet and script."""
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _breakable(name: str) -> Markup:
    """The name, which a narrow column may break after an underscore."""
    return Markup("_<wbr>").join(name.split("_"))


def _learning(columns: Sequence[Column]) -> _Section:
    several = any(len(column.runs) > 1 for column in columns)
    how = "Lines are interquartile means over the seeds, bands reach from the lowest to the highest seed. "
    drawn = [*figures.curve_figures(columns, figures.LEARNING), figures.phase_figure(columns)]
    return _section("Learning", how if several else "", drawn)


def _more(columns: Sequence[Column]) -> list[_Section]:
    curves = {
        "The policy while it learns": figures.PLAYING,
        "How far an update moves the policy": figures.STEP_SIZE,
        "Coefficients": figures.COEFFICIENTS,
    }
    return [
        *(_section(title, "", figures.curve_figures(columns, each)) for title, each in curves.items()),
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
    ]  # fmt: skip


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
                if probe.num_legal > 1  # of one legal move every policy plays it
            ]
            viewer = printable(shlex.join(["chess-lab", "board", str(run.path)]))
            shown.append(
                {"name": column.name_of(run), "classes": colour(column.index), "pictures": pictures, "viewer": viewer}
            )  # fmt: skip
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
