"""Small policies that are not indifferent between moves, as networks and as run folders."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from algorithms import PRESETS
from algorithms.config import files as config_file
from algorithms.config.run import TrainConfig
from algorithms.networks.build import build_policy
from algorithms.networks.policy_net import PolicyNet
from algorithms.networks.settings import NetworkConfig
from algorithms.run_folder import checkpoint

SMALL = NetworkConfig(network="resnet", channels=8, blocks=1, head_dim=8)


def small_policy(
    seed: int, config: NetworkConfig = SMALL, *, critic: bool = False, spread: float = 1.0
) -> PolicyNet:
    """A network whose logits differ by about `spread`, and depend on every plane."""
    policy = build_policy(config, seed=seed, device=torch.device("cpu"), critic=critic)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        policy.action_bias.normal_(0.0, spread, generator=generator)
        policy.to_vector.weight.normal_(0.0, spread, generator=generator)
    return policy.eval()


def saved_run(
    folder: Path, seed: int, config: NetworkConfig = SMALL, *, critic: bool = False, **settings: Any
) -> Path:
    """The run folder `folder`: its settings, and one checkpoint of `small_policy(seed)`."""
    policy = small_policy(seed, config, critic=critic)
    folder.mkdir()
    algorithm, regularizer = PRESETS["grpo"]
    run = TrainConfig(
        algorithm, regularizer, policy=config, preset="grpo", run_dir=folder, **settings
    )
    config_file.save(run, folder / "config.json")
    weights = policy.state_dict()
    checkpoint.save(folder / "checkpoints", 1, weights=weights, state={}, best=True)
    return folder
