"""The boards that SB3 sees are those of the environment: against SB3's own wrapper of the single one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from sb3_contrib.common.maskable.buffers import MaskableDictRolloutBuffer
from sb3_contrib.common.maskable.utils import get_action_masks, is_masking_supported
from stable_baselines3.common.vec_env import DummyVecEnv

from algorithms.integrations.sb3 import BoardsVecEnv
from chess_env.env import ChessSelfPlayEnv
from chess_env.games.lockstep import HISTORY_LENGTH
from chess_env.move_facts import move_facts_batch
from chess_env.positions.start_positions import PositionList
from chess_env.rules.fen import pack_fens
from chess_env.vector_env import ChessSelfPlayVectorEnv
from tests.env.material import MaterialEvaluator

# A queen or a rook against a bare king: random moves end games by the rules and by the ply limit.
ENDINGS = pack_fens(["8/8/8/8/1q6/8/8/K1k5 w - - 0 1", "7k/8/5K2/8/8/8/8/Q7 w - - 0 1"])
SHORT: dict[str, Any] = {"start_positions": PositionList("endings", ENDINGS), "max_plies": 12}


def boards(num_envs: int, opponent: str | None, **settings: Any) -> ChessSelfPlayVectorEnv:
    return ChessSelfPlayVectorEnv(
        num_envs=num_envs, evaluator=MaterialEvaluator(), opponent=opponent, **settings
    )


def legal_actions(env: BoardsVecEnv, rng: np.random.Generator) -> np.ndarray:
    masks = get_action_masks(env)
    return np.array([rng.choice(np.flatnonzero(mask)) for mask in masks])


def test_every_step_is_that_of_sb3s_own_wrapper_around_single_environments() -> None:
    ours = BoardsVecEnv(boards(3, "random", **SHORT), None)
    theirs = DummyVecEnv(
        [
            lambda: ChessSelfPlayEnv(evaluator=MaterialEvaluator(), opponent="random", **SHORT)
            for _ in range(3)
        ]
    )
    for env in (ours, theirs):
        env.seed(5)
    np.testing.assert_array_equal(ours.reset(), theirs.reset())
    rng, cut, over = np.random.default_rng(0), 0, 0
    for _ in range(60):
        np.testing.assert_array_equal(get_action_masks(ours), get_action_masks(theirs))
        actions = legal_actions(ours, rng)
        observed, rewards, dones, infos = ours.step(actions)
        expected = theirs.step(actions)
        for found, wanted in zip((observed, rewards, dones), expected[:3], strict=True):
            assert found.dtype == wanted.dtype
            np.testing.assert_array_equal(found, wanted)
        for info, wanted in zip(infos, expected[3], strict=True):
            assert info["TimeLimit.truncated"] == wanted["TimeLimit.truncated"]
            assert ("terminal_observation" in info) == ("terminal_observation" in wanted)
            if "terminal_observation" in info:
                last = info["terminal_observation"]
                np.testing.assert_array_equal(last, wanted["terminal_observation"])
                cut += info["TimeLimit.truncated"]
                over += not info["TimeLimit.truncated"]
    assert cut > 5 and over > 0


def test_the_masks_are_the_environments_and_sb3_contrib_finds_them() -> None:
    for opponent, moves in (("random", None), (None, 2)):
        env = BoardsVecEnv(boards(3, opponent), moves)
        env.reset()
        assert is_masking_supported(env)
        shared = moves or 1
        expected = np.repeat(env.vec.action_masks(), shared, axis=0)
        masks = get_action_masks(env)
        assert masks.dtype == np.bool_ and masks.shape == (3 * shared, 1858)
        np.testing.assert_array_equal(masks, expected)
        (one,) = env.env_method("action_masks", indices=2)
        np.testing.assert_array_equal(one, expected[2])
        np.testing.assert_array_equal(env.get_attr("action_masks", [2])[0](), expected[2])


def test_without_an_opponent_every_move_is_an_episode_and_the_first_is_played_on() -> None:
    env = BoardsVecEnv(boards(3, None, max_plies=4), 4)
    twin = boards(3, None, max_plies=4)
    env.seed(7)
    observed = env.reset()
    expected, _ = twin.reset(seed=7)
    rng = np.random.default_rng(1)
    for _ in range(6):
        np.testing.assert_array_equal(observed, np.repeat(expected, 4, axis=0))
        actions = legal_actions(env, rng)
        scored = twin.score_actions(actions.reshape(3, 4))
        expected, *_ = twin.step(actions.reshape(3, 4)[:, 0])
        observed, rewards, dones, infos = env.step(actions)
        np.testing.assert_array_equal(rewards, scored["rewards"].reshape(-1))
        assert dones.all()
        assert infos == [{"TimeLimit.truncated": False}] * 12
        np.testing.assert_array_equal(env.vec.positions, twin.positions)


def test_what_a_step_returns_is_not_touched_by_later_steps_nor_the_other_way_round() -> None:
    for opponent, moves in (("random", None), (None, 2)):
        env = BoardsVecEnv(boards(2, opponent), moves)
        rng = np.random.default_rng(0)
        first = env.reset()
        kept = first.copy()
        second, rewards, *_ = env.step(legal_actions(env, rng))
        rewards += 1.0  # SB3 adds the bootstrap of truncated games in place
        paid = rewards.copy()
        env.step(legal_actions(env, rng))
        np.testing.assert_array_equal(rewards, paid)
        assert not np.shares_memory(first, second)
        np.testing.assert_array_equal(first, kept)


def test_a_seed_is_used_once_and_later_resets_go_on_from_it() -> None:
    def two_starts() -> list[np.ndarray]:
        env = BoardsVecEnv(boards(2, None, start_positions="random_plies:2-40"), 3)
        env.seed(3)
        return [env.reset(), env.reset()]

    ours, again = two_starts(), two_starts()
    for found, wanted in zip(ours, again, strict=True):
        np.testing.assert_array_equal(found, wanted)
    assert (ours[0] != ours[1]).any()


def test_what_does_not_fit_is_an_error_that_says_what_to_do() -> None:
    with pytest.raises(ValueError, match=r"autoreset_mode is .*: SB3 replaces a game in the step"):
        BoardsVecEnv(boards(1, "random", autoreset_mode="NEXT_STEP"), None)
    with pytest.raises(
        ValueError, match=r"moves_per_position is 2 and the boards have an opponent"
    ):
        BoardsVecEnv(boards(1, "random"), 2)
    with pytest.raises(ValueError, match=r"moves_per_position is None and the boards have no opp"):
        BoardsVecEnv(boards(1, None), None)
    env = BoardsVecEnv(boards(1, "random"), None)
    with pytest.raises(ResetNeeded, match=r"call step_async"):
        env.step_wait()
    with pytest.raises(AttributeError, match=r"render is no method of a single environment here"):
        env.env_method("render")
    with pytest.raises(AttributeError, match=r"max_plies cannot be set: make new boards"):
        env.set_attr("max_plies", 3)
    assert not env.has_attr("no_such_thing")
    env.set_options({"fen": "8/8/8/8/8/8/8/8 w - - 0 1"})
    with pytest.raises(ValueError, match=r"give start_positions to the boards"):
        env.reset()


@pytest.mark.parametrize("opponent, moves", [("random", None), (None, 2)])
def test_with_move_facts_an_observation_holds_those_of_its_own_board(
    opponent: str | None, moves: int | None
) -> None:
    env = BoardsVecEnv(boards(3, opponent, move_facts=True, **SHORT), moves)
    plain = BoardsVecEnv(boards(3, opponent, **SHORT), moves)
    for each in (env, plain):
        each.seed(5)
    observed, planes, rng, cut = env.reset(), plain.reset(), np.random.default_rng(0), 0
    for _ in range(40):
        assert isinstance(observed, dict) and list(observed) == [
            "planes",
            "legal_ids",
            "move_facts",
        ]
        np.testing.assert_array_equal(observed["planes"], planes)
        masks = get_action_masks(env)
        for row, mask in enumerate(masks):
            one = {name: array[row] for name, array in observed.items()}
            assert env.observation_space.contains(one)
            assert one["legal_ids"][: mask.sum()].tolist() == np.flatnonzero(mask).tolist()
            assert (one["legal_ids"][mask.sum() :] == -1).all()
        now = env.vec.games.boards
        at_hand = move_facts_batch(
            now.positions,
            np.ascontiguousarray(now.legal_ids[:, : now.num_legal.max()]),
            now.history,
            now.counters[:, HISTORY_LENGTH],
        )
        facts, width = observed["move_facts"], at_hand.shape[1]
        np.testing.assert_array_equal(facts[:, :width], np.repeat(at_hand, moves or 1, 0))
        assert facts.shape[1] == 218 and not facts[:, width:].any()
        actions = legal_actions(env, rng)
        observed, rewards, _, infos = env.step(actions)
        planes, paid, _, expected = plain.step(actions)
        np.testing.assert_array_equal(rewards, paid)
        for info, wanted in zip(infos, expected, strict=True):
            assert ("terminal_observation" in info) == ("terminal_observation" in wanted)
            if "terminal_observation" in info:
                last = info["terminal_observation"]
                assert env.observation_space.contains(last)
                np.testing.assert_array_equal(last["planes"], wanted["terminal_observation"])
                assert last["move_facts"].any() == (last["legal_ids"] >= 0).any()
                cut += info["TimeLimit.truncated"] and bool(last["move_facts"].any())
    assert cut > 5 or opponent is None


def test_legal_ids_alone_can_be_asked_for_and_sb3s_buffer_keeps_every_dtype() -> None:
    env = BoardsVecEnv(boards(2, "random"), None, legal_ids=True)
    assert list(env.reset()) == ["planes", "legal_ids"]
    env = BoardsVecEnv(boards(2, "random", move_facts=True), None)
    buffer = MaskableDictRolloutBuffer(3, env.observation_space, env.action_space)
    kept = {name: array.dtype.name for name, array in buffer.observations.items()}
    assert kept == {"planes": "uint8", "legal_ids": "int16", "move_facts": "uint8"}
