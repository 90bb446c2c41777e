"""Rules on the samples: do they come from the distribution that the learner assumes, and can it learn from them?

Before the first step of an update the learner's log-odds should be the sampler's. Three faults break that, each
in its own way: another temperature multiplies them, another forward pass scatters them at every update, and old
weights scatter them at some updates and not at those that follow a synchronisation. Samples of the right distribution
say nothing where all rewards are equal, and little where the positions are always the same.
"""

from __future__ import annotations

import math
from itertools import groupby

import numpy as np

from algorithms.doctor.findings import CauseRule, Named, RuledOut, Untold, Verdict, rerun
from algorithms.doctor.metric_rows import MetricRows, Point, RunOutcome

SLOPE, RESIDUAL = "ratio/log_odds_slope_first_minibatch", "ratio/log_odds_residual_first_minibatch"
STEP0_SLOPE, STEP0_RESIDUAL = "step0/log_odds_slope", "step0/log_odds_residual"

OFF_NATS = 1e-4
"""Residuals and spreads below this are rounding of float32."""

STRAIGHT = 0.03
"""A residual below this part of |ln slope|, in nats, is a line: nothing but a temperature draws one.

So that a nearly uniform learner, whose log-odds are next to nothing, is no multiple of every sampler, the residual
must be as small in the learner's units: what is left over if the two change places is 1 / slope of it.
"""

MOST_SHAPE_ERROR = 1e-3
"""A ratio of float32 moves by less than this where only the shape of its batch changes."""

HARMFUL_LOG_SLOPE = 0.06
"""|ln slope| from which a temperature fault did harm."""

HARMFUL_RESIDUAL = 0.18
"""Scatter in nats from which another forward pass did harm."""

HARMFUL_STALENESS = 0.17
"""Scatter in nats, mean over the updates, from which old weights did harm."""


def _lines(record: MetricRows) -> list[tuple[int, float, float]]:
    """(update, slope, residual) of every update that has them; those of a process's first look come first."""
    per_update = {n: (slope, left) for n, (slope, left) in record.together(SLOPE, RESIDUAL)}
    looked = {n: (slope, left) for n, (slope, left) in record.together(STEP0_SLOPE, STEP0_RESIDUAL)}
    return [(n, *line) for n, line in sorted({**per_update, **looked}.items())]


def _is_temperature(slope: float, residual: float) -> bool:
    if slope <= 0:
        return False
    factor = abs(math.log(slope))
    return factor > 0.004 and residual <= STRAIGHT * factor * min(1.0, slope)


def temperature_mismatch(record: MetricRows, outcome: RunOutcome) -> Verdict:
    """The learner's log-odds are a multiple of the sampler's: only temperatures do that."""
    lines = _lines(record)
    slopes = {n: slope for n, slope, _ in lines}
    straight: list[Point] = [(n, float(_is_temperature(s, left))) for n, s, left in lines]
    found = record.episode(straight, lambda value: value > 0)
    looked = [(n, s) for n, s, left in lines if n in record.fresh_starts and (
        _is_temperature(s, left) or (s > 1.03 and left < 3 * abs(s - 1)))]  # fmt: skip
    if found is None and not looked:
        furthest = max(lines, key=lambda line: abs(line[1] - 1))
        return RuledOut(
            f"the learner's log-odds are {lines[0][1]:.4f} times the sampler's at update {lines[0][0]}, and "
            f"nowhere a multiple of them (furthest: {furthest[1]:.4f} with {furthest[2]:.1e} nats left over, "
            f"update {furthest[0]})"
        )
    # Scatter of another kind hides the line later; the first look of a process still shows the factor.
    since = (
        looked[0][0] if found is None else min(found.since, looked[0][0] if looked else found.since)
    )
    inside = [slopes[n] for n, one in straight if found and one and n >= found.since]
    logs = np.log(inside)
    if len(inside) > 1 and logs.std() > abs(np.median(logs)):
        return Untold(
            (),
            f"the learner's log-odds are a multiple of the sampler's, and another one at each update: "
            f"{min(inside):.2f} to {max(inside):.2f} times. A setting is off by one factor; look at what changes "
            "a temperature from update to update",
        )
    slope = float(np.median(inside)) if inside else looked[0][1]
    return Named(
        abs(math.log(max(slope, 1e-3))) / HARMFUL_LOG_SLOPE,
        since,
        f"the learner's log-odds are {slope:.4f} times the sampler's before any step, "
        f"{record.begins(since)}, and little is left over",
        "a factor of 1",
        "give sampling and learning one temperature (rollout.temperature is meant for both): "
        f"sampler's / learner's is {slope:.4g} now",
        rerun(),  # without the fault, and with the preflight
    )


