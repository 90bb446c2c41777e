"""A learner for a test: the parts it names, and plain ones for the rest."""

from __future__ import annotations

from typing import Any

import torch

from algorithms.config.run import OptimizerConfig
from algorithms.core.algorithm import Controls
from algorithms.networks.policy_net import PolicyNet
from algorithms.regularization import Regularizer, RegularizerConfig
from algorithms.updates.learner import Learner, NonFiniteGuard


def learner_of(
    policy: PolicyNet,
    algorithm: Any,
    regularizer: Any = None,
    *,
    optimizer: torch.optim.Optimizer | None = None,
    rate: float = 0.0,
    temperature: float = 1.0,
    controls: Controls | None = None,
    guard: NonFiniteGuard | None = None,
    generator: torch.Generator | None = None,
    minibatch_size: int = 5,
    max_grad_norm: float = 1e9,
    behaviour: PolicyNet | None = None,
    sampler_correction: Any = "none",
) -> Learner:
    """The policy under SGD with this step size, no regulariser and seed 0, if nothing else is said."""
    return Learner(
        policy=policy,
        optimizer=optimizer or torch.optim.SGD(policy.parameters(), lr=rate),
        algorithm=algorithm,
        regularizer=regularizer or Regularizer(RegularizerConfig(), temperature),
        controls=controls or algorithm.controls(),
        settings=OptimizerConfig(
            minibatch_size=minibatch_size,
            max_grad_norm=max_grad_norm,
            sampler_correction=sampler_correction,
        ),
        behaviour=behaviour or policy,
        shuffling=generator or torch.Generator().manual_seed(0),
        guard=guard or NonFiniteGuard(),
    )
