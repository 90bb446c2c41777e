"""Causes in the signal: positions, rewards, moves that are sampled."""

from __future__ import annotations

from algorithms.collapse.causes import faults
from algorithms.collapse.causes.cause import Cause, Predicate, Published

SIGNALS = (
    Cause(
        name="fixed_positions",
        doctor_class="fixed_positions",
        title="The same few start positions for ever",
        because="Sixteen starts are learned by heart: the policy grows sure and right on them, and "
        "on others only sure.",
        remedy="a stream of fresh start positions",
        settings={"env.start_positions": "random_plies:2-40@fixed=16"},
        predicates=(
            Predicate("late rollout/repeated_fraction", "above", 0.8, 0.8),
            Predicate("last eval/regret_cp", "above", 210.0, 25.0),
            Predicate("last eval/pass_at_8", "below", 0.63, 0.05),
        ),
        published=(
            Published("repeated start positions", "all from the second epoch on",
                      "the earlier project's code", "late rollout/repeated_fraction"),
            Published("pass@1 / pass@k", "up / flat", "the blog, cause 6", "gain eval/pass_at_8"),
        ),
    ),
    Cause(
        name="zero_variance_groups",
        doctor_class="no_signal",
        title="A reward that is nearly always the same",
        because="Only mate is rewarded: almost every group has equal rewards and so no advantage; "
        "what is left of the loss is the bonus.",
        remedy="a dense reward, larger groups, or live_groups (dapo)",
        settings={"env.reward": "outcome"},
        predicates=(
            Predicate("early rollout/reward_zero_std_fraction", "above", 0.9, 0.8),
            Predicate("last eval/regret_cp", "above", 340.0, 80.0),
        ),
        published=(
            Published("smallest reward std within a group", "0", "post-mortem zjij66xd",
                      "mean rollout/reward_std"),
        ),
    ),
    Cause(
        name="support_limit",
        doctor_class="no_signal",
        title="What the policy never samples it never learns",
        because="A start with logits eight times as large is sure of moves that are not the best: "
        "eight samples show one or two different moves, and the better ones stay unseen.",
        remedy="a higher temperature for sampling and learning alike, or all moves scored (exact)",
        settings={"rollout.temperature": 1.0},
        cured={"rollout.temperature": 4.0},
        fault=faults.sharpened_start(8.0),
        fault_says="both start with logits eight times as large",
        fault_in_twin=True,
        predicates=(
            Predicate("early rollout/reward_zero_std_fraction", "above", 0.35, 0.2),
            Predicate("mean rollout/distinct_moves_mean", "below", 2.2, 1.0),
            Predicate("last eval/pass_at_8", "below", 0.61, 0.06),
        ),
        published=(
            Published("what RL does to a base model", "reweights within its support",
                      "the blog, cause 5", "gain eval/pass_at_8"),
        ),
    ),
    Cause(
        name="reward_squash",
        doctor_class="no_signal",
        title="A reward that saturates",
        because="tanh(cp / 20) calls everything beyond half a pawn equally won or lost: moves that "
        "differ by a piece get the same reward.",
        remedy="win probability, or centipawns clipped far out",
        fault=faults.squashed_reward(20.0),
        fault_says="the reward is the change of tanh(cp / 20)",
        predicates=(
            Predicate("early rollout/reward_zero_std_fraction", "above", 0.2, 0.15),
            Predicate("mean rollout/blind_fraction", "above", 0.35, 0.2),
            Predicate("last eval/regret_cp", "above", 210.0, 25.0),
        ),
        published=(
            Published("median reward with tanh(cp / 200)", "0", "post-mortem of 14 January",
                      "median rollout/reward_median"),
        ),
    ),
)  # fmt: skip