def _stretches(lines: list[tuple[int, float, float]]) -> list[list[tuple[int, float]]]:
    """The stretches of updates that begin away from the sampler: (update, residual)."""
    away = [(n, left, left > OFF_NATS and not _is_temperature(s, left)) for n, s, left in lines]
    parts = groupby(away, key=lambda line: line[2])
    return [[(n, left) for n, left, _ in part] for is_off, part in parts if is_off]


def _constant(
    stretch: list[tuple[int, float]], lines: list[tuple[int, float, float]], starts: list[int]
) -> bool:
    """Whether a stretch is at its level from its beginning, as a fixed difference is; old weights drift away.

    One that begins with the second update of a process is that of weights which are never brought up to date: a
    fault of the forward pass would have shown in the first.
    """
    values, updates = [left for _, left in stretch], [n for n, _, _ in lines]
    at = updates.index(stretch[0][0])
    follows_a_start = at > 0 and updates[at - 1] in starts
    return len(values) >= 4 and not follows_a_start and values[0] > 0.5 * float(np.median(values))


def forward_mismatch(record: MetricRows, outcome: RunOutcome) -> Verdict:
    """Sampler and learner disagree on equal weights, and no temperature explains it."""
    lines = _lines(record)
    repeat, shape = record.first("step0/repeat_error"), record.first("step0/shape_error")
    if shape > MOST_SHAPE_ERROR and not repeat > OFF_NATS:
        return Named(
            shape / HARMFUL_RESIDUAL,
            record.fresh_starts[0],
            f"the same states as one batch and in minibatches differ by a ratio error of {shape:.3g}: a state's "
            "log-probabilities depend on what else is in its batch",
            f"below {MOST_SHAPE_ERROR:g} in float32",
            "take batch statistics out of the network (LayerNorm in place of BatchNorm)",
            rerun(),
        )
    fresh = [(n, left) for n, s, left in lines if n in record.fresh_starts and left > OFF_NATS
             and not _is_temperature(s, left)]  # fmt: skip
    stretches = _stretches(lines)
    # A fixed difference stays; old weights are brought up to date sooner or later.
    last = stretches[-1:] if len(stretches) == 1 or fresh else []
    constant = [
        part
        for part in last
        if part[-1][0] == lines[-1][0] and _constant(part, lines, record.fresh_starts)
    ]
    if not fresh and not constant:
        highest = max(lines, key=lambda line: line[2])
        return RuledOut(
            f"on equal weights the two agree to {lines[0][2]:.1e} nats (update {lines[0][0]}); the largest "
            f"scatter is {highest[2]:.2g} nats at update {highest[0]}, and it comes and goes"
            if highest[2] > OFF_NATS
            else f"the two agree to {highest[2]:.1e} nats at every update"
        )
    part = max(constant, key=len) if constant else fresh
    since = min(part[0][0], fresh[0][0]) if fresh else part[0][0]
    residual = float(np.median([left for _, left in part]))
    if repeat > OFF_NATS:
        kind = (
            f"two passes of the sampler differ by up to {repeat:.2g}: something is drawn at random"
        )
        remedy = "put the sampling policy in evaluation mode (dropout off)"
    elif residual < 0.03:
        kind = "the scatter is that of rounding, as of another precision"
        remedy = "compute head and log-softmax of both in float32, or recompute old_logprobs"
    else:
        kind = "the scatter is too large for rounding: other weights, masks or another engine"
        remedy = "recompute old_logprobs with the learner, and compare the two forward passes"
    return Named(
        residual / HARMFUL_RESIDUAL,
        since,
        f"the learner's log-odds scatter around the sampler's by {residual:.2g} nats before any step, "
        f"{record.begins(since)}; {kind}",
        "0",
        remedy,
        rerun("--precision.head-dtype float32", "--policy.dropout 0"),
    )


