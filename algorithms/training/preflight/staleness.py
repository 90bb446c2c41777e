"""How stale a batch gets within one sync interval, measured on a copy of the learner."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

from algorithms.config.run import TrainConfig
from algorithms.core.algorithm import Controls
from algorithms.core.batch import RolloutBatch
from algorithms.core.ratio_metrics import ratio_metrics, ratio_sums
from algorithms.networks.policy_net import PolicyNet
from algorithms.training.preflight.findings import Finding
from algorithms.training.preflight.step0 import recompute
from algorithms.updates.learner import Learner
from algorithms.updates.nonfinite import NonFiniteError
from algorithms.updates.targets import make_targets
from algorithms.updates.update import update

MAX_OUT_OF_RANGE = 0.8
MAX_OUT_OF_RANGE_ON_POLICY = 0.9
MIN_ESS = 0.5
"""Beyond these, updates at the end of a sync interval learn little from samples of its beginning.

The second is for runs whose sampler is brought up to date at every update: there the passes over a
batch take its ratios out of range on purpose, and fresh samples follow. PPO's own four passes leave .2
to .75 out of range with an effective sample size above .85, four stale updates of GRPO .5 to .7, and 16
with four passes each .86 to .96. An effective sample size below .5 is what unclipped losses show.
"""

MAX_STATE_PASSES = 4096
"""A dry run that would cost more uses a part of the starts, in as many, smaller steps."""


def dry_run(
    learner: Learner, batch: RolloutBatch, config: TrainConfig
) -> tuple[dict[str, float], list[Finding]]:
    """`step0/stale_*` after one sync interval of updates on a copy, and a warning beyond the bounds.

    Nothing is measured where each batch is learned from once, by the weights that sampled it. All
    updates of the interval learn from the first batch, at the full learning rate (after any warm-up).
    New batches would pull in different directions, so the run itself is rather less stale.

    Args:
        learner: copied and left as it is.
        batch: the first rollout.
        config: intervals and step size.
    """
    interval, algorithm = config.rollout.sync_interval_updates, learner.algorithm
    if interval == 1 and algorithm.update_epochs == 1:
        return {}, []
    part, minibatch_size = _thinned(
        batch, interval * algorithm.update_epochs, config.optimizer.minibatch_size
    )
    twin = learner.copy()
    twin.settings = dataclasses.replace(twin.settings, minibatch_size=minibatch_size)
    twin.learning_rate = config.optimizer.full_learning_rate
    most = MAX_OUT_OF_RANGE if interval > 1 else MAX_OUT_OF_RANGE_ON_POLICY
    settings = f"{interval} updates between synchronisations, {algorithm.update_epochs} passes each"
    targets = make_targets(algorithm, twin.regularizer, part)
    try:
        for _ in range(interval):
            update(twin, part, targets)
    except NonFiniteError as error:
        return {}, [_finding(f"the dry run broke off: {error}", settings, most)]
    metrics = _measure(twin.policy, part, twin.controls)
    outside, ess = metrics["step0/stale_out_of_range"], metrics["step0/stale_ess"]
    if outside <= most and ess >= MIN_ESS:
        return metrics, []
    measured = f"{100 * outside:.0f} % of the ratios out of range, effective sample size {ess:.2f}"
    return metrics, [_finding(measured, settings, most)]


def _thinned(batch: RolloutBatch, passes: int, minibatch_size: int) -> tuple[RolloutBatch, int]:
    """The batch with as many of its starts as the dry run may cost, and the size of its minibatches."""
    starts = batch.obs.shape[0]
    share = -(-batch.obs.shape[:-3].numel() * passes // MAX_STATE_PASSES)
    share = max(1, min(share, starts, minibatch_size))
    kept: dict[str, Any] = {
        field.name: value[::share]
        for field in dataclasses.fields(batch)
        if isinstance(value := getattr(batch, field.name), torch.Tensor)
    }
    return dataclasses.replace(batch, **kept), minibatch_size // share


@torch.no_grad()
def _measure(learner: PolicyNet, batch: RolloutBatch, controls: Controls) -> dict[str, float]:
    flat = batch.flat()
    logprobs = recompute(learner, batch)[0]
    sums = ratio_sums(
        logprobs,
        flat.old_logprobs,
        torch.zeros_like(logprobs),
        flat.valid,
        controls.clip_low,
        controls.clip_high,
    )
    ratio = ratio_metrics(sums)
    return {
        "step0/stale_out_of_range": float(ratio["policy/ratio_out_of_range"]),
        "step0/stale_ess": float(ratio["ratio/ess"]),
    }


def _finding(measured: str, settings: str, most: float) -> Finding:
    return Finding(
        "staleness",
        "warn",
        f"{measured} at the end of one sync interval gone through on a copy ({settings})",
        f"at most {100 * most:.0f} % out of range and an effective sample size of at "
        f"least {MIN_ESS:g}",
        "the learner leaves the policy that samples far behind before the two are made equal again",
        "lower rollout.sync_interval_updates or algorithm.update_epochs, lower "
        "optimizer.learning_rate, or set algorithm.target_kl",
    )
