"""The one loss: policy, regulariser and critic on a minibatch."""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor

from algorithms.core.advantages import normalized
from algorithms.core.distribution import MaskedCategorical
from algorithms.core.losses import value_loss, weighted_sum
from algorithms.updates.learner import Learner
from algorithms.updates.training_batch import TrainingBatch


@dataclasses.dataclass(frozen=True)
class Loss:
    """One minibatch after its forward pass and before the step.

    Attributes:
        minibatch: the states.
        advantages: `[n, K]` that the policy loss read; no gradient.
        dist: the learner.
        policy: scalar, scaled to the whole batch.
        penalties: term -> `[n]` of the regulariser, weighted and differentiable.
        penalty: `[n]` their sum.
        parts: `[n]` raw and weighted parts of it, by metric name; no gradient.
        value: scalar without coefficient, weighted as the policy loss is; None without a critic.
        vf_coef: the coefficient of `value`.
        total: scalar, what is minimised.
    """

    minibatch: TrainingBatch
    advantages: Tensor
    dist: MaskedCategorical
    policy: Tensor
    penalties: dict[str, Tensor]
    penalty: Tensor
    parts: dict[str, Tensor]
    value: Tensor | None
    vf_coef: float
    total: Tensor

    def terms(self) -> dict[str, Tensor]:
        """Name -> weighted scalar: `policy`, the regulariser's terms, and `value` with a critic."""
        scale = self.minibatch.penalty_scale
        penalties = {name: each.mean() * scale for name, each in self.penalties.items()}
        value = {} if self.value is None else {"value": self.vf_coef * self.value}
        return {"policy": self.policy} | penalties | value


def loss_of(learner: Learner, minibatch: TrainingBatch) -> Loss:
    """The loss of a minibatch.

    Raises:
        ValueError: the algorithm learns a critic, and policy or batch have no values.
    """
    algorithm, regularizer, flat = learner.algorithm, learner.regularizer, minibatch.flat
    outputs = learner.passes.outputs(learner.policy, flat)
    dist = outputs.dist
    advantages = minibatch.advantages
    if algorithm.needs().normalize_advantages:
        scaled = normalized(advantages, flat.valid)
        advantages = regularizer.shape_advantage(scaled, flat)
    samples = algorithm.policy_loss(dist, flat, advantages, learner.controls)
    policy = weighted_sum(samples, minibatch.weights, flat.valid)
    penalties, parts = regularizer.penalties(dist, flat, advantages)
    penalty = sum(penalties.values(), torch.zeros_like(parts["reg/entropy"]))
    total = policy + penalty.mean() * minibatch.penalty_scale
    critic, value = algorithm.needs().critic, None
    if critic is not None:
        if outputs.values is None or flat.old_values is None or flat.returns is None:
            raise ValueError(
                f"{algorithm.name} learns a critic: build the policy with critic=True, and sample "
                "the batch and make its targets with it"
            )
        each = value_loss(outputs.values, flat.old_values, flat.returns, critic.clip_range_vf)
        value = weighted_sum(each, minibatch.weights, flat.valid)
        total = total + critic.vf_coef * value
    vf_coef = 0.0 if critic is None else critic.vf_coef
    return Loss(
        minibatch, advantages, dist, policy, penalties, penalty, parts, value, vf_coef, total
    )
