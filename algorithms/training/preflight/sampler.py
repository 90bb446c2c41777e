"""Whether sampler and learner are one policy on equal weights. Why they are not: `causes.py`."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from algorithms.core.algorithm import Controls
from algorithms.core.batch import FlatBatch, RolloutBatch
from algorithms.networks.logprobs import outputs_at
from algorithms.networks.policy_net import PolicyNet
from algorithms.training.preflight.causes import explain, not_finite, random_learner
from algorithms.training.preflight.findings import Finding
from algorithms.training.preflight.step0 import (
    largest_ratio_gap,
    measure_step0,
    plies,
    repeat_error,
)

SHAPE_TOLERANCE = 1e-3
"""Bound on |ratio - 1| between the rollout's and the minibatches' batch shapes, in float32."""


def check_sampler(
    policy: PolicyNet,
    behaviour: PolicyNet,
    batch: RolloutBatch,
    controls: Controls,
    *,
    updates: int,
    minibatch_size: int,
) -> tuple[dict[str, float], list[Finding]]:
    """The `step0/*` gaps between sampler and learner, and their causes.

    Args:
        policy: the learner, whose weights should be those that sampled.
        behaviour: the policy that samples (it may be `policy` itself), in the mode in which it samples.
        batch: its first rollout.
        controls: the clip bounds.
        updates: done so far.
        minibatch_size: states that the learner sees at once.
    """
    step0 = measure_step0(policy, batch, controls)
    metrics = step0.metrics | {"step0/repeat_error": repeat_error(behaviour, batch)}
    if not all(math.isfinite(metrics[name]) for name in ("step0/ratio_error", "step0/kl_old")):
        return metrics, [not_finite(step0)]
    same = behaviour is policy
    random_by = metrics["step0/repeat_error"] if same else repeat_error(policy, batch)
    if random_by > step0.tolerance:
        return metrics, [random_learner(policy, random_by)]
    findings = [] if step0.agree else [explain(policy, behaviour, batch, step0, updates)]
    metrics["step0/shape_error"] = _shape_error(policy, batch, minibatch_size)
    # Below float32 the update computes the old log-probabilities anew, in its own shape.
    exact = not policy.reduced_precision(batch.obs.device)
    if exact and not metrics["step0/shape_error"] <= SHAPE_TOLERANCE:
        findings.append(_shape(metrics["step0/shape_error"], minibatch_size))
    return metrics, findings


@torch.no_grad()
def _shape_error(policy: PolicyNet, batch: RolloutBatch, minibatch_size: int) -> float:
    """Largest |ratio - 1| between the first ply as one batch and as minibatches."""
    flat = batch.flat()
    index = plies(batch)[0]

    def seen(part: FlatBatch) -> Tensor:
        return outputs_at(policy, part).dist.logprobs

    size = min(minibatch_size, max(1, index.numel() // 2))
    parts = [seen(flat.select(chosen)) for chosen in index.split(size)]
    return largest_ratio_gap(seen(flat.select(index)), torch.cat(parts))


def _shape(error: float, minibatch_size: int) -> Finding:
    return Finding(
        "batch_shape",
        "fail",
        f"the same states as one batch and in minibatches of {minibatch_size} differ by a ratio "
        f"error of {error:.3g}",
        f"below {SHAPE_TOLERANCE:g} in float32",
        "a state's log-probabilities depend on what else is in its batch",
        "take batch statistics out of the network (LayerNorm in place of BatchNorm), and let no "
        "lower precision into a float32 policy",
    )
