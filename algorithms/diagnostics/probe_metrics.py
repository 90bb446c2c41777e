"""Exact sums over the legal moves of fixed positions, in float64: changes by one update, and the regularised optimum.

Every function takes log-probabilities float64 `[M, L]` in nats (anything on padding) and `legal`,
bool `[M, L]`. Names and definitions: docs/metrics.md, section "Probes".
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from algorithms.core.metrics import BINS
from algorithms.regularization.term import Term

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

RARE = 0.01
"""A move is rare before an update where its probability is below this."""

SURE = 0.9
"""A move is sure before an update where its probability is above this."""


def change_metrics(
    legal: Mask,
    before: Floats,
    after: Floats,
    rewards: Floats,
    *,
    clip_low: float,
    clip_high: float,
) -> dict[str, float]:
    """`probe/...` of one update, means over the positions with two legal moves or more.

    Args:
        legal: bool `[M, L]`.
        before: float64 `[M, L]` log-probabilities, nats.
        after: float64 `[M, L]`, likewise.
        rewards: float64 `[M, L]` reward of every legal move, up to a constant of the position.
        clip_low: distance of the lower ratio bound from 1; 1 where there is none.
        clip_high: distance of the upper ratio bound from 1; infinity where there is none.
    """
    free = legal.sum(-1) >= 2
    legal, before, after, rewards = legal[free], before[free], after[free], rewards[free]
    advantages = exact_advantages(before, rewards, legal)
    best = np.where(legal, rewards, -np.inf).max(-1, keepdims=True)
    lost = np.where(legal, best - rewards, 0.0)
    means = {
        "probe/entropy": entropy(after, legal),
        "probe/kl_step": kl(after, before, legal),
        "probe/covariance": covariance(before, advantages, legal),
        "probe/expected_reward_regret": (probabilities(after, legal) * lost).sum(-1),
    }
    with np.errstate(over="ignore"):  # a move of nearly no mass may rise by any factor
        ratio = np.exp(_filled(after, legal) - _filled(before, legal))
    blocked = {
        "probe/blocked_high": (advantages > 0, ratio > 1 + clip_high),
        "probe/blocked_low": (advantages < 0, ratio < 1 - clip_low),
    }
    probs = probabilities(before, legal)
    found = {name: float(values.mean()) for name, values in means.items()}
    found |= mass_moved(before, after, legal)
    for name, (of_sign, beyond) in blocked.items():
        mass = probs[legal & of_sign].sum()
        if mass > 0:
            found[name] = float(probs[legal & of_sign & beyond].sum() / mass)
    return found


def _filled(logprobs: Floats, legal: Mask) -> Floats:
    """The log-probabilities with 0 on padding, where a difference of infinities would be NaN."""
    return np.where(legal, logprobs, 0.0)


def probabilities(logprobs: Floats, legal: Mask) -> Floats:
    """float64 `[M, L]`; 0 on padding."""
    return np.where(legal, np.exp(_filled(logprobs, legal)), 0.0)


def entropy(logprobs: Floats, legal: Mask) -> Floats:
    """float64 `[M]` -sum pi ln pi, nats."""
    return -(probabilities(logprobs, legal) * _filled(logprobs, legal)).sum(-1)


def kl(logprobs: Floats, other: Floats, legal: Mask) -> Floats:
    """float64 `[M]` KL(policy || other), nats."""
    gap = _filled(logprobs, legal) - _filled(other, legal)
    return (probabilities(logprobs, legal) * gap).sum(-1)


def exact_advantages(logprobs: Floats, rewards: Floats, legal: Mask) -> Floats:
    """float64 `[M, L]` A(a) = R(a) - sum_b pi(b) R(b); 0 on padding.

    Rewards are first taken relative to that of the most probable move: so equal rewards give exactly
    0, and a nearly certain move's tiny advantage keeps its sign.
    """
    top = np.where(legal, logprobs, -np.inf).argmax(-1)[:, None]
    relative = np.where(legal, rewards - np.take_along_axis(rewards, top, -1), 0.0)
    mean = (probabilities(logprobs, legal) * relative).sum(-1, keepdims=True)
    return np.where(legal, relative - mean, 0.0)


def covariance(logprobs: Floats, values: Floats, legal: Mask) -> Floats:
    """float64 `[M]` Cov over a ~ pi of (ln pi(a), values(a))."""
    probs = probabilities(logprobs, legal)
    first = _filled(logprobs, legal) + entropy(logprobs, legal)[:, None]
    mean = (probs * values).sum(-1, keepdims=True)
    return (probs * first * (values - mean)).sum(-1)


def mass_moved(before: Floats, after: Floats, legal: Mask) -> dict[str, float]:
    """Probability that moved, by the moves' probability before; the bins' means add up to 0."""
    probs = probabilities(before, legal)
    moved = probabilities(after, legal) - probs
    # The ranges of `BINS`, edges included.
    rare, sure = legal & (probs < RARE), probs > SURE
    members = (
        rare,
        (probs >= RARE) & (probs < 0.1),
        (probs >= 0.1) & (probs < 0.5),
        (probs >= 0.5) & (probs <= SURE),
        sure,
    )
    sums = {
        "probe/mass_risen_rare": np.where(rare, moved, 0.0).clip(min=0.0),
        "probe/mass_fallen_sure": np.where(sure, -moved, 0.0).clip(min=0.0),
    }
    for name, member in zip(BINS, members, strict=True):
        sums[f"probe/mass_moved_{name}"] = np.where(member, moved, 0.0)
    return {name: float(values.sum(-1).mean()) for name, values in sums.items()}


def optimum_logprobs(
    ref_logprobs: Floats, rewards: Floats, legal: Mask, *, kl_ref_coef: float, ent_coef: float
) -> Floats:
    """float64 `[M, L]` log-probabilities of the regularised optimum, nats; -inf on padding.

    It maximises, position by position, with beta = `kl_ref_coef` and c = `ent_coef`,

        E_pi[R] - beta KL(pi || ref) + c H(pi) = E_pi[R + beta ln ref] - (beta + c) E_pi[ln pi].

    The derivative with respect to pi(a) is R(a) + beta ln ref(a) - (beta + c)(ln pi(a) + 1), and
    must be the same for all moves, the multiplier of sum pi = 1. Hence

        pi*(a) ~ (ref(a)^beta exp R(a))^(1 / (beta + c)),

    which is ref exp(R / beta) without a bonus, and the softmax of R / c without a KL. The objective is
    concave, so there is no other. A constant added to the rewards of a position falls out.

    Args:
        ref_logprobs: float64 `[M, L]` the reference policy; anything on padding, and where beta is 0.
        rewards: float64 `[M, L]`.
        legal: bool `[M, L]`, a legal move in every row.
        kl_ref_coef: beta, reward units per nat, >= 0.
        ent_coef: c, reward units per nat, >= 0; above 0 where beta is 0.
    """
    anchored = legal & (kl_ref_coef > 0)
    score = (rewards + kl_ref_coef * np.where(anchored, ref_logprobs, 0.0)) / (
        kl_ref_coef + ent_coef
    )
    score = np.where(legal, score, -np.inf)
    score = score - score.max(-1, keepdims=True)
    return score - np.log(np.exp(score).sum(-1, keepdims=True))


def has_closed_optimum(terms: Sequence[Term]) -> bool:
    """Whether the regulariser pulls to `optimum_logprobs` of a reference, and to nothing else.

    There must be a KL to the reference, and every term that is on must keep the optimum (`keeps_optimum`).
    """
    return any(term.name == "kl_ref" and term.coef > 0 for term in terms) and pulls_to_optimum(
        terms
    )


def pulls_to_optimum(terms: Sequence[Term]) -> bool:
    """Whether the regulariser pulls to `optimum_logprobs`, of a reference or of the bonus alone.

    Every term that is on must keep the optimum (`keeps_optimum`), and one must pull: the KL to the reference or
    the entropy bonus.
    """
    active = [term for term in terms if term.coef > 0]
    return any(term.name in ("kl_ref", "entropy") for term in active) and all(
        term.keeps_optimum for term in active
    )
