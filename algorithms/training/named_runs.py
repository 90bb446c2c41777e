"""The names that `chess-lab train` and `compare` know, and the run that each stands for."""

from __future__ import annotations

from algorithms.presets import OUTSIDE, PRESETS
from algorithms.training.config import EnvConfig, TrainConfig

NAMES = (*PRESETS, *OUTSIDE)


def named_run(name: str) -> TrainConfig:
    """The run of a name in `NAMES`, with everything else as it is by default.

    An implementation of others plays against a random mover, because its advantages know one player.
    """
    if name not in OUTSIDE:
        return TrainConfig(*PRESETS[name], preset=name)
    versus = EnvConfig(opponent="random")
    return TrainConfig(*PRESETS[OUTSIDE[name]], env=versus, trainer="sb3", preset=name)
