"""Surrogate plus regularisation, backward, step; it knows no algorithm and no regulariser term."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import torch
from torch import Tensor

from algorithms.core.algorithm import Algorithm, Controls, Critic
from algorithms.core.batch import FlatBatch, RolloutBatch
from algorithms.core.distribution import MaskedCategorical
from algorithms.core.losses import value_loss
from algorithms.core.ratio_metrics import (
    add_sums,
    clip_metrics,
    ratio_metrics,
    ratio_sums,
    to_floats,
)
from algorithms.networks.policy_net import PolicyNet
from algorithms.regularization import Regularizer
from algorithms.updates.nonfinite import NonFiniteGuard
from algorithms.updates.targets import Targets
from algorithms.updates.training_batch import (
    TrainingBatch,
    largest_gap,
    learned_advantages,
    make_training_batch,
    relabel,
    shuffled,
)

KeepBad = Callable[[FlatBatch, dict[str, Tensor], str], None]


@dataclasses.dataclass
class _Totals:
    """Sums over the minibatches of one update, kept on the device until its end."""

    sums: dict[str, Tensor] = dataclasses.field(default_factory=dict)
    ratio: dict[str, Tensor] = dataclasses.field(default_factory=dict)
    ratio_first: dict[str, Tensor] = dataclasses.field(default_factory=dict)
    weight: dict[str, Tensor | float] = dataclasses.field(default_factory=dict)

    def add(self, means: dict[str, Tensor], weight: Tensor | float) -> None:
        """Adds minibatch means, each weighted with the number of samples or states behind it."""
        for name, value in means.items():
            self.sums[name] = self.sums.get(name, 0.0) + value.detach().double() * weight
            self.weight[name] = self.weight.get(name, 0.0) + weight

    def add_ratio(self, sums: dict[str, Tensor]) -> None:
        self.ratio_first = self.ratio_first or sums
        self.ratio = add_sums(self.ratio, sums)

    def metrics(self) -> dict[str, float]:
        values = {name: total / self.weight[name] for name, total in self.sums.items()}
        if self.ratio:
            values |= ratio_metrics(self.ratio)
            first = ratio_metrics(self.ratio_first)
            values |= {f"{name}_first_minibatch": value for name, value in first.items()}
        by_probability = clip_metrics(self.ratio["clip"]) if self.ratio else {}
        return to_floats(values) | by_probability


@dataclasses.dataclass(frozen=True)
class _Losses:
    """One minibatch after its forward pass; what is measured on it is read before the step.

    Attributes:
        part: the states.
        advantages: `[n, K]` that the policy loss read.
        dist: the learner.
        policy_loss: scalar, scaled to the whole batch.
        penalty: `[n]` the regulariser's.
        parts: `[n]` raw and weighted parts of it.
        value_loss: scalar without coefficient, weighted as the policy loss is; None without a critic.
        loss: scalar, what is minimised.
    """

    part: TrainingBatch
    advantages: Tensor
    dist: MaskedCategorical
    policy_loss: Tensor
    penalty: Tensor
    parts: dict[str, Tensor]
    value_loss: Tensor | None
    loss: Tensor


def _losses(
    policy: PolicyNet,
    algorithm: Algorithm,
    regularizer: Regularizer,
    critic: Critic | None,
    controls: Controls,
    part: TrainingBatch,
) -> _Losses:
    flat = part.flat
    outputs = policy.outputs(flat.obs, flat.legal_ids, flat.temperature)
    advantages = learned_advantages(algorithm, regularizer, part)
    samples = algorithm.policy_loss(outputs.dist, flat, advantages, controls)
    policy_loss = torch.where(flat.valid, part.weights * samples, 0.0).sum()
    penalty, parts = regularizer.loss(outputs.dist, flat, advantages)
    loss, value = policy_loss + penalty.mean() * part.penalty_scale, None
    if critic is not None:
        if outputs.values is None or flat.old_values is None or flat.returns is None:
            raise ValueError(
                f"{algorithm.name} learns a critic: build the policy with critic=True, and sample "
                "the batch and make its targets with it"
            )
        each = value_loss(outputs.values, flat.old_values, flat.returns, critic.clip_range_vf)
        value = torch.where(flat.valid, part.weights * each, 0.0).sum()
        loss = loss + critic.vf_coef * value
    return _Losses(part, advantages, outputs.dist, policy_loss, penalty, parts, value, loss)


def _backward(
    policy: PolicyNet,
    algorithm: Algorithm,
    regularizer: Regularizer,
    controls: Controls,
    material: TrainingBatch,
    together: list[Tensor],
) -> tuple[list[_Losses], Tensor]:
    """Adds the gradients of the minibatches of one step; their losses, and the step's loss."""
    total, done = torch.zeros((), device=material.flat.obs.device), []
    critic = algorithm.needs().critic
    # One minibatch is the whole step's loss; several are all of the batch.
    drawn = material.num_drawn if len(together) > 1 else None
    for index in together:
        part = material.select(index)
        losses = _losses(policy, algorithm, regularizer, critic, controls, part)
        share = losses.loss * (1.0 if drawn is None else part.num_drawn / drawn)
        share.backward()
        total = total + share.detach()
        done.append(losses)
    return done, total


