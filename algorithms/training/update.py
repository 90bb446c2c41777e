"""Surrogate plus regularisation, backward, step; it knows no algorithm and no regulariser term."""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor

from algorithms.core.algorithm import Algorithm, Controls
from algorithms.core.batch import FlatBatch, RolloutBatch
from algorithms.core.diagnostics import add_sums, ratio_metrics, ratio_sums, to_floats
from algorithms.core.distribution import MaskedCategorical
from algorithms.regularization import Regularizer
from algorithms.training.policy import PolicyNet


class NonFiniteError(RuntimeError):
    """Several steps in a row had a loss or gradient that is not finite."""


@dataclasses.dataclass
class StepGuard:
    """Counts skipped steps across updates and stops a run that no longer learns.

    Attributes:
        max_in_row: this many non-finite steps in a row raise.
        in_row: non-finite steps since the last good one.
        total: non-finite steps of the whole run.
    """

    max_in_row: int = 3
    in_row: int = 0
    total: int = 0

    def record(self, finite: bool, description: str) -> None:
        """Counts one step.

        Raises:
            NonFiniteError: it was the `max_in_row`-th non-finite step in a row.
        """
        self.in_row = 0 if finite else self.in_row + 1
        self.total += not finite
        if self.in_row >= self.max_in_row:
            raise NonFiniteError(
                f"{self.in_row} updates in a row were not finite ({description}); the weights are "
                "still the last finite ones. Lower the learning rate or max_grad_norm, raise the "
                "temperature if it is far below 1, and check the rewards for NaN"
            )

    def state_dict(self) -> dict[str, int]:
        """The counters, for a checkpoint."""
        return dataclasses.asdict(self)

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Continues from `state_dict()`."""
        self.max_in_row, self.in_row, self.total = (
            state["max_in_row"],
            state["in_row"],
            state["total"],
        )


@dataclasses.dataclass
class _Totals:
    """Sums over the minibatches of one update, kept on the device until its end."""

    sums: dict[str, Tensor] = dataclasses.field(default_factory=dict)
    ratio: dict[str, Tensor] = dataclasses.field(default_factory=dict)
    ratio_first: dict[str, Tensor] = dataclasses.field(default_factory=dict)
    weight: dict[str, float] = dataclasses.field(default_factory=dict)

    def add(self, means: dict[str, Tensor], weight: float) -> None:
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
        return to_floats(values)


def _mismatch(logprobs: Tensor, old_logprobs: Tensor, valid: Tensor) -> Tensor:
    """Largest |learner / sampler - 1| over the valid samples, before any step."""
    return torch.where(valid, (logprobs - old_logprobs).expm1().abs(), 0.0).max()


@torch.no_grad()
def _relabel(policy: PolicyNet, flat: FlatBatch, minibatch_size: int) -> tuple[FlatBatch, Tensor]:
    """The batch with the learner's own old log-probabilities, and the gap to the sampler's."""
    gathered, legal = [], []
    for index in torch.arange(flat.num_states, device=flat.obs.device).split(minibatch_size):
        part = flat.select(index)
        dist = MaskedCategorical(policy(part.obs, part.legal_ids), part.legal, flat.temperature)
        gathered.append(dist.gather(part.slots))
        legal.append(dist.logprobs)
    old_logprobs = torch.cat(gathered)
    gap = _mismatch(old_logprobs, flat.old_logprobs, flat.valid)
    relabelled = dataclasses.replace(
        flat, old_logprobs=old_logprobs, old_legal_logprobs=torch.cat(legal)
    )
    return relabelled, gap


def update(
    policy: PolicyNet,
    optimizer: torch.optim.Optimizer,
    algorithm: Algorithm,
    regularizer: Regularizer,
    batch: RolloutBatch,
    advantages: Tensor,
    *,
    controls: Controls,
    guard: StepGuard,
    generator: torch.Generator,
    minibatch_size: int,
    max_grad_norm: float,
) -> dict[str, float]:
    """Metrics of training on one batch for `algorithm.update_epochs` passes.

    They are means over all minibatches; the ratio's also exist for the first one alone. The loss of
    a minibatch is the mean of the policy loss over its valid samples plus the mean of the
    regulariser over its states. A state's K actions stay in one minibatch. Where the forward
    pass may round below float32 (autocast, TF32), `old_logprobs` are first recomputed by this very
    path, and `ratio/mismatch` is the largest |learner / sampler - 1| over the batch; otherwise it
    is that of the first minibatch.

    A minibatch whose loss or gradient is not finite changes nothing, is left out of the means and
    counted.

    Args:
        policy: trained in place.
        optimizer: over the policy's parameters.
        algorithm: gives the policy loss and the number of passes.
        regularizer: gives the entropy and KL terms.
        batch: one rollout.
        advantages: shaped like `batch.rewards`.
        controls: current clip bounds.
        guard: counter of non-finite steps, kept by the caller across updates.
        generator: CPU generator that shuffles the states.
        minibatch_size: states per step; the states are split into equal parts of at most this size.
        max_grad_norm: gradients are scaled down to this norm.

    Raises:
        NonFiniteError: too many non-finite steps in a row.
        ValueError: the batch has no valid sample.
    """
    flat, flat_advantages = batch.flat(), batch.flatten(advantages)
    used = flat.valid.any(-1).nonzero().squeeze(-1)
    if used.numel() == 0:
        raise ValueError(
            "the batch has no valid sample; nothing to learn from (did every game end before its "
            "first ply?)"
        )
    if used.numel() < flat.num_states:
        flat, flat_advantages = flat.select(used), flat_advantages[used]
    # Padding may hold anything; a NaN there would reach the gradient through 0 * NaN.
    flat_advantages = flat_advantages.masked_fill(~flat.valid, 0.0)
    flat = dataclasses.replace(flat, old_logprobs=flat.old_logprobs.masked_fill(~flat.valid, 0.0))
    mismatch: Tensor | None = None
    if policy.reduced_precision(flat.obs.device):
        flat, mismatch = _relabel(policy, flat, minibatch_size)

    totals, steps, skipped = _Totals(), 0, 0
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    num_minibatches = -(-flat.num_states // minibatch_size)
    for _ in range(algorithm.update_epochs):
        order = torch.randperm(flat.num_states, generator=generator).to(flat.obs.device)
        for index in order.tensor_split(num_minibatches):
            part, part_advantages = flat.select(index), flat_advantages[index]
            dist = MaskedCategorical(policy(part.obs, part.legal_ids), part.legal, flat.temperature)
            count = part.valid.sum()
            sample_loss = algorithm.policy_loss(dist, part, part_advantages, controls)
            policy_loss = torch.where(part.valid, sample_loss, 0.0).sum() / count
            penalty, parts = regularizer.loss(
                dist, part.old_legal_logprobs, part.ref_legal_logprobs
            )
            loss = policy_loss + penalty.mean()
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            grad_norm = torch.nn.utils.clip_grad_norm_(parameters, max_grad_norm)
            loss_value, norm_value = torch.stack([loss.detach(), grad_norm]).tolist()
            finite = bool(torch.isfinite(torch.tensor([loss_value, norm_value])).all())
            if finite:
                optimizer.step()
            guard.record(finite, f"loss {loss_value}, gradient norm {norm_value}")
            if not finite:
                skipped += 1
                continue
            steps += 1
            logprobs = dist.gather(part.slots).detach()
            if mismatch is None:
                mismatch = _mismatch(logprobs, part.old_logprobs, part.valid)
            totals.add_ratio(
                ratio_sums(
                    logprobs,
                    part.old_logprobs,
                    part_advantages,
                    part.valid,
                    controls.clip_low,
                    controls.clip_high,
                )
            )
            totals.add({"train/policy_loss": policy_loss}, float(count))
            totals.add({"train/loss": loss, "train/grad_norm": grad_norm}, 1.0)
            means = {name: value.mean() for name, value in parts.items()}
            totals.add(means | {"reg/loss": penalty.mean()}, float(part.num_states))
    optimizer.zero_grad(set_to_none=True)
    metrics = totals.metrics()
    if mismatch is not None:
        metrics["ratio/mismatch"] = float(mismatch)
    return metrics | {"train/steps": float(steps), "train/skipped_steps": float(skipped)}
