from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
from markupsafe import Markup

from algorithms.reports.page.charts import (
    BOTTOM,
    LEFT,
    RIGHT,
    TOP,
    Axes,
    Line,
    Scale,
    bounds,
    element,
    line_chart,
    short,
    tick_texts,
)
from algorithms.reports.page.columns import Column, spread
from algorithms.reports.page.diagrams import (
    MoveChance,
    PolicyPicture,
    Probe,
    board_svg,
    definitions,
    position_svg,
    side_to_move,
)
from algorithms.reports.page.figures import CHAIN, Figure, chain_figure
from algorithms.reports.run_files import RunRecord
from tests.reports.run_folders import row

AXES = Axes("A title", "moves", "nats")
NAN = float("nan")


def line(y: list[float], x: list[float] | None = None, name: str = "one", **more: object) -> Line:
    at = np.arange(float(len(y))) if x is None else np.array(x)
    return Line(name, 0, at, np.array(y), **more)


def parts(svg: Markup, tag: str, class_: str) -> list[ET.Element]:
    found = ET.fromstring(str(svg)).iter(tag)
    return [one for one in found if class_ in one.get("class", "").split()]


def points(one: ET.Element) -> list[tuple[float, float]]:
    return [tuple(map(float, pair.split(","))) for pair in one.get("points").split()]


def test_text_and_attributes_are_escaped_and_markup_is_kept() -> None:
    made = element("a", "<b>", Markup("<i/>"), class_='"x"', text_anchor="end", x=1.25, y=2)
    expected = '<a class="&#34;x&#34;" text-anchor="end" x="1.2" y="2">&lt;b&gt;<i/></a>'
    assert made == expected
    with pytest.raises(ValueError, match="coordinate is nan"):
        element("a", x=NAN)


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.0, 400.0, (0.0, 400.0)),
        (130.0, 385.0, (0.0, 400.0)),
        (-0.6, -0.1, (-0.6, 0.0)),
        (0.0, 0.0, (0.0, 1.0)),
        (0.25, 0.25, (0.0, 0.25)),
    ],
)
def test_axes_end_on_round_numbers_around_the_values(
    low: float, high: float, expected: tuple[float, float]
) -> None:
    assert bounds(np.array([low, NAN, high])) == pytest.approx(expected)


def test_an_axis_of_nothing_is_an_error() -> None:
    with pytest.raises(ValueError, match="no finite value"):
        bounds(np.array([NAN, np.inf]))
    with pytest.raises(ValueError, match="no finite value"):
        line_chart(AXES, [line([NAN, NAN])])


def test_ticks_are_round_lie_on_the_axis_and_share_a_unit() -> None:
    scale = Scale(0.0, 40_000.0, 100.0, 500.0)
    assert scale.ticks() == [0.0, 10_000.0, 20_000.0, 30_000.0, 40_000.0]
    assert tick_texts(scale.ticks()) == ["0", "10k", "20k", "30k", "40k"]
    assert tick_texts([0.0, 5_000.0, 10_000.0]) == ["0", "5k", "10k"]
    assert tick_texts([-0.2, 0.0]) == ["−0.2", "0"]
    assert scale(10_000.0) == 200.0
    assert [short(v) for v in (1234.0, 12_345.0, 2.5e6, -0.00001, NAN, 0.0)] == [
        "1234", "12.35k", "2.5M", "−1e−5", "–", "0",
    ]  # fmt: skip


def test_a_line_runs_through_its_points_and_breaks_at_a_gap() -> None:
    svg = line_chart(AXES, [line([0.0, 4.0, NAN, 4.0, 0.0])])
    first, second = (points(one) for one in parts(svg, "polyline", "line"))
    assert first == [(LEFT, BOTTOM), (pytest.approx(LEFT + (RIGHT - LEFT) / 4), TOP)]
    assert second[-1] == (RIGHT, BOTTOM)
    alone = line_chart(AXES, [line([NAN, 1.0, NAN])])
    assert parts(alone, "polyline", "line") == []
    assert parts(alone, "circle", "dot")


def record(values: dict[int, float | None]) -> RunRecord:
    rows = [row(step, m=value) for step, value in values.items()]
    return RunRecord(Path("x"), "x", rows)


def test_seeds_are_matched_by_update_and_a_null_leaves_a_gap() -> None:
    runs = [record({0: 1.0, 1: 2.0, 2: None, 5: 9.0}), record({0: 3.0, 1: 2.0, 2: 1.0})]
    found = spread(runs, "m")
    assert found.x.tolist() == [0.0, 100.0, 200.0]
    assert found.mean[:2].tolist() == [2.0, 2.0]
    assert np.isnan(found.mean[2])
    assert (found.low[0], found.high[0]) == (1.0, 3.0)
    assert len(spread([*runs, record({})], "m").x) == 0


def test_a_peak_in_a_long_record_widens_the_band_instead_of_vanishing() -> None:
    values = dict.fromkeys(range(1200), 0.0) | {500: 50.0}
    found = spread([record(values)], "m")
    assert len(found.x) == 120
    assert found.high.max() == 50.0
    assert found.mean.max() == pytest.approx(5.0)


