"""An update: the one loss, backward, step, and metrics; it knows no algorithm and no regulariser term."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from algorithms.core.advantages import normalized
from algorithms.core.algorithm import Controls
from algorithms.core.batch import FlatBatch, RolloutBatch
from algorithms.core.distribution import MaskedCategorical
from algorithms.core.losses import value_loss, weighted_sum
from algorithms.core.metrics import (
    add_sums,
    clip_metrics,
    log_odds_line,
    ratio_metrics,
    ratio_sums,
    to_floats,
)
from algorithms.updates.learner import Learner
from algorithms.updates.training_batch import (
    Targets,
    TrainingBatch,
    largest_gap,
    make_training_batch,
    shuffled,
    with_learner_logprobs,
)


@dataclasses.dataclass(frozen=True)
class Loss:
    """One minibatch after its forward pass and before the step.

    Attributes:
        minibatch: the states.
        advantages: `[n, K]` that the policy loss read; no gradient.
        dist: the learner.
        gate: `[n, K]` share of each sample's gradient let through, no gradient; None if all of it.
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
    gate: Tensor | None
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
    advantages = regularizer.shape_by_learner(dist, flat, advantages)
    surrogate = algorithm.policy_loss(dist, flat, advantages, learner.controls)
    policy = weighted_sum(surrogate.loss, minibatch.policy_weights, flat.valid)
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
        minibatch,
        advantages,
        dist,
        surrogate.gate,
        policy,
        penalties,
        penalty,
        parts,
        value,
        vf_coef,
        total,
    )


@dataclasses.dataclass
class UpdateMetrics:
    """Weighted means over the minibatches of one update; names and formulas: docs/metrics.md."""

    _sums: dict[str, Tensor] = dataclasses.field(default_factory=dict)
    _weights: dict[str, Tensor | float] = dataclasses.field(default_factory=dict)
    _ratio: dict[str, Tensor] = dataclasses.field(default_factory=dict)
    _ratio_first: dict[str, Tensor] = dataclasses.field(default_factory=dict)
    _line_first: dict[str, Tensor] = dataclasses.field(default_factory=dict)

    def add(self, means: dict[str, Tensor], weight: Tensor | float) -> None:
        """Adds means, scalars by name, each weighted with the number of samples or states behind it."""
        for name, value in means.items():
            self._sums[name] = self._sums.get(name, 0.0) + value.detach().double() * weight
            self._weights[name] = self._weights.get(name, 0.0) + weight

    @torch.no_grad()
    def add_loss(self, loss: Loss, controls: Controls) -> None:
        """Adds the metrics of one minibatch."""
        minibatch, flat = loss.minibatch, loss.minibatch.flat
        logprobs, states = loss.dist.gather(flat.slots), float(flat.num_states)
        drawn = float(minibatch.num_drawn)
        bounds = controls.clip_low, controls.clip_high
        sums = ratio_sums(logprobs, flat.old_logprobs, minibatch.advantages, flat.valid, *bounds)
        if not self._ratio_first:
            self._ratio_first = sums
            self._line_first = log_odds_line(loss.dist.logprobs, flat.old_legal_logprobs)
        self._ratio = add_sums(self._ratio, sums)
        self.add({"train/policy_loss": loss.policy}, drawn)
        means = {name: value.mean() for name, value in loss.parts.items()}
        self.add(means | {"reg/loss": loss.penalty.mean()}, states)
        samples = flat.valid.sum()
        delight = torch.where(flat.valid, -minibatch.advantages * logprobs, 0.0)
        by_sample = {"policy/delight_mean": delight.sum() / samples}
        if loss.gate is not None:
            by_sample["policy/gate_mean"] = torch.where(flat.valid, loss.gate, 0.0).sum() / samples
        self.add(by_sample, samples)
        if loss.value is not None:
            weighted = loss.vf_coef * loss.value
            values = {"train/value_loss": loss.value, "train/value_loss_weighted": weighted}
            self.add(values, drawn)

    def floats(self) -> dict[str, float]:
        """The means by metric name; the ratio's also of the first minibatch alone."""
        values = {name: total / self._weights[name] for name, total in self._sums.items()}
        if self._ratio:
            values |= ratio_metrics(self._ratio)
            first = ratio_metrics(self._ratio_first) | self._line_first
            values |= {f"{name}_first_minibatch": value for name, value in first.items()}
        by_probability = clip_metrics(self._ratio["clip"]) if self._ratio else {}
        return to_floats(values) | by_probability