def stale_behaviour(record: MetricRows, outcome: RunOutcome) -> Verdict:
    """Updates begin away from the sampler, though those after a synchronisation do not."""
    lines = _lines(record)
    base = max([left for n, _, left in lines if n in record.fresh_starts], default=0.0)
    stretches = _stretches([(n, s, left if left > 2 * base else 0.0) for n, s, left in lines])
    drifting = [
        part
        for part in stretches
        if len(stretches) > 1 or not _constant(part, lines, record.fresh_starts)
    ]
    away = [left for part in drifting for _, left in part]
    if len(away) < 2:
        return RuledOut(
            f"every update begins at the weights that sampled it: {len(away)} of {len(lines)} begin "
            "further away than the first"
        )
    since = drifting[0][0][0]
    # Over the updates from there on: half of them fresh do half of the harm.
    later = [left if left > 2 * base else 0.0 for n, _, left in lines if n >= since]
    mean, median = float(np.mean(later)), float(np.median(away))
    return Named(
        mean / HARMFUL_STALENESS,
        since,
        f"{len(away)} of {len(lines)} updates begin with samples of older weights: before the first step the "
        f"learner's log-odds are {median:.2g} nats (median) from the sampler's, at the others "
        f"{base:.1e} at most",
        "every update begins at the weights that sampled it",
        "synchronise the sampler more often (rollout.sync_interval_updates 1) or take fewer steps",
        rerun("--rollout.sync-interval-updates 1"),
    )


def impure_evaluator(record: MetricRows, outcome: RunOutcome) -> Verdict:
    """Positions of the first rollout got other scores when they were asked for again."""
    again, order = record.first("step0/rescore_error_cp"), record.first("step0/order_error_cp")
    if not again > 0:
        return RuledOut("the positions of the first rollout get the same scores again")
    said = f"positions of the first rollout got scores up to {again:.0f} centipawns off when asked for again"
    if order > 0:
        said += (
            f", and up to {order:.0f} apart in two orders: a score depends on what was asked before"
        )
        remedy = "a pure evaluator (stockfish:depth=4 without pure=False, or builtin)"
    else:
        said += ", in any order: those on record are not the evaluator's, but of its cache"
        remedy = "delete the file in env.cache"
    since = record.fresh_starts[0]
    return Named(max(1.0, again), since, said, "the same scores in any order", remedy, rerun())


_EVERY_UPDATE = "every run of this version; `step0/*` of older ones too"

SAMPLER_RULES = (
    CauseRule(
        "temperature_mismatch",
        ((SLOPE, RESIDUAL), (STEP0_SLOPE, STEP0_RESIDUAL)),
        _EVERY_UPDATE,
        temperature_mismatch,
        stage="ratio",
    ),
    CauseRule(
        "forward_mismatch",
        ((SLOPE, RESIDUAL), (STEP0_SLOPE, STEP0_RESIDUAL)),
        _EVERY_UPDATE,
        forward_mismatch,
        stage="ratio",
    ),
    CauseRule(
        "stale_behaviour",
        ((SLOPE, RESIDUAL),),
        _EVERY_UPDATE,
        stale_behaviour,
        stage="ratio",
    ),
)