def chain(**kept: list[float | None]) -> RunRecord:
    rows = [
        {**row(step), **{f"signal/{stage}": values[step] for stage, values in kept.items()}}
        for step in range(len(next(iter(kept.values()))))
    ]
    return RunRecord(Path("x"), "x", rows)


def test_the_chain_shows_the_later_half_of_each_stage_and_only_what_all_seeds_have() -> None:
    runs = (
        chain(ratio=[1.0, 1.0, 1.0, 1.0], reward=[0.0, 0.0, 0.5, None], step=[1.0] * 4),
        chain(ratio=[1.0, 1.0, 1.0, 1.0], reward=[0.0, 0.0, 0.0, -0.5]),
    )
    found = chain_figure([Column("c", 0, runs, {})])
    assert isinstance(found, Figure)
    tips = re.findall("<title>(.*?)</title>", str(found.svg))
    assert len(parts(found.svg, "circle", "dot")) == 2  # ratio and reward; one seed lacks step
    means = [(1.0 + 1.0) / 2, (0.25 - 0.25) / 2]
    assert all(any(short(mean) in tip for tip in tips) for mean in means), tips
    assert all(stage in str(found.svg) for stage in CHAIN)
    lone = chain_figure([Column("c", 0, (chain(step=[1.0]), chain(ratio=[1.0])), {})])
    assert lone == "The learning signal (signal/...): not on record in any run."


def probe(fen: str, *moves: MoveChance) -> tuple[Probe, PolicyPicture]:
    policy = PolicyPicture(0, 1.0, moves)
    return Probe("opening", fen, 20, policy, policy), policy


def test_men_and_arrows_stand_on_their_squares() -> None:
    shown = probe("7k/8/8/8/8/8/8/R7 b - - 0 1", MoveChance(0, 56, "a1a8", 1.0))
    svg = str(board_svg(*shown))
    assert '<use href="#white-rook" x="0" y="315"/>' in svg
    assert '<use href="#black-king" x="315" y="0"/>' in svg
    assert 'points="22.5,22.5 ' in svg  # the arrow's head is in the middle of a8
    assert "<title>a1a8 100.0%</title>" in svg
    assert side_to_move(shown[0].fen) == "Black"


@pytest.mark.parametrize("long", [0.6, 0.8, 0.95, 0.98])
def test_a_pawn_s_single_step_is_seen_beside_its_double_step(long: float) -> None:
    fen, moves = (
        "7k/8/8/8/8/8/4P3/7K w - - 0 1",
        [MoveChance(12, 28, "e2e4", long), MoveChance(12, 20, "e2e3", 1 - long)],
    )
    double, single = (
        arrow
        for name in ("e2e4", "e2e3")
        for arrow in parts(position_svg(fen, moves, label="x"), "g", "arrow")
        if arrow.get("data-move") == name
    )
    shaft = float(double[1].get("stroke-width"))
    across = [x for x, _ in points(single[2])]
    assert max(across) - min(across) > 1.1 * shaft  # the head looks out on both sides
    assert max(y for _, y in points(double[2])) < min(y for _, y in points(single[2]))


def test_from_black_s_side_every_square_is_turned() -> None:
    fen, a8 = "7k/8/8/8/8/8/8/R7 w - - 0 1", MoveChance(0, 56, "a1a8", 1.0)
    svg = str(position_svg(fen, [a8], label="x", black_below=True, marks={0: "last"}))
    assert '<use href="#white-rook" x="315" y="0"/>' in svg
    assert '<use href="#black-king" x="0" y="315"/>' in svg
    assert '<rect class="mark last" x="315" y="0" width="45" height="45"/>' in svg
    assert 'points="337.5,337.5 ' in svg and 'href="#names-black"' in svg


def test_every_man_of_a_board_is_defined_once() -> None:
    fen = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1"
    both = [str(position_svg(fen, [], label="x", black_below=below)) for below in (False, True)]
    ids = re.findall(r'id="([^"]+)"', str(definitions()))
    assert len(set(ids)) == len(ids) == 12 + 3
    assert set(re.findall(r'href="#([^"]+)"', "".join(both))) == set(ids)
    assert both[0].count("#white-") == both[0].count("#black-") == 16


def test_the_drawings_are_well_formed_and_have_no_style_that_a_security_policy_refuses() -> None:
    drawn = str(definitions())
    assert len(ET.fromstring(drawn)[0]) == 12 + 3
    assert "style=" not in drawn and "class=" not in drawn.partition("white-pawn")[2]
    assert drawn.count('fill="#000000" stroke="#000000"') >= 3


@pytest.mark.parametrize("fen", ["", "8/8 w", "9/8/8/8/8/8/8/8 w", "<x>/8/8/8/8/8/8/8 w"])
def test_a_fen_without_a_board_is_an_error(fen: str) -> None:
    with pytest.raises(ValueError, match="8 ranks of 8 squares"):
        board_svg(*probe(fen))
