"""How far sampler and learner differ before the first update, where they should be equal."""

from __future__ import annotations

import dataclasses
import math

import torch
from torch import Tensor

from algorithms.core.algorithm import Controls
from algorithms.core.batch import FlatBatch, RolloutBatch
from algorithms.core.batch_metrics import legal_entropy
from algorithms.core.ratio_metrics import log_odds, to_floats
from algorithms.networks.logprobs import outputs_at
from algorithms.networks.policy_net import PolicyNet
from algorithms.networks.settings import DTYPES

TOLERANCE = 1e-5
"""Bound on the ratio error, the KL and the entropy excess, in float32."""

_BOUNDED = ("step0/ratio_error", "step0/kl_old", "step0/entropy_excess")
# A slope is within so many of its own errors of the true one, and faults below this are rounding.
_SLOPE_ERRORS, _SLOPE_FLOOR = 6.0, 1e-4


@dataclasses.dataclass(frozen=True)
class Step0:
    """The result of `measure_step0`.

    Attributes:
        metrics: the `step0/*` gaps between sampler and learner.
        sampler, learner: `[N, L]` log-probabilities of the legal moves, -inf on padding, of the
            states with a valid sample.
        tolerance: the largest gaps that are allowed.
        slope_resolution: what rounding does to the slope of the log-odds; infinity where all
            log-odds are so nearly equal that there is no slope to measure.
        rounds: the policy's log-probabilities are rounded below float32, and ratios may leave the
            clip bounds: such a run is made to show that.
    """

    metrics: dict[str, float]
    sampler: Tensor
    learner: Tensor
    tolerance: float
    slope_resolution: float
    rounds: bool

    @property
    def agree(self) -> bool:
        """Whether sampler and learner are the same distribution, up to rounding."""
        # `not <=` also catches NaN.
        if any(not self.metrics[name] <= self.tolerance for name in _BOUNDED):
            return False
        clipped = not self.rounds and self.metrics["step0/clip_fraction"] > 0
        return not clipped and not self.same_temperature_refuted

    @property
    def same_temperature_refuted(self) -> bool:
        """Whether the slope of the log-odds is off 1 by more than rounding can make it."""
        off = abs(self.metrics["step0/log_odds_slope"] - 1)
        return math.isfinite(self.slope_resolution) and not off <= self.slope_resolution


@torch.no_grad()
def recompute(policy: PolicyNet, batch: RolloutBatch) -> tuple[Tensor, Tensor, Tensor]:
    """The learner's (logprobs `[N, K]`, legal logprobs `[N, L]`, KL to old `[N]`), ply by ply.

    Every row is computed in the rollout's batch shape, so that equal weights differ by rounding at
    most.
    """
    flat = batch.flat()
    legal = torch.empty_like(flat.old_legal_logprobs)
    for rows in plies(batch):
        legal[rows] = outputs_at(policy, flat.select(rows)).dist.logprobs
    gap = torch.where(flat.legal, legal - flat.old_legal_logprobs, 0.0)
    return legal.gather(-1, flat.slots), legal, (legal.exp() * gap).sum(-1)


def plies(batch: RolloutBatch) -> list[Tensor]:
    """Int64 `[states of a ply]` for each ply: flat indices of the states that went through the network together."""
    states = batch.obs.shape[:-3]
    rows = torch.arange(states.numel(), device=batch.obs.device).reshape(states)
    return [rows[..., ply].reshape(-1) for ply in range(states[-1])]


@torch.no_grad()
def repeat_error(policy: PolicyNet, batch: RolloutBatch) -> float:
    """Largest |ratio - 1| over the first ply's legal moves between two passes in the same shape.

    0 unless something in the forward pass is drawn at random; dropout then moves torch's global
    random state, which the caller has to guard.

    Args:
        policy: in the mode (`train` or `eval`) that is asked about; its mode is left as it is.
        batch: shows it the states.
    """
    part = batch.flat().select(plies(batch)[0])
    one, other = (outputs_at(policy, part).dist.logprobs for _ in range(2))
    return largest_ratio_gap(one, other)