FIRST_ROLLOUT_RULES = (
    CauseRule(
        "impure_evaluator",
        (("step0/rescore_error_cp", "step0/order_error_cp"),),
        "the preflight",
        impure_evaluator,
    ),
)
"""Of faults that only the preflight measures, and with which no run starts."""

DEAD, SINGLE = "rollout/reward_zero_std_fraction", "rollout/single_move_fraction"
BLIND, DISTINCT = "rollout/blind_fraction", "rollout/distinct_moves_mean"
BEST, P90, MEDIAN = "rollout/reward_best", "rollout/reward_p90", "rollout/reward_median"
SMALL, SCORED = "rollout/small_groups", "rollout/scored_moves"
REPEATED = "rollout/repeated_fraction"

HARMFUL_TIED = 0.10
"""Share of groups with different moves and equal rewards from which a reward did harm."""

HARMFUL_TIED_SUCCESS = 0.8
"""The same where rewards are success or failure: a group then agrees by chance, most where successes are rare."""

HARMFUL_SINGLE = 0.25
"""Share of groups with one and the same move, at the start, from which a policy is too sure to explore."""

HARMFUL_GAP = 0.15
"""Entropy on repeated positions below that on held-out ones, as a share of the latter, that did harm in every case."""

SMALL_SET_GAP, LARGE_SET_GAP = 0.05, -0.15
"""The same share from which a set is small, and up to which it is large; with fresh positions it is -.25 to -.1."""

MOST = 2 / 3
"""Up to this share of repeated positions, sets without another sign of a small one did no harm."""


