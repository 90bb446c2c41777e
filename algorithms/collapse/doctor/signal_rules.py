"""Rules on the signal: rewards, moves and positions."""

from __future__ import annotations

import math

import numpy as np

from algorithms.collapse.doctor.finding import Named, Rule, RuledOut, Untold, Verdict, rerun
from algorithms.collapse.doctor.outcome import RunOutcome
from algorithms.collapse.doctor.record import Record

DEAD, SINGLE = "rollout/reward_zero_std_fraction", "rollout/single_move_fraction"
BLIND, DISTINCT = "rollout/blind_fraction", "rollout/distinct_moves_mean"
P90, MEDIAN = "rollout/reward_p90", "rollout/reward_median"
SMALL, SCORED = "rollout/small_groups", "rollout/scored_moves"
REPEATED = "rollout/repeated_fraction"

HARMFUL_TIED = 0.10
"""Share of groups with different moves and equal rewards from which a reward did harm."""

HARMFUL_SINGLE = 0.25
"""Share of groups with one and the same move, at the start, from which a policy is too sure to explore."""

HARMFUL_GAP = 0.15
"""Entropy on repeated positions below that on held-out ones, as a share of the latter, that did harm in every case."""

SMALL_SET_GAP, LARGE_SET_GAP = 0.05, -0.15
"""The same share from which a set is small, and up to which it is large; with fresh positions it is -.25 to -.1."""

MOST = 2 / 3
"""Up to this share of repeated positions, sets without another sign of a small one did no harm."""


def no_signal(record: Record, outcome: RunOutcome) -> Verdict:
    """Groups have equal rewards: there is no advantage to learn from."""
    if not record.has(DEAD):
        return _without_groups(record)
    dead = record.points(DEAD)
    single = dict(record.points(SINGLE))
    # Groups of one move have equal rewards in every run whose entropy falls: at the start alone they are a cause.
    tied = [(n, value - single.get(n, 0.0)) for n, value in dead]
    early = [value for n, value in tied if n < record.first_update + max(3, len(tied) // 8)]
    first_tied = float(np.mean(early or [value for _, value in tied[:3]]))
    found = record.episode(tied, lambda value: value > HARMFUL_TIED)
    # At the very first updates: a few large steps can make any policy sure.
    first_single = float(np.mean([single.get(n, math.nan) for n, _ in dead[:2]]))
    all_dead = float(np.mean([value for _, value in dead[:3]]))
    if not single:
        found = record.episode(dead, lambda value: value > 0.5) if all_dead > 0.5 else None
        if found is None and record.episode(dead, lambda value: value > HARMFUL_TIED) is not None:
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
            share / HARMFUL_TIED,
            found.since,
            f"{share:.0%} of the groups have equal rewards for different moves {found.begins(record.first_update)} "
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


def _without_groups(record: Record) -> Verdict:
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
        f"the median and the 90th percentile of the rewards are the same number {found.begins(record.first_update)}: "
        "most samples get one and the same reward",
        "rewards that differ",
        "a dense reward (env.reward win_prob_delta)",
        rerun("--env.reward win_prob_delta"),
    )


def fixed_positions(record: Record, outcome: RunOutcome) -> Verdict:
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
    Rule(
        "no_signal",
        ((DEAD,), (P90, MEDIAN, SMALL, SCORED)),
        "every run",
        "many groups have equal rewards for different moves, or are one and the same move from the start",
        "few groups with equal rewards at the start",
        f"less than {HARMFUL_TIED:.0%} of the groups with equal rewards, less than {HARMFUL_SINGLE:.0%} of one move",
        no_signal,
    ),
    Rule(
        "fixed_positions",
        ((REPEATED, "policy/entropy", "eval/entropy"), (REPEATED,)),
        "every run; entropy by the evaluations",
        f"positions that were trained on before come at once and often, or entropy on them is {SMALL_SET_GAP:.0%} "
        "below that on others",
        "fresh positions, or those of a large set, with equal entropies",
        "never: a large set is ruled out, a small one counts as harmful, and between the two it cannot be told",
        fixed_positions,
    ),
)
