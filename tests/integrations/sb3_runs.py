"""MaskablePPO on our boards and network, and one rollout of it as this project's own record."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import Logger
from torch import Tensor

from algorithms.config.run import EnvConfig, OptimizerConfig, RolloutConfig, TrainConfig
from algorithms.core.advantages import ended
from algorithms.core.batch import RolloutBatch
from algorithms.networks.policy_net import PolicyNet
from algorithms.networks.settings import NetworkConfig
from algorithms.ppo import PPO
from algorithms.regularization import RegularizerConfig
from algorithms.rollouts.worker import reference_logprobs
from algorithms.updates.training_batch import Targets
from benchmarks.peers.ppo import maskable_ppo


def one_ply(**changes: Any) -> TrainConfig:
    """4 moves of each of 8 positions in a rollout; the moves are all that counts (gamma 0)."""
    config = TrainConfig(
        algorithm=PPO(group_size=4, gamma=0.0),
        regularizer=RegularizerConfig(ent_coef=0.1, ent_coef_final=0.02),
        policy=NetworkConfig(network="resnet", channels=8, blocks=1, head_dim=8),
        rollout=RolloutConfig(num_envs=4, num_plies=2),
        env=EnvConfig(evaluator="builtin"),
        optimizer=OptimizerConfig(learning_rate=1e-2, minibatch_size=8),
        total_moves=4 * 32,
        device="cpu",
    )
    return dataclasses.replace(config, **changes)


NOISE = {"action_bias": 1.0, "value_head.2.weight": 0.5}
"""What is drawn anew, and its spread."""

MOVE_NET = NetworkConfig(network="move_net", size="tiny", blocks=1)


def one_ply_facts(**changes: Any) -> TrainConfig:
    """`one_ply` with a network that reads the facts of the moves."""
    return one_ply(**({"policy": MOVE_NET} | changes))


def versus(**changes: Any) -> TrainConfig:
    """Games of at most 6 plies against a random mover, 8 moves on each of 4 boards in a rollout."""
    settings: dict[str, Any] = {
        "algorithm": PPO(gamma=0.9, gae_lambda=0.8),
        "env": EnvConfig(evaluator="builtin", opponent="random", max_plies=6),
        "rollout": RolloutConfig(num_envs=4, num_plies=8),
        "optimizer": OptimizerConfig(learning_rate=1e-2, minibatch_size=32),
    }
    return one_ply(**(settings | changes))


def versus_facts(**changes: Any) -> TrainConfig:
    """`versus` with a network that reads the facts of the moves."""
    return versus(**({"policy": MOVE_NET} | changes))


class Outside(NamedTuple):
    """A MaskablePPO: its boards, the network inside it, and the settings that it was given."""

    model: Any
    env: Any
    policy: PolicyNet
    config: TrainConfig


@contextmanager
def opened(config: TrainConfig) -> Iterator[Outside]:
    """A MaskablePPO with weights whose policy is far from uniform and whose critic says something."""
    model, _ = maskable_ppo(config.settled())
    model.set_logger(Logger(folder=None, output_formats=[]))
    model.ent_coef = config.regularizer.ent_coef
    outside = Outside(model, model.env, model.policy.net, config)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, weight in outside.policy.named_parameters():
            for ending, spread in NOISE.items():
                if name.endswith(ending):
                    weight.normal_(0.0, spread, generator=generator)
    try:
        yield outside
    finally:
        outside.env.close()


def tensors_of(observed: Any) -> Any:
    """An observation of SB3's as it gives it to a policy: the planes, or each array by its name."""
    if isinstance(observed, dict):
        return {name: torch.from_numpy(array) for name, array in observed.items()}
    return torch.from_numpy(observed)


@torch.no_grad()
def values_of(outside: Outside, observed: Any) -> Tensor:
    """`[N]` of the run's network, at observations whose arrays are `[N, ...]`."""
    seen = tensors_of(observed)
    if not isinstance(seen, dict):
        seen = {"planes": seen, "legal_ids": torch.zeros(len(seen), 1, dtype=torch.int16)}
    values = outside.policy.values(seen["planes"], seen["legal_ids"], seen.get("move_facts"))
    assert values is not None
    return values