@torch.no_grad()
def kl_sum(loss: Loss) -> Tensor:
    """Sum over the states of the exact KL(behaviour || learner), a scalar, nats."""
    flat = loss.minibatch.flat
    old = MaskedCategorical(flat.old_legal_logprobs, flat.legal, 1.0)
    return old.kl(loss.dist.logprobs).double().sum()


@torch.no_grad()
def explained_variance(flat: FlatBatch) -> dict[str, float]:
    """1 - Var(R - V) / Var(R) over the valid samples; NaN where all returns are equal, nothing without a critic."""
    if flat.returns is None or flat.old_values is None:
        return {}
    returns = flat.returns[flat.valid].double()
    values = flat.old_values.unsqueeze(-1).expand_as(flat.returns)[flat.valid].double()
    left, whole = (returns - values).var(correction=0), returns.var(correction=0)
    explained = float(1 - left / whole) if whole > 0 else math.nan
    return {"train/explained_variance": explained}


KeepBad = Callable[[FlatBatch, dict[str, Tensor], str], None]
"""Given the first minibatch of a step that is not finite, its advantages and weights, and the reason."""

OnStep = Callable[[TrainingBatch, list[Tensor]], None]
"""Given the states of an update and the indices of a step's minibatches, when the parameters have its gradients."""


def update(
    learner: Learner,
    batch: RolloutBatch,
    targets: Targets,
    keep_bad: KeepBad | None = None,
    on_step: OnStep | None = None,
) -> dict[str, float]:
    """Metrics of training on one batch for at most `algorithm.update_epochs` passes.

    They are means over all minibatches; the ratio's also exist for the first one alone. The loss of
    a minibatch is its share of sum(weights * (policy loss + vf_coef * value loss)), scaled up to the
    whole batch, plus its share of the mean of the regulariser over the states. Shares are counted in
    states, or in games where games stay whole, so that they are unbiased. A state's K actions stay in one
    minibatch. Where the algorithm asks for a single step, the gradients of the minibatches add up to
    the batch's, and there is one step in a pass. The passes that remain are left out once the mean
    exact KL(behaviour || learner) of one exceeds 1.5 times `controls.target_kl`.

    Where the forward pass may round below float32 (autocast, TF32, a lower head or log-probability
    dtype), `old_logprobs` are first recomputed by this very path, and `ratio/mismatch` is the
    largest |behaviour / sampler - 1| over the batch; otherwise it is that of the first minibatch. Under a
    sampler correction they are the learner's own, and the policy loss of each sample is weighted with the
    correction of its departure from the sampler.

    A step whose loss or gradient is not finite changes nothing, is left out of the means and
    counted.

    Args:
        learner: trained in place.
        batch: one rollout.
        targets: what the losses learn from.
        keep_bad: is given the first minibatch of a step that is not finite.
        on_step: looks at each step before its gradient is cut to the largest norm.

    Raises:
        NonFiniteError: too many non-finite steps in a row.
        ValueError: the batch has no valid sample, or lacks what the algorithm needs.
    """
    algorithm, size = learner.algorithm, learner.settings.minibatch_size
    controls, needs = learner.controls, learner.algorithm.needs()
    training = make_training_batch(algorithm, batch, targets, learner.shuffling)
    training, seen = with_learner_logprobs(learner, training, size, learner.passes)
    metrics, steps, skipped, passes = UpdateMetrics(), 0, 0, 0
    while passes < algorithm.update_epochs:
        indices = list(
            shuffled(training.flat, size, learner.shuffling, whole_games=needs.whole_games)
        )
        kl_total = torch.zeros((), dtype=torch.float64, device=training.flat.obs.device)
        kl_states = 0
        for accumulated in [indices] if needs.single_step else [[index] for index in indices]:
            step = _step(learner, training, accumulated, keep_bad, on_step)
            skipped += step is None
            if step is None:
                continue
            steps += 1
            for loss in step.losses:
                if "ratio/mismatch" not in seen:
                    seen["ratio/mismatch"] = _mismatch(loss)
                metrics.add_loss(loss, controls)
                if math.isfinite(controls.target_kl):
                    kl_total += kl_sum(loss)
                    kl_states += loss.minibatch.flat.num_states
            metrics.add({"train/loss": step.total, "train/grad_norm": step.grad_norm}, 1.0)
        passes += 1
        if kl_states and float(kl_total) / kl_states > 1.5 * controls.target_kl:
            break
    learner.optimizer.zero_grad(set_to_none=True)
    found = metrics.floats() | explained_variance(training.flat) | to_floats(seen)
    counts = {"train/steps": steps, "train/skipped_steps": skipped, "train/passes": passes}
    return found | {name: float(count) for name, count in counts.items()}


