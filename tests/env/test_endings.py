"""How games end, and how a game is saved, restored and branched."""

from __future__ import annotations

import json
from typing import Any

import pytest
from gymnasium.error import ResetNeeded

from chess_env.rewards import value
from chess_env.rules.rules import (
    CHECKMATE,
    FIFTY_MOVES,
    FIVEFOLD,
    INSUFFICIENT_MATERIAL,
    ONGOING,
    SEVENTYFIVE_MOVES,
    THREEFOLD,
    TWOFOLD,
)
from tests.env.material import MaterialEvaluator
from tests.env.playing import SHUFFLE, make, play


def test_threefold_repetition_ends_the_game_at_the_third_occurrence() -> None:
    env = make()
    env.reset()
    steps = [play(env, uci) for uci in SHUFFLE * 2]
    assert [step[2] for step in steps] == [False] * 7 + [True]
    assert [int(step[0][17, 0, 0]) for step in steps] == [0, 0, 0, 1, 1, 1, 1, 2]
    assert steps[-1][4]["status"] == THREEFOLD and steps[-1][4]["num_legal"] == 20


def test_without_threefold_the_fifth_occurrence_ends_the_game() -> None:
    env = make(threefold=False)
    env.reset()
    steps = [play(env, uci) for uci in SHUFFLE * 4]
    assert [step[2] for step in steps] == [False] * 15 + [True]
    assert steps[-1][4]["status"] == FIVEFOLD


def test_with_twofold_the_second_occurrence_ends_the_game() -> None:
    env = make(twofold=True)
    env.reset()
    steps = [play(env, uci) for uci in SHUFFLE]
    assert [step[2] for step in steps] == [False] * 3 + [True]
    assert steps[-1][4]["status"] == TWOFOLD


@pytest.mark.parametrize(
    ("fifty_move", "clock", "status"), [(True, 99, FIFTY_MOVES), (False, 149, SEVENTYFIVE_MOVES)]
)
def test_the_rule_50_clock_ends_the_game(fifty_move: bool, clock: int, status: int) -> None:
    env = make(fifty_move=fifty_move)
    env.reset(options={"fen": f"4k3/8/8/8/8/8/8/R3K3 w - - {clock - 1} 90"})
    assert play(env, "a1a2")[2] is False
    obs, _, terminated, _, info = play(env, "e8d8")
    assert terminated and info["status"] == status
    assert obs[18, 0, 0] == 100


def test_mate_goes_before_the_fifty_move_rule_and_bare_kings_are_a_draw() -> None:
    env = make()
    env.reset(options={"fen": "6k1/5ppp/8/8/8/8/8/R3K3 w - - 99 90"})
    assert play(env, "a1a8")[4]["status"] == CHECKMATE
    env.reset(options={"fen": "4k3/8/8/8/8/8/3p4/4K3 w - - 0 1"})
    assert play(env, "e1d2")[4]["status"] == INSUFFICIENT_MATERIAL


def test_the_ply_limit_truncates_and_is_never_a_termination() -> None:
    env = make(max_plies=2, evaluator=MaterialEvaluator())
    env.reset(options={"fen": "4k3/8/8/3q4/4P3/8/8/4K3 w - - 0 1"})
    assert play(env, "e4d5")[2:4] == (False, False)
    _, reward, terminated, truncated, info = play(env, "e8d7")
    assert terminated is False and truncated is True and info["status"] == ONGOING
    assert reward == float(-value(100) - value(-100))
    with pytest.raises(ResetNeeded, match="call reset"):
        play(env, "e1e2")


def test_a_game_that_ends_by_the_rules_on_the_last_ply_is_terminated_not_truncated() -> None:
    env = make(max_plies=1)
    env.reset(options={"fen": "6k1/5ppp/8/8/8/8/8/R3K3 w - - 0 1"})
    assert play(env, "a1a8")[2:4] == (True, False)


def test_a_saved_state_goes_through_json_and_goes_on_identically() -> None:
    arguments: dict[str, Any] = {
        "evaluator": MaterialEvaluator(),
        "start_positions": "random_plies:2-6",
        "illegal_action": "resample",
    }
    env = make(**arguments)
    env.reset(seed=4)
    for action in (5, 9, 13):
        env.step(action)
    state = json.loads(json.dumps(env.get_state()))
    restored = make(**arguments)
    _, info = restored.set_state(state)
    assert info["ply"] == 3
    for action in (100, 900, 1500):
        expected, got = env.step(action), restored.step(action)
        assert str(expected) == str(got)
    env.reset(), restored.reset()
    assert env.fen() == restored.fen()


def test_a_clone_plays_on_without_touching_the_original() -> None:
    env = make()
    env.reset(seed=0)
    for uci in SHUFFLE:
        play(env, uci)
    twin = env.clone()
    assert [play(twin, uci)[2] for uci in SHUFFLE] == [False, False, False, True]
    assert env.board.ply() == 4
    assert [play(env, uci)[2] for uci in SHUFFLE] == [False, False, False, True]


def test_the_env_closes_only_an_evaluator_it_made() -> None:
    evaluator = MaterialEvaluator()
    env = make(evaluator=evaluator)
    assert env.evaluator_id == "test-material"
    env.close()
    env.close()
    assert not evaluator.closed
