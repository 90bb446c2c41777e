"""The noise beside a regret: the committed figures are of the committed table, and the lines that show them."""

from __future__ import annotations

import json

import numpy as np
import pytest

from algorithms.evaluation.regret import move_regret_cp, prepare_slice
from algorithms.reports.noise import NOISE_PATH, load_noise, noise_line, noise_of_runs
from benchmarks.learning.regret_noise import best_slots, candidates, mean_regret, part_of, scored_by
from chess_env.evaluators import make_evaluator
from chess_env.positions.heldout import SLICE_NAMES, load_heldout
from tests.env.material import MaterialEvaluator


def test_the_figures_are_of_the_committed_table_and_say_what_they_were_made_with() -> None:
    noise, stored = load_noise(), json.loads(NOISE_PATH.read_text())
    assert noise["judge_id"] == load_heldout().evaluator_id
    assert (
        noise["deeper_id"].split(";")[:2] == noise["judge_id"].split(";")[:2]
    )  # engine and network
    assert noise["deeper_id"] != noise["judge_id"]
    assert tuple(noise["slices"]) == SLICE_NAMES
    assert stored["machine"]["commit"] and "dirty" not in stored["machine"]["commit"]
    for name, both in noise["slices"].items():
        assert both["teacher"]["num_positions"] == len(load_heldout().indices(name))
        for mean in (both["judge"], both["teacher"]):
            assert 0 <= mean["low_cp"] <= mean["mean_cp"] <= mean["high_cp"]


@pytest.mark.parametrize("name", SLICE_NAMES)
def test_the_teachers_regret_is_what_its_greedy_player_loses_by_the_table(name: str) -> None:
    noise, held = load_noise(), prepare_slice(load_heldout(), name)
    teacher = make_evaluator("builtin")
    if teacher.id != noise["teacher_id"]:
        teacher = make_evaluator(noise["teacher_id"])
    slots = np.array([scores.argmax() for scores in teacher.score_moves(held.positions)])
    lost = move_regret_cp(held)[np.arange(len(slots)), slots].mean()
    assert lost == pytest.approx(noise["slices"][name]["teacher"]["mean_cp"], abs=0.01)


def test_a_line_is_short_and_there_is_none_for_another_judge() -> None:
    noise = load_noise()
    first = noise["slices"][SLICE_NAMES[0]]
    assert noise_of_runs() == noise_line(noise["judge_id"], SLICE_NAMES[0])
    assert noise_of_runs() == (
        f"the judge itself loses {first['judge']['mean_cp']:.0f} cp here, the built-in evaluator (v1) "
        f"{first['teacher']['mean_cp']:.0f}"
    )
    for name in SLICE_NAMES:
        line = noise_line(noise["judge_id"], name)
        assert line is not None and len(line) <= 79
    assert noise_line("my-judge", SLICE_NAMES[0]) is None
    assert noise_line(noise["judge_id"], "my-slice") is None


def test_the_judges_own_regret_by_hand() -> None:
    held = part_of(prepare_slice(load_heldout(), "endgame"), np.arange(40))
    # Judged by itself the judge loses nothing.
    assert mean_regret(best_slots(held), held, 0) == {
        "mean_cp": 0.0,
        "low_cp": 0.0,
        "high_cp": 0.0,
        "num_positions": 40,
    }
    asked = candidates(held)
    deeper = scored_by(MaterialEvaluator(), held, asked)
    assert (deeper.child_score_cp[(held.legal_ids >= 0) & ~asked] == -10_000).all()
    slots, losses = best_slots(held), []
    for row, slot in enumerate(slots.tolist()):
        own = np.clip(deeper.child_score_cp[row][asked[row]], -1000, 1000)
        losses.append(
            min(1000.0, own.max() - np.clip(deeper.child_score_cp[row, slot], -1000, 1000))
        )
    found = mean_regret(slots, deeper, 0)
    assert found["mean_cp"] == pytest.approx(np.mean(losses), abs=0.01) and found["mean_cp"] > 0
    assert asked[np.arange(40), slots].all()
