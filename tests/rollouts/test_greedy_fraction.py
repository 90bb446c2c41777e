"""rollout.greedy_fraction: other positions are visited, and nothing else about a rollout changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from algorithms.config.run import RolloutConfig, TrainConfig
from algorithms.core.batch import RolloutBatch
from algorithms.ppo import PPO
from algorithms.rollouts.collect import start_rollout
from algorithms.training.session import Session
from chess_env.observation import PLANE_INDEX
from tests.rollouts.play import play_positions
from tests.small import make_policy, make_vec
from tests.training.runs import tiny


def rollout(greedy_fraction: float, *, group_size: int | None = 3, plies: int = 4) -> RolloutBatch:
    vec, policy = make_vec(6), make_policy(spread=0.5)
    settings = {"temperature": 1.0, "generator": torch.Generator().manual_seed(1)}
    settings |= {"num_plies": plies, "group_size": group_size, "greedy_fraction": greedy_fraction}
    return play_positions(vec, policy, start_rollout(vec, 3), **settings)[0]


def positions_after(batch: RolloutBatch, choose: Any) -> list[np.ndarray]:
    """The planes after each ply but the last, if `choose(batch, ply)` gives the actions played on."""
    twin = make_vec(6)
    twin.reset(seed=3)
    return [
        twin.step(choose(batch, ply).numpy())[0].copy() for ply in range(batch.obs.shape[1] - 1)
    ]


def greedy_actions(batch: RolloutBatch, ply: int) -> torch.Tensor:
    slot = batch.old_legal_logprobs[:, ply].argmax(-1, keepdim=True)
    return batch.legal_ids[:, ply].long().gather(1, slot)[:, 0]


@pytest.mark.parametrize("group_size", [3, None])
def test_a_fraction_of_one_plays_on_with_the_most_probable_move(group_size: int | None) -> None:
    batch = rollout(1.0, group_size=group_size)
    for ply, planes in enumerate(positions_after(batch, greedy_actions)):
        np.testing.assert_array_equal(batch.obs[:, ply + 1].numpy(), planes)


def test_the_samples_of_a_first_ply_and_their_rewards_stay_what_they_were() -> None:
    sampled, greedy = rollout(0.0), rollout(0.5)
    for name in ("actions", "rewards", "old_logprobs", "obs"):
        assert torch.equal(getattr(sampled, name)[:, 0], getattr(greedy, name)[:, 0])
    assert not torch.equal(sampled.obs, greedy.obs)


def test_in_between_about_that_share_of_the_boards_plays_greedily() -> None:
    batch = rollout(0.3, plies=30)
    after = batch.obs[:, 1:]
    by_choice = [
        np.stack(positions, axis=1)
        for positions in (_one_ply_ahead(batch, which) for which in ("greedy", "sample"))
    ]
    greedy, sample = ((planes == after.numpy()).all((2, 3, 4)) for planes in by_choice)
    going_on = greedy | sample  # elsewhere the game ended and another began
    assert going_on.mean() > 0.9
    differ = greedy != sample
    assert differ.sum() > 100
    assert 0.2 < greedy[differ].mean() < 0.4


def _one_ply_ahead(batch: RolloutBatch, which: str) -> list[np.ndarray]:
    """For each ply the planes after the greedy move, or after the first sample, on a twin that follows."""
    vec, policy = make_vec(6), make_policy(spread=0.5)
    generator = torch.Generator().manual_seed(1)
    state, found = start_rollout(vec, 3), []
    for ply in range(batch.obs.shape[1] - 1):
        probe = make_vec(6)
        probe.reset(options={"fens": vec.fens()})
        action = greedy_actions(batch, ply) if which == "greedy" else batch.actions[:, ply, 0]
        planes = probe.step(action.numpy())[0].copy()
        # A game set up from a FEN has no history: the count of repetitions is the stream's own.
        repetitions = PLANE_INDEX.repetitions
        planes[:, repetitions] = batch.obs[:, ply + 1, repetitions].numpy()
        found.append(planes)
        settings = {"temperature": 1.0, "generator": generator, "greedy_fraction": 0.3}
        _, state = play_positions(vec, policy, state, num_plies=1, group_size=3, **settings)
    return found


@pytest.mark.parametrize("share", [-0.1, 1.5, float("nan")])
def test_a_share_outside_0_to_1_is_an_error(share: float) -> None:
    with pytest.raises(ValueError, match="greedy_fraction"):
        RolloutConfig(greedy_fraction=share)


def test_games_are_played_with_the_moves_that_are_learned_from() -> None:
    with pytest.raises(ValueError, match="set it to 0"):
        RolloutConfig(form="games", greedy_fraction=0.5)


def test_a_critic_is_refused_because_values_follow_the_sampled_moves(tmp_path: Path) -> None:
    config: TrainConfig = tiny(
        tmp_path, algorithm=PPO(), rollout=RolloutConfig(greedy_fraction=0.5)
    )
    with pytest.raises(ValueError, match="critic"):
        Session(config)
