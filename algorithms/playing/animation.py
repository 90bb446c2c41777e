"""One position over the training of one run or more, as an SVG that moves by itself.

Frames are switched by SMIL, so the file needs no script and moves in an <img> too. Each policy is shown from its scored
moves on, until the next one; nothing is made up between two of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import chess
from markupsafe import Markup

from algorithms.diagnostics.probe_pictures import policy_picture
from algorithms.evaluation.snapshot_policies import aligned
from algorithms.playing.over_training import OverTraining
from algorithms.reports.page.charts import Scale, element, short
from algorithms.reports.page.diagrams import (
    SIDE,
    PolicyPicture,
    arrow_elements,
    definitions,
    position_elements,
)
from algorithms.reports.run_files import printable
from algorithms.run_folder.atomic_files import replace_file
from chess_env.rules.fen import to_fen

ARROWS = 6
LEAST = 0.01
"""Moves that are less probable get no arrow, so that of a collapsed policy one is left."""

SECONDS = 12.0
HOLD = 0.2  # share of the time for which the last policies stay
_LONGEST_NAME = 44  # characters
_MARGIN, _TITLE, _TEXT, _CHART = 14.0, 26.0, 46.0, 110.0
_STYLE = """
svg { font-family: system-ui, sans-serif; font-size: 14px; }
.page { fill: #ffffff; } text { fill: #1d1f24; } .soft { fill: #5b606b; font-size: 12px; } .name { font-weight: 600; }
.light { fill: #f1e3c8; } .dark { fill: #bd9469; } .square { font-size: 10px; fill: #4a3a28; }
.arrow line { stroke: #0b5fa5; stroke-linecap: round; } .arrow polygon { fill: #0b5fa5; }
.axis { stroke: #d6d3cb; } .line { stroke: #0067a5; fill: none; stroke-width: 2; } .dot { fill: #0067a5; }
.cursor { stroke: #c24a00; stroke-width: 1.5; }
@media (prefers-color-scheme: dark) {
  .page { fill: #14161a; } text { fill: #eceae4; } .soft { fill: #a7adb8; } .axis { stroke: #3a3f48; }
  .light { fill: #cdbb9b; } .dark { fill: #8d6b48; } .square { fill: #2b2118; }
  .line { stroke: #5fb4f2; } .dot { fill: #5fb4f2; } .cursor { stroke: #ff9a5c; }
}
"""


@dataclass(frozen=True, eq=False)
class Panel:
    """One run's policies in one position.

    Attributes:
        name: stands above the board.
        curves: the policies of the run on one position; `OverTraining.only` gives them.
    """

    name: str
    curves: OverTraining

    @property
    def fen(self) -> str:
        """The position."""
        return to_fen(self.curves.at.positions[0])

    def picture(self, place: int, most_moves: int) -> PolicyPicture:
        """What the policy at a place plays."""
        logprobs, legal_ids = self.curves.logprobs[place, 0], self.curves.at.legal_ids[0]
        update = int(self.curves.updates[place])
        return policy_picture(chess.Board(self.fen), legal_ids, logprobs, update, most_moves)


def animate(panels: Sequence[Panel], path: Path) -> Path:
    """`path`, to which the SVG of the panels side by side was written, whole or not at all.

    The runs are aligned by scored moves: one cursor goes over all of them at an even pace, and starts again.

    Args:
        panels: one for each run, at least one.
        path: of the file; one that is there is replaced.

    Raises:
        ValueError: there is no panel, or one is not of one position.
        OSError: the file cannot be written.
    """
    replace_file(path, str(animation_svg(panels)).encode())
    return path


def animation_svg(panels: Sequence[Panel]) -> Markup:
    """The SVG of `animate`.

    Raises:
        ValueError: there is no panel, or one is not of one position.
    """
    for panel in panels:
        if len(panel.curves.at) != 1:
            raise ValueError(
                f"{panel.name!r} has {len(panel.curves.at)} positions: choose one, curves.only(row)"
            )
    if not panels:
        raise ValueError("0 panels: give at least one")
    frames = aligned(*(panel.curves.scored_moves.tolist() for panel in panels))
    cursors = [cursor for cursor, _ in frames]
    clock = _Clock(cursors[0], cursors[-1])
    drawn = []
    for number, panel in enumerate(panels):
        places = [(cursor, places[number]) for cursor, places in frames]
        x = _MARGIN + number * (SIDE + 2 * _MARGIN)
        drawn.append(
            element("g", *_panel(panel, places, clock), transform=f"translate({x:g} {_MARGIN:g})")
        )
    width = len(panels) * (SIDE + 2 * _MARGIN)
    height = 2 * _MARGIN + _TITLE + SIDE + _TEXT + _CHART
    return element(
        "svg",
        element("title", "; ".join(_said(panel) for panel in panels)),
        element("style", Markup(_STYLE)),
        definitions(),
        element("rect", class_="page", width=width, height=height),
        *drawn,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {width:g} {height:g}",
        width=width,
        height=height,
        role="img",
    )


@dataclass(frozen=True)
class _Clock:
    """When the cursor is where.

    Attributes:
        first: scored moves at the beginning.
        last: scored moves at the end, where the cursor stays for a while.
    """

    first: int
    last: int

    def share(self, moves: int) -> float:
        """Share of the time after which the cursor has come to that many scored moves."""
        return (moves - self.first) / max(1, self.last - self.first) * (1 - HOLD)

    def shown(self, begin: float, end: float) -> Markup:
        """SMIL that shows the element around it from one share of the time to another."""
        times, values = [0.0], ["visible" if begin <= 0 else "hidden"]
        if begin > 0:
            times, values = [*times, begin], [*values, "visible"]
        if end < 1:
            times, values = [*times, end], [*values, "hidden"]
        return element(
            "animate",
            attributeName="visibility",
            calcMode="discrete",
            values=";".join(values),
            keyTimes=";".join(f"{time:.5g}" for time in times),
            **self._repeated,
        )

    def moved(self, width: float) -> Markup:
        """SMIL that moves the element around it to the right by `width` pixels."""
        return element(
            "animateTransform",
            attributeName="transform",
            type="translate",
            values=f"0 0;{width:g} 0;{width:g} 0",
            keyTimes=f"0;{1 - HOLD:g};1",
            **self._repeated,
        )

    @property
    def _repeated(self) -> dict[str, str]:
        return {"dur": f"{SECONDS:g}s", "repeatCount": "indefinite"}


def _panel(panel: Panel, places: Sequence[tuple[int, int | None]], clock: _Clock) -> list[Markup]:
    """Title, board, frames and curve of a run."""
    changes = [places[0], *(now for old, now in pairwise(places) if now[1] != old[1])]
    begins = [clock.share(cursor) for cursor, _ in changes]
    frames = []
    for i, ((_, place), begin) in enumerate(zip(changes, begins, strict=True)):
        if place is None:
            continue
        end = 1.0 if i + 1 == len(changes) else begins[i + 1]
        still = len(changes) == 1
        # The last frame is what a viewer without SMIL shows.
        seen = "visible" if end == 1.0 else "hidden"
        moves = [] if still else [clock.shown(begin, end)]
        frames.append(element("g", *moves, *_frame(panel, place), visibility=seen))
    board = element("g", position_elements(panel.fen), transform=f"translate(0 {_TITLE:g})")
    title = element("text", _fitting(panel.name), class_="name", x=0, y=_TITLE - 10)
    chart = element("g", *_chart(panel, clock), transform=f"translate(0 {_TITLE + SIDE + _TEXT:g})")
    return [title, board, *frames, chart]


def _frame(panel: Panel, place: int) -> list[Markup]:
    """Arrows and text of one policy."""
    curves, picture = panel.curves, panel.picture(place, ARROWS)
    nats, best = picture.entropy, picture.moves[0]
    says = (
        f"entropy {nats:.2f} nats ({math.exp(nats):.1f} moves), {best.uci} {best.probability:.0%}"
    )
    regret_cp = float(curves.regret_cp[place, 0])
    when = f"after {int(curves.scored_moves[place]):,} scored moves"
    if not math.isnan(regret_cp):
        when += f": regret {regret_cp:.0f} cp"
    moves = [move for move in picture.moves if move.probability >= LEAST]
    arrows = element("g", arrow_elements(moves), transform=f"translate(0 {_TITLE:g})")
    y = _TITLE + SIDE
    return [
        arrows,
        element("text", says, x=0, y=y + 20),
        element("text", when, class_="soft", x=0, y=y + 37),
    ]


def _chart(panel: Panel, clock: _Clock) -> list[Markup]:
    """Entropy over scored moves, from 0 to that of uniform play, with a cursor."""
    curves = panel.curves
    uniform = math.log(max(2, curves.at.legal_ids.shape[1]))
    low = _CHART - 22.0
    x = Scale(clock.first, max(clock.last, clock.first + 1), 34.0, SIDE - 4.0)
    y = Scale(0.0, uniform, low, 8.0)
    points = [
        (x(moves), y(nats))
        for moves, nats in zip(
            curves.scored_moves.tolist(), curves.entropy[:, 0].tolist(), strict=True
        )
    ]
    grid = [
        element("line", class_="axis", x1=34.0, y1=y(nats), x2=SIDE - 4.0, y2=y(nats))
        for nats in (0.0, uniform)
    ]
    texts = [
        element("text", "0", class_="soft", x=28.0, y=low + 4, text_anchor="end"),
        element("text", f"{uniform:.1f}", class_="soft", x=28.0, y=12.0, text_anchor="end"),
        element("text", "nats", class_="soft", x=28.0, y=(low + 8) / 2 + 4, text_anchor="end"),
        element("text", f"{short(clock.last)} scored moves", class_="soft", x=SIDE - 4.0, y=low + 18,
                text_anchor="end"),
    ]  # fmt: skip
    line = element(
        "polyline", class_="line", points=" ".join(f"{a:.1f},{b:.1f}" for a, b in points)
    )
    dots = [element("circle", class_="dot", cx=a, cy=b, r=2.2) for a, b in points]
    moves = [] if clock.first == clock.last else [clock.moved(SIDE - 38.0)]
    cursor = element("line", *moves, class_="cursor", x1=34.0, y1=4.0, x2=34.0, y2=low)
    return [*grid, *texts, line, *dots, cursor]


def _said(panel: Panel) -> str:
    """The panel in a sentence, for those who do not see it."""
    nats = panel.curves.entropy[:, 0]
    first, last = (panel.picture(place, 1).moves[0] for place in (0, -1))
    return (
        f"{printable(panel.name)}: entropy {nats[0]:.2f} nats at first and {nats[-1]:.2f} at last; likeliest move "
        f"{first.uci} {first.probability:.0%}, then {last.uci} {last.probability:.0%}"
    )


def _fitting(name: str) -> str:
    """A name that fits over a board, without what no XML may hold."""
    shown = printable(name)
    return shown if len(shown) <= _LONGEST_NAME else f"{shown[: _LONGEST_NAME - 1]}…"