def no_signal(record: MetricRows, outcome: RunOutcome) -> Verdict:
    """Groups have equal rewards: there is no advantage to learn from."""
    if not record.has(DEAD):
        return _without_groups(record)
    dead = record.points(DEAD)
    single = dict(record.points(SINGLE))
    # Groups of one move have equal rewards in every run whose entropy falls: at the start alone they are a cause.
    tied = [(n, value - single.get(n, 0.0)) for n, value in dead]
    early = [value for n, value in tied if n < record.first_update + max(3, len(tied) // 8)]
    first_tied = float(np.mean(early or [value for _, value in tied[:3]]))
    harmful = HARMFUL_TIED_SUCCESS if _pays_success(record) else HARMFUL_TIED
    found = record.episode(tied, lambda value: value > harmful)
    # At the very first updates: a few large steps can make any policy sure.
    first_single = float(np.mean([single.get(n, math.nan) for n, _ in dead[:2]]))
    all_dead = float(np.mean([value for _, value in dead[:3]]))
    if not single:
        found = record.episode(dead, lambda value: value > 0.5) if all_dead > 0.5 else None
        if found is None and record.episode(dead, lambda value: value > harmful) is not None:
            return Untold(
                (SINGLE,),
                "many groups have equal rewards, and in which of them the moves differ is unknown",
            )
        if found is None:
            return RuledOut(
                f"{all_dead:.0%} of the groups have equal rewards at the start, and few later"
            )
    blind = record.mean(BLIND)
    distinct = float(np.mean(record.series(DISTINCT)[:3])) if record.has(DISTINCT) else math.nan
    entropy = record.first("policy/entropy", 3)
    if found is not None:
        share = found.median
        why = (
            "the reward is the same for nearly all moves"
            if share > 0.8
            else f"{blind:.0%} of the pairs of moves that differ by half a pawn get equal rewards"
        )
        remedy = (
            "a dense reward (env.reward win_prob_delta), or live_groups (preset dapo)"
            if share > 0.8
            else "a reward that does not saturate (env.reward win_prob_delta)"
        )
        return Named(
            share / harmful,
            found.since,
            f"{share:.0%} of the groups have equal rewards for different moves {record.begins(found.since)} "
            f"(median); {why}; entropy at the start is {entropy:.2f} nats",
            "a few per cent",
            remedy,
            rerun("--env.reward win_prob_delta"),
        )
    if first_single > HARMFUL_SINGLE and record.has_its_beginning:
        return Named(
            first_single / HARMFUL_SINGLE,
            record.first_update,
            f"{first_single:.0%} of the groups are one and the same move in the first updates; a group has "
            f"{distinct:.1f} different moves: the policy is too sure to explore; entropy there is "
            f"{entropy:.2f} nats",
            "a few per cent before entropy falls",
            "a higher rollout.temperature (sampling and learning), or preset exact",
            rerun(f"--rollout.temperature {4 * record.last('rollout/temperature'):.3g}"),
        )
    if not record.has_its_beginning and first_single > HARMFUL_SINGLE:
        return Untold(
            (), "the record lacks its beginning, where a policy too sure to explore shows"
        )
    return RuledOut(
        f"at the start {first_tied:.1%} of the groups have equal rewards for different moves, and "
        f"{first_single:.1%} are one and the same move"
    )


def _pays_success(record: MetricRows) -> bool:
    """Whether every reward that the record tells of is 1 or 0, and not all are one of them."""
    seen = {value for name in (BEST, MEDIAN, P90) for value in record.series(name)}
    return seen == {0.0, 1.0}


def _without_groups(record: MetricRows) -> Verdict:
    """Where every position has one sample: whether most rewards are one and the same number."""
    if any(small < scored for _, (small, scored) in record.together(SMALL, SCORED)):
        return Untold((DEAD,), "there are groups, and how many have equal rewards is not logged")
    spread = [(n, high - middle) for n, (high, middle) in record.together(P90, MEDIAN)]
    found = record.episode(spread, lambda value: value == 0)
    if found is None:
        return RuledOut("rewards differ: their median and their 90th percentile are not one number")
    return Named(
        1 / HARMFUL_TIED,
        found.since,
        f"the median and the 90th percentile of the rewards are the same number {record.begins(found.since)}: "
        "most samples get one and the same reward",
        "rewards that differ",
        "a dense reward (env.reward win_prob_delta)",
        rerun("--env.reward win_prob_delta"),
    )


def fixed_positions(record: MetricRows, outcome: RunOutcome) -> Verdict:
    """The same positions are trained on again and again."""
    repeated = record.points(REPEATED)
    found = record.episode(repeated, lambda value: value > 0.3)
    late = record.last(REPEATED, 0.25)
    said = f"{late:.0%} of the positions of the last quarter had been trained on before"
    if not late > 0.3:
        return RuledOut(said)
    if found is None:
        return Untold((), f"{said}, in too few updates to tell a small set from chance")
    sampled, held = record.last("policy/entropy", 0.25), record.last("eval/entropy")
    gap = 1 - sampled / held if held > 0 else math.nan
    before = [value for n, value in repeated if n < found.since][-3:]
    jump = float(np.mean(found.values[:3])) - (float(np.mean(before)) if before else 0.0)
    few = found.since <= record.first_update + 3 or jump > 0.25
    said += f"; on them the policy has {sampled:.2f} nats, on held-out ones {held:.2f}"
    if not few and not gap > SMALL_SET_GAP:
        if late > MOST and gap > LARGE_SET_GAP:
            return Untold(
                (),
                f"{said}: some sets like this did harm, and some did not",
            )
        return RuledOut(f"{said}; they repeat by and by, as those of a large set do")
    size = 0.0 if math.isnan(gap) else gap / HARMFUL_GAP
    return Named(
        max(size, 1.0),
        found.since,
        said,
        "0 % with a stream of fresh starts, and equal entropies",
        "fresh start positions (env.start_positions random_plies:2-40)",
        rerun("--env.start-positions random_plies:2-40"),
    )


SIGNAL_RULES = (
    CauseRule(
        "no_signal",
        ((DEAD,), (P90, MEDIAN, SMALL, SCORED)),
        "every run",
        no_signal,
        stage="reward",
    ),
    CauseRule(
        "fixed_positions",
        ((REPEATED, "policy/entropy", "eval/entropy"), (REPEATED,)),
        "every run; entropy by the evaluations",
        fixed_positions,
    ),
)
