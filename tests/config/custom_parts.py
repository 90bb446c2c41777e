"""Parts of a user's own, as a module of theirs would hold them; tests name them `tests.config.custom_parts:...`."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import numpy as np
from torch import nn

from algorithms.regularization.term import Term
from chess_env.moves import NUM_ACTIONS
from chess_env.observation import NUM_PLANES
from chess_env.rules.fen import parse_fen
from tests.env.material import MaterialEvaluator
from tests.zoo.plain import Plain

HERE = "tests.config.custom_parts"


@dataclasses.dataclass(frozen=True)
class Mine(Plain):
    """REINFORCE with the group's mean.

    Attributes:
        group_size: samples of a position.
        update_epochs: passes.
        some_field: scales the advantages.
    """

    name: ClassVar[str] = "mine"
    some_field: float = 1.0

    def advantages(self, batch: Any) -> Any:
        return self.some_field * super().advantages(batch)


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


def tsallis(coef: float = 0.1) -> Term:
    """Tsallis entropy of index 2, rewarded."""
    return Term(
        "tsallis", coef, lambda dist, batch, advantages: 1 - dist.probs.square().sum(-1), -1
    )


def powers(exponents: tuple[int, ...], label: str = "powers") -> Term:
    """Sums of powers of the probabilities, of a name that may have commas."""
    return Term(label, sum(exponents), lambda dist, batch, advantages: dist.probs.sum(-1))
