"""Losses to minimise, per sample; gates on their gradient; weights by which they are added. Pure functions.

A gate is the share of a sample's gradient that is let through; no gradient flows through the gate itself.
The loss is sum(weights * loss of the sample). In `games` form a sequence is a game and its tokens
are plies; in `positions` form each ply of each stream is a sequence of its own. Weights are 0 where not valid, and
made in the rewards' precision (`dtype`; torch's default if not given), so that they blur no float64 loss.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from algorithms.core.batch import RolloutBatch
from algorithms.core.checks import require_choice

GateScale = Literal["none", "std"]
"""What a gate's softness is counted in: the advantages' own unit, or their standard deviation."""


def weighted_sum(samples: Tensor, weights: Tensor, valid: Tensor) -> Tensor:
    """Scalar sum(weights * samples) over the valid samples; all `[N, K]`, and invalid values do not matter."""
    return torch.where(valid, weights * samples, 0.0).sum()


def clipped_ratio(
    logprobs: Tensor,
    old_logprobs: Tensor,
    advantages: Tensor,
    clip_low: float,
    clip_high: float,
    dual_clip: float | None = None,
) -> Tensor:
    """`[N, K]` loss to minimise: -min(r A, clip(r, 1 - clip_low, 1 + clip_high) A), at most -dual_clip A for A < 0.

    r = exp(logprobs - old_logprobs); PPO eq. 7 (arXiv:1707.06347) with two bounds as in DAPO (arXiv:2503.14476).
    The gradient is zero for a sample with A > 0 and r > 1 + clip_high, or A < 0 and r < 1 - clip_low. No gradient flows
    into `old_logprobs` or `advantages`.

    PPO bounds no loss of a sample with A < 0 and a large r. Dual-clip PPO (arXiv:1912.09729; read in verl's code,
    `clip_ratio_c`) does: such a sample has no gradient once r > dual_clip.

    Args:
        logprobs: `[N, K]` learner log-probabilities at the rollout's temperature.
        old_logprobs: `[N, K]` behaviour log-probabilities.
        advantages: `[N, K]`.
        clip_low: in (0, 1]; distance of the lower bound from 1.
        clip_high: > 0; distance of the upper bound from 1.
        dual_clip: > 1; largest ratio of a sample with A < 0, verl's default is 3. None sets no such bound.
    """
    advantages = advantages.detach()
    ratio = (logprobs - old_logprobs.detach()).exp()
    clipped = ratio.clamp(1.0 - clip_low, 1.0 + clip_high)
    loss = -torch.minimum(ratio * advantages, clipped * advantages)
    if dual_clip is None:
        return loss
    return torch.where(advantages < 0, torch.minimum(loss, -dual_clip * advantages), loss)


@torch.no_grad()
def cut_by_clip(
    logprobs: Tensor,
    old_logprobs: Tensor,
    advantages: Tensor,
    clip_low: float,
    clip_high: float,
) -> Tensor:
    """Bool `[N, K]`: True where `clipped_ratio` has no gradient.

    That is A > 0 and r > 1 + clip_high, or A < 0 and r < 1 - clip_low.

    Args:
        logprobs: `[N, K]` learner log-probabilities at the rollout's temperature.
        old_logprobs: `[N, K]` behaviour log-probabilities.
        advantages: `[N, K]`.
        clip_low: in (0, 1]; distance of the lower bound from 1.
        clip_high: > 0; distance of the upper bound from 1.
    """
    ratio = (logprobs - old_logprobs).exp()
    risen, fallen = ratio > 1.0 + clip_high, ratio < 1.0 - clip_low
    return (risen & (advantages > 0)) | (fallen & (advantages < 0))


def score_function(logprobs: Tensor, advantages: Tensor) -> Tensor:
    """`[N, K]` loss to minimise: -A logprobs, the score-function estimator.

    Its expected gradient is minus the policy gradient (Williams 1992, doi:10.1007/BF00992696).
    Unbiased only for samples of the current policy; no gradient flows into `advantages`.
    """
    return -advantages.detach() * logprobs


def cispo(
    logprobs: Tensor,
    old_logprobs: Tensor,
    advantages: Tensor,
    clip_low: float,
    clip_high: float,
) -> Tensor:
    """`[N, K]` loss to minimise: -sg(clip(r, 1 - clip_low, 1 + clip_high)) A logprobs.

    r = exp(logprobs - old_logprobs); CISPO (arXiv:2506.13585, eq. 4 and 5 by verl's account): the
    importance weight is clipped and no sample loses its gradient. The bounds are distances from 1 as
    in verl; TRL clamps r at its `epsilon_high` itself, without the 1, and has no lower bound: its
    epsilon_high=5 is clip_low=1, clip_high=4 here. No gradient flows into the weight,
    `old_logprobs` or `advantages`.

    Args:
        logprobs: `[N, K]` learner log-probabilities at the rollout's temperature.
        old_logprobs: `[N, K]` behaviour log-probabilities.
        advantages: `[N, K]`.
        clip_low: in (0, 1]; distance of the lower bound from 1.
        clip_high: > 0; distance of the upper bound from 1.
    """
    ratio = (logprobs - old_logprobs).detach().exp()
    weight = ratio.clamp(1.0 - clip_low, 1.0 + clip_high)
    return score_function(logprobs, weight * advantages)


def expected_advantage(logprobs: Tensor, advantages: Tensor) -> Tensor:
    """`[N, K]` loss to minimise: -exp(logprobs) A, a move's share of minus the expected advantage.

    Added over *all* legal moves of a state it is -sum_a pi(a) A(a), whose gradient is minus the
    policy gradient (the theorem of Sutton et al. 1999,
    https://mlanthology.org/neurips/1999/sutton1999neurips-policy/) without sampling noise. No
    gradient flows into `advantages`.
    """
    return -advantages.detach() * logprobs.exp()


def value_loss(
    values: Tensor, old_values: Tensor, returns: Tensor, clip_range_vf: float | None
) -> Tensor:
    """`[N, K]` loss to minimise: .5 max((V - R)^2, (V_old + clip(V - V_old, -c, c) - R)^2).

    The clipped value loss of PPO's implementations (verl, CleanRL; no equation in arXiv:1707.06347)
    times .5; `clip_range_vf=None` leaves .5 (V - R)^2. The gradient flows into `values` alone.

    Args:
        values: `[N]` the critic's values now, side to move's view, reward units.
        old_values: `[N]` its values when the moves were sampled.
        returns: `[N, K]` its targets, one for each sample of the state.
        clip_range_vf: c > 0, reward units, or None.
    """
    values, old_values = values.unsqueeze(-1), old_values.detach().unsqueeze(-1)
    returns = returns.detach()
    squared = (values - returns).square()
    if clip_range_vf is None:
        return 0.5 * squared
    near = old_values + (values - old_values).clamp(-clip_range_vf, clip_range_vf)
    return 0.5 * torch.maximum(squared, (near - returns).square())


def required_uniforms(uniforms: Tensor | None) -> Tensor:
    """`[N, K]` the batch's random numbers.

    Raises:
        ValueError: it has none.
    """
    if uniforms is None:
        raise ValueError(
            "the batch has no uniforms: the loop fills FlatBatch.uniforms where they are asked for; return "
            "Needs(uniforms=True) from needs()"
        )
    return uniforms


def ranks(values: Tensor) -> Tensor:
    """int64 in the shape of `values`: how many of them come before each in ascending order; equal ones in theirs."""
    order = values.flatten().argsort(stable=True)
    found = torch.empty_like(order)
    found[order] = torch.arange(len(order), device=order.device)
    return found.reshape(values.shape)


_ROUNDING = 8
"""Values this many units of rounding apart count as equal: sums in another order differ by as much."""


def _mean_std(values: Tensor, valid: Tensor) -> tuple[Tensor, Tensor]:
    """Float64 mean and population standard deviation over the valid samples; 0 without any."""
    count = valid.sum().clamp(min=1)
    kept = torch.where(valid, values, 0.0).double()
    mean = kept.sum() / count
    std = (torch.where(valid, kept - mean, 0.0).square().sum() / count).sqrt()
    # Equal values may miss their rounded mean; what is left of them must not pass for a spread.
    lowest = torch.where(valid, kept, torch.inf).min()
    highest = torch.where(valid, kept, -torch.inf).max()
    return mean, torch.where(lowest < highest, std, 0.0)


def _departures(values: Tensor, valid: Tensor) -> tuple[Tensor, Tensor]:
    """Float64 values minus their mean over the valid samples, exactly 0 within rounding of it; and their std."""
    mean, std = _mean_std(values, valid)
    departure = values.double() - mean
    largest = torch.where(valid, values, 0.0).abs().max().double()
    rounding = _ROUNDING * torch.finfo(values.dtype).eps * largest
    return torch.where(departure.abs() > rounding, departure, 0.0), std


@torch.no_grad()
def delight(
    logprobs: Tensor, advantages: Tensor, valid: Tensor, *, eta: float, lam: float, scale: GateScale
) -> Tensor:
    """`[N, K]` in [0, 1]: sigmoid((A * (-logprobs) - lam) / eta); 0 where not valid.

    The gate of Delightful Policy Gradient (arXiv:2603.14608; read in the author's release `egg`,
    losses/dg.py). Delight, A * (-logprobs), is large for moves that were unlikely and good. The
    author takes the advantages as they are (`none`). With `std`, eta is in units of
    std(A), the population standard deviation over the valid samples of the tensors given (one minibatch):
    a gate as sharp as that of advantages of unit scale. Equal advantages then give 1/2.

    Args:
        logprobs: `[N, K]` log-probabilities of the *current* learner, nats.
        advantages: `[N, K]`.
        valid: bool `[N, K]`; what other samples hold, NaN included, is never looked at.
        eta: > 0; larger brings the gate nearer to 1/2 everywhere.
        lam: the delight at which the gate is 1/2, in the advantages' unit times nats.
        scale: what eta is counted in, `none` or `std`.
    """
    delight_ = torch.where(valid, advantages * -logprobs, 0.0).double()
    unit = _mean_std(advantages, valid)[1] if scale == "std" else torch.ones_like(delight_[:1, :1])
    spread = (eta * unit) > 0
    gate = torch.where(
        spread, torch.sigmoid((delight_ - lam) / torch.where(spread, eta * unit, 1.0)), 0.5
    )
    return torch.where(valid, gate, 0.0).to(logprobs.dtype)


@torch.no_grad()
def clip_cov(
    logprobs: Tensor,
    advantages: Tensor,
    valid: Tensor,
    uniforms: Tensor | None,
    fraction: float,
    cov_low: float,
    cov_high: float,
    clipped: Tensor | None = None,
) -> Tensor:
    """`[N, K]` of 0 and 1: some samples of high covariance get no gradient; 0 where not valid.

    Clip-Cov (arXiv:2505.22617; read in the authors' code, PRIME-RL's Entropy-Mechanism-of-RL, and in verl). With
    cov_i = (A_i - mean A)(logprob_i - mean logprob) / std(A) over the N valid samples of the tensors
    given, round(fraction N) of those with cov_low < cov_i < cov_high are zeroed, at least 1 where
    any qualifies, at random: those with the smallest `uniforms`. Samples that PPO's clip has zeroed
    already do not qualify; means and N are over all valid ones. The authors do not divide by std(A)
    (their advantages have unit scale), and round down. A sample whose advantage or logprob differs
    from the mean by rounding alone has covariance 0 and stays in: with cov_low = 0 the sign of a rounding
    error would choose it.

    Args:
        logprobs: `[N, K]` log-probabilities of the current learner, nats.
        advantages: `[N, K]`.
        valid: bool `[N, K]`; what other samples hold, NaN included, is never looked at.
        uniforms: `[N, K]` random numbers in [0, 1), `FlatBatch.uniforms`.
        fraction: share of the valid samples to zero, in [0, 1].
        cov_low: lower bound, nats.
        cov_high: upper bound, nats.
        clipped: bool `[N, K]`, True where PPO's clip has zeroed the gradient (`cut_by_clip`); None: nowhere.

    Raises:
        ValueError: there are no uniforms.
    """
    uniforms = required_uniforms(uniforms)
    advantage, std = _departures(advantages, valid)
    logprob, _ = _departures(logprobs, valid)
    product = advantage * logprob
    # Equal advantages covary with nothing, so that no sample qualifies.
    covariance = torch.where(valid & (std > 0), product / torch.where(std > 0, std, 1.0), 0.0)
    qualifies = valid & (covariance != 0) & (covariance > cov_low) & (covariance < cov_high)
    if clipped is not None:
        qualifies = qualifies & ~clipped
    number = (fraction * valid.sum()).round().clamp(min=1)
    drawn = torch.where(qualifies, uniforms.double(), torch.inf)
    zeroed = qualifies & (ranks(drawn) < number)
    return (valid & ~zeroed).to(logprobs.dtype)


Reduction = Literal["sample_mean", "game_mean", "constant_length"]


def sample_mean(valid: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """Weights of the plain mean over valid samples, shaped like `valid`; they sum to 1.

    The token-level mean of DAPO (arXiv:2503.14476), where a sample is a token. Without any valid
    sample all are 0.
    """
    return valid / _divisor(valid.sum(), dtype)


def game_mean(valid: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """Weights of the mean over each game's valid plies, then over games; they sum to 1.

    GRPO's reduction (arXiv:2402.03300): a ply of a short game weighs more than one of a long
    game. Games without a valid ply do not count; without any game all weights are 0.

    Args:
        valid: bool `[..., T]`, plies last.
        dtype: of the weights.
    """
    plies = valid.sum(-1, keepdim=True)
    return valid / _divisor(plies * (plies > 0).sum(), dtype)


def constant_length(valid: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """Weights 1 / (games x plies of the rollout), shaped like `valid`; they sum to the share of valid plies.

    Dr. GRPO's reduction (arXiv:2503.20783): every ply weighs the same whatever the length of its
    game. Every game of the batch counts, valid or not, with as many plies as the rollout is long (1
    in `positions` form): `rollout.num_plies`, fewer only where every game of it ended earlier.
    """
    return valid / _divisor(torch.tensor(valid.numel(), device=valid.device), dtype)


def state_sum(valid: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """Weights 1 / (states with a valid sample): a state's samples are added, not averaged.

    For losses that carry each sample's probability themselves, whose sum over a state's samples is
    an expectation. They sum to the mean number of valid samples in these states, not to 1; without
    any all are 0.

    Args:
        valid: bool `[..., K]`, a state's samples last.
        dtype: of the weights.
    """
    return valid / _divisor(valid.any(-1).sum(), dtype)


def _divisor(count: Tensor, dtype: torch.dtype | None) -> Tensor:
    """The count, at least 1: what has no sample behind it is 0 above the line."""
    return count.clamp(min=1).to(dtype or torch.get_default_dtype())


def _game_mean_of(batch: RolloutBatch) -> Tensor:
    # In positions form a sequence is one ply, and its mean is the ply itself.
    mean = sample_mean if batch.form == "positions" else game_mean
    return mean(batch.valid, batch.rewards.dtype)


REDUCTIONS: dict[str, Callable[[RolloutBatch], Tensor]] = {
    "sample_mean": lambda batch: sample_mean(batch.valid, batch.rewards.dtype),
    "game_mean": _game_mean_of,
    "constant_length": lambda batch: constant_length(batch.valid, batch.rewards.dtype),
}


def reduction_weights(batch: RolloutBatch, reduction: Reduction) -> Tensor:
    """Each sample's weight under the named reduction, shaped like `batch.rewards`.

    Raises:
        ValueError: the reduction is unknown.
    """
    require_choice("reduction", reduction, REDUCTIONS)
    return REDUCTIONS[reduction](batch)
