"""Parts of a user's own, as a module of theirs would hold them; tests name them `tests.config.custom_parts:...`."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import numpy as np
from torch import nn

from algorithms.core.advantages import group_relative
from algorithms.core.algorithm import Controls, Needs
from algorithms.core.losses import score_function
from algorithms.core.reductions import sample_mean
from chess_env.moves import NUM_ACTIONS
from chess_env.observation import NUM_PLANES
from chess_env.rules.fen import parse_fen
from tests.env.material import MaterialEvaluator

HERE = "tests.config.custom_parts"


@dataclasses.dataclass(frozen=True)
class Mine:
    """REINFORCE with the group's mean.

    Attributes:
        group_size: samples of a position.
        update_epochs: passes.
        some_field: scales the advantages.
    """

    name: ClassVar[str] = "mine"
    group_size: int = 4
    update_epochs: int = 1
    some_field: float = 1.0

    def needs(self) -> Any:
        return Needs()

    def controls(self) -> Any:
        return Controls()

    def advantages(self, batch: Any) -> Any:
        relative = group_relative(batch.rewards, batch.valid, batch.group_axis, "none")
        return self.some_field * relative

    def weights(self, batch: Any) -> Any:
        return sample_mean(batch.valid, batch.rewards.dtype)

    def gate(self, dist: Any, batch: Any, advantages: Any) -> Any:
        return None

    def policy_loss(self, dist: Any, batch: Any, advantages: Any, controls: Any) -> Any:
        return score_function(dist.gather(batch.slots), advantages)


@dataclasses.dataclass(frozen=True)
class Unfinished:
    name: ClassVar[str] = "unfinished"
    group_size: int = 4


@dataclasses.dataclass(frozen=True)
class NoDefault(Mine):
    needed: float = dataclasses.field(kw_only=True)


@dataclasses.dataclass
class Loose:
    name: ClassVar[str] = "loose"


class Material(MaterialEvaluator):
    id = "own-material"


class NeedsAnArgument(Material):
    def __init__(self, depth: int) -> None:
        super().__init__()


def pawns(after_cp: Any, before_cp: Any) -> Any:
    """The change of the score in pawns."""
    return ((after_cp - before_cp) / 100).astype(np.float32)


def float64(after_cp: Any, before_cp: Any) -> Any:
    return (after_cp - before_cp) / 100


class KingsAndPawns:
    def sample(self, rng: Any) -> Any:
        turn = "w" if rng.random() < 0.5 else "b"
        return parse_fen(f"4k3/pppppppp/8/8/8/8/PPPPPPPP/4K3 {turn} - - 0 1")


class Linear(nn.Module):
    def __init__(self, config: Any, *, critic: bool) -> None:
        super().__init__()
        self.actions = nn.Linear(NUM_PLANES * 64, NUM_ACTIONS)
        self.value = nn.Linear(NUM_PLANES * 64, 1) if critic else None
        nn.init.normal_(self.actions.weight, std=0.01)

    def forward(self, obs: Any, legal_ids: Any) -> Any:
        planes = obs.flatten(1).to(self.actions.weight.dtype)
        logits = self.actions(planes).gather(1, legal_ids.long().clamp(min=0))
        return logits, None if self.value is None else self.value(planes).squeeze(-1)
