"""What came of a run: whether it learned, and what became of its entropy, before any cause is asked for."""

from __future__ import annotations

import math

import numpy as np
import pytest

from algorithms.doctor.metric_rows import (
    CHANCE_CP,
    FORCED_UP,
    KEPT,
    LEARNING,
    LOST,
    NOT_LEARNING,
    SPENT,
    UNKNOWN,
    WORSE,
    MetricRows,
    RunOutcome,
    noise_cp,
    outcome_of,
)
from algorithms.evaluation.regret import MAIN_SLICE, SCORE_CLIP_CP
from chess_env.positions.heldout import load_heldout


def outcome(
    regrets: list[float], entropies: tuple[float, float] = (2.0, 2.0), **last: float
) -> RunOutcome:
    """Of a record of evaluations at updates 0, 5, 10, ...; entropy goes from one to the other on a line."""
    nats = np.linspace(*entropies, len(regrets))
    rows = [
        {"step": 5.0 * i, "eval/regret_cp": regret, "eval/entropy": float(nats[i])}
        for i, regret in enumerate(regrets)
    ]
    rows[-1] |= {f"eval/{name}": value for name, value in last.items()}
    return outcome_of(MetricRows(rows))


def test_regret_of_chance_is_that_of_the_uniform_policy_on_the_held_out_table() -> None:
    table, regrets = load_heldout(), []
    for at in np.flatnonzero(table.slice_of == table.slice_names.index(MAIN_SLICE)):
        scores = table.child_score_cp[table.offsets[at] : table.offsets[at + 1]].astype(float)
        scores = scores.clip(-SCORE_CLIP_CP, SCORE_CLIP_CP)
        regrets.append(np.minimum(SCORE_CLIP_CP, scores.max() - scores).mean())
    assert CHANCE_CP["eval/regret_cp"] == pytest.approx(np.mean(regrets), abs=0.05)


def test_the_interval_of_the_change_is_that_of_two_looks_at_a_curve_without_scatter() -> None:
    found = outcome([300.0, 262.5, 225.0, 187.5, 150.0])
    # Half a per cent of the start is taken for the least noise: 1.96 * sqrt(2) * .005 = .01386.
    assert found.change == pytest.approx(-0.5)
    assert found.interval == pytest.approx((-0.51386, -0.48614), abs=1e-5)
    assert outcome([300.0, 150.0]).interval == pytest.approx((-0.54158, -0.45842), abs=1e-5)


def test_noise_is_read_off_the_second_differences() -> None:
    # Differences of the differences: 20, -40, 20; their median size is 20; 1.4826 * 20 / sqrt(6).
    assert noise_cp([300.0, 290.0, 300.0, 270.0, 260.0]) == pytest.approx(12.105, abs=1e-3)


@pytest.mark.parametrize(
    ("regrets", "expected"),
    [
        ([300, 280, 250, 230, 220], LEARNING),
        ([300, 299, 301, 300, 299], NOT_LEARNING),
        ([300, 299, 297, 296, 294], NOT_LEARNING),  # two per cent in all
        ([300, 310, 320, 330, 340], WORSE),
        (
            [300, 260, 220, 180, 150, 160, 190, 220, 250],
            WORSE,
        ),  # from its lowest by a third of its start
        ([300, 200, 310, 190, 280], UNKNOWN),  # the evaluations scatter by more than they fall
        ([300], UNKNOWN),
        ([], UNKNOWN),
        ([0, 0, 0], UNKNOWN),
    ],
)
def test_a_run_learns_by_its_regret_against_its_start_and_its_scatter(
    regrets: list[float], expected: str
) -> None:
    assert (outcome(regrets) if regrets else outcome_of(MetricRows([]))).learning == expected


def test_the_update_from_which_a_run_gets_worse_is_that_of_its_lowest_regret() -> None:
    assert outcome([300, 260, 220, 180, 150, 160, 190, 220, 250]).turned_at == 20
    assert outcome([300, 310, 320, 330, 340]).turned_at is None


@pytest.mark.parametrize(
    ("entropies", "end", "expected"),
    [
        ((2.0, 1.6), 150.0, KEPT),
        ((2.0, 1.0), 150.0, SPENT),
        ((2.0, 0.2), 230.0, SPENT),  # 23 per cent of regret for 90 of entropy
        ((2.0, 0.2), 260.0, LOST),  # 13 per cent
        ((2.0, 1.0), 300.0, LOST),
        ((2.0, 2.5), 300.0, FORCED_UP),
        ((2.0, 2.5), 150.0, KEPT),
        ((0.0, 0.0), 300.0, KEPT),
    ],
)
def test_what_became_of_entropy_depends_on_what_was_learned_for_it(
    entropies: tuple[float, float], end: float, expected: str
) -> None:
    regrets = list(np.linspace(300.0, end, 5))
    assert outcome(regrets, entropies).entropy == expected


def test_entropy_while_sampling_stands_in_where_none_was_evaluated() -> None:
    rows = [
        {"step": i, "eval/regret_cp": 300.0 - 40 * i, "policy/entropy": 2.0 - 0.4 * i}
        for i in range(4)
    ]
    found = outcome_of(MetricRows(rows))
    assert found.entropy == SPENT and found.entropy_nats == (2.0, pytest.approx(0.8))
    bare = outcome_of(
        MetricRows([{k: v for k, v in row.items() if "entropy" not in k} for row in rows])
    )
    assert (bare.learning, bare.entropy) == (LEARNING, UNKNOWN) and math.isnan(bare.entropy_nats[0])


def test_the_outcome_is_poor_where_nothing_is_learned_or_entropy_goes_for_nothing() -> None:
    assert outcome([300, 299, 301, 300]).is_poor and outcome([300, 310, 320, 330]).is_poor
    assert outcome(list(np.linspace(300.0, 260.0, 5)), (2.0, 0.2)).is_poor
    assert not outcome([300, 250, 200, 150]).is_poor and not outcome([300]).is_poor


def test_the_notes_say_what_it_cost_and_compare_with_chance() -> None:
    assert any("random policy has 384" in note for note in outcome([300, 330, 360, 390]).notes)
    (early,) = outcome([150, 150, 150, 150]).notes
    assert "starts at 150 cp" in early and "little left to learn" in early
    (knows,) = outcome([300, 300, 300, 300], (2.0, 2.4), regret_cp_greedy=150.0).notes
    assert "150 cp and a sampled one 300" in knows
    lost = [{"step": i, "eval/regret_cp": 300.0, "eval/entropy": 2.0 - 0.6 * i,
             "eval/pass_at_8": 0.6 - 0.2 * i} for i in range(3)]  # fmt: skip
    assert "pass@8 went from 0.60 to 0.20" in outcome_of(MetricRows(lost)).notes[0]
    assert outcome([300, 250, 200, 150]).notes == ()


def test_the_outcome_as_json_has_null_for_what_is_unknown() -> None:
    known = outcome([300, 280, 250, 230, 150]).to_dict()
    assert known["learning"] == LEARNING and known["regret_cp"] == [300.0, 150.0]
    assert known["entropy_nats"] == [2.0, 2.0] and known["turned_at"] is None
    unknown = outcome([300]).to_dict()
    assert (unknown["learning"], unknown["regret_cp"], unknown["regret_change_95"]) == (
        UNKNOWN,
        None,
        None,
    )
    assert unknown["entropy_nats"] is None
