"""The names that `chess-lab train` and `compare` know, and the run that each stands for.

Beside these they take `module:Name`, an algorithm of a user's own, and `--preset strong`: the settings with which a
policy learns to play whole games.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Literal

from algorithms.config.custom import default_algorithm
from algorithms.config.run import (
    EnvConfig,
    MatchConfig,
    OptimizerConfig,
    RolloutConfig,
    TrainConfig,
)
from algorithms.core.algorithm import Algorithm
from algorithms.core.checks import require_choice
from algorithms.exact import Exact
from algorithms.grpo import GRPO
from algorithms.networks.settings import NetworkConfig
from algorithms.presets import PRESETS
from algorithms.regularization import RegularizerConfig

NAMES = tuple(PRESETS)

STRONG = "strong"
"""The settings that `--preset` knows."""

_WHOLE_GAMES: dict[str, Any] = {
    "rollout": RolloutConfig(num_envs=64, num_plies=4, greedy_fraction=0.7),
    "match": MatchConfig(opponents=("random", "material"), games=40, interval_updates=500),
    "eval_interval_updates": 50,
    "diagnostics_interval_updates": 200,
    "checkpoint_interval_updates": 200,
}


def _strong_exact() -> dict[str, Any]:
    # A function, because to check the names of facts imports their kernels.
    return {
        # In units of the reward: 39 centipawns in an even game.
        "algorithm": Exact(forward_kl_temperature=0.025),
        "policy": NetworkConfig(
            network="move_net",
            head_dim=384,  # enough to weigh so many facts against one another
            facts=("exchange", "lines", "threats", "replies", "kings", "answers", "structure"),
        ),
        # Version 2 knows the moves to mate with three men, and the last term pays for each.
        "env": EnvConfig(
            evaluator="builtin:depth=1",  # the facts see the opponent's reply, so the judge has to
            reward="asinh400_delta+outcome+3*mate_delta",
            start_positions="0.15*bare_kings+0.15*decided+0.25*random_plies:2-40+0.15*phase_mix+0.3*openings",
            max_plies=24,
        ),
        "optimizer": OptimizerConfig(learning_rate=5e-3, minibatch_size=64, warmup_updates=5),
        "total_moves": 80_000_000,
    }


def _strong_grpo() -> dict[str, Any]:
    return {
        "algorithm": GRPO(group_size=32),
        "regularizer": RegularizerConfig(ent_coef=0.9, ent_coef_final=0.4),
        "policy": NetworkConfig(network="resnet", size="large"),
        "env": EnvConfig(
            evaluator="builtin-v1",
            reward="asinh400_delta+outcome",
            start_positions="0.25*decided+0.6*random_plies:2-40+0.15*phase_mix",
            max_plies=16,
        ),
        "optimizer": OptimizerConfig(learning_rate=2e-3, minibatch_size=64, warmup_updates=5),
        "total_moves": 40_000_000,
    }


_STRONG: dict[str, Callable[[], dict[str, Any]]] = {"exact": _strong_exact, "grpo": _strong_grpo}
"""Name of a run -> its part of the settings `strong`, beside those that all share."""

STRONG_FOR = tuple(_STRONG)


def named_run(name: str) -> TrainConfig:
    """The run of a name in `NAMES` or of `module:Name`, with the default of everything else.

    An algorithm of a user's own comes without entropy bonus and KL terms. One that needs whole games plays them.

    Raises:
        ValueError: there is no such name, or it names no algorithm.
    """
    if ":" in name:
        return _run_of(default_algorithm(name), RegularizerConfig(), name)
    require_choice("NAME", name, NAMES)
    return _run_of(*PRESETS[name], name)


def _run_of(algorithm: Algorithm, regularizer: RegularizerConfig, name: str) -> TrainConfig:
    form: Literal["positions", "games"] = "games" if algorithm.needs().whole_games else "positions"
    return TrainConfig(algorithm, regularizer, rollout=RolloutConfig(form=form), preset=name)


def strong(config: TrainConfig) -> TrainConfig:
    """The run `config` with the settings that were chosen for playing strength, and its own algorithm.

    docs/benchmarks/strength.md has their results, and how they were chosen. What both have, and why:

    - Won starts: self-play seldom gets there, and a policy that never saw them stalemates a bare king.
    - Mostly its own greedy moves are played on: the samples of a broad policy lead elsewhere.
    - Short stays of 16 or 24 plies: greedy play soon leaves the wild positions that starts are drawn from.
    - A reward that never saturates, and one for mate: win probability pays nothing for progress once a
      game is decided.
    - A policy that stays broad. It is played greedily, and for that it need not be sharp.

    `exact` scores every legal move of a position and has the network that reads the facts of each move; the
    shipped policy `example` comes from it. `grpo` samples 32 moves, on the residual network.

    Raises:
        ValueError: they were not chosen for this run's algorithm.
    """
    if config.preset not in _STRONG:
        raise ValueError(
            f"--preset {STRONG} was made for {' and '.join(STRONG_FOR)} and measured with them, not for "
            f"{config.label}: run `chess-lab train {STRONG_FOR[0]} --preset {STRONG}`, or give the settings "
            "one by one"
        )
    return dataclasses.replace(config, **_WHOLE_GAMES, **_STRONG[config.preset]())
