"""What must hold before the first update, checked at the start of every run."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from algorithms.core.algorithm import Controls
from algorithms.core.batch import RolloutBatch
from algorithms.core.diagnostics import legal_entropy, to_floats
from algorithms.training.policy import DTYPES, PolicyNet


class InvariantError(RuntimeError):
    """Sampler and learner disagree although their weights are equal."""


@torch.no_grad()
def _recompute(policy: PolicyNet, batch: RolloutBatch) -> tuple[Tensor, Tensor, Tensor]:
    """Learner's (logprobs `[N, K]`, legal logprobs `[N, L]`, KL to old `[N]`), ply by ply."""
    states = batch.obs.shape[:-3]
    flat = batch.flat()
    rows = torch.arange(flat.num_states, device=flat.obs.device).reshape(states)
    logprobs = torch.empty_like(flat.old_logprobs)
    legal_logprobs = torch.empty_like(flat.old_legal_logprobs)
    kl = torch.empty_like(flat.old_legal_logprobs[:, 0])
    for ply in range(states[-1]):
        index = rows[..., ply].reshape(-1)
        part = flat.select(index)
        dist = policy.outputs(part.obs, part.legal_ids, batch.temperature).dist
        logprobs[index] = dist.gather(part.slots)
        legal_logprobs[index] = dist.logprobs
        kl[index] = dist.kl(part.old_legal_logprobs)
    return logprobs, legal_logprobs, kl


def _log_odds_slope(old_legal_logprobs: Tensor, legal_logprobs: Tensor) -> Tensor:
    """Least-squares slope of the learner's log-odds on the sampler's; 1 where they agree.

    Equal weights at temperatures T_sampler and T_learner give exactly T_sampler / T_learner.
    """
    legal = legal_logprobs.isfinite()
    count = legal.sum(-1, keepdim=True).clamp(min=1)

    def centred(values: Tensor) -> Tensor:
        finite = torch.where(legal, values, 0.0).double()
        return torch.where(legal, finite - finite.sum(-1, keepdim=True) / count, 0.0)

    x, y = centred(old_legal_logprobs), centred(legal_logprobs)
    variance = x.square().sum()
    return torch.where(variance > 1e-12, (x * y).sum() / variance.clamp(min=1e-12), 1.0)


def _likely_cause(policy: nn.Module, measured: dict[str, float], policy_version: int) -> str:
    slope = measured["step0/log_odds_slope"]
    if not math.isfinite(measured["step0/ratio_error"]):
        return (
            "log-probabilities are not finite: the temperature is too near 0, or weights overflowed"
        )
    dropout = [
        name for name, m in policy.named_modules() if isinstance(m, nn.modules.dropout._DropoutNd)
    ]
    if policy.training and dropout:
        return (
            f"dropout is active in {', '.join(dropout)}: call policy.eval() in rollout and update"
        )
    if abs(slope - 1) > 0.01:
        return (
            f"the learner's log-odds are {slope:.3f} times the sampler's: they use different temperatures "
            "(a slope above 1 means that the sampler's is the higher one)"
        )
    return (
        f"the weights changed after the batch was sampled (policy_version {policy_version}), or rollout and "
        "learner run in different precision"
    )


def _rounding_unit(policy: PolicyNet, legal_logprobs: Tensor) -> float:
    """What one unit in the last place of the largest log-probability does to a ratio; 0 in float32."""
    dtype = DTYPES[policy.config.logprob_dtype]
    if dtype is torch.float32:
        return 0.0
    largest = legal_logprobs[legal_logprobs.isfinite()].abs().max()
    return math.expm1(torch.finfo(dtype).eps * float(largest))


@torch.no_grad()
def check_step0(
    policy: PolicyNet, batch: RolloutBatch, *, controls: Controls, tolerance: float = 1e-5
) -> dict[str, float]:
    """The measured `step0/*` gaps between sampler and learner, if they are within bounds.

    Call it on a batch that was sampled with the current weights, before any update. Every row is
    recomputed in the rollout's batch shape, so that float32 leaves no room for more than rounding.
    `step0/ratio_error` is the largest |ratio - 1|, `step0/clip_fraction` the share of ratios
    outside the clip bounds, `step0/kl_old` the largest exact KL (learner || sampler),
    `step0/kl_old_mean` its mean, `step0/entropy_excess` the largest entropy - ln(num_legal), and
    `step0/log_odds_slope` the slope of the learner's log-odds on the sampler's.

    Log-probabilities that are rounded to `logprob_dtype` agree too, unless the last bit of float32
    (the legal lists are padded to another width) decides a rounding; then they differ by one unit
    in the last place. The tolerance is widened by that unit, and ratios may leave the clip bounds:
    that they do is what such a run is made to show.

    Args:
        policy: what sampled the batch (the learner, while the two are one).
        batch: its first rollout.
        controls: the clip bounds.
        tolerance: bound on the ratio error, the KL and the entropy excess, in float32.

    Raises:
        InvariantError: a bound is broken; the message gives the numbers and the likely cause.
    """
    flat = batch.flat()
    logprobs, legal_logprobs, kl = _recompute(policy, batch)
    ratio = torch.where(flat.valid, (logprobs - flat.old_logprobs).exp(), 1.0)
    used = flat.valid.any(-1)
    outside = (ratio > 1 + controls.clip_high) | (ratio < 1 - controls.clip_low)
    bound = flat.legal.sum(-1).clamp(min=1).log()
    entropy = torch.maximum(legal_entropy(flat.old_legal_logprobs), legal_entropy(legal_logprobs))
    measured = to_floats(
        {
            "step0/ratio_error": (ratio - 1).abs().max(),
            "step0/clip_fraction": outside.sum() / flat.valid.sum().clamp(min=1),
            "step0/kl_old": torch.where(used, kl.abs(), 0.0).max(),
            "step0/kl_old_mean": torch.where(used, kl, 0.0).sum() / used.sum().clamp(min=1),
            "step0/log_odds_slope": _log_odds_slope(
                flat.old_legal_logprobs[used], legal_logprobs[used]
            ),
            "step0/entropy_excess": torch.where(used, entropy - bound, -torch.inf).max(),
        }
    )
    bounded = ("step0/ratio_error", "step0/kl_old", "step0/entropy_excess")
    unit = _rounding_unit(policy, flat.old_legal_logprobs[used])
    tolerance += unit
    # `not <=` also catches NaN.
    broken = [name for name in bounded if not measured[name] <= tolerance]
    if broken or (unit == 0 and measured["step0/clip_fraction"] > 0):
        numbers = ", ".join(f"{name} = {value:.3g}" for name, value in measured.items())
        cause = _likely_cause(policy, measured, batch.policy_version)
        raise InvariantError(
            f"sampler and learner disagree before the first update (tolerance {tolerance:g}): "
            f"{numbers}. "
            f"Likely cause: {cause}"
        )
    return measured
