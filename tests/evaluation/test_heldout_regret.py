from __future__ import annotations

import dataclasses

import chess
import numpy as np
import pytest
import torch

from algorithms.evaluation.regret import HeldoutSlice, move_regret_cp, prepare_slice, regret_cp
from algorithms.reports.statistics import bootstrap_interval
from chess_env.moves import legal_actions
from chess_env.positions.heldout import Heldout
from chess_env.rules.fen import pack_fens
from tests.small import CPU, make_policy

FORCED = "k7/8/1K6/8/8/8/8/7R b - - 0 1"  # only Kb8
FENS = [
    chess.STARTING_FEN,
    "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1",
    FORCED,
    "rnbqkbnr/pppp1ppp/8/4p3/4P3/8/PPPP1PPP/RNBQKBNR b KQkq - 0 1",
    "8/2p5/3p4/KP5r/1R3p1k/8/4P1P1/8 w - - 0 1",
]
SLICE_OF = [0, 1, 0, 0, 1]


@pytest.fixture
def heldout() -> Heldout:
    counts = [len(legal_actions(chess.Board(fen))) for fen in FENS]
    rng = np.random.default_rng(0)
    scores = rng.integers(-1500, 1500, sum(counts)).astype(np.int16)
    scores[:3] = [10_000, -10_000, 999]
    return Heldout(
        positions=pack_fens(FENS),
        slice_of=np.array(SLICE_OF, np.int8),
        slice_names=("random_2_40", "middlegame"),
        offsets=np.concatenate([[0], np.cumsum(counts)]).astype(np.int32),
        child_score_cp=scores,
        evaluator_id="random numbers",
    )


def rows_of(heldout: Heldout, slice_index: int) -> list[int]:
    return [row for row in range(len(FENS)) if SLICE_OF[row] == slice_index]


def scores_of(heldout: Heldout, row: int) -> list[int]:
    return heldout.child_score_cp[heldout.offsets[row] : heldout.offsets[row + 1]].tolist()


@pytest.mark.parametrize("temperature", [0.5, 1.3])
def test_regret_equals_a_loop_over_positions_and_moves(
    heldout: Heldout, temperature: float
) -> None:
    policy = make_policy()
    prepared = prepare_slice(heldout, "random_2_40")
    result = regret_cp(policy, prepared, temperature=temperature, device=CPU, minibatch_size=2)
    expected, greedy, entropies = [], [], []
    for index, row in enumerate(rows_of(heldout, 0)):
        clipped = [max(-1000, min(1000, score)) for score in scores_of(heldout, row)]
        regret = [min(1000, max(clipped) - score) for score in clipped]
        obs = torch.from_numpy(prepared.obs[index : index + 1])
        ids = legal_actions(chess.Board(FENS[row]))
        logits = policy(obs, torch.from_numpy(ids)[None]).detach()[0].double() / temperature
        probs = logits.softmax(-1)
        expected.append(sum(p * r for p, r in zip(probs.tolist(), regret, strict=True)))
        greedy.append(regret[int(logits.argmax())])
        if len(ids) > 1:
            entropies.append(torch.distributions.Categorical(probs).entropy().item())
    assert result.per_position_cp.tolist() == pytest.approx(expected, rel=1e-4)
    assert result.regret_cp == pytest.approx(np.mean(expected), rel=1e-4)
    assert result.regret_cp_greedy == pytest.approx(np.mean(greedy))
    assert result.entropy == pytest.approx(np.mean(entropies), rel=1e-4)
    assert result.effective_moves == pytest.approx(np.mean(np.exp(entropies)), rel=1e-4)


def test_scores_are_clipped_before_the_difference_and_the_regret_after_it(heldout: Heldout) -> None:
    regret = move_regret_cp(prepare_slice(heldout, "random_2_40"))
    # Children 10000, -10000 and 999 of the first position count as 1000, -1000 and 999.
    assert regret[0, :3].tolist() == [0.0, 1000.0, 1.0]
    assert regret.min() == 0.0
    assert regret.max() <= 1000.0


def test_success_rates_equal_a_count_over_all_sequences_of_moves(heldout: Heldout) -> None:
    policy = make_policy()
    prepared = prepare_slice(heldout, "middlegame")
    result = regret_cp(policy, prepared, temperature=1.3, device=CPU)
    ones, eights = [], []
    for index, row in enumerate(rows_of(heldout, 1)):
        clipped = [max(-1000, min(1000, score)) for score in scores_of(heldout, row)]
        ids = torch.from_numpy(legal_actions(chess.Board(FENS[row])))[None]
        obs = torch.from_numpy(prepared.obs[index : index + 1])
        probs = (policy(obs, ids).detach()[0].double() / 1.3).softmax(-1).tolist()
        failure = sum(p for p, s in zip(probs, clipped, strict=True) if max(clipped) - s > 50)
        ones.append(1 - failure)
        eights.append(1 - failure**8)
    assert result.pass_at_1 == pytest.approx(np.mean(ones), rel=1e-4)
    assert result.pass_at_8 == pytest.approx(np.mean(eights), rel=1e-4)
    assert 0 < result.pass_at_1 < result.pass_at_8 < 1
    assert result.per_position_success.tolist() == pytest.approx(ones, rel=1e-4)


