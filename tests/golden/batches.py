"""The rollouts that the golden curves learn from: made once with a built-in evaluator, then only read."""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from algorithms.core.batch import RolloutBatch
from algorithms.networks.build import build_policy
from algorithms.networks.policy_net import PolicyNet
from algorithms.networks.settings import NetworkConfig
from algorithms.rollouts.collect import start_rollout
from chess_env.positions.start_positions import RandomPlies
from chess_env.vector_env import ChessSelfPlayVectorEnv
from tests.rollouts.play import play_games, play_positions
from tests.small import CPU

PATH = Path(__file__).with_name("batches.npz")
WEIGHTS = "weights"
FORMS = ("positions", "games", "all_moves")
SEED = 4
TEMPERATURE = 1.3

# One quiet position, and one that random moves mate or stalemate early: games of unequal length.
GAME_STARTS = (
    "r1bqkb1r/pppp1ppp/2n2n2/4p3/4P3/2N2N2/PPPP1PPP/R1BQKB1R w KQkq - 4 4",
    "7k/5K2/8/8/8/8/8/4R1Q1 w - - 0 1",
)


def new_policy(*, critic: bool) -> PolicyNet:
    """A small network as it is built."""
    config = NetworkConfig(network="resnet", channels=8, blocks=1, head_dim=4)
    return build_policy(config, seed=SEED, device=CPU, critic=critic)


def spread_policy() -> PolicyNet:
    """A small network with a critic, logits of standard deviation about 1 and values not all 0."""
    policy = new_policy(critic=True)
    generator = torch.Generator().manual_seed(SEED)
    assert policy.value_head is not None
    with torch.no_grad():
        policy.action_bias.normal_(0.0, 1.0, generator=generator)
        last = policy.value_head[-1]
        assert isinstance(last, nn.Linear)
        last.weight.normal_(0.0, 0.2, generator=generator)
    return policy


def make_vec(num_envs: int) -> ChessSelfPlayVectorEnv:
    return ChessSelfPlayVectorEnv(
        num_envs=num_envs,
        evaluator="builtin-v1",
        reward="win_prob_delta",
        start_positions=RandomPlies(8, 40),
    )


def make_batches(policy: PolicyNet) -> dict[str, RolloutBatch]:
    """The three rollouts, played afresh by `policy`."""
    shared: dict[str, Any] = {
        "temperature": TEMPERATURE,
        "device": CPU,
        "generator": torch.Generator().manual_seed(SEED),
    }
    batches: dict[str, RolloutBatch] = {}
    for form, boards, group_size in (("positions", 4, 4), ("all_moves", 2, None)):
        vec = make_vec(boards)
        state = start_rollout(vec, SEED)
        batches[form], _ = play_positions(
            vec, policy, state, num_plies=2, group_size=group_size, **shared
        )
        vec.close()
    vec = make_vec(2 * 3)
    batches["games"] = play_games(
        vec, policy, num_plies=5, group_size=3, fens=GAME_STARTS, **shared
    )
    vec.close()
    return batches


def save() -> None:
    """Writes the weights of `spread_policy` and every field of the rollouts that it plays."""
    policy = spread_policy()
    arrays: dict[str, Any] = {
        f"{WEIGHTS}.{name}": value.numpy() for name, value in policy.state_dict().items()
    }
    for form, batch in make_batches(policy).items():
        for field in dataclasses.fields(batch):
            value = getattr(batch, field.name)
            if value is not None:
                array = value.numpy() if isinstance(value, Tensor) else np.array(value)
                arrays[f"{form}.{field.name}"] = array
    np.savez_compressed(PATH, **arrays)


@functools.cache
def load() -> dict[str, dict[str, Any]]:
    """What is stored, by form (or `weights`) and field; floats as float64.

    In float64, rounding differs between machines by too little to be seen after 10 updates.
    """
    fields: dict[str, dict[str, Any]] = {name: {} for name in (WEIGHTS, *FORMS)}
    with np.load(PATH) as stored:
        for key in stored.files:
            part, _, name = key.partition(".")
            array = stored[key]
            if array.shape == ():
                fields[part][name] = array.item()
                continue
            value = torch.from_numpy(array)
            fields[part][name] = value.double() if value.dtype == torch.float32 else value
    return fields


def load_batches(device: torch.device = CPU) -> dict[str, RolloutBatch]:
    """The stored rollouts by form."""
    return {form: RolloutBatch(**load()[form]).to(device) for form in FORMS}


def load_policy(*, critic: bool) -> PolicyNet:
    """A float64 network with the stored weights: how networks are initialised does not matter."""
    policy = new_policy(critic=critic).double()
    policy.load_state_dict({name: load()[WEIGHTS][name] for name in policy.state_dict()})
    return policy
