"""Rules on the steps that are taken."""

from __future__ import annotations

import math

from algorithms.collapse.doctor.evidence import Evidence, Record, rerun


def clip_asymmetry(record: Record) -> Evidence | None:
    """The clip takes away what raises moves far more often than what lowers them."""
    bins = ("p_01_10", "p_10_50")
    up = [record(f"mean clip/up_{name}") for name in bins]
    down = [record(f"mean clip/down_{name}") for name in bins]
    if not (min(up) > 0.25 and sum(up) > 1.5 * sum(down)):
        return None
    return Evidence(
        "clip_asymmetry",
        0.9,
        f"of the samples with A > 0 the upper clip stops {up[0]:.0%} (p from .01 to .1) and "
        f"{up[1]:.0%} (p from .1 to .5); of those with A < 0 the lower clip stops {down[0]:.0%} and "
        f"{down[1]:.0%}",
        "equal shares on both sides",
        "raise clip_range_high (.28)",
        rerun("--algorithm.clip-range-high 0.28"),
    )


def _drift(record: Record) -> tuple[float, float]:
    """(median k3 of an update, median passes)."""
    return record("median policy/approx_kl"), record("median train/passes")


def update_epochs(record: Record) -> Evidence | None:
    """Within an update the policy runs away from its own samples, over several passes."""
    drift, passes = _drift(record)
    ess = record("median ratio/ess")
    if not (passes >= 2 and ess < 0.5 and record("first ratio/std_first_minibatch") < 0.01):
        return None
    if not record("median ratio/std_first_minibatch") < 0.01:
        return None  # then the batch was old before the update began
    return Evidence(
        "update_epochs",
        0.9,
        f"an update goes {passes:.0f} times over its batch and ends {drift:.2g} nats (k3) away from "
        f"the policy that sampled it: the effective sample size is {ess:.1%} of the samples, though "
        f"every update begins at ratio 1; entropy is {record.entropy_kept:.0%} and regret "
        f"{record.regret_kept:.0%} of their starts",
        "one pass leaves more than 90 % of the samples effective",
        "fewer passes (algorithm.update_epochs 1), a clip, or target_kl",
        rerun("--algorithm.update-epochs 1"),
    )


def weak_entropy_high_lr(record: Record) -> Evidence | None:
    """Every single pass moves the policy far, and nothing that holds entropy has a say."""
    drift, passes = _drift(record)
    bonus = record("median grad_share/entropy")
    bonus = 0.0 if math.isnan(bonus) else bonus
    if not (passes < 2 and drift > 0.06 and bonus < 0.1 and record.entropy_kept < 0.6):
        return None
    if not record("median ratio/std_first_minibatch") < 0.01:
        return None
    gained = 1 - record.regret_kept
    if gained > 0.45 * (1 - record.entropy_kept):
        return None  # fast, and worth it
    return Evidence(
        "weak_entropy_high_lr",
        min(0.95, 0.7 + drift),
        f"one pass moves the policy by {drift:.2g} nats (k3, median), the entropy bonus has "
        f"{bonus:.1%} of the gradient norm; {1 - record.entropy_kept:.0%} of the held-out entropy "
        f"went for {gained:.0%} of the regret",
        "a pass moves the policy by .01 to .03 nats",
        "a lower optimizer.learning_rate (a quarter), and an exact bonus with 10 to 40 % of the "
        "gradient norm",
        rerun(
            f"--optimizer.learning-rate {record('median train/learning_rate') / 4:.2g}",
            f"--regularizer.ent-coef {max(0.1, 10 * record('median reg/ent_coef')):.2g}",
        ),
    )