def largest_ratio_gap(one: Tensor, other: Tensor) -> float:
    """Largest |ratio - 1| where two tables of legal log-probabilities are both finite."""
    legal = one.isfinite() & other.isfinite()
    return float(torch.where(legal, (one - other).expm1().abs(), 0.0).max())


@dataclasses.dataclass(frozen=True)
class _Line:
    """The learner's log-odds as a line through the sampler's: least squares over all legal moves.

    Attributes:
        slope: of the line; equal weights at T_sampler and T_learner give T_sampler / T_learner.
        resolution: what rounding does to the slope; infinity where there is none to measure.
        residual: root mean square of the distances from the line, nats.
    """

    slope: float
    resolution: float
    residual: float


def _line(sampler: Tensor, learner: Tensor, rounding: float) -> _Line:
    legal = learner.isfinite() & sampler.isfinite()
    x, y = log_odds(sampler, legal), log_odds(learner, legal)
    variance, moves = float(x.square().sum()), float(legal.sum())

    def residual(slope: float) -> float:
        return math.sqrt(float((y - slope * x).square().sum()) / max(1.0, moves))

    if variance <= 1e-12:
        return _Line(1.0, math.inf, residual(1.0))
    # Rounding scatters the slope, and that of x also pulls it towards 0.
    pull = rounding**2 * moves / variance
    resolution = _SLOPE_ERRORS * rounding / math.sqrt(variance) + pull + _SLOPE_FLOOR
    slope = float((x * y).sum()) / variance
    return _Line(slope, resolution if resolution < 0.05 else math.inf, residual(slope))


@torch.no_grad()
def measure_step0(policy: PolicyNet, batch: RolloutBatch, controls: Controls) -> Step0:
    """The gaps between the sampler and `policy` on a batch; they should have equal weights.

    `step0/ratio_error` is the largest |ratio - 1|, `step0/clip_fraction` the share of ratios
    outside the clip bounds, `step0/kl_old` the largest exact KL (learner || sampler),
    `step0/kl_old_mean` its mean, `step0/entropy_excess` the largest entropy - ln(num_legal),
    `step0/log_odds_slope` the slope of the learner's log-odds on the sampler's, and
    `step0/log_odds_residual` the root mean square of what that line leaves, nats: a difference
    of temperature leaves only rounding.

    Log-probabilities that are rounded to `logprob_dtype` agree too, unless the last bit of float32
    (the legal lists are padded to another width) decides a rounding; then they differ by one unit
    in the last place. The tolerance is widened by that unit.

    Args:
        policy: the policy that sampled the batch, or one that should equal it.
        batch: its first rollout.
        controls: the clip bounds.
    """
    flat = batch.flat()
    logprobs, legal_logprobs, kl = recompute(policy, batch)
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
            "step0/entropy_excess": torch.where(used, entropy - bound, -torch.inf).max(),
        }
    )
    sampler, learner = flat.old_legal_logprobs[used], legal_logprobs[used]
    dtype = DTYPES[policy.precision.logprob_dtype]
    largest = _largest(flat, used)
    rounding = torch.finfo(dtype).eps * largest
    line = _line(sampler, learner, rounding)
    log_odds = {"step0/log_odds_slope": line.slope, "step0/log_odds_residual": line.residual}
    rounds = dtype is not torch.float32
    return Step0(
        metrics=measured | log_odds,
        sampler=sampler,
        learner=learner,
        tolerance=TOLERANCE + (math.expm1(rounding) if rounds else 0.0),
        slope_resolution=line.resolution,
        rounds=rounds,
    )


def _largest(flat: FlatBatch, used: Tensor) -> float:
    """Largest |log-probability| of a legal move."""
    values = flat.old_legal_logprobs[used]
    finite = values[values.isfinite()]
    return float(finite.abs().max()) if finite.numel() else 0.0
