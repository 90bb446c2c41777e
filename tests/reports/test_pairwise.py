from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

from algorithms.reports.pairwise import claims, compare
from algorithms.reports.statistics import Scores


def columns(seeds: int, *shifts: float, noise: float = 0.1) -> list[Scores]:
    rng = np.random.default_rng(1)
    shared = rng.normal(size=seeds)
    return [
        Scores(f"c{k}", tuple(range(seeds)), shared + shift + noise * rng.normal(size=seeds))
        for k, shift in enumerate(shifts)
    ]


def test_a_clear_difference_on_eight_seeds_may_be_claimed_in_the_right_direction() -> None:
    compared = compare(columns(8, 0.0, 2.0, 0.0, 0.0), higher_is_better=True)
    said = claims(compared, quantity="entropy (nats)")
    assert said[0].startswith("3 of 6 differences in entropy (nats) may be claimed over 8 seeds")
    assert len(said) == 7
    assert said[1].startswith("c0 has lower entropy (nats) than c1 (")
    assert "higher on 0 and lower on 8 of 8 seeds, p 0.047 after Holm over 6" in said[1]
    assert any(line.startswith("c1 has higher entropy (nats) than c2") for line in said)
    assert any(
        line.startswith("c0 against c2: no difference in entropy (nats) may be") for line in said
    )


def test_common_seeds_cancel_what_they_share() -> None:
    (compared,) = compare(columns(8, 0.0, 0.5), higher_is_better=True)
    assert compared.difference == pytest.approx(-0.5, abs=0.15)
    assert compared.interval.high - compared.interval.low < 0.5  # the seeds' own spread is 1
    assert compared.holds


def test_with_too_few_seeds_nothing_may_be_said_however_clear_it_looks() -> None:
    compared = compare(columns(5, 0.0, 100.0, 200.0, 300.0), higher_is_better=True)
    said = claims(compared, quantity="regret (cp)")
    assert said[0].startswith("nothing: 5 seeds cannot carry a claim about regret (cp).")
    assert "p would be 0.062, times 6 comparisons; at least 8 seeds" in said[0]
    assert not any(" has " in line for line in said)


def test_pairs_chosen_beforehand_need_fewer_seeds() -> None:
    table = columns(6, 0.0, 5.0, 5.0, 5.0)
    assert not any(each.holds for each in compare(table, higher_is_better=True))
    (chosen,) = compare(table, higher_is_better=True, pairs=[("c1", "c0")])
    assert chosen.holds
    assert chosen.difference > 0


def test_noise_of_enough_seeds_is_no_claim_and_no_proof_of_equality() -> None:
    said = claims(compare(columns(12, 0.0, 0.0), higher_is_better=True), quantity="regret")
    assert said[0].startswith("nothing: over 12 seeds no difference in regret is larger")
    assert "no proof of equality" in said[0]


def test_controls_that_coincide_are_called_identical() -> None:
    same = np.arange(8.0)
    table = [Scores("grpo", tuple(range(8)), same), Scores("twin", tuple(range(8)), same)]
    (compared,) = compare(table, higher_is_better=True)
    assert compared.identical
    assert compared.improvement == 0.5
    said = claims([compared], quantity="regret")
    assert said[0] == "nothing differs: regret is identical on every seed."
    assert said[1] == "grpo against twin: identical in regret on all 8 seeds."


def test_lower_is_better_turns_the_improvement_and_nothing_else() -> None:
    table = columns(8, 0.0, 1.0)
    (up,) = compare(table, higher_is_better=True)
    (down,) = compare(table, higher_is_better=False)
    assert up.improvement == 0.0
    assert down.improvement == 1.0
    assert (up.difference, up.interval, up.p_adjusted) == (
        down.difference,
        down.interval,
        down.p_adjusted,
    )


def test_the_order_of_the_columns_only_turns_the_sign() -> None:
    table = columns(11, 0.0, 0.3)
    (one,) = compare(table, higher_is_better=True)
    (other,) = compare(table[::-1], higher_is_better=True)
    assert other.difference == pytest.approx(-one.difference)
    assert other.p_value == one.p_value
    assert other.ours_higher == one.theirs_higher


def test_leaving_comparisons_out_afterwards_is_refused() -> None:
    compared = compare(columns(8, 0.0, 2.0, 0.0), higher_is_better=True)
    with pytest.raises(ValueError, match=r"1 comparisons of families \[3\]: expected all"):
        claims(compared[:1], quantity="regret")
    with pytest.raises(ValueError, match="expected all that were corrected together"):
        claims([], quantity="regret")


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([("c0", "c7")], r"pairs name \['c7'\]: expected pairs of"),
        ([], "pairs name nothing"),
        ([("c0", "c0")], "expected different columns"),
        ([("c0", "c1"), ("c1", "c0")], "each pair once"),
    ],
)
def test_impossible_pairs_are_refused(pairs: list[tuple[str, str]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        compare(columns(8, 0.0, 1.0), higher_is_better=True, pairs=pairs)


def test_one_column_or_one_name_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="at least two, with different names"):
        compare(columns(8, 0.0), higher_is_better=True)
    with pytest.raises(ValueError, match="at least two, with different names"):
        compare([*columns(8, 0.0, 1.0), *columns(8, 0.0)], higher_is_better=True)


@pytest.mark.parametrize("seeds", [8, 12, 18])
def test_a_comparison_can_be_written_as_json_and_read_back(seeds: int) -> None:
    (compared,) = compare(columns(seeds, 0.0, 1.0), higher_is_better=True)
    record = dataclasses.asdict(compared)
    assert json.loads(json.dumps(record, allow_nan=False)) == record
