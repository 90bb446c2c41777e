"""What is shown of a position is what the network, the evaluator and the definitions say, computed here anew."""

from __future__ import annotations

import math
from collections.abc import Iterator

import chess
import numpy as np
import pytest
import torch

from algorithms.networks.policy_net import PolicyNet
from algorithms.playing import view
from algorithms.playing.position import GamePosition, reached
from algorithms.playing.view import PositionView, view_of
from chess_env.evaluators import Evaluator, make_evaluator
from chess_env.games.reference_game import observation
from chess_env.moves import move_to_action
from chess_env.rules.fen import pack_fens
from tests.evaluation.policies import small_policy
from tests.networks.facts_net import facts_policy

FORCED = "6k1/5ppp/8/8/1B6/8/4PPP1/r4K2 w - - 0 1"
MATE_IN_ONE = "6k1/5ppp/8/8/8/8/8/4R1K1 w - - 0 1"


@pytest.fixture(scope="module")
def evaluator() -> Iterator[Evaluator]:
    made = make_evaluator("builtin", 1, "memory")
    yield made
    made.close()


def random_positions(count: int, seed: int) -> list[tuple[str, ...]]:
    """Games of random moves, none of them over."""
    rng = np.random.default_rng(seed)
    found: list[tuple[str, ...]] = []
    while len(found) < count:
        board = chess.Board()
        for _ in range(rng.integers(0, 60)):
            moves = list(board.legal_moves)
            if moves:
                board.push(moves[rng.integers(len(moves))])
        if any(board.legal_moves):
            found.append(tuple(move.uci() for move in board.move_stack))
    return found


def expected(
    policy: PolicyNet, position: GamePosition, temperature: float, evaluator: Evaluator
) -> dict[str, tuple[float, int, float]]:
    """(probability, score, regret) by move: one forward pass on moves in python-chess's order, sums in Python."""
    board = position.board
    moves = sorted(board.legal_moves, key=lambda move: move_to_action(move, board.turn))
    actions = torch.tensor([[move_to_action(move, board.turn) for move in moves]])
    planes = torch.from_numpy(observation(board, position.repetitions))[None]
    with torch.no_grad():
        logits = [x / temperature for x in policy(planes, actions)[0].double().tolist()]
    total = math.fsum(math.exp(x - max(logits)) for x in logits)
    fens = []
    for move in moves:
        board.push(move)
        fens.append(board.fen())
        board.pop()
    scores = [-int(each) for each in evaluator.evaluate(pack_fens(fens))]
    clipped = [max(-1000, min(1000, score)) for score in scores]
    return {
        move.uci(): (math.exp(x - max(logits)) / total, score, min(1000, max(clipped) - kept))
        for move, x, score, kept in zip(moves, logits, scores, clipped, strict=True)
    }


def seen(view: PositionView) -> dict[str, tuple[float, int | None, float | None]]:
    return {move.uci: (move.probability, move.score_cp, move.regret_cp) for move in view.moves}


@pytest.mark.parametrize("temperature", [0.25, 1.0, 2.0])
def test_every_number_is_that_of_an_independent_computation(
    temperature: float, evaluator: Evaluator
) -> None:
    policy = small_policy(3, critic=True)
    for moves in random_positions(12, seed=int(4 * temperature)):
        position = reached(None, moves)
        view = view_of(policy, position, temperature=temperature, evaluator=evaluator, pull=None)
        wanted = expected(policy, position, temperature, evaluator)
        assert seen(view) == {
            uci: pytest.approx(values, rel=1e-4, abs=1e-6) for uci, values in wanted.items()
        }
        shares = [share for share, _, _ in wanted.values()]
        entropy = -math.fsum(share * math.log(share) for share in shares if share > 0)
        assert view.entropy == pytest.approx(entropy, abs=1e-5)
        assert view.effective_moves == pytest.approx(math.exp(entropy), rel=1e-4)
        regret = math.fsum(share * lost for share, _, lost in wanted.values())
        assert view.regret_cp == pytest.approx(regret, rel=1e-4, abs=1e-3)
        ranked = [move.probability for move in view.moves]
        assert ranked == sorted(ranked, reverse=True)
        assert [position.board.parse_san(move.san).uci() for move in view.moves] == [*seen(view)]


