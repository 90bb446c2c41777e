"""The names that `chess-lab train` and `compare` know, and the run that each stands for.

Beside these they take `module:Name`, an algorithm of a user's own.
"""

from __future__ import annotations

from algorithms.core.checks import require_choice
from algorithms.presets import OUTSIDE, PRESETS
from algorithms.training.config import EnvConfig, TrainConfig
from algorithms.training.own_parts import default_algorithm

NAMES = (*PRESETS, *OUTSIDE)


def named_run(name: str) -> TrainConfig:
    """The run of a name in `NAMES` or of `module:Name`, with everything else as it is by default.

    An implementation of others plays against a random mover, because its advantages know one player. An
    algorithm of a user's own comes without entropy bonus and KL terms.

    Raises:
        ValueError: there is no such name, or it names no algorithm.
    """
    if ":" in name:
        return TrainConfig(default_algorithm(name), preset=name)
    require_choice("NAME", name, NAMES)
    if name not in OUTSIDE:
        return TrainConfig(*PRESETS[name], preset=name)
    versus = EnvConfig(opponent="random")
    return TrainConfig(*PRESETS[OUTSIDE[name]], env=versus, trainer="sb3", preset=name)
