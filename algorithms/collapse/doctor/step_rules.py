"""Rules on the steps that are taken on good samples."""

from __future__ import annotations

import math

import numpy as np

from algorithms.collapse.doctor.finding import (
    PRESENT,
    Named,
    Rule,
    RuledOut,
    Untold,
    Verdict,
    named_if_harmful,
    rerun,
)
from algorithms.collapse.doctor.outcome import LOST, RunOutcome
from algorithms.collapse.doctor.record import Record

BINS = ("p_01_10", "p_10_50")
ONE_SIDED = 1.8
"""The upper clip stops so many times the samples that the lower one does."""

HARMFUL_STOPPED = 0.1
"""Share of the samples from which a one-sided clip did harm."""

HARMFUL_ESS = 0.7
"""Effective sample size, relative to that before the first step, below which reuse of a batch did harm."""

HARMFUL_DRIFT = 0.035
"""Nats (k3) of one pass from which large steps cost entropy that buys little."""

LITTLE_RETURN, ENOUGH_RETURN = 0.6, 0.65
"""Regret that fell by this part of what entropy fell by, as shares of their starts: less did harm, more did not."""

SPENT_UP = 0.2
"""Share of its entropy that a policy has kept when nearly all is gone."""

WEAK_BONUS = 0.15
"""Share of the gradient norm below which a bonus holds nothing."""


def clip_asymmetry(record: Record, outcome: RunOutcome) -> Verdict:
    """The clip stops gradients that raise moves far more often than those that lower them."""
    high, low = record.mean("policy/clip_fraction_high"), record.mean("policy/clip_fraction_low")
    shares = (
        f"the clip takes the gradient of {high:.1%} of the samples above and of {low:.1%} below"
    )
    if not (high > 0.03 and high > ONE_SIDED * low):
        return RuledOut(f"{shares}: no side far more than the other")
    up, down = (
        float(np.mean([record.mean(f"clip/{side}_{name}") for name in BINS]))
        for side in ("up", "down")
    )
    values = record.together("policy/clip_fraction_high", "policy/clip_fraction_low")
    since = next((n for n, (a, b) in values if a > ONE_SIDED * b and a > 0.03), record.first_update)
    return named_if_harmful(
        Named(
            high / HARMFUL_STOPPED,
            since,
            f"{shares}; of those with A > 0 and p from .01 to .5 it stops {up:.0%}, of those with A < 0 {down:.0%}",
            "shares of one order on both sides",
            "raise clip_range_high (.28)",
            rerun("--algorithm.clip-range-high 0.28"),
        )
    )


def update_epochs(record: Record, outcome: RunOutcome) -> Verdict:
    """Within an update the policy moves far from its own samples, over several passes."""
    passes = record.median("train/passes")
    if passes < 2:
        return RuledOut(f"every batch is gone over {passes:.0f} time")
    pairs = record.together("ratio/ess", "ratio/ess_first_minibatch")
    # What was lost before the first step is another cause's.
    kept = [(n, ess / max(first, 1e-9)) for n, (ess, first) in pairs]
    median = float(np.median([value for _, value in kept])) if kept else record.median("ratio/ess")
    drift = record.median("policy/approx_kl") - record.median("policy/approx_kl_first_minibatch")
    if not median < HARMFUL_ESS:
        return RuledOut(
            f"{passes:.0f} passes leave {median:.0%} of the samples effective (median of the updates)"
        )
    size = (1 - median) / (1 - HARMFUL_ESS)
    return Named(
        size if outcome.is_poor else min(size, PRESENT),
        next((n for n, value in kept if value < HARMFUL_ESS), record.first_update),
        f"an update goes {passes:.0f} times over its batch and ends {drift:.2g} nats (k3) further from the "
        f"policy that sampled it: {median:.0%} of the samples stay effective (median)",
        "one pass leaves more than 90 % of the samples effective",
        "fewer passes (algorithm.update_epochs 1), a clip, or target_kl",
        rerun("--algorithm.update-epochs 1"),
    )


def weak_entropy_high_lr(record: Record, outcome: RunOutcome) -> Verdict:
    """Every single pass moves the policy far, and no term keeps its entropy up."""
    passes = record.median("train/passes")
    if passes >= 2:  # then it is the passes that are asked about, by another rule
        return RuledOut(
            f"a batch is gone over {passes:.0f} times, which moves the policy by itself"
        )
    drift = record.median("policy/approx_kl") - record.median("policy/approx_kl_first_minibatch")
    bonus = record.median("grad_share/entropy")
    bonus = 0.0 if math.isnan(bonus) else bonus
    before, after = outcome.entropy_nats
    kept = after / before if before > 0 else math.nan
    said = (
        f"one pass moves the policy by {drift:.2g} nats (k3, median), the entropy bonus has {bonus:.1%} of the "
        f"gradient norm; entropy goes from {before:.2f} to {after:.2f} nats"
    )
    bought = -outcome.change / (1 - kept) if kept < 1 else math.nan
    if not (drift > HARMFUL_DRIFT and bonus < WEAK_BONUS and kept < 0.6):
        return RuledOut(said)
    paid = outcome.entropy != LOST and not bought < LITTLE_RETURN
    if paid and kept > SPENT_UP:
        return RuledOut(f"{said}, and regret falls by {bought:.0%} of that share: it is well spent")
    if paid and bought < ENOUGH_RETURN:
        return Untold(
            (),
            f"{said}, and regret falls by {bought:.0%} of that share: some runs like this lost by it, and some did not",
        )
    return Named(
        PRESENT if paid else drift / HARMFUL_DRIFT,
        record.first_update,
        said,
        "a pass moves the policy by .01 to .03 nats",
        "a lower optimizer.learning_rate (a quarter), and an exact bonus with 10 to 40 % of the "
        "gradient norm",
        rerun(
            f"--optimizer.learning-rate {record.median('train/learning_rate') / 4:.2g}",
            f"--regularizer.ent-coef {max(0.1, 10 * record.median('reg/ent_coef')):.2g}",
        ),
    )


STEP_RULES = (
    Rule(
        "clip_asymmetry",
        (("policy/clip_fraction_high", "policy/clip_fraction_low"),),
        "every run of an algorithm with a ratio",
        f"the upper clip takes the gradient of more than {ONE_SIDED:g} times the samples that the lower one takes",
        "shares of one order",
        f"less than {HARMFUL_STOPPED:.0%} of the samples are stopped",
        clip_asymmetry,
        hidden_by=("temperature_mismatch", "forward_mismatch", "stale_behaviour"),
    ),
    Rule(
        "update_epochs",
        (("train/passes", "ratio/ess", "ratio/ess_first_minibatch"),),
        "every run of an algorithm with a ratio",
        f"a batch is used several times, and less than {HARMFUL_ESS:.0%} of its samples stay effective",
        "one pass, or samples that stay effective",
        "the run learns, and keeps its entropy or spends it on that",
        update_epochs,
        hidden_by=("sampled_entropy_bonus",),
    ),
    Rule(
        "weak_entropy_high_lr",
        (("train/passes", "policy/approx_kl", "policy/approx_kl_first_minibatch", "eval/entropy"),),
        "every run of an algorithm with a ratio; entropy by the evaluations",
        "one pass moves the policy far, no bonus holds it, and entropy falls",
        "small steps, a bonus with a say, or entropy that is kept",
        f"regret falls by more than {ENOUGH_RETURN:.0%} of the share that entropy falls by; from {LITTLE_RETURN:.0%} "
        "on it cannot be told",
        weak_entropy_high_lr,
        hidden_by=("sampled_entropy_bonus", "stale_behaviour"),
    ),
)
