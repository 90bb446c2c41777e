"""Rules on the samples: are they what the learner takes them for?"""

from __future__ import annotations

import math

from algorithms.collapse.doctor.evidence import Evidence, Record, rerun


def temperature_mismatch(record: Record) -> Evidence | None:
    """The learner's log-odds are a multiple of the sampler's: only temperatures do that."""
    slope = record("first step0/log_odds_slope")
    residual = record("first step0/log_odds_residual")
    first = record("first ratio/std_first_minibatch")
    if not (abs(slope - 1) > 0.01 and first > 1e-5):
        return None
    # A straight line through the log-odds is the mark of a temperature; scatter has other causes.
    straight = residual <= 0.02 or math.isnan(residual)
    if not straight:
        return None
    return Evidence(
        "temperature_mismatch",
        0.99,
        f"before the first update the learner's log-odds are {slope:.4f} times the sampler's, "
        f"with {residual:.1e} nats left over; {record('first step0/clip_fraction'):.1%} of the "
        "ratios are out of range at equal weights",
        "a factor of 1 and a share of 0",
        "give sampling and learning one temperature (rollout.temperature is meant for both): "
        f"sampler's / learner's is {slope:.4g} now",
        rerun(),  # without the fault, and with the preflight
    )


def forward_mismatch(record: Record) -> Evidence | None:
    """Sampler and learner disagree on equal weights, and no temperature explains it."""
    residual = record("first step0/log_odds_residual")
    first = record("median ratio/std_first_minibatch")
    if not (residual > 1e-4 and record("first ratio/std_first_minibatch") > 1e-4):
        return None
    repeat = record("first step0/repeat_error")
    if repeat > 1e-4:
        kind = (
            f"two passes of the sampler differ by up to {repeat:.2g}: something is drawn at random"
        )
        remedy = "put the sampling policy in evaluation mode (dropout off)"
    elif residual < 0.03:
        kind = "every pass gives the same: rounding, as of another precision"
        remedy = "compute head and log-softmax of both in float32, or recompute old_logprobs"
    else:
        kind = "every pass gives the same: other weights, masks or another engine"
        remedy = "recompute old_logprobs with the learner, and compare the two forward passes"
    return Evidence(
        "forward_mismatch",
        0.98 if residual > 1e-3 else 0.8,
        f"on equal weights the learner's log-odds scatter around the sampler's by {residual:.2g} "
        f"nats, and the ratio's standard deviation before any step is {first:.2g} (median); {kind}",
        "0 for both",
        remedy,
        rerun("--policy.head-dtype float32", "--policy.dropout 0"),
    )


def stale_behaviour(record: Record) -> Evidence | None:
    """The ratio leaves 1 before the first step of later updates, though it was 1 at the first."""
    first = record.series("ratio/std_first_minibatch")
    if len(first) < 3 or not record("median ratio/std_first_minibatch") > 0.01:
        return None
    at_start = first[0]
    # Where equal weights already disagree, that alone explains a constant distance.
    stale = sum(value > max(0.01, 2.0 * at_start) for value in first[1:]) / (len(first) - 1)
    if not stale > 0.4:
        return None
    fresh = sum(value <= max(1e-4, 1.2 * at_start) for value in first[1:])
    return Evidence(
        "stale_behaviour",
        0.95 if at_start < 1e-3 else 0.7,
        f"the ratio's standard deviation is {at_start:.1e} at the first minibatch of update 1 and "
        f"{record('median ratio/std_first_minibatch'):.2f} (median) at that of all updates; "
        f"{stale:.0%} of the later ones begin away from 1, {fresh} begin at it",
        "every update begins at ratio 1",
        "synchronise the sampler more often (rollout.sync_interval_updates 1) or take fewer steps",
        rerun("--rollout.sync-interval-updates 1"),
    )
