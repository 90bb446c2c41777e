"""Rules on what there is to learn from."""

from __future__ import annotations

from algorithms.collapse.doctor.evidence import Evidence, Record, rerun


def no_signal(record: Record) -> Evidence | None:
    """From the first updates on, groups have equal rewards: there is no advantage to learn from."""
    dead = record.start("rollout/reward_zero_std_fraction")
    if not dead > 0.22:
        return None
    blind = record("mean rollout/blind_fraction")
    distinct = record.start("rollout/distinct_moves_mean")
    if dead > 0.9:
        why = "the reward is the same for nearly all moves"
        remedy = "a dense reward (env.reward win_prob_delta), or live_groups (preset dapo)"
        change = "--env.reward win_prob_delta"
    elif distinct < 2.3:
        why = f"a group samples {distinct:.1f} different moves: the policy is too sure to explore"
        remedy = "a higher rollout.temperature (sampling and learning), or preset exact"
        change = f"--rollout.temperature {4 * record('last rollout/temperature'):.3g}"
    else:
        why = f"{blind:.0%} of the pairs of moves that differ by half a pawn get equal rewards"
        remedy = "a reward that does not saturate (env.reward win_prob_delta)"
        change = "--env.reward win_prob_delta"
    return Evidence(
        "no_signal",
        min(0.97, 0.6 + 0.5 * dead),
        f"{dead:.0%} of the groups have equal rewards in the first three updates; {why}; entropy "
        f"there is {record.start('policy/entropy'):.2f} nats",
        "a few per cent before entropy falls",
        remedy,
        rerun(change),
    )


def fixed_positions(record: Record) -> Evidence | None:
    """The same positions are trained on again and again."""
    repeated = record("late rollout/repeated_fraction")
    if not repeated > 0.5:
        return None
    sampled, held = record("late policy/entropy"), record("last eval/entropy")
    return Evidence(
        "fixed_positions",
        min(0.99, 0.5 + 0.5 * repeated),
        f"{repeated:.0%} of the positions of the last quarter had been trained on before; on them "
        f"the policy has {sampled:.2f} nats, on held-out ones {held:.2f}; held-out regret is "
        f"{record.regret_kept:.0%} of its start, pass@8 changed by "
        f"{record('gain eval/pass_at_8'):+.2f}",
        "0 % with a stream of fresh starts, and equal entropies",
        "fresh start positions (env.start_positions random_plies:2-40)",
        rerun("--env.start-positions random_plies:2-40"),
    )
