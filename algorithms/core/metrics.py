"""Metrics that need only tensors: of the importance ratio and of a rollout. Names and formulas: docs/metrics.md.

The upper bound of a ratio is a bound on the growth of a probability: a move of 1 % gets to 1.2 % and
a move of 95 % never meets it, so the samples that the clip stops are also counted by the probability that their move
had when it was sampled.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from algorithms.core.batch import RolloutBatch

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
      samples and cuts their weight. What `dual_clip` zeroes (r above it with A < 0) is in neither.
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


PHASES = ("opening", "middlegame", "endgame")
"""Names of the codes in `RolloutBatch.phase`."""

LEGAL_BUCKETS = ((2, 10), (11, 25), (26, 40), (41, None))
"""Numbers of legal moves (first, last) by which the entropy is split; None: no upper end."""

MAX_SCORE_CP = 2000
"""Scores are clipped to it: how much further than won a position is does not matter."""

MIN_GAP_CP = 50

MAX_REWARD_SHARE = 0.01


def legal_entropy(legal_logprobs: Tensor) -> Tensor:
    """`[...]` exact entropy, nats, of log-probabilities `[..., L]` (-inf on padding)."""
    # Where exp gives 0 any finite number will do.
    return -(legal_logprobs.exp() * legal_logprobs.clamp(min=-1e4)).sum(-1)


class _Row:
    """Scalars kept on the device until the row is complete; what has no weight is left out."""

    def __init__(self) -> None:
        self._values: dict[str, Tensor] = {}
        self._weights: dict[str, Tensor] = {}

    def put(self, name: str, value: Tensor, weight: Tensor) -> None:
        """Adds a scalar that is absent where `weight` is 0."""
        self._values[name], self._weights[name] = value, weight

    def mean(self, name: str, values: Tensor, weights: Tensor) -> Tensor:
        """The mean with weights >= 0 (NaN without any); values of weight 0 may be anything."""
        total = weights.double().sum()
        mean = torch.where(weights > 0, values * weights.double(), 0.0).sum() / total
        self.put(name, mean, total)
        return mean

    def std(self, name: str, values: Tensor, mean: Tensor, weights: Tensor) -> None:
        """Adds the standard deviation around a given mean (divisor: the sum of the weights)."""
        total = weights.double().sum()
        square = torch.where(weights > 0, (values - mean).square() * weights.double(), 0.0)
        self.put(name, (square.sum() / total).sqrt(), total)

    def floats(self) -> dict[str, float]:
        """The scalars that have a weight, in one transfer from the device."""
        count = len(self._values)
        both = to_floats({**self._values, **{f"{n} weight": w for n, w in self._weights.items()}})
        values, weights = list(both.items())[:count], list(both.values())[count:]
        return {name: value for (name, value), w in zip(values, weights, strict=True) if w > 0}


def batch_metrics(batch: RolloutBatch, advantages: Tensor) -> dict[str, float]:
    """Metrics of one rollout, over its valid samples (or states with at least one).

    Names and formulas: docs/metrics.md. A sample weighs 1, or pi_old(a|s) where all legal moves are
    scored, so that both kinds of batch describe the moves that the policy plays. A metric for which
    there is no sample, state or group is absent, except `policy/entropy` and
    `policy/entropy_normalized`, which are NaN.

    Args:
        batch: one rollout; what is not valid in it may hold any values, NaN included.
        advantages: shaped like `batch.rewards`.
    """
    return policy_metrics(batch) | sample_metrics(batch, advantages)


@torch.no_grad()
def sample_metrics(batch: RolloutBatch, advantages: Tensor) -> dict[str, float]:
    """The part of `batch_metrics` that describes the samples: rewards, scores, groups and advantages."""
    every = batch.samples == "all_legal"
    weights = batch.valid.double()
    if every:
        weights = torch.where(batch.valid, batch.old_legal_logprobs.double().exp(), 0.0)
    row = _Row()
    _reward_metrics(row, batch, weights)
    if every:
        _exact_group_metrics(row, batch, weights)
    else:
        _sampled_group_metrics(row, batch)
    mean = row.mean("rollout/advantage_mean", advantages, weights)
    row.std("rollout/advantage_std", advantages, mean, weights)
    return row.floats()


@torch.no_grad()
def policy_metrics(batch: RolloutBatch) -> dict[str, float]:
    """The part of `batch_metrics` that describes the behaviour distribution alone."""
    row = _Row()
    _policy_metrics(row, batch)
    missing = {"policy/entropy": math.nan, "policy/entropy_normalized": math.nan}
    return missing | row.floats()


def _valid_states(batch: RolloutBatch) -> Tensor:
    return batch.valid.any(-1) if batch.form == "positions" else batch.valid


def _policy_metrics(row: _Row, batch: RolloutBatch) -> None:
    """The behaviour distribution: entropy in all its forms, distance from the reference."""
    logprobs = batch.old_legal_logprobs.double()
    legal, used = batch.legal_ids >= 0, _valid_states(batch)
    num_legal = legal.sum(-1)
    free = used & (num_legal >= 2)
    entropy = legal_entropy(logprobs)
    bound = num_legal.clamp(min=2).double().log()
    row.mean("policy/entropy", entropy, free)
    row.mean("policy/entropy_bound", bound, free)
    row.mean("policy/entropy_normalized", entropy / bound, free)
    row.mean("policy/effective_moves", entropy.exp(), free)
    for code, phase in enumerate(PHASES):
        row.mean(f"policy/entropy_{phase}", entropy, free & (batch.phase == code))
    for first, last in LEGAL_BUCKETS:
        inside = free & (num_legal >= first)
        if last is not None:
            inside = inside & (num_legal <= last)
        name = f"policy/entropy_legal_{first}_{'plus' if last is None else last}"
        row.mean(name, entropy, inside)
    if batch.ref_legal_logprobs is not None:
        gap = torch.where(legal, logprobs - batch.ref_legal_logprobs.double(), 0.0)
        row.mean("policy/kl_ref", (logprobs.exp() * gap).sum(-1), used)
    row.mean("rollout/num_legal_mean", num_legal, used)
    row.mean("rollout/forced_fraction", (num_legal < 2).double(), used)


def _reward_metrics(row: _Row, batch: RolloutBatch, weights: Tensor) -> None:
    """Rewards and centipawns of the samples, whatever their group."""
    valid, rewards = batch.valid, batch.rewards.double()
    count = valid.sum()
    row.mean("rollout/reward_mean", rewards, weights)
    row.put("rollout/reward_best", rewards.masked_fill(~valid, -math.inf).max(), count)
    median, p90 = _median_and_p90(rewards[valid], weights[valid])
    row.put("rollout/reward_median", median, count)
    row.put("rollout/reward_p90", p90, count)
    row.mean("rollout/terminated_fraction", batch.terminated.double(), weights)
    row.put("rollout/scored_moves", count, torch.ones_like(count))
    if batch.score_cp is not None and batch.before_cp is not None:
        before = batch.before_cp.unsqueeze(-1) if batch.form == "positions" else batch.before_cp
        step = batch.score_cp.double() - before
        mean = row.mean("rollout/step_cp_mean", step, weights)
        row.std("rollout/step_cp_std", step, mean, weights)
        row.mean("rollout/step_cp_abs_mean", step.abs(), weights)


def _median_and_p90(values: Tensor, weights: Tensor) -> list[Tensor]:
    """The smallest values at or below which 5 and 9 tenths of the weight lie; NaN without values."""
    if values.numel() == 0:
        return [torch.full((), math.nan, dtype=values.dtype, device=values.device)] * 2
    ordered, order = values.sort()
    cumulative = weights[order].cumsum(0)
    reached = [10 * cumulative >= share * cumulative[-1] for share in (5, 9)]
    return [ordered[there.to(torch.uint8).argmax()] for there in reached]


def _sampled_group_metrics(row: _Row, batch: RolloutBatch) -> None:
    """How the members of a group differ, where they were sampled."""
    valid, axis = batch.valid, batch.group_axis
    members = valid.sum(axis)
    grouped = members >= 2
    # Sums of equal float32 rewards are exact in float64, and so is their mean.
    rewards = torch.where(valid, batch.rewards.double(), 0.0)
    mean = rewards.sum(axis, keepdim=True) / members.clamp(min=1).unsqueeze(axis)
    centred = torch.where(valid, rewards - mean, 0.0)
    std = (centred.square().sum(axis) / (members - 1).clamp(min=1)).sqrt()
    row.mean("rollout/reward_std", std, grouped)
    row.mean("rollout/reward_zero_std_fraction", (std == 0).double(), grouped)
    row.put("rollout/small_groups", (~grouped).sum(), torch.ones_like(members.sum()))
    free = (batch.legal_ids >= 0).sum(-1) >= 2
    if batch.form == "positions":
        actions, counted = batch.actions, valid & free.unsqueeze(-1)
        ordered = batch.slots.masked_fill(~valid, -1).sort(-1).values
        distinct = (ordered.diff(dim=-1) != 0).sum(-1) + 1 - (ordered[..., 0] < 0).long()
        row.mean("rollout/distinct_moves_mean", distinct, _valid_states(batch))
        row.mean("rollout/single_move_fraction", (distinct == 1).double(), grouped)
    else:
        actions, counted = batch.actions[..., 0], (valid & free)[..., 0]
    members = counted.sum(-1)
    both = counted.unsqueeze(-1) & counted.unsqueeze(-2)
    same = ((actions.unsqueeze(-1) == actions.unsqueeze(-2)) & both).sum((-1, -2)) - members
    pairs = members * (members - 1)
    row.mean("policy/action_agreement", same / pairs.clamp(min=1), pairs > 0)
    looked_at = blind_pairs(batch)
    if looked_at is not None:
        row.mean("rollout/blind_fraction", *looked_at)


def _exact_group_metrics(row: _Row, batch: RolloutBatch, weights: Tensor) -> None:
    """The same quantities as expectations over all legal moves, and the expected regret."""
    valid, used = batch.valid, batch.valid.any(-1)
    probs = weights / weights.sum(-1, keepdim=True).clamp(min=torch.finfo(torch.float64).tiny)
    rewards = torch.where(valid, batch.rewards.double(), 0.0)
    mean = (probs * rewards).sum(-1, keepdim=True)
    std = (probs * (rewards - mean).square()).sum(-1).sqrt()
    best = rewards.masked_fill(~valid, -math.inf).amax(-1)
    worst = rewards.masked_fill(~valid, math.inf).amin(-1)
    free = valid.sum(-1) >= 2
    row.mean("rollout/reward_std", std, free)
    row.mean("rollout/reward_zero_std_fraction", (best == worst).double(), free)
    row.put("rollout/small_groups", (~free).sum(), torch.ones_like(free.sum()))
    row.mean("rollout/regret_reward", best - mean.squeeze(-1), used)
    row.mean("policy/action_agreement", probs.square().sum(-1), free)


@torch.no_grad()
def blind_pairs(batch: RolloutBatch) -> tuple[Tensor, Tensor] | None:
    """(bool `[..., M, M]` True for pairs with nearly one reward, bool of the pairs that should not).

    The pairs are of different valid members of a group whose scores, clipped to +-2000 centipawns,
    differ by at least 50. Nearly one reward: they differ by at most 1 % of the largest difference
    within any group of the rollout (at most, so that rewards that are all equal see nothing). In the
    form `games` a group is compared on its first ply, where its members still share a position.

    None without scores.
    """
    if batch.score_cp is None:
        return None
    valid, rewards, score_cp = batch.valid, batch.rewards.double(), batch.score_cp.double()
    if batch.form == "games":
        valid, rewards, score_cp = valid[..., 0], rewards[..., 0], score_cp[..., 0]
    both = valid.unsqueeze(-1) & valid.unsqueeze(-2)
    apart = torch.where(both, _gaps(score_cp.clamp(-MAX_SCORE_CP, MAX_SCORE_CP)), 0.0) >= MIN_GAP_CP
    gaps = torch.where(both, _gaps(rewards), 0.0)
    return gaps <= MAX_REWARD_SHARE * gaps.max(), apart


def _gaps(values: Tensor) -> Tensor:
    """`[..., M, M]` distances between the members `[..., M]`."""
    return (values.unsqueeze(-1) - values.unsqueeze(-2)).abs()
