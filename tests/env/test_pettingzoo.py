"""`ChessAEC`: PettingZoo's own tests, and the same games and rewards as ChessSelfPlay-v0."""

from __future__ import annotations

import warnings
from typing import Any

import chess
import numpy as np
import pytest
from pettingzoo.test import api_test, render_test, seed_test

from chess_env.env import ChessSelfPlayEnv
from chess_env.moves import move_to_action
from chess_env.pettingzoo import BLACK, WHITE, ChessAEC


def make(**arguments: Any) -> ChessAEC:
    return ChessAEC(**{"evaluator": "builtin", "max_plies": 60} | arguments)


def test_it_passes_the_tests_of_pettingzoo() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # What it only mentions: that the mask is no image, and that planes are no colours.
        warnings.filterwarnings("ignore", message=".*[Oo]bservation.*")
        api_test(make(), num_cycles=200)
        seed_test(lambda: make(), num_cycles=20)
        render_test(make, custom_tests={"svg": lambda shown: isinstance(shown, str)})


def test_it_plays_the_games_of_the_environment_and_its_rewards_sum_to_0() -> None:
    env, same = make(start_positions="random_plies:2-12"), ChessSelfPlayEnv(
        evaluator="builtin", max_plies=60, start_positions="random_plies:2-12"
    )  # fmt: skip
    generator = np.random.default_rng(0)
    env.reset(seed=5)
    board, info = same.reset(seed=5)
    totals = {WHITE: 0.0, BLACK: 0.0}
    paid = dict(totals)
    for agent in env.agent_iter():
        observation, reward, terminated, truncated, _ = env.last()
        totals[agent] += reward
        if terminated or truncated:
            assert not observation["action_mask"].any()
            env.step(None)
            continue
        assert agent == (WHITE if info["turn"] == 1 else BLACK) and env.fen() == same.fen()
        assert (observation["observation"] == board).all()
        assert (observation["action_mask"] == info["action_mask"]).all()
        action = int(generator.choice(np.flatnonzero(observation["action_mask"])))
        env.step(action)
        board, gained, _, _, info = same.step(action)
        other = BLACK if agent == WHITE else WHITE
        paid[agent] += gained
        paid[other] -= gained
        assert env.rewards == {agent: gained, other: -gained}
    assert totals == pytest.approx(paid, abs=1e-5) and totals[WHITE] == pytest.approx(
        -totals[BLACK]
    )


def test_a_mate_ends_both_and_pays_the_one_that_gave_it() -> None:
    env = ChessAEC(reward="outcome", evaluator="none")
    env.reset(options={"fen": "7k/5Q2/6K1/8/8/8/8/8 w - - 0 1"})
    move = chess.Move.from_uci("f7g7")
    env.step(move_to_action(move, chess.WHITE))
    assert env.terminations == {WHITE: True, BLACK: True} and env.rewards == {
        WHITE: 1.0,
        BLACK: -1.0,
    }
    assert env.agent_selection == BLACK
    env.step(None)
    env.step(None)
    assert env.agents == []


def test_an_illegal_move_costs_its_agent_and_pays_nobody() -> None:
    env = make()
    env.reset(seed=0)
    illegal = int(np.flatnonzero(env.observe(WHITE)["action_mask"] == 0)[0])
    env.step(illegal)
    assert env.rewards == {WHITE: -1.0, BLACK: 0.0} and all(env.terminations.values())
    assert bool(env.infos[WHITE]["illegal_action"])


def test_what_cannot_be_is_refused_with_a_sentence() -> None:
    with pytest.raises(ValueError, match="both sides are agents here"):
        make(opponent="random")
    env = make()
    env.reset(seed=0)
    with pytest.raises(ValueError, match="player_0 is to move: expected an action, got None"):
        env.step(None)
