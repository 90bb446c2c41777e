"""Scores that come while the next ply is played: the same scores, and nothing of a ply waits for them."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.error import ResetNeeded

from algorithms.core.batch import RolloutBatch
from algorithms.rollouts.collect import start_rollout
from chess_env.evaluators import CachedEvaluator, EngineError
from chess_env.evaluators.builtin import BuiltinEvaluator
from chess_env.vector_env import ChessSelfPlayVectorEnv
from tests.env.vector_play import choose, make
from tests.evaluators.hashing import Hashing
from tests.rollouts.play import play_games, play_positions
from tests.small import make_policy

MATE_IN_ONE = "6k1/5ppp/8/8/8/8/8/R6K w - - 0 1"


class Elsewhere(Hashing):
    """Scores as `Hashing`, taken for one whose scores other processes make."""

    in_background = True


def boards(evaluator: Any, **arguments: Any) -> ChessSelfPlayVectorEnv:
    return make(evaluator=evaluator, start_positions="random_plies:20-60", **arguments)


def looked_at(info: dict[str, Any], rng: np.random.Generator, group: int = 3) -> np.ndarray:
    return np.stack([choose(info, rng, 0.0) for _ in range(group)], axis=1)


def play(env: ChessSelfPlayVectorEnv, *, later: bool) -> tuple[list[dict[str, Any]], np.ndarray]:
    """What three contexts of four plies found, and the last scores; on some plies other moves than those looked at."""
    rng = np.random.default_rng(3)
    _, info = env.reset(seed=11)
    found: list[dict[str, Any]] = []
    for _ in range(3):
        plies: list[dict[str, Any]] = []
        with env.scoring.later(wanted=later) as came:
            for ply in range(4):
                before_cp = info["score_cp"].copy()
                actions = looked_at(info, rng)
                scored = env.score_actions(actions)
                played = choose(info, rng, 0.0) if ply == 2 else actions[:, 0]
                _, rewards, terminated, truncated, info = env.step(played)
                assert np.isnan(rewards).all() == later
                assert ("rewards" in scored) == (not later)
                plies.append({"before_cp": before_cp, **scored, "ended": terminated | truncated})
        assert len(came) == (4 if later else 0)
        found += [{**ply, **scores} for ply, scores in zip(plies, came or [{}] * 4, strict=True)]
        info["score_cp"] = env.scoring.score_cp.copy()
    return found, env.scoring.score_cp.copy()


@pytest.mark.parametrize("make_one", [Elsewhere, lambda: BuiltinEvaluator(num_threads=2)])
def test_scores_and_rewards_are_those_that_come_at_once(make_one: Callable[[], Any]) -> None:
    evaluators = [CachedEvaluator(make_one()) for _ in range(2)]
    (at_once, last), (later, last_later) = (
        play(boards(evaluator, max_plies=5), later=later)
        for evaluator, later in zip(evaluators, (False, True), strict=True)
    )
    assert sum(ply["ended"].sum() for ply in at_once) >= 10  # new games stand on the boards
    for expected, ply in zip(at_once, later, strict=True):
        assert expected.keys() == ply.keys() >= {"rewards", "score_cp", "before_cp", "terminated"}
        for name, values in expected.items():
            assert values.dtype == ply[name].dtype
            np.testing.assert_array_equal(values, ply[name], name)
    np.testing.assert_array_equal(last, last_later)
    assert evaluators[0].counters() == evaluators[1].counters()


def batches(evaluator: Any) -> list[RolloutBatch]:
    """Two rollouts of positions in a row, one of all moves, and one of games with mates."""
    policy, found = make_policy(), []
    for group_size in (4, None):
        vec = boards(evaluator, max_plies=4)
        batch, state = play_positions(vec, policy, start_rollout(vec, 5), group_size=group_size)
        more, state = play_positions(vec, policy, state, group_size=group_size)
        assert state.score_cp is not None
        np.testing.assert_array_equal(state.score_cp, vec.get_state()["score_cp"])
        found += [batch, more]
    vec = make(num_envs=8, evaluator=evaluator)
    fens = [MATE_IN_ONE, MATE_IN_ONE.replace(" w ", " b ")]
    return [*found, play_games(vec, policy, num_plies=6, fens=fens)]


def test_rollouts_are_the_same_batches_whether_scores_come_at_once_or_later() -> None:
    for at_once, later in zip(batches(Hashing()), batches(Elsewhere()), strict=True):
        for name, value in vars(at_once).items():
            other = getattr(later, name)
            if isinstance(value, torch.Tensor):
                assert value.dtype == other.dtype
                torch.testing.assert_close(value, other, rtol=0, atol=0, equal_nan=True, msg=name)
            else:
                assert value == other, name


def test_a_ply_does_not_wait_for_its_scores() -> None:
    played = threading.Event()

    class Patient(Elsewhere):
        def evaluate(self, positions: Any) -> Any:
            if threading.current_thread() is not threading.main_thread():
                assert played.wait(20)
            return super().evaluate(positions)

    env = boards(Patient())
    _, info = env.reset(seed=0)
    with env.scoring.later() as found:
        for _ in range(3):
            actions = looked_at(info, np.random.default_rng(0))
            env.score_actions(actions)
            *_, info = env.step(actions[:, 0])
        assert found == []
        played.set()
    assert len(found) == 3


@pytest.mark.parametrize(
    "arguments",
    [{"evaluator": Hashing()}, {"evaluator": "none"}, {"evaluator": "builtin", "num_threads": 1},
     {"evaluator": Elsewhere(), "reward": "regret"}, {"evaluator": Elsewhere(), "opponent": "random"}],
)  # fmt: skip
def test_where_scores_cannot_wait_or_nothing_is_gained_they_come_at_once(
    arguments: dict[str, Any],
) -> None:
    env = make(**arguments)
    _, info = env.reset(seed=0)
    with env.scoring.later() as found:
        actions = info["legal_ids"][:, :2].astype(np.int64)
        if "opponent" not in arguments:
            assert "rewards" in env.score_actions(actions)
        _, rewards, *_ = env.step(actions[:, 0])
        assert np.isfinite(rewards).all()
    assert found == []


def test_after_an_error_the_boards_need_a_reset_and_nothing_more_is_asked() -> None:
    class Failing(Elsewhere):
        asked = 0

        def evaluate(self, positions: Any) -> Any:
            if threading.current_thread() is threading.main_thread():
                return super().evaluate(positions)
            self.asked += 1
            raise EngineError("no engine")

    env = boards(Failing())
    _, info = env.reset(seed=0)
    actions = looked_at(info, np.random.default_rng(0))
    with pytest.raises(EngineError, match="no engine"), env.scoring.later():
        env.score_actions(actions)
        env.step(actions[:, 0])
    for use in (env.get_state, lambda: env.score_actions(actions), lambda: env.step(actions[:, 0])):
        with pytest.raises(ResetNeeded):
            use()
    _, info = env.reset(seed=1)
    actions = looked_at(info, np.random.default_rng(0))
    with pytest.raises(KeyboardInterrupt), env.scoring.later():
        env.score_actions(actions)
        env.step(actions[:, 0])
        raise KeyboardInterrupt
    env.reset(seed=1)
    env.step(actions[:, 0])


def test_one_context_at_a_time_and_the_thread_ends_with_the_boards() -> None:
    def ours() -> set[threading.Thread]:
        # A timer that waited for a compiler may still be on its way out.
        return {thread for thread in threading.enumerate() if thread.name == "chess-env"}

    env, before = boards(Elsewhere()), ours()
    _, info = env.reset(seed=0)
    actions = looked_at(info, np.random.default_rng(0))
    evaluator = weakref.ref(env.evaluator)
    for attempt in range(2):  # once more after `close`, which ends the first thread
        with env.scoring.later() as found:
            with pytest.raises(RuntimeError, match="leave the first"), env.scoring.later():
                pass
            env.score_actions(actions)
            *_, info = env.step(actions[:, 0])
        assert len(found) == 1
        (thread,) = ours() - before
        actions = looked_at(info, np.random.default_rng(0))
        if attempt == 0:
            env.scoring.close()
            thread.join(10)
            assert not thread.is_alive()
    del env
    gc.collect()
    thread.join(10)
    assert not thread.is_alive() and evaluator() is None


def test_what_is_cut_short_leaves_later_questions_unasked() -> None:
    begun, stopped, asked = threading.Event(), threading.Event(), []

    class Slow(Elsewhere):
        def evaluate(self, positions: Any) -> Any:
            if threading.current_thread() is not threading.main_thread():
                asked.append(len(positions))
                begun.set()
                assert stopped.wait(20)
            return super().evaluate(positions)

    env = boards(Slow())
    _, info = env.reset(seed=0)
    with pytest.raises(KeyboardInterrupt), env.scoring.later():
        for _ in range(3):
            actions = looked_at(info, np.random.default_rng(0))
            env.score_actions(actions)
            *_, info = env.step(actions[:, 0])
        assert begun.wait(20)
        raise KeyboardInterrupt
    stopped.set()
    _, info = env.reset(seed=0)
    with env.scoring.later():
        actions = looked_at(info, np.random.default_rng(0))
        env.score_actions(actions)
        env.step(actions[:, 0])
    assert len(asked) == 2  # the one that was being answered, and that of the last ply


def test_calls_out_of_order_and_boards_that_cannot_move_are_refused() -> None:
    env = boards(Elsewhere())
    _, info = env.reset(seed=0)
    actions = looked_at(info, np.random.default_rng(0))
    with pytest.raises(RuntimeError, match="call score_actions before"), env.scoring.later():
        env.step(actions[:, 0])
    env.reset(seed=0)
    with pytest.raises(RuntimeError, match="scored twice"), env.scoring.later():
        env.score_actions(actions)
        env.score_actions(actions)
    env.reset(seed=0)
    state = env.get_state()
    for set_boards in (lambda: env.reset(seed=0), lambda: env.set_state(state)):
        with pytest.raises(RuntimeError, match="leave `later` first"), env.scoring.later():
            env.score_actions(actions)
            set_boards()
        env.reset(seed=0)
    wrong = np.where(np.arange(len(actions)) == 1, 1857, actions[:, 0])
    with pytest.raises(ValueError, match="4 of 5 boards can move"), env.scoring.later():
        env.score_actions(actions)
        env.step(wrong)
