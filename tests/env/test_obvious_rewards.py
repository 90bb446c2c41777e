"""What the judgement on obvious moves says of hand-made positions, and that it reads the environment's own rewards."""

from __future__ import annotations

import chess
import numpy as np
import pytest

from chess_env.games.obvious_rewards import MIN_MARGIN, paid_positions, summaries
from chess_env.moves import move_to_action
from chess_env.positions.obvious_moves import ObviousPosition, read_obvious
from tests.env import playing
from tests.env.material import MaterialEvaluator

ROOKS = "7k/8/8/3q3r/8/8/8/K2R3R w - - 0 1"  # either rook can take: a queen, or a rook with check


def position(
    fen: str,
    right: list[str],
    wrong: list[str],
    history: list[str] | None = None,
    kind: str = "take_hanging",
) -> ObviousPosition:
    board = chess.Board(fen)
    for move in history or []:
        board.push_uci(move)
    return ObviousPosition(
        kind, board.fen(en_passant="legal"), fen, tuple(history or ()), tuple(right), tuple(wrong),
        "drawn endings", "by hand",
    )  # fmt: skip


def paid(*positions: ObviousPosition, reward: str | None = None):
    return paid_positions(positions, MaterialEvaluator(), reward)


def test_the_best_right_move_is_compared_with_the_best_wrong_one() -> None:
    (found,) = paid(position(ROOKS, ["d1d5"], ["a1b1", "h1h5"]), reward="cp_delta")
    assert (found.best_right, found.best_wrong) == ("d1d5", "h1h5")
    assert found.margin == pytest.approx(0.9 - 0.5) and found.paid_right


def test_less_than_the_smallest_margin_is_a_failure() -> None:
    case = position(ROOKS, ["d1d5"], ["a1b1"])
    enough, too_little = (paid(case, reward=f"{weight}*cp_delta")[0] for weight in (0.0112, 0.0110))
    assert 0 < too_little.margin < MIN_MARGIN < enough.margin
    assert enough.paid_right and not too_little.paid_right


def test_a_neutral_move_does_not_count_however_it_is_paid() -> None:
    (found,) = paid(position(ROOKS, ["h1h5"], ["a1b1"]), reward="cp_delta")
    assert found.rewards["d1d5"] > found.rewards["h1h5"]  # neutral, and paid most
    assert found.margin == pytest.approx(0.5) and found.paid_right


def test_one_right_move_among_several_is_enough() -> None:
    (found,) = paid(position(ROOKS, ["a1b1", "d1d5"], ["h1h2"]), reward="cp_delta")
    assert found.best_right == "d1d5" and found.paid_right


LOST = "7k/8/8/8/8/8/q7/7K w - - 0 1"
SHUFFLE = ["h1g1", "h8g8", "g1h1", "g8h8", "h1g1", "h8g8", "g1h1"]


def test_the_third_occurrence_throws_a_won_game_away() -> None:
    (found,) = paid(position(LOST, ["g8g7"], ["g8h8"], SHUFFLE))
    assert found.rewards["g8h8"] < -0.9 and found.rewards["g8g7"] == pytest.approx(0)
    assert found.paid_right


@pytest.mark.parametrize("reward", [None, "win_prob_delta+0.5*cp_delta", "regret"])
def test_the_rewards_are_those_that_a_step_of_the_environment_pays(reward: str | None) -> None:
    kinds = ("repeat_when_lost", "mate_in_1", "no_stalemate")
    cases = [each for kind in kinds for each in read_obvious().of_kind(kind)[:1]]
    env = playing.make(evaluator=MaterialEvaluator(), reward=reward)
    for found in paid(*cases, reward=reward):
        for move in (*found.position.right, *found.position.wrong):
            env.reset(options={"fen": found.position.start_fen})
            board = chess.Board(found.position.start_fen)
            for text in (*found.position.history, move):
                each = chess.Move.from_uci(text)
                _, step_reward, *_ = env.step(move_to_action(each, board.turn))
                board.push(each)
            assert np.float32(step_reward) == np.float32(found.rewards[move])


def test_the_summary_counts_each_kind_and_all() -> None:
    tie = position(ROOKS, ["a1b1"], ["h1h2"])
    good = position(ROOKS, ["d1d5"], ["a1b1"])
    other = position(ROOKS, ["h1h5"], ["a1b1"], kind="queening")
    queening, taking, everything = summaries(paid(tie, good, other, reward="cp_delta"))
    assert (queening.kind, queening.positions, queening.paid_right) == ("queening", 1, 1.0)
    assert (taking.kind, taking.positions, taking.paid_right) == ("take_hanging", 2, 0.5)
    assert taking.worst_margin == 0 and taking.mean_margin == pytest.approx(0.45)
    assert taking.mean_right - taking.mean_wrong == pytest.approx(taking.mean_margin)
    assert (everything.kind, everything.positions) == ("all", 3)
    assert everything.paid_right == pytest.approx(2 / 3)
