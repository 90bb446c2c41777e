"""Illegal actions, impossible starts and wrong arguments: clear errors, and nothing is lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.error import ResetNeeded

from chess_env.moves import NUM_ACTIONS
from tests.env import vector_play
from tests.env.material import MaterialEvaluator
from tests.env.playing import ILLEGAL, make


def test_an_illegal_action_ends_the_game_with_minus_1_and_changes_nothing() -> None:
    env = make(evaluator=MaterialEvaluator())
    obs, before = env.reset(seed=0)
    after_obs, reward, terminated, truncated, after = env.step(ILLEGAL)
    assert (reward, terminated, truncated) == (-1.0, True, False)
    assert after.pop("illegal_action") and not before.pop("illegal_action")
    assert str(before) == str(after)
    np.testing.assert_array_equal(obs, after_obs)
    with pytest.raises(ResetNeeded):
        env.step(0)


def test_an_illegal_action_can_raise_and_the_game_goes_on() -> None:
    env = make(illegal_action="raise")
    _, info = env.reset(seed=0)
    with pytest.raises(
        ValueError, match=rf"action {ILLEGAL} is illegal in 'rnbqkbnr/.*action_mask"
    ):
        env.step(ILLEGAL)
    assert env.step(int(info["legal_ids"][0]))[4]["ply"] == 1


def test_an_illegal_action_can_be_resampled_from_the_seeded_stream() -> None:
    played = set()
    for seed in range(20):
        env = make(illegal_action="resample")
        _, info = env.reset(seed=seed)
        assert info["action_played"] == -1
        twin = env.clone()
        _, _, terminated, _, after = env.step(ILLEGAL)
        assert after["illegal_action"] and not terminated and after["ply"] == 1
        assert after["action_played"] in info["legal_ids"][: info["num_legal"]]
        twin.step(ILLEGAL)
        assert twin.fen() == env.fen()
        played.add(after["action_played"])
    assert len(played) > 5


@pytest.mark.parametrize("action", [-1, NUM_ACTIONS, 3.0, "e2e4", None, [1, 2]])
def test_what_is_no_action_id_is_an_error_whatever_illegal_action_says(action: Any) -> None:
    env = make(illegal_action="resample")
    env.reset()
    with pytest.raises(ValueError, match=r"action is .*0\.\.1857"):
        env.step(action)
    assert env.step(np.int64(env.reset()[1]["legal_ids"][3]))[4]["ply"] == 1


def test_a_step_before_the_first_reset_is_an_error() -> None:
    with pytest.raises(ResetNeeded):
        make().step(0)


@pytest.mark.parametrize(
    ("fen", "message"),
    [
        ("8/8/8/8/8/8/8/8 w - - 0 1", "illegal FEN"),
        ("x" * 5000, "illegal FEN"),
        ("rnb1kbnr/pppp1ppp/8/4p3/6Pq/5P2/PPPPP2P/RNBQKBNR w KQkq - 1 3", "checkmate"),
        ("4k3/8/8/8/8/8/8/4K3 w - - 0 1", "insufficient_material"),
        ("4k3/8/8/8/8/8/8/R3K3 w - - 100 90", "fifty_moves"),
        (17, "illegal FEN"),
    ],
)
def test_a_start_that_cannot_be_played_is_an_error_and_the_old_game_goes_on(
    fen: Any, message: str
) -> None:
    env = make()
    _, info = env.reset(seed=1)
    state = env.get_state()
    with pytest.raises(ValueError, match=message) as caught:
        env.reset(seed=2, options={"fen": fen})
    assert len(str(caught.value)) < 600
    assert env.get_state() == state
    assert env.step(int(info["legal_ids"][0]))[4]["ply"] == 1


def test_an_unknown_reset_option_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"'fens' is unknown.*'fen'"):
        make().reset(options={"fens": []})


@pytest.mark.parametrize("options", ["fen", 5, {None: 1, "a": 2}])
def test_what_is_no_reset_option_is_an_error_in_both_environments(options: Any) -> None:
    for env in (make(), vector_play.make()):
        with pytest.raises(ValueError, match="reset option"):
            env.reset(options=options)


@pytest.mark.parametrize("seed", [np.int64(7), np.uint8(7), np.array(7)], ids=repr)
def test_any_kind_of_whole_number_is_a_seed(seed: Any) -> None:
    env = make(start_positions="random_plies:2-40")
    env.reset(seed=7)
    fen = env.fen()
    env.reset(seed=seed)
    assert env.fen() == fen
    vec = vector_play.make(start_positions="random_plies:2-40")
    vec.reset(seed=seed)
    assert vec.fens()[0] == fen


@pytest.mark.parametrize(
    "seeds",
    [(7, None, 9), [np.int64(7), None, np.int16(9)], range(7, 10), np.array([7, 8, 9])],
    ids=repr,
)
def test_each_board_has_the_seed_that_is_given_to_it(seeds: Any) -> None:
    vec = vector_play.make(start_positions="random_plies:2-40", num_envs=3)
    vec.reset(seed=7)
    first, _, third = vec.fens()
    vec.reset(seed=seeds)
    assert (vec.fens()[0], vec.fens()[2]) == (first, third)


@pytest.mark.parametrize(
    "seed", [-1, np.int64(-1), True, 1.0, float("nan"), "7", [7], {7}], ids=repr
)
def test_what_is_no_seed_is_an_error_and_the_old_games_go_on(seed: Any) -> None:
    env, vec = make(), vector_play.make()
    _, info = env.reset(seed=1)
    vec.reset(seed=1)
    state = env.get_state()
    for wrong in ([1, *[seed] * (vector_play.NUM_ENVS - 1)], seed):
        before = vec.get_state()
        with pytest.raises(ValueError, match=r"seed(s for| is )"):
            vec.reset(seed=wrong)
        np.testing.assert_equal(vec.get_state(), before)
    with pytest.raises(ValueError, match=r"seed is .* expected a whole number"):
        env.reset(seed=seed)
    assert env.get_state() == state
    assert env.step(int(info["legal_ids"][0]))[4]["ply"] == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"illegal_action": "ignore"}, "illegal_action is 'ignore'.*resample"),
        ({"max_plies": 0}, "max_plies is 0"),
        ({"max_plies": 2.5}, "max_plies is 2.5"),
        ({"learner_color": "red"}, "learner_color is 'red'"),
        ({"render_mode": "human"}, "render_mode is 'human'"),
        ({"reward": "win_prob_delta"}, "evaluator is 'none'"),
        ({"evaluator": "stokfish"}, "stokfish"),
        ({"evaluator": 7}, "evaluator is 7"),
        ({"start_positions": "endings"}, "start_positions is 'endings'"),
        ({"start_positions": "initial@balanced=50"}, "needs an evaluator"),
        ({"opponent": 3}, "player is 3"),
    ],
)
def test_bad_arguments_name_the_value_and_what_is_expected(
    arguments: dict[str, Any], message: str
) -> None:
    for environment in (make, vector_play.make):
        with pytest.raises(ValueError, match=message):
            environment(**arguments)


def test_no_board_at_all_is_refused() -> None:
    with pytest.raises(ValueError, match="num_envs is 0"):
        vector_play.make(num_envs=0)


@pytest.mark.parametrize("make", [gym.make, gym.make_vec])
def test_an_argument_that_is_not_there_is_refused_with_the_one_that_was_meant(
    make: Callable[..., object],
) -> None:
    with pytest.raises(TypeError, match=r"no argument 'oponent': .* did you mean 'opponent'\?"):
        make("ChessSelfPlay-v0", oponent="random")
