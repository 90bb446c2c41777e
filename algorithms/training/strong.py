"""The settings with which a policy learns to play whole games: `chess-lab train grpo --preset strong`."""

from __future__ import annotations

import dataclasses

from algorithms.grpo import GRPO
from algorithms.regularization import RegularizerConfig
from algorithms.training.config import (
    EnvConfig,
    MatchConfig,
    OptimizerConfig,
    RolloutConfig,
    TrainConfig,
)
from algorithms.training.policy import PolicyConfig

NAME = "strong"


def strong(config: TrainConfig) -> TrainConfig:
    """The run `config` of `grpo` with the settings that were chosen for playing strength.

    They were chosen in short runs of seed 0 (docs/results.md); what they are for:

    - 32 samples and a strong bonus: a policy that stays broad sees in every group what its second
      choices are worth. It is played greedily, and for that it need not be sharp.
    - Won starts: self-play seldom gets there, and a policy that never saw them stalemates a bare king.
    - Mostly its own greedy moves are played on: what a broad policy samples leads elsewhere.
    - Short stays of 16 plies: greedy play soon leaves the wild positions that starts are drawn from.
    - A reward that never saturates, and one for mate: win probability pays nothing for progress once a
      game is decided.

    Raises:
        ValueError: another algorithm, for which nothing was measured.
    """
    if config.preset != "grpo":
        raise ValueError(
            f"--preset {NAME} was made for grpo and measured with it, not for {config.label}: run "
            f"`chess-lab train grpo --preset {NAME}`, or give the settings one by one"
        )
    return dataclasses.replace(
        config,
        algorithm=GRPO(group_size=32),
        regularizer=RegularizerConfig(ent_coef=0.9, ent_coef_final=0.4),
        policy=PolicyConfig(channels=64, blocks=6),
        rollout=RolloutConfig(num_envs=64, num_plies=4, greedy_fraction=0.7),
        env=EnvConfig(
            evaluator="builtin",
            reward="asinh400_delta+outcome",
            start_positions="0.25*decided+0.6*random_plies:2-40+0.15*phase_mix",
            max_plies=16,
        ),
        optimizer=OptimizerConfig(learning_rate=2e-3, minibatch_size=64, warmup_updates=5),
        match=MatchConfig(opponents=("random", "material"), games=40, interval_updates=500),
        total_moves=40_000_000,
        eval_interval_updates=50,
        diagnostics_interval_updates=200,
        checkpoint_interval_updates=200,
    )
