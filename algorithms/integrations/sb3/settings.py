"""A run's settings as arguments of sb3-contrib's MaskablePPO; an error for each that has none.

Nothing here imports sb3-contrib: the comparison checks its columns with it before anything runs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from algorithms.config.compatibility import check_settings
from algorithms.config.run import RolloutConfig, TrainConfig
from algorithms.core.checks import require
from algorithms.presets import EXTERNAL, PRESETS, SB3
from algorithms.regularization import RegularizerConfig

ADAM_EPS = 1e-8
"""Ours is torch's default; that of SB3's policies is 1e-5."""

PLANES_ALONE = ("resnet",)
"""Networks that compute all actions, from the planes; others compute the legal moves, and may depend on them."""

_SCHEDULED = ("ent_coef", "ent_coef_final")


def check_mappable(config: TrainConfig) -> None:
    """Raises ValueError, saying what to change, where MaskablePPO cannot do what the run asks for."""
    check_settings(config)
    algorithm, rollout = config.algorithm, config.rollout
    same = PRESETS[EXTERNAL[SB3]][0]
    require(
        type(algorithm) is type(same),
        f"loop is 'sb3' and the algorithm {algorithm.name!r}: MaskablePPO is {same.name!r}; train "
        "that, or set loop to native",
    )
    require(
        algorithm.gamma == 0 or config.env.opponent is not None,
        f"algorithm.gamma is {algorithm.gamma} without an opponent: MaskablePPO's advantages take the "
        "next position for one of the same player, and here it is the other's; set env.opponent "
        "(random, builtin, ...), or gamma to 0",
    )
    require(config.seed < 2**32, f"seed is {config.seed}: NumPy's global one is below 2**32")
    states = rollout.num_envs * rollout.num_plies
    size = config.optimizer.minibatch_size
    require(
        states % size == 0 or size > states,
        f"optimizer.minibatch_size is {size} and a rollout has {states} positions: MaskablePPO would "
        "end each pass with a smaller minibatch, where this project makes equal ones; choose a divisor",
    )
    # What has no counterpart, or one of the same name that does something else.
    for name, value, wanted, why in (
        ("algorithm.clip_range_high", algorithm.clip_range_high, None, "its clip is symmetric"),
        ("algorithm.clip_range_vf", algorithm.clip_range_vf, None,
         "it takes the clipped value loss, here it is the larger of both"),
        ("algorithm.target_kl", algorithm.target_kl, None,
         "it stops within a pass, by an estimate; here it is after one, by the exact KL"),
        ("compile", config.compile, False, "its loop is not this one"),
        ("precision.logprob_dtype", config.precision.logprob_dtype, "float32", "it has no rounding"),
        ("rollout.form", rollout.form, "positions", "it knows no groups of games"),
        ("rollout.sync_interval_updates", rollout.sync_interval_updates, 1,
         "its learner is its sampler"),
    ):  # fmt: skip
        require(
            value == wanted,
            f"{name} is {value!r} and cannot be given to MaskablePPO ({why}): set it to {wanted!r}, "
            "or loop to native",
        )
    default = RegularizerConfig()
    for field in dataclasses.fields(config.regularizer):
        value, wanted = getattr(config.regularizer, field.name), getattr(default, field.name)
        require(
            field.name in _SCHEDULED or value == wanted,
            f"regularizer.{field.name} is {value!r}: MaskablePPO has an exact entropy bonus and no "
            f"other term; set it to {wanted!r}, or loop to native",
        )


def moves_per_update(config: TrainConfig) -> int:
    """Moves that one rollout samples and scores."""
    rollout: RolloutConfig = config.rollout
    return int(rollout.num_envs * rollout.num_plies * config.algorithm.group_size)


def updates_in_budget(config: TrainConfig) -> int:
    """Rollouts that fit into the budget, which is not overdrawn.

    Raises:
        ValueError: not even one does.
    """
    moves, count = moves_per_update(config), config.total_moves // moves_per_update(config)
    require(
        count > 0,
        f"total_moves is {config.total_moves:,}, one rollout scores {moves:,} (num_envs x num_plies x "
        "group_size): raise total_moves or make the rollout smaller",
    )
    return count


def learning_rate_schedule(config: TrainConfig) -> Callable[[float], float]:
    """SB3's schedule (share of its timesteps that remains -> step size) that is equal to ours.

    SB3 asks after a rollout was collected, ours counts the moves before it; and SB3 is told to end
    with the last whole rollout, ours spreads the schedule over the whole budget.
    """
    updates, moves = updates_in_budget(config), moves_per_update(config)

    def schedule(remaining: float) -> float:
        update = max(0, round((1 - remaining) * updates) - 1)
        return config.optimizer.learning_rate_at(update, update * moves / config.total_moves)

    return schedule


def maskable_ppo_arguments(config: TrainConfig) -> dict[str, Any]:
    """Arguments of `MaskablePPO` that mean what the run's settings mean, without policy and env.

    Not among them, because they go elsewhere: the budget (`learn`), boards, reward and opponent
    (`session`), network, temperature, first weights and frozen layers (`policy`), evaluation and
    the schedule of the entropy bonus, which is a number to SB3 (`record`). With several moves of a position
    and several minibatches one difference stays: SB3 shuffles the moves, this project the positions.

    Raises:
        ValueError: a setting that MaskablePPO cannot have; the message says what to change.
    """
    check_mappable(config)
    algorithm, optimizer, rollout = config.algorithm, config.optimizer, config.rollout
    states = rollout.num_envs * rollout.num_plies
    return {
        "learning_rate": learning_rate_schedule(config),
        "n_steps": rollout.num_plies,
        "batch_size": min(optimizer.minibatch_size, states) * algorithm.group_size,
        "n_epochs": algorithm.update_epochs,
        "gamma": algorithm.gamma,
        "gae_lambda": algorithm.gae_lambda,
        "clip_range": algorithm.clip_range,
        "clip_range_vf": None,
        "normalize_advantage": algorithm.normalize_advantages,
        "ent_coef": config.regularizer.ent_coef,
        "vf_coef": algorithm.vf_coef / 2,  # of (V - R)^2, ours of half of it
        "max_grad_norm": optimizer.max_grad_norm,
        "target_kl": None,
        "seed": config.seed,
    }
