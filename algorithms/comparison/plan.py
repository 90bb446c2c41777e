"""The settings of a comparison, checked before anything runs."""

from __future__ import annotations

import dataclasses
import math
from typing import Literal

from algorithms.collapse import CAUSES
from algorithms.collapse.cause import ARCHITECTURES, FIRST
from algorithms.config.names import named_run
from algorithms.core.checks import require, require_between, require_choice, require_count
from algorithms.networks.build import reads_move_facts
from algorithms.networks.settings import DEFAULT_NETWORK, SIZES, NetworkConfig

Treatment = Literal["none", "equal", "share", "preset"]
TREATMENTS: tuple[Treatment, ...] = ("none", "equal", "share", "preset")

TRIED_RATES = {
    "move_net": (1e-3, 2e-3, 4e-3, 8e-3, 1.6e-2, 3.2e-2),
    "resnet": (5e-4, 1e-3, 2e-3, 4e-3),
    "transformer": (1e-3, 2e-3, 4e-3, 8e-3, 1.6e-2, 3.2e-2),
}
"""Network -> the step sizes among which --tune chooses, below and above its default."""

TUNING_SEEDS = (1000, 1001)
"""Learning rates and coefficients are chosen on these seeds, which are never reported."""

GROUP_SIZE = 8
"""Moves drawn from a position, or games from a start, in every variant that draws."""


@dataclasses.dataclass(frozen=True)
class Plan:
    """A comparison.

    Attributes:
        presets: names of presets, or module:Name of
            algorithms of your own; one variant or more each.
        causes: names of causes of collapse; each is run beside its cured twin.
        grid: "key=v1,v2": settings that are varied in every variant that has them.
        num_seeds: seeds of every variant, the same in all.
        first_seed: the first seed; the others follow it.
        budget_moves: scored moves of each run.
        form: form of the rollouts.
        gamma: discount per ply of every variant; None means 0 in positions, 1 in games.
        evaluator: scores positions.
        treatments: how entropy is regularised: "none" (no bonus), "equal" (one coefficient for all),
            "share" (one share of the gradient for all), "preset" (as each preset comes).
        ent_coef: the coefficient of "equal", and the one that "share" is calibrated at.
        grad_share: the bonus's share of bonus and policy gradient norms in "share", in (0, 1).
        tune: choose each variant's learning rate on tuning seeds.
        controls: add pairs that must be equal.
        allow_mixed: compare runs even if they differ in what a fair comparison keeps equal.
        smoke: a tiny network, to see that everything works.
        network: of every variant, a name in `SIZES` or module:Name of your own.
        cause_network: of the causes and their twins, one of those that they are run on.
    """

    presets: tuple[str, ...]
    causes: tuple[str, ...] = ()
    grid: tuple[str, ...] = ()
    num_seeds: int = 8
    first_seed: int = 1
    budget_moves: int = 150_000
    form: Literal["positions", "games"] = "positions"
    gamma: float | None = None
    evaluator: str = "builtin"
    treatments: tuple[Treatment, ...] = ("none", "equal", "share")
    ent_coef: float = 0.03
    grad_share: float = 0.2
    tune: bool = False
    controls: bool = False
    allow_mixed: bool = False
    smoke: bool = False
    network: str = DEFAULT_NETWORK
    cause_network: str = FIRST

    def __post_init__(self) -> None:
        require(
            bool(self.presets or self.causes),
            "no column: name presets such as grpo and rloo, or --causes",
        )
        for name in self.presets:
            varied = f"NAME is {name!r}: expected a preset; --grid varies a setting, as in --grid group_size=4,8"
            require("=" not in name, varied)
            named_run(name)
        for what, names in (("NAME", self.presets), ("--causes", self.causes)):
            twice = sorted({name for name in names if names.count(name) > 1})
            require(not twice, f"{what} gives {twice} more than once: give each name once")
        for name in self.causes:
            require_choice("--causes", name, CAUSES)
        if self.causes:
            require_choice("--network with --causes", self.cause_network, ARCHITECTURES)
        require(bool(self.treatments), f"--regularization is empty: give some of {TREATMENTS}")
        for treatment in self.treatments:
            require_choice("--regularization", treatment, TREATMENTS)
        require(
            len(set(self.treatments)) == len(self.treatments),
            f"--regularization is {','.join(self.treatments)}: give each treatment once",
        )
        require_count("--seeds", self.num_seeds, 1, "there is nothing to run without a seed")
        require_count("--first-seed", self.first_seed, 0, "seeds are not negative")
        require(
            self.num_seeds <= 10_000 and self.first_seed < 2**62,
            f"--seeds is {self.num_seeds} and --first-seed {self.first_seed}: every seed is a run of each column; set "
            "--seeds to at most 10,000 and --first-seed below 2**62",
        )
        require_count("--budget-moves", self.budget_moves, 1, "a run scores moves")
        reserved = sorted(set(self.seeds) & set(TUNING_SEEDS))
        require(
            not reserved,
            f"seeds {reserved} are those of tuning, which are never reported: choose --first-seed so "
            f"that {TUNING_SEEDS} are not among the seeds",
        )
        if ":" in self.network:
            reads_move_facts(NetworkConfig(network=self.network))  # raises where it leads nowhere
        else:
            require_choice("--network", self.network, [*SIZES, "module:Name"])
        require_choice("--form", self.form, ("positions", "games"))
        require_between("--gamma", self.shared_gamma, 0.0, 1.0)
        require(
            0 < self.grad_share < 1,
            f"--grad-share is {self.grad_share}: it is a share of the gradient, inside (0, 1)",
        )
        require(
            0 < self.ent_coef < math.inf,
            f"--ent-coef is {self.ent_coef}: the equal coefficient must be above 0; for no bonus "
            "leave `equal` out of --regularization",
        )

    @property
    def seeds(self) -> tuple[int, ...]:
        """The reported seeds."""
        return tuple(range(self.first_seed, self.first_seed + self.num_seeds))

    @property
    def tried_rates(self) -> tuple[float, ...]:
        """The step sizes among which --tune chooses; a network of your own has those of `resnet`."""
        return TRIED_RATES["resnet" if ":" in self.network else self.network]

    @property
    def shared_gamma(self) -> float:
        """The discount per ply of every variant."""
        if self.gamma is not None:
            return self.gamma
        return 0.0 if self.form == "positions" else 1.0