def at(observed: Any, rows: Any) -> Any:
    """Rows of an observation."""
    if isinstance(observed, dict):
        return {name: array[rows] for name, array in observed.items()}
    return observed[rows]


class _Watch(BaseCallback):
    """Keeps what SB3's buffer does not: rewards without bootstrap, endings, and the values of games cut short."""

    def __init__(self, outside: Outside) -> None:
        super().__init__()
        self.outside = outside
        self.steps: list[tuple[np.ndarray, np.ndarray, np.ndarray, Tensor]] = []

    def _on_step(self) -> bool:
        values = torch.zeros(self.outside.env.num_envs)
        cut = np.array([info["TimeLimit.truncated"] for info in self.locals["infos"]])
        for row in np.flatnonzero(cut):
            last = at(self.locals["infos"][row]["terminal_observation"], None)
            values[row] = values_of(self.outside, last).squeeze()
        self.steps.append((self.locals["rewards"].copy(), self.locals["dones"], cut, values))
        return True


def sample(outside: Outside) -> tuple[RolloutBatch, Targets]:
    """(one rollout, SB3's targets of it); `next_values` are of the network itself, not from SB3."""
    model, watch = outside.model, _Watch(outside)
    model._setup_learn(1, watch)
    watch.init_callback(model)
    model.collect_rollouts(outside.env, watch, model.rollout_buffer, model.n_steps)
    buffer, boards = model.rollout_buffer, outside.env.vec.num_envs
    group = outside.env.num_envs // boards

    def by_sample(array: Any) -> Tensor:  # SB3's axes are [T, P x G]
        array = np.asarray(array).reshape(-1, boards, group).swapaxes(0, 1)
        return torch.from_numpy(np.ascontiguousarray(array))

    def by_state(array: Any) -> Tensor:  # the samples of a state share it
        return torch.from_numpy(np.ascontiguousarray(np.asarray(array)[:, ::group].swapaxes(0, 1)))

    rewards, dones, cut, cut_values = (np.stack(each) for each in zip(*watch.steps, strict=True))
    masks = by_state(buffer.action_masks.reshape(len(rewards), -1, buffer.mask_dims)).bool()
    width, actions = int(masks.sum(-1).max()), by_sample(buffer.actions).long()
    ids = torch.where(masks, torch.arange(masks.shape[-1]), masks.shape[-1]).sort(-1)[0][
        ..., :width
    ]
    legal_ids = ids.masked_fill(ids == masks.shape[-1], -1).short()
    observed = buffer.observations
    named = observed if isinstance(observed, dict) else {"planes": observed}
    values, nothing = by_state(buffer.values), torch.zeros(actions.shape[:2], dtype=torch.int32)
    batch = RolloutBatch(
        form="positions",
        obs=by_state(named["planes"]),
        legal_ids=legal_ids,
        slots=(legal_ids.unsqueeze(2) == actions.unsqueeze(3)).int().argmax(-1),
        actions=actions,
        old_logprobs=by_sample(buffer.log_probs),
        old_legal_logprobs=torch.zeros(legal_ids.shape),  # until it is asked for below
        rewards=by_sample(rewards),
        terminated=by_sample(dones & ~cut),
        truncated=by_state(cut),
        valid=torch.ones_like(actions, dtype=torch.bool),
        ply=nothing,
        side=nothing,
        phase=nothing,
        temperature=outside.config.rollout.temperature,
        policy_version=0,
        values=values,
        alternating=outside.config.env.opponent is None,
        move_facts=by_state(named["move_facts"])[:, :, :width] if len(named) > 1 else None,
    )
    logprobs = reference_logprobs(outside.policy, batch, minibatch_size=64)
    following = torch.zeros_like(values)
    following[:, :-1] = values[:, 1:]
    following[:, -1] = values_of(outside, at(model._last_obs, slice(None, None, group)))
    after = torch.where(batch.truncated, by_state(cut_values), 0.0)
    following = torch.where(ended(batch), after, following)
    batch = dataclasses.replace(batch, old_legal_logprobs=logprobs, next_values=following)
    weights = outside.config.algorithm.weights(batch)
    return batch, Targets(by_sample(buffer.advantages), weights, by_sample(buffer.returns))
