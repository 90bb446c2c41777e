"""The whole policy loss of an algorithm over a made-up batch, and its gradient."""

from __future__ import annotations

import torch
from torch import Tensor

from algorithms.core.advantages import normalized
from algorithms.core.algorithm import Controls
from algorithms.core.losses import weighted_sum
from algorithms.testing.cases import Case


def batch_loss(
    case: Case,
    logits: Tensor,
    controls: Controls | None = None,
    advantages: Tensor | None = None,
) -> Tensor:
    """The batch's policy loss as the update adds it up, a scalar."""
    algorithm, flat = case.algorithm, case.flat
    advantages = case.advantages() if advantages is None else advantages
    if algorithm.needs().normalize_advantages:
        advantages = normalized(advantages, flat.valid)
    controls = controls or algorithm.controls()
    loss = algorithm.policy_loss(case.dist(logits), flat, advantages, controls).loss
    assert loss.shape == flat.valid.shape
    return weighted_sum(loss, case.batch.flatten(algorithm.weights(case.batch)), flat.valid)


def batch_gradient(case: Case) -> Tensor:
    """`[N, L]` d loss / d logits at the logits that sampled."""
    logits = case.logits.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(batch_loss(case, logits), logits)
    return gradient
