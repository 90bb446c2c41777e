"""`ChessSelfPlayEnv` against an opponent: turns, rewards in the learner's view, colours, ends."""

from __future__ import annotations

from typing import Any

import chess
import numpy as np
import pytest
from gymnasium.error import ResetNeeded

from chess_env.env import ChessSelfPlayEnv
from chess_env.moves import move_to_action
from chess_env.rewards import value
from chess_env.rules.fen import parse_fen
from chess_env.rules.rules import CHECKMATE
from tests.env.material import MaterialEvaluator
from tests.env.playing import play


def make(opponent: Any, **arguments: Any) -> ChessSelfPlayEnv:
    return ChessSelfPlayEnv(
        **({"evaluator": MaterialEvaluator(), "opponent": opponent} | arguments)
    )


def scripted(*ucis: str) -> Any:
    moves = iter(ucis)
    return lambda board, rng: chess.Move.from_uci(next(moves))


def test_the_reply_happens_inside_the_step_and_the_reward_is_in_the_learners_view() -> None:
    env = make(scripted("d5e4"), learner_color="white")
    _, info = env.reset(options={"fen": "4k3/8/8/3q4/4P3/8/8/R3K3 w - - 0 1"})
    assert (info["turn"], info["learner_turn"], info["opponent_action"]) == (1, 1, -1)
    assert info["score_cp"] == 600 - 900
    _, reward, terminated, truncated, info = play(env, "a1a7")
    assert (terminated, truncated, info["turn"], info["ply"]) == (False, False, 1, 2)
    assert info["score_cp"] == 500 - 900
    assert reward == float(value(-400) - value(-300)) < 0
    assert info["opponent_action"] == move_to_action(chess.Move.from_uci("d5e4"), chess.BLACK)


def test_rewards_of_a_game_add_up_without_changing_signs() -> None:
    env = make("random", max_plies=40)
    _, info = env.reset(seed=1)
    start_cp, total, done = info["score_cp"], 0.0, False
    while not done:
        _, reward, terminated, truncated, info = env.step(int(info["legal_ids"][0]))
        total += reward
        done = terminated or truncated
    assert truncated and info["turn"] == info["learner_turn"]
    assert total == pytest.approx(float(value(info["score_cp"]) - value(start_cp)), abs=1e-5)


def test_giving_mate_ends_the_game_before_a_reply() -> None:
    env = make(scripted(), learner_color="start", reward={"win_prob_delta": 1, "outcome": 1})
    env.reset(options={"fen": "6k1/5ppp/8/8/8/8/8/R3K3 w - - 0 1"})
    _, _, terminated, _, info = play(env, "a1a8")
    assert terminated and info["status"] == CHECKMATE and info["opponent_action"] == -1
    assert info["reward_win_prob_delta"] == 1 - value(200) and info["reward_outcome"] == 1


def test_being_mated_by_the_reply_pays_minus_1() -> None:
    env = make(scripted("d8h4"), learner_color="white", reward={"win_prob_delta": 1, "outcome": 1})
    env.reset(options={"fen": "rnbqkbnr/pppp1ppp/8/4p3/8/5P2/PPPPP1PP/RNBQKBNR w KQkq - 0 2"})
    _, reward, terminated, _, info = play(env, "g2g4")
    assert terminated and info["status"] == CHECKMATE and info["score_cp"] == -10_000
    assert (info["reward_win_prob_delta"], info["reward_outcome"]) == (-1, -1)
    assert reward == -2


def test_the_opponent_opens_when_the_learner_has_black() -> None:
    env = make(scripted("e2e4"), learner_color="black")
    _, info = env.reset()
    assert (info["turn"], info["learner_turn"], info["ply"]) == (0, 0, 1)
    assert env.fen().startswith("rnbqkbnr/pppppppp/8/8/4P3/")
    assert info["opponent_action"] == move_to_action(chess.Move.from_uci("e2e4"), chess.WHITE)


def test_a_random_colour_comes_from_the_seed_and_is_both_in_turn() -> None:
    def colours() -> list[int]:
        env = make("random")
        return [
            env.reset(seed=9)[1]["learner_turn"],
            *(env.reset()[1]["learner_turn"] for _ in range(20)),
        ]

    assert set(colours()) == {0, 1}
    assert colours() == colours()


def test_the_ply_limit_is_looked_at_after_the_reply() -> None:
    env = make("random", max_plies=3, learner_color="white")
    env.reset(seed=0)
    steps = [play(env, "e2e4"), play(env, "a2a3")]
    assert [step[3] for step in steps] == [False, True]
    assert steps[-1][4]["ply"] == 4 and steps[-1][4]["turn"] == 1


def test_an_illegal_reply_is_an_error_that_names_player_and_position() -> None:
    class Stubborn:
        name = "stubborn"

        def choose(self, positions: Any, rngs: Any) -> Any:
            return np.zeros(len(positions), np.int64)

        def close(self) -> None: ...

    env = make(Stubborn(), learner_color="white")
    env.reset()
    with pytest.raises(RuntimeError, match=r"'stubborn' played illegal action 0 in 'rnbqkbnr/.*P3"):
        play(env, "e2e4")


def test_a_given_start_where_the_opponent_mates_at_once_is_an_error() -> None:
    env = make(scripted("a1a8"), learner_color="black")
    with pytest.raises(ValueError, match=r"first move ended the game.*checkmate"):
        env.reset(options={"fen": "6k1/5ppp/8/8/8/8/8/R3K3 w - - 0 1"})


def test_a_source_from_which_the_opponent_always_mates_is_an_error_after_100_draws() -> None:
    class MateInOne:
        draws = 0

        def sample(self, rng: np.random.Generator) -> Any:
            self.draws += 1
            return parse_fen("6k1/5ppp/8/8/8/8/8/R3K3 w - - 0 1")

    source = MateInOne()
    env = make(MaterialEvaluator(), start_positions=source, learner_color="black")
    with pytest.raises(RuntimeError, match="first move ended the game"):
        env.reset(seed=0)
    assert source.draws == 100
    with pytest.raises(ResetNeeded):
        env.step(0)