class _Step(NamedTuple):
    """What was minimised in a step: the minibatches' losses, the whole, and the gradient's norm before it was cut."""

    losses: list[Loss]
    total: Tensor
    grad_norm: Tensor


def _step(
    learner: Learner,
    training: TrainingBatch,
    accumulated: list[Tensor],
    keep_bad: KeepBad | None,
    on_step: OnStep | None,
) -> _Step | None:
    """One step, which is made; None where it is not finite, and then nothing has changed.

    Args:
        learner: takes the step.
        training: the states.
        accumulated: int64 indices of the minibatches whose gradients add up to the step's.
        keep_bad: as of `update`.
        on_step: likewise.
    """
    learner.optimizer.zero_grad(set_to_none=True)
    losses, total = _backward(learner, training, accumulated)
    parameters = learner.trained
    if on_step is not None:
        on_step(training, accumulated)
    grad_norm = torch.nn.utils.clip_grad_norm_(parameters, learner.settings.max_grad_norm)
    loss_value, norm_value = torch.stack([total, grad_norm]).tolist()
    finite = bool(torch.isfinite(torch.tensor([loss_value, norm_value])).all())
    if finite:
        learner.optimizer.step()
    reason = f"loss {loss_value}, gradient norm {norm_value}"
    if not finite and keep_bad is not None:
        bad = training.select(torch.cat(accumulated))
        keep_bad(bad.flat, {"advantages": bad.advantages, "weights": bad.weights}, reason)
    learner.guard.record(finite, reason)
    if not finite:
        return None
    return _Step(losses, total, grad_norm)


def _backward(
    learner: Learner, training: TrainingBatch, accumulated: list[Tensor]
) -> tuple[list[Loss], Tensor]:
    """Adds the gradients of the minibatches of one step; their losses, and the step's loss."""
    total, losses = torch.zeros((), device=training.flat.obs.device), []
    # One minibatch is the whole step's loss; several are all of the batch.
    drawn = training.num_drawn if len(accumulated) > 1 else None
    for index in accumulated:
        minibatch = training.select(index)
        loss = loss_of(learner, minibatch)
        share = loss.total * (1.0 if drawn is None else minibatch.num_drawn / drawn)
        learner.passes.backward(learner.policy, share)
        total = total + share.detach()
        losses.append(loss)
    return losses, total


@torch.no_grad()
def _mismatch(loss: Loss) -> Tensor:
    """Largest |learner / sampler - 1| of a minibatch before any step, a scalar."""
    flat = loss.minibatch.flat
    return largest_gap(loss.dist.gather(flat.slots), flat.old_logprobs, flat.valid)
