"""Version 2 of the evaluators: proofs, the mean with the built-in search, and version 1 as it was."""

from __future__ import annotations

import pickle
from typing import Any

import chess
import numpy as np
import pytest

from chess_env.evaluators import MAX_CP, EngineError, make_evaluator, of_version
from chess_env.evaluators.builtin import BuiltinEvaluator
from chess_env.evaluators.judge import BUILTIN_SHARE, JudgedEvaluator
from chess_env.evaluators.protocol import pack_positions
from chess_env.moves import move_to_action
from chess_env.rules.rules import legal_actions_batch
from chess_env.vector_env import ChessSelfPlayVectorEnv

BEFORE_QUEENING = "8/P6k/8/8/8/8/7K/8 w - - 0 1"
QUEENED = "Q7/7k/8/8/8/8/7K/8 b - - 0 1"
MATED_IN_1 = "7k/R7/8/8/8/8/P7/KR6 b - - 0 1"
QUIET = "r1bqkb1r/pppp1ppp/2n2n2/4p3/2B1P3/5N2/PPPP1PPP/RNBQ1RK1 b kq - 0 1"


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("builtin", "builtin-v2"),
        ("builtin-v1", "builtin-v1"),
        ("stockfish:depth=4", "stockfish-v2:depth=4"),
        ("ray:stockfish", "ray:stockfish-v2"),
        ("auto", "auto-v2"),
        ("stockfish-v1:path=/a:b", "stockfish-v1:path=/a:b"),
        ("my_module:Mine", "my_module:Mine"),
    ],
)
def test_a_name_without_a_version_is_of_the_last(name: str, wanted: str) -> None:
    assert of_version(name) == of_version(wanted) == wanted


@pytest.mark.stockfish
def test_version_1_of_stockfish_has_the_scores_and_the_id_that_it_always_had() -> None:
    with make_evaluator("stockfish-v1:depth=4") as old:  # type: ignore[attr-defined]
        assert old.id.endswith(";depth=4;pure;v1")
        if old.id.startswith("stockfish-15.1;"):
            assert old.evaluate([BEFORE_QUEENING, QUEENED]).tolist() == [1036, -595]


def test_three_men_and_short_mates_have_their_exact_scores() -> None:
    with make_evaluator("builtin") as evaluator:  # type: ignore[attr-defined]
        scores = evaluator.evaluate([BEFORE_QUEENING, QUEENED, MATED_IN_1])
        assert scores.tolist() == [9_992, -9_993, -9_999]
        assert evaluator.counters()["proven"] == 3


def test_positions_without_a_proof_keep_the_score_of_the_search() -> None:
    with make_evaluator("builtin") as new, make_evaluator("builtin-v1") as old:  # type: ignore[attr-defined]
        assert new.evaluate([QUIET]) == old.evaluate([QUIET])


@pytest.mark.stockfish
def test_a_shallow_stockfish_is_averaged_with_the_built_in_search_and_a_deep_one_is_not() -> None:
    fens = [QUIET, "8/5k2/8/8/3RR3/8/8/4K3 w - - 0 1", "4k3/8/8/8/8/8/3PP3/3QK3 w - - 0 1"]
    with make_evaluator("builtin-v1") as builtin:  # type: ignore[attr-defined]
        second = builtin.evaluate(fens)
    for limit, share in (("depth=4", BUILTIN_SHARE), ("nodes=500", BUILTIN_SHARE), ("depth=8", 0)):
        with (
            make_evaluator(f"stockfish-v1:{limit}", 1) as old,  # type: ignore[attr-defined]
            make_evaluator(f"stockfish:{limit}", 1) as new,  # type: ignore[attr-defined]
        ):
            first = old.evaluate(fens)
            assert (np.abs(first) <= MAX_CP).all()
            np.testing.assert_array_equal(
                new.evaluate(fens), np.rint((1 - share) * first + share * second)
            )
            assert new.id.endswith("builtin=0.4;v2" if share else ";pure;v2")


@pytest.mark.parametrize(
    "name", ["builtin", pytest.param("stockfish", marks=pytest.mark.stockfish)]
)
def test_moves_are_scored_with_the_same_proofs_as_positions(name: str) -> None:
    with make_evaluator(name, 1) as evaluator:  # type: ignore[attr-defined]
        packed = pack_positions([BEFORE_QUEENING, "7k/8/8/8/8/8/R7/KR6 w - - 0 1"])
        tabled, mating = evaluator.score_moves(packed)
        actions, counts = legal_actions_batch(packed)
        assert [len(tabled), len(mating)] == counts.tolist()
        assert tabled.max() == 9_993  # the position after a8=Q is lost in 7 moves
        assert mating.max() == 9_999  # Ra7 or Rb7, and mate by the other rook whatever is played


class OneFails(BuiltinEvaluator):
    """The built-in search, for which the first of several positions cannot be scored."""

    def search(self, positions: Any, then: Any = None) -> Any:
        found = super().search(positions, then)
        scores, _, _ = found
        if len(positions) < 2:
            return found
        error = EngineError("one failed")
        error.answered = np.arange(len(positions)) > 0
        error.scores = np.where(error.answered, scores, 0)
        raise error


def test_an_error_keeps_the_scores_that_are_proven_and_those_that_were_answered() -> None:
    evaluator = JudgedEvaluator(OneFails())
    fens = [QUIET, QUEENED, MATED_IN_1]
    with pytest.raises(EngineError, match="one failed") as caught:
        evaluator.evaluate(fens)
    answered, scores = caught.value.answered, caught.value.scores
    assert isinstance(answered, np.ndarray) and isinstance(scores, np.ndarray)
    assert answered.sum() == 2 and scores[1] == -9_993 and sorted(scores[~answered]) == [0]


def test_a_copy_in_another_process_scores_alike() -> None:
    with make_evaluator("builtin") as evaluator:  # type: ignore[attr-defined]
        copy = pickle.loads(pickle.dumps(evaluator))
        assert copy.id == evaluator.id
        assert copy.evaluate([QUEENED]) == evaluator.evaluate([QUEENED])


@pytest.mark.parametrize(
    "name", ["builtin", pytest.param("stockfish", marks=pytest.mark.stockfish)]
)
def test_the_default_reward_pays_queening_and_each_move_nearer_to_mate(name: str) -> None:
    """From the pawn's seventh rank the shortest mates take 8 moves: by a8=Q, and by Kg3 or Kh3 first."""
    vec = ChessSelfPlayVectorEnv(num_envs=1, evaluator=name)
    vec.reset(seed=0, options={"fens": [BEFORE_QUEENING]})
    board = chess.Board(BEFORE_QUEENING)
    ids = {move.uci(): move_to_action(move, board.turn) for move in board.legal_moves}
    paid = vec.score_actions(np.array([list(ids.values())]))["rewards"][0]
    vec.close()
    rewards = dict(zip(ids, paid.tolist(), strict=True))
    assert {move for move in ids if rewards[move] == max(paid)} == {"a7a8q", "h2g3", "h2h3"}
    assert rewards["h2g2"] == pytest.approx(max(paid) - 0.011, abs=1e-6)
    assert rewards["a7a8n"] < -0.9  # that is a draw