@torch.no_grad()
def _measure(
    totals: _Totals, done: _Losses, algorithm: Algorithm, critic: Critic | None, controls: Controls
) -> None:
    """Adds what one minibatch showed."""
    part, flat = done.part, done.part.flat
    logprobs, states = done.dist.gather(flat.slots), float(flat.num_states)
    drawn = float(part.num_drawn)
    totals.add_ratio(
        ratio_sums(
            logprobs,
            flat.old_logprobs,
            part.advantages,
            flat.valid,
            controls.clip_low,
            controls.clip_high,
        )
    )
    totals.add({"train/policy_loss": done.policy_loss}, drawn)
    means = {name: value.mean() for name, value in done.parts.items()}
    totals.add(means | {"reg/loss": done.penalty.mean()}, states)
    samples = flat.valid.sum()
    delight = torch.where(flat.valid, -part.advantages * logprobs, 0.0)
    by_sample = {"policy/delight_mean": delight.sum() / samples}
    gate = algorithm.gate(done.dist, flat, done.advantages)
    if gate is not None:
        by_sample["policy/gate_mean"] = torch.where(flat.valid, gate, 0.0).sum() / samples
    totals.add(by_sample, samples)
    if critic is not None and done.value_loss is not None:
        weighted = critic.vf_coef * done.value_loss
        totals.add(
            {"train/value_loss": done.value_loss, "train/value_loss_weighted": weighted}, drawn
        )


@torch.no_grad()
def _kl_sum(done: _Losses) -> Tensor:
    """Sum over the states of the exact KL(behaviour || learner), nats."""
    old = MaskedCategorical(done.part.flat.old_legal_logprobs, done.part.flat.legal, 1.0)
    return old.kl(done.dist.logprobs).double().sum()


@torch.no_grad()
def _explained_variance(flat: FlatBatch) -> dict[str, float]:
    """1 - Var(R - V) / Var(R) over the valid samples; NaN where all returns are equal."""
    if flat.returns is None or flat.old_values is None:
        return {}
    returns = flat.returns[flat.valid].double()
    values = flat.old_values.unsqueeze(-1).expand_as(flat.returns)[flat.valid].double()
    left, whole = (returns - values).var(correction=0), returns.var(correction=0)
    explained = float(1 - left / whole) if whole > 0 else math.nan
    return {"train/explained_variance": explained}


def update(
    policy: PolicyNet,
    optimizer: torch.optim.Optimizer,
    algorithm: Algorithm,
    regularizer: Regularizer,
    batch: RolloutBatch,
    targets: Targets,
    *,
    controls: Controls,
    guard: NonFiniteGuard,
    generator: torch.Generator,
    minibatch_size: int,
    max_grad_norm: float,
    behaviour: PolicyNet | None = None,
    keep_bad: KeepBad | None = None,
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
    largest |behaviour / sampler - 1| over the batch; otherwise it is that of the first minibatch.

    A step whose loss or gradient is not finite changes nothing, is left out of the means and
    counted.

    Args:
        policy: trained in place.
        optimizer: over the policy's trained parameters.
        algorithm: gives the policy loss and the number of passes.
        regularizer: gives the entropy and KL terms.
        batch: one rollout.
        targets: what the losses learn from.
        controls: current clip bounds and target KL.
        guard: counter of non-finite steps, kept by the caller across updates.
        generator: CPU generator that shuffles the states.
        minibatch_size: states per step; the states are split into equal parts of at most this size.
        max_grad_norm: gradients are scaled down to this norm.
        behaviour: the policy that sampled the batch, where it is not `policy` itself.
        keep_bad: is given the first minibatch of a step that is not finite.

    Raises:
        NonFiniteError: too many non-finite steps in a row.
        ValueError: the batch has no valid sample, or lacks what the algorithm needs.
    """
    needs = algorithm.needs()
    material = make_training_batch(algorithm, batch, targets, generator)
    mismatch: Tensor | None = None
    if policy.reduced_precision(material.flat.obs.device):
        flat, mismatch = relabel(behaviour or policy, material.flat, minibatch_size)
        material = dataclasses.replace(material, flat=flat)

    totals, steps, skipped, passes = _Totals(), 0, 0, 0
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    while passes < algorithm.update_epochs:
        indices = list(
            shuffled(material.flat, minibatch_size, generator, whole_games=needs.whole_games)
        )
        kl_sum = torch.zeros((), dtype=torch.float64, device=material.flat.obs.device)
        kl_states = 0
        for together in [indices] if needs.single_step else [[index] for index in indices]:
            optimizer.zero_grad(set_to_none=True)
            done, loss = _backward(policy, algorithm, regularizer, controls, material, together)
            grad_norm = torch.nn.utils.clip_grad_norm_(parameters, max_grad_norm)
            loss_value, norm_value = torch.stack([loss, grad_norm]).tolist()
            finite = bool(torch.isfinite(torch.tensor([loss_value, norm_value])).all())
            if finite:
                optimizer.step()
            reason = f"loss {loss_value}, gradient norm {norm_value}"
            if not finite and keep_bad is not None:
                bad = material.select(torch.cat(together))
                keep_bad(bad.flat, {"advantages": bad.advantages, "weights": bad.weights}, reason)
            guard.record(finite, reason)
            if not finite:
                skipped += 1
                continue
            steps += 1
            for losses in done:
                if mismatch is None:
                    flat = losses.part.flat
                    logprobs = losses.dist.gather(flat.slots).detach()
                    mismatch = largest_gap(logprobs, flat.old_logprobs, flat.valid)
                _measure(totals, losses, algorithm, needs.critic, controls)
                if math.isfinite(controls.target_kl):
                    kl_sum += _kl_sum(losses)
                    kl_states += losses.part.flat.num_states
            totals.add({"train/loss": loss, "train/grad_norm": grad_norm}, 1.0)
        passes += 1
        if kl_states and float(kl_sum) / kl_states > 1.5 * controls.target_kl:
            break
    optimizer.zero_grad(set_to_none=True)
    metrics = totals.metrics() | _explained_variance(material.flat)
    if mismatch is not None:
        metrics["ratio/mismatch"] = float(mismatch)
    counts = {"train/steps": steps, "train/skipped_steps": skipped, "train/passes": passes}
    return metrics | {name: float(count) for name, count in counts.items()}