def test_the_critic_s_value_is_shown_where_there_is_one(evaluator: Evaluator) -> None:
    position = reached(None, ("e2e4",))
    with_critic, without = (small_policy(1, critic=critic) for critic in (True, False))
    planes = torch.from_numpy(observation(position.board, 0))[None]
    actions = torch.tensor([[move_to_action(m, chess.BLACK) for m in position.board.legal_moves]])
    values = with_critic.values(planes, actions)
    assert values is not None
    view = view_of(with_critic, position, temperature=1.0, evaluator=evaluator, pull=None)
    assert view.value == pytest.approx(values[0].item(), abs=1e-5)
    bare = view_of(without, position, temperature=1.0, evaluator=None, pull=None)
    assert (bare.value, bare.regret_cp, bare.optimum_entropy) == (None, None, None)
    assert {(move.score_cp, move.regret_cp, move.optimum) for move in bare.moves} == {(None,) * 3}


def test_at_temperature_0_the_most_probable_move_has_all_of_it(evaluator: Evaluator) -> None:
    policy, position = small_policy(5), reached(None, ())
    warm, cold = (
        view_of(policy, position, temperature=t, evaluator=evaluator, pull=None) for t in (1.0, 0.0)
    )
    assert cold.moves[0].uci == warm.moves[0].uci
    assert [move.probability for move in cold.moves] == [1.0] + [0.0] * 19
    assert (cold.entropy, cold.effective_moves) == (0.0, 1.0)
    assert cold.regret_cp == cold.moves[0].regret_cp


def test_a_forced_move_has_no_entropy_and_no_regret(evaluator: Evaluator) -> None:
    view = view_of(
        small_policy(2), reached(FORCED, ()), temperature=1.0, evaluator=evaluator, pull=None
    )
    (move,) = view.moves
    assert (move.san, move.probability, move.regret_cp) == ("Be1", 1.0, 0.0)
    assert (view.entropy, view.effective_moves, view.regret_cp) == (0.0, 1.0, 0.0)


def test_a_mate_is_scored_as_one_and_a_finished_game_has_no_move(evaluator: Evaluator) -> None:
    policy = small_policy(2)
    view = view_of(
        policy, reached(MATE_IN_ONE, ()), temperature=1.0, evaluator=evaluator, pull=None
    )
    (mate,) = (move for move in view.moves if move.san == "Re8#")
    assert (mate.score_cp, mate.regret_cp) == (10_000, 0.0)
    over = view_of(
        policy, reached(MATE_IN_ONE, ("e1e8",)), temperature=1.0, evaluator=evaluator, pull=None
    )
    assert (over.moves, over.entropy, over.value, over.regret_cp) == ((), 0.0, None, None)


def test_a_policy_that_reads_move_facts_is_given_those_of_the_game(evaluator: Evaluator) -> None:
    policy = facts_policy()
    there_and_back = ("g1f3", "g8f6", "f3g1", "f6g8")
    fresh, repeated = (
        view_of(policy, reached(None, moves), temperature=1.0, evaluator=evaluator, pull=None)
        for moves in ((), there_and_back)
    )
    assert seen(fresh) != seen(repeated)


@pytest.mark.parametrize("temperature", [-0.1, math.nan, math.inf])
def test_a_temperature_that_is_none_is_refused(temperature: float) -> None:
    with pytest.raises(ValueError, match="expected a finite number of at least 0"):
        view_of(
            small_policy(0), reached(None, ()), temperature=temperature, evaluator=None, pull=None
        )


def test_probabilities_that_are_not_finite_are_refused() -> None:
    policy = small_policy(0)
    with torch.no_grad():
        policy.action_bias.fill_(math.nan)  # type: ignore[operator, union-attr]
    with pytest.raises(ValueError, match="not finite here: use another checkpoint"):
        view_of(policy, reached(None, ()), temperature=1.0, evaluator=None, pull=None)


def test_the_regrets_of_a_position_are_computed_once(
    evaluator: Evaluator, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    regrets = view.move_regret_cp
    monkeypatch.setattr(
        view, "move_regret_cp", lambda scored: asked.append(scored) or regrets(scored)
    )
    shown = view_of(
        small_policy(1), reached(None, ()), temperature=1.0, evaluator=evaluator, pull=None
    )
    assert len(shown.moves) == 20 and len(asked) == 1
