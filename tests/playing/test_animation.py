"""An animation shows each policy from its scored moves on, in well-formed SVG without a script."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest

from algorithms.playing.animation import HOLD, Panel, animate, animation_svg
from algorithms.playing.over_training import OverTraining
from algorithms.playing.position import heldout_sets

SVG = "{http://www.w3.org/2000/svg}"


def collapsing(moves: list[int], sharpness: list[float], name: str = "faulty") -> Panel:
    """A run whose policy on one middlegame position grows surer of the first legal move."""
    at = heldout_sets()["middlegame"]
    logits = np.where(at.legal_ids >= 0, 0.0, -np.inf) + np.zeros((len(moves), *at.legal_ids.shape))
    logits[:, :, 0] += np.array(sharpness)[:, None]
    logprobs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    curves = OverTraining(np.array(moves), np.arange(len(moves)), logprobs, 1.0, at)
    return Panel(name, curves.only(3))


def shown(svg: str) -> list[tuple[str, list[float], list[str]]]:
    """(text, key times, values) of each frame."""
    found = []
    for group in ElementTree.fromstring(svg).iter(f"{SVG}g"):
        texts = [each.text or "" for each in group.findall(f"{SVG}text")]
        moves = group.findall(f"{SVG}animate")
        if "visibility" in group.attrib:
            times = moves[0].attrib["keyTimes"].split(";") if moves else []
            values = moves[0].attrib["values"].split(";") if moves else [group.attrib["visibility"]]
            found.append((texts[0], [float(time) for time in times], values))
    return found


def test_each_policy_is_shown_from_its_scored_moves_to_those_of_the_next() -> None:
    frames = shown(animation_svg([collapsing([0, 300, 1000], [0.0, 2.0, 6.0])]))
    assert [times for _, times, _ in frames] == [
        [0.0, pytest.approx(0.3 * (1 - HOLD))],
        [0.0, pytest.approx(0.3 * (1 - HOLD)), pytest.approx(1 - HOLD)],
        [0.0, pytest.approx(1 - HOLD)],
    ]
    assert [values for *_, values in frames] == [
        ["visible", "hidden"],
        ["hidden", "visible", "hidden"],
        ["hidden", "visible"],
    ]
    nats = [float(text.split()[1]) for text, *_ in frames]
    assert nats == sorted(nats, reverse=True) and nats[-1] < 1


def test_two_runs_are_aligned_by_scored_moves_and_each_keeps_its_last_policy() -> None:
    first = collapsing([0, 500, 1000], [0.0, 2.0, 6.0])
    second = collapsing([0, 250], [0.0, 0.1], "cured")
    frames = shown(animation_svg([first, second]))
    assert [len(times) for _, times, _ in frames] == [2, 3, 2, 2, 2]
    assert frames[3][1] == [0.0, pytest.approx(0.25 * (1 - HOLD))]
    assert frames[4][2] == ["hidden", "visible"]


def test_a_run_of_one_policy_stands_still() -> None:
    svg = animation_svg([collapsing([64], [1.0])])
    assert "<animate" not in svg
    assert [values for *_, values in shown(svg)] == [["visible"]]


def test_a_file_is_whole_small_and_shows_names_as_text(tmp_path: Path) -> None:
    name = '<script>alert("x")</script>&\x07'
    moves = list(range(0, 5000, 100))
    panels = [collapsing(moves, np.linspace(0, 8, 50).tolist(), each) for each in (name, "cured")]
    path = animate(panels, tmp_path / "collapse.svg")
    data = path.read_text()
    assert len(data) < 600_000  # the front page has room for 2 MB
    assert "<script" not in data and "&lt;script&gt;" in data
    root = ElementTree.fromstring(data)
    name = name.replace("\x07", "\ufffd")
    assert name in [each.text for each in root.iter(f"{SVG}text")]
    assert (root.find(f"{SVG}title").text or "").startswith(f"{name}: entropy 3.")  # type: ignore[union-attr]
    assert not re.search(r"(href|src)=\"(?!#)", data)  # nothing from elsewhere


def test_a_panel_of_many_positions_is_refused_by_name() -> None:
    at = heldout_sets()["endgame"]
    curves = OverTraining(np.array([0]), np.array([0]), np.zeros((1, *at.legal_ids.shape)), 1.0, at)
    with pytest.raises(ValueError, match=r"'all' has 320 positions: choose one, curves\.only"):
        animation_svg([Panel("all", curves)])


def test_no_panel_is_refused() -> None:
    with pytest.raises(ValueError, match="give at least one"):
        animation_svg([])
