"""Our own runs against an opponent: its replies are the environment's, the stream is the learner's."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from algorithms.config.compatibility import check_settings
from algorithms.config.run import EnvConfig, RolloutConfig, TrainConfig
from algorithms.exact import Exact
from algorithms.grpo import GRPO
from algorithms.networks.build import build_policy
from algorithms.networks.policy_net import PolicyNet
from algorithms.ppo import PPO
from algorithms.rollouts.collect import start_rollout
from algorithms.training.trainer import train
from tests.rollouts.play import play_positions
from tests.small import CPU, VecOf, make_batch
from tests.training.runs import Watcher, assert_same, final_state, rows_without_time, tiny


def against(run_dir: Path, **changes: Any) -> TrainConfig:
    env = EnvConfig(evaluator="builtin", opponent="random", max_plies=6)
    settings: dict[str, Any] = {"algorithm": PPO(), "env": env, "total_moves": 4 * 16}
    return tiny(run_dir, **(settings | changes))


def test_a_rollout_holds_the_learners_moves_with_the_rewards_of_the_step(vec_of: VecOf) -> None:
    vec, twin = (
        vec_of(4, opponent="random", max_plies=6, observation="positions") for _ in range(2)
    )
    policy: PolicyNet = build_policy(tiny(Path()).policy, seed=0, device=CPU, critic=True)
    batch, _ = play_positions(
        vec, policy, start_rollout(vec, 3), num_plies=8, group_size=1, temperature=1.0,
        generator=torch.Generator().manual_seed(0), device=CPU,
    )  # fmt: skip
    assert not batch.alternating and batch.score_cp is None and batch.scored_moves == 32
    _, info = twin.reset(seed=3)
    for t in range(8):
        np.testing.assert_array_equal(batch.side[:, t], info["learner_turn"])
        np.testing.assert_array_equal(batch.before_cp[:, t], info["score_cp"])  # type: ignore[index]
        _, rewards, terminated, truncated, info = twin.step(batch.actions[:, t, 0].numpy())
        np.testing.assert_array_equal(batch.rewards[:, t, 0], rewards.astype(np.float32))
        np.testing.assert_array_equal(batch.terminated[:, t, 0], terminated)
        np.testing.assert_array_equal(batch.truncated[:, t], truncated & ~terminated)
    assert int(batch.truncated.sum()) >= 4


def test_a_run_that_is_continued_is_the_run_that_was_not_stopped(tmp_path: Path) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    train(against(whole), display=Watcher())
    train(against(parts, total_moves=2 * 16), display=Watcher())
    train(against(parts), resume=True, display=Watcher())
    weights, state = final_state(whole)
    continued, its_state = final_state(parts)
    assert_same(weights, continued)
    assert_same(state["shards"], its_state["shards"])
    policy = [[row.get("policy/entropy") for row in rows_without_time(d)] for d in (whole, parts)]
    assert policy[0][1:] == policy[1][1:] and len(policy[0]) == 5


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"algorithm": GRPO(group_size=4)}, r"'random' with group_size 4 .*set group_size to 1"),
        ({"algorithm": Exact()}, r"'random' with all legal moves"),
        ({"rollout": RolloutConfig(form="games")}, r"rollout.form 'games': an opponent answers"),
    ],
)
def test_more_than_one_move_of_a_position_cannot_be_answered(
    changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=message):
        check_settings(against(tmp_path, **changes))


def test_a_batch_of_games_always_holds_both_players() -> None:
    with pytest.raises(ValueError, match=r"both players' plies and alternating is False"):
        dataclasses.replace(make_batch("games"), alternating=False)
