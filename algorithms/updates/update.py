"""Loss, backward, step; it knows no algorithm and no regulariser term."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from algorithms.core.batch import FlatBatch, RolloutBatch
from algorithms.updates.learner import Learner
from algorithms.updates.loss import Loss, loss_of
from algorithms.updates.targets import Targets
from algorithms.updates.training_batch import (
    TrainingBatch,
    largest_gap,
    make_training_batch,
    relabel,
    shuffled,
)
from algorithms.updates.update_metrics import UpdateMetrics, explained_variance, kl_sum

KeepBad = Callable[[FlatBatch, dict[str, Tensor], str], None]
"""Given the first minibatch of a step that is not finite, its advantages and weights, and the reason."""


def update(
    learner: Learner, batch: RolloutBatch, targets: Targets, keep_bad: KeepBad | None = None
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
        learner: trained in place.
        batch: one rollout.
        targets: what the losses learn from.
        keep_bad: is given the first minibatch of a step that is not finite.

    Raises:
        NonFiniteError: too many non-finite steps in a row.
        ValueError: the batch has no valid sample, or lacks what the algorithm needs.
    """
    algorithm, size = learner.algorithm, learner.settings.minibatch_size
    controls, needs = learner.controls, learner.algorithm.needs()
    training = make_training_batch(algorithm, batch, targets, learner.shuffling)
    mismatch: Tensor | None = None
    if learner.policy.reduced_precision(training.flat.obs.device):
        flat, mismatch = relabel(learner.behaviour, training.flat, size, learner.passes)
        training = dataclasses.replace(training, flat=flat)
    metrics, steps, skipped, passes = UpdateMetrics(), 0, 0, 0
    while passes < algorithm.update_epochs:
        indices = list(
            shuffled(training.flat, size, learner.shuffling, whole_games=needs.whole_games)
        )
        kl_total = torch.zeros((), dtype=torch.float64, device=training.flat.obs.device)
        kl_states = 0
        for accumulated in [indices] if needs.single_step else [[index] for index in indices]:
            step = _step(learner, training, accumulated, keep_bad)
            skipped += step is None
            if step is None:
                continue
            steps += 1
            for loss in step.losses:
                if mismatch is None:
                    mismatch = _mismatch(loss)
                metrics.add_loss(loss, algorithm, controls)
                if math.isfinite(controls.target_kl):
                    kl_total += kl_sum(loss)
                    kl_states += loss.minibatch.flat.num_states
            metrics.add({"train/loss": step.total, "train/grad_norm": step.grad_norm}, 1.0)
        passes += 1
        if kl_states and float(kl_total) / kl_states > 1.5 * controls.target_kl:
            break
    learner.optimizer.zero_grad(set_to_none=True)
    found = metrics.floats() | explained_variance(training.flat)
    if mismatch is not None:
        found["ratio/mismatch"] = float(mismatch)
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
) -> _Step | None:
    """One step, which is made; None where it is not finite, and then nothing has changed.

    Args:
        learner: takes the step.
        training: the states.
        accumulated: int64 indices of the minibatches whose gradients add up to the step's.
        keep_bad: as of `update`.
    """
    learner.optimizer.zero_grad(set_to_none=True)
    losses, total = _backward(learner, training, accumulated)
    parameters = learner.trained
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