def test_a_move_exactly_half_a_pawn_worse_is_a_success(heldout: Heldout) -> None:
    prepared = prepare_slice(heldout, "middlegame")
    scores = np.where(prepared.legal_ids >= 0, -400.0, 0.0)
    scores[:, :3] = [100.0, 50.0, 49.0]
    policy = make_policy(spread=0.0)
    chosen = dataclasses.replace(prepared, child_score_cp=scores)
    result = regret_cp(policy, chosen, temperature=1e9, device=CPU)  # all moves equally likely
    assert result.per_position_success == pytest.approx(2 / prepared.num_legal)


def test_a_greedy_policy_at_low_temperature_has_its_greedy_regret(heldout: Heldout) -> None:
    prepared = prepare_slice(heldout, "middlegame")
    result = regret_cp(make_policy(), prepared, temperature=1e-4, device=CPU)
    assert result.per_position_cp == pytest.approx(result.per_position_greedy_cp, abs=1e-3)


def test_a_policy_that_knows_the_best_moves_has_no_regret(heldout: Heldout) -> None:
    policy = make_policy(spread=0.0)
    prepared = prepare_slice(heldout, "random_2_40")
    best = move_regret_cp(prepared) == 0
    arrays = ("obs", "legal_ids", "child_score_cp", "num_legal")
    one = dataclasses.replace(prepared, **{name: getattr(prepared, name)[:1] for name in arrays})
    with torch.no_grad():
        policy.action_bias[prepared.legal_ids[0, int(best[0].argmax())]] = 100.0
    result = regret_cp(policy, one, temperature=1.0, device=CPU)
    assert result.regret_cp == pytest.approx(0.0, abs=1e-6)
    assert result.regret_cp_greedy == 0.0


def test_forced_positions_count_for_regret_but_not_for_entropy(heldout: Heldout) -> None:
    prepared = prepare_slice(heldout, "random_2_40")
    forced = int(np.flatnonzero(prepared.num_legal == 1)[0])
    result = regret_cp(make_policy(spread=0.0), prepared, temperature=1.0, device=CPU)
    assert result.per_position_cp[forced] == 0.0
    assert np.isnan(result.per_position_entropy[forced])
    assert result.entropy_normalized == pytest.approx(1.0, abs=0.02)
    assert {name.removeprefix("eval/") for name in result.metrics()} == {
        *("regret_cp", "regret_cp_greedy", "entropy", "entropy_normalized", "effective_moves"),
        *("pass_at_1", "pass_at_8"),
    }
    assert all(name.startswith("eval/") for name in result.metrics())


def test_an_unknown_slice_and_a_table_of_other_rules_are_refused(heldout: Heldout) -> None:
    with pytest.raises(ValueError, match="'opening'"):
        prepare_slice(heldout, "opening")
    shifted = heldout.offsets.copy()
    shifted[1] -= 1
    with pytest.raises(ValueError, match=r"19 child scores and 20 legal moves.*rebuild"):
        prepare_slice(dataclasses.replace(heldout, offsets=shifted), "random_2_40")


def test_evaluation_leaves_the_policy_untouched(heldout: Heldout) -> None:
    policy = make_policy()
    before = {name: value.clone() for name, value in policy.state_dict().items()}
    prepared: HeldoutSlice = prepare_slice(heldout, "middlegame")
    regret_cp(policy, prepared, temperature=1.0, device=CPU)
    assert all(torch.equal(before[name], value) for name, value in policy.state_dict().items())
    assert all(parameter.grad is None for parameter in policy.parameters())


def test_a_bootstrap_interval_has_the_width_of_the_normal_approximation() -> None:
    values = np.random.default_rng(0).normal(100.0, 20.0, 400)
    low, high = bootstrap_interval(values)
    assert (low + high) / 2 == pytest.approx(values.mean(), abs=0.3)
    assert high - low == pytest.approx(2 * 1.96 * values.std() / 20, rel=0.1)
    assert bootstrap_interval(values) == (low, high)
    assert bootstrap_interval(np.full(5, 3.0)) == (3.0, 3.0)
    with pytest.raises(ValueError, match="at least one"):
        bootstrap_interval(np.array([]))
