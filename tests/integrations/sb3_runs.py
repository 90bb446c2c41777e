"""MaskablePPO's runs of a second, and one rollout of it with both halves' view of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import Logger

from algorithms.config.run import EnvConfig, OptimizerConfig, RolloutConfig, TrainConfig
from algorithms.core.batch import RolloutBatch
from algorithms.core.credit import ended
from algorithms.integrations.sb3.record import rollout_batch
from algorithms.integrations.sb3.session import SB3Session, make_sb3_session
from algorithms.networks.settings import NetworkConfig
from algorithms.ppo import PPO
from algorithms.regularization import RegularizerConfig
from algorithms.updates.targets import Targets


def one_ply(run_dir: Path | None = None, **changes: Any) -> TrainConfig:
    """4 moves of each of 8 positions in a rollout; the moves are all that counts (gamma 0)."""
    config = TrainConfig(
        algorithm=PPO(group_size=4, gamma=0.0),
        regularizer=RegularizerConfig(ent_coef=0.1, ent_coef_final=0.02),
        policy=NetworkConfig(network="resnet", channels=8, blocks=1, head_dim=8),
        rollout=RolloutConfig(num_envs=4, num_plies=2),
        env=EnvConfig(evaluator="builtin"),
        optimizer=OptimizerConfig(learning_rate=1e-2, minibatch_size=8),
        total_moves=4 * 32,
        eval_interval_updates=2,
        device="cpu",
        run_dir=run_dir,
        loop="sb3",
        preset="ppo",
    )
    return dataclasses.replace(config, **changes)


NOISE = {"action_bias": 1.0, "value_head.2.weight": 0.5}
"""What is drawn anew, and its spread."""

MOVE_NET = NetworkConfig(network="move_net", size="tiny", blocks=1)


def one_ply_facts(run_dir: Path | None = None, **changes: Any) -> TrainConfig:
    """`one_ply` with a network that reads the facts of the moves."""
    return one_ply(run_dir, **({"policy": MOVE_NET} | changes))


def versus(run_dir: Path | None = None, **changes: Any) -> TrainConfig:
    """Games of at most 6 plies against a random mover, 8 moves on each of 4 boards in a rollout."""
    settings: dict[str, Any] = {
        "algorithm": PPO(gamma=0.9, gae_lambda=0.8),
        "env": EnvConfig(evaluator="builtin", opponent="random", max_plies=6),
        "rollout": RolloutConfig(num_envs=4, num_plies=8),
        "optimizer": OptimizerConfig(learning_rate=1e-2, minibatch_size=32),
    }
    return one_ply(run_dir, **(settings | changes))


def versus_facts(run_dir: Path | None = None, **changes: Any) -> TrainConfig:
    """`versus` with a network that reads the facts of the moves."""
    return versus(run_dir, **({"policy": MOVE_NET} | changes))


@contextmanager
def opened(config: TrainConfig) -> Iterator[SB3Session]:
    """The parts of a run, with weights whose policy is far from uniform and whose critic says something."""
    outside = make_sb3_session(config)
    outside.model.set_logger(Logger(folder=None, output_formats=[]))
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, weight in outside.policy.named_parameters():
            for ending, spread in NOISE.items():
                if name.endswith(ending):
                    weight.normal_(0.0, spread, generator=generator)
    try:
        yield outside
    finally:
        outside.close()


def tensors_of(observed: Any) -> Any:
    """An observation of SB3's as it gives it to a policy: the planes, or each array by its name."""
    if isinstance(observed, dict):
        return {name: torch.from_numpy(array) for name, array in observed.items()}
    return torch.from_numpy(observed)


@torch.no_grad()
def values_of(outside: SB3Session, observed: Any) -> torch.Tensor:
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
    """Keeps what `rollout_batch` needs, and the values of the last positions of games cut short."""

    def __init__(self, outside: SB3Session) -> None:
        super().__init__()
        self.outside, self.steps = outside, []
        self.cut_values: list[torch.Tensor] = []

    def _on_rollout_start(self) -> None:
        self.states = [self.outside.env.state]

    def _on_step(self) -> bool:
        self.states.append(self.outside.env.state)
        self.steps.append(self.outside.env.last)
        values = torch.zeros(self.outside.env.num_envs)
        for row, info in enumerate(self.locals["infos"]):
            if info["TimeLimit.truncated"]:
                last = at(info["terminal_observation"], None)
                values[row] = values_of(self.outside, last).squeeze()
        self.cut_values.append(values)
        return True


@dataclasses.dataclass
class Sampled:
    """One rollout of MaskablePPO, its buffer full and nothing learned from it.

    `batch` has `next_values` from the network itself, not from SB3.
    """

    batch: RolloutBatch
    targets: Targets


def sample(outside: SB3Session) -> Sampled:
    """One rollout."""
    model, watch = outside.model, _Watch(outside)
    model._setup_learn(1, watch)
    watch.init_callback(model)
    model.collect_rollouts(outside.env, watch, model.rollout_buffer, model.n_steps)
    batch, targets = rollout_batch(outside, model.rollout_buffer, watch.states[:-1], watch.steps)
    assert batch.values is not None
    following = torch.zeros_like(batch.values)
    following[:, :-1] = batch.values[:, 1:]
    shared = outside.env.num_envs // len(batch.values)
    following[:, -1] = values_of(outside, at(model._last_obs, slice(None, None, shared)))
    cut = torch.stack(watch.cut_values, dim=1)[::shared]
    following = torch.where(ended(batch), torch.where(batch.truncated, cut, 0.0), following)
    return Sampled(dataclasses.replace(batch, next_values=following), targets)
