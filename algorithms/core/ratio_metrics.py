"""Metrics of the importance ratio: sums over minibatches, and which samples the clip stops.

The upper bound of a ratio is a bound on the growth of a probability: a move of 1 % gets to 1.2 % and
a move of 95 % never meets it, so the stopped samples are also counted by the probability that their move
had when it was sampled. Names and formulas: docs/metrics.md.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

BINS = ("p_below_01", "p_01_10", "p_10_50", "p_50_90", "p_above_90")
"""Names of the ranges of probability; each holds its lower edge, except that .9 is in the fourth."""

_LOWER = (math.log(0.01), math.log(0.1), math.log(0.5))

_LAST = math.log(0.9)


def to_floats(values: dict[str, Tensor]) -> dict[str, float]:
    """The scalar tensors as Python floats, moved from the device in one transfer."""
    if not values:
        return {}
    stacked = torch.stack([value.detach().double().reshape(()) for value in values.values()])
    return dict(zip(values, stacked.tolist(), strict=True))


@torch.no_grad()
def ratio_sums(
    logprobs: Tensor,
    old_logprobs: Tensor,
    advantages: Tensor,
    valid: Tensor,
    clip_low: float,
    clip_high: float,
) -> dict[str, Tensor]:
    """Sums over the valid samples, from which means are built; all inputs `[N, K]`.

    `ratio_metrics` makes its means of them, and `clip_metrics` its shares of `clip`, a `clip_counts`.
    Sums of several minibatches are added entry by entry, except `max`, which takes the larger.
    """
    log_ratio = torch.where(valid, logprobs - old_logprobs, 0.0).double()
    ratio = log_ratio.exp()
    above, below = ratio > 1 + clip_high, ratio < 1 - clip_low
    return {
        "count": valid.sum().double(),
        "zero_gradient_low": (valid & below & (advantages < 0)).sum().double(),
        "zero_gradient_high": (valid & above & (advantages > 0)).sum().double(),
        "out_of_range": (valid & (above | below)).sum().double(),
        "k3": (valid * (ratio - 1 - log_ratio)).sum(),
        "ratio": (valid * ratio).sum(),
        "ratio_squared": (valid * ratio.square()).sum(),
        "max": torch.where(valid, ratio, 0.0).max(),
        "clip": clip_counts(old_logprobs, advantages, valid, above, below),
    }


def ratio_metrics(sums: dict[str, Tensor]) -> dict[str, Tensor]:
    """Metrics, scalars, of the importance ratio r = pi_learner / pi_behaviour from `ratio_sums`.

    - `policy/clip_fraction_low`, `policy/clip_fraction_high`: share of samples whose gradient the
      clip zeroes (r below with A < 0; r above with A > 0); `cispo` keeps the gradient of these
      samples and cuts their weight.
    - `policy/ratio_out_of_range`: share with r outside the bounds whatever the sign of A (the other
      definition in use; up to twice as large).
    - `policy/approx_kl`: mean of r - 1 - ln r, the k3 estimate of KL(behaviour || learner), nats.
    - `ratio/std`, `ratio/max`; `ratio/ess`: effective sample size over sample size, (sum r)^2 / (n
      sum r^2), in (0, 1].

    The mean ratio is left out on purpose: its expectation is 1 whatever is wrong.
    """
    count = sums["count"].clamp(min=1)
    mean, mean_square = sums["ratio"] / count, sums["ratio_squared"] / count
    return {
        "policy/clip_fraction_low": sums["zero_gradient_low"] / count,
        "policy/clip_fraction_high": sums["zero_gradient_high"] / count,
        "policy/ratio_out_of_range": sums["out_of_range"] / count,
        "policy/approx_kl": sums["k3"] / count,
        "ratio/std": (mean_square - mean.square()).clamp(min=0).sqrt(),
        "ratio/max": sums["max"],
        "ratio/ess": mean.square() / mean_square.clamp(min=torch.finfo(torch.float64).tiny),
    }


def log_odds(logprobs: Tensor, legal: Tensor) -> Tensor:
    """float64 `[N, L]` log-probabilities less their mean over the legal moves of the state, nats; 0 elsewhere.

    Args:
        logprobs: `[N, L]`; anything where not `legal`.
        legal: bool `[N, L]` True where a move counts.
    """
    count = legal.sum(-1, keepdim=True).clamp(min=1)
    finite = torch.where(legal, logprobs, 0.0).double()
    return torch.where(legal, finite - finite.sum(-1, keepdim=True) / count, 0.0)


@torch.no_grad()
def log_odds_line(legal_logprobs: Tensor, old_legal_logprobs: Tensor) -> dict[str, Tensor]:
    """`ratio/log_odds_slope` and `ratio/log_odds_residual`, scalars, of the learner against the sampler.

    Within each state the log-probabilities are taken from their mean over the legal moves. The slope is that of
    the least-squares line through all of them, and the residual the root mean square, in nats, of what the line
    leaves. Another temperature alone gives a slope other than 1 and no residual. The slope is 1 where the
    sampler is uniform.

    Args:
        legal_logprobs: `[N, L]` the learner's; -inf on padding.
        old_legal_logprobs: `[N, L]` the sampler's.
    """
    legal = legal_logprobs.isfinite() & old_legal_logprobs.isfinite()
    x, y = log_odds(old_legal_logprobs, legal), log_odds(legal_logprobs, legal)
    variance = x.square().sum()
    uniform = variance <= 1e-12
    slope = torch.where(uniform, 1.0, (x * y).sum() / torch.where(uniform, 1.0, variance))
    left = (y - slope * x).square().sum() / legal.sum().clamp(min=1)
    return {"ratio/log_odds_slope": slope, "ratio/log_odds_residual": left.sqrt()}


def add_sums(total: dict[str, Tensor], sums: dict[str, Tensor]) -> dict[str, Tensor]:
    """Scalars by name: `total + sums` entry by entry, the larger for `max`; an empty total gives `sums`."""
    if not total:
        return dict(sums)
    return {
        name: torch.maximum(total[name], value) if name == "max" else total[name] + value
        for name, value in sums.items()
    }


def clip_counts(
    old_logprobs: Tensor, advantages: Tensor, valid: Tensor, above: Tensor, below: Tensor
) -> Tensor:
    """float64 `[4, 5]` numbers of samples by probability; counts of several minibatches are added.

    Rows: A > 0, of these `above`, A < 0, of these `below`. Columns: `BINS`.

    Args:
        old_logprobs: `[N, K]` log-probability of each move when it was sampled.
        advantages: `[N, K]`, their A.
        valid: bool `[N, K]` True where the sample counts; the rest may hold anything.
        above: bool `[N, K]` True where the ratio is over its upper bound.
        below: bool `[N, K]` True where it is under its lower one.
    """
    column = (old_logprobs > _LAST).to(torch.int64)
    for edge in _LOWER:
        column += old_logprobs >= edge
    up, down = valid & (advantages > 0), valid & (advantages < 0)
    rows = torch.stack([up, up & above, down, down & below]).flatten(1)
    inside = column.reshape(-1, 1) == torch.arange(len(BINS), device=column.device)
    return rows.double() @ inside.double()


def clip_metrics(counts: Tensor) -> dict[str, float]:
    """`clip/up_<bin>` and `clip/down_<bin>`, shares in [0, 1], from `clip_counts`.

    A bin without a sample of that sign is absent.
    """
    up, above, down, below = counts.tolist()
    shares = {"up": (above, up), "down": (below, down)}
    return {
        f"clip/{side}_{name}": stopped / of
        for side, (numbers, totals) in shares.items()
        for name, stopped, of in zip(BINS, numbers, totals, strict=True)
        if of
    }
