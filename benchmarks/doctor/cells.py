"""The cells of the doctor's matrix: what is run, and what a right diagnosis of it is.

A cell is a run's settings, the faults that are done to it, the classes that the doctor should name, and its twin:
the run without the fault. Every cell is run on each seed, but the healthy ones, which have one each.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from algorithms.collapse import CAUSES
from algorithms.collapse.cause import FIRST, FULL, SIZES, Cause, applied, baseline
from algorithms.collapse.faults import (
    Fault,
    from_update,
    learner_temperature,
    sampler_keeps_noise,
    squashed_reward,
)
from algorithms.config.run import TrainConfig
from benchmarks.doctor.healthy import HEALTHY

Settings = Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Cell:
    """A run of the matrix.

    Attributes:
        group: "size", "pair", "algorithm", "late", "resumed", "audit", "twin" or "healthy".
        name: unique, and a path's name.
        settings: the run, at any seed.
        expected: classes of the doctor that a right diagnosis names; none for healthy runs.
        twin: name of the cell without the fault.
        faults: what is done to the run beyond its settings.
        split: updates after which the run is ended and continued; None: not.
        size: of the fault.
        algorithm: whose run it is.
        also: classes that are there too, as a part of the cause; they may be named, not first.
    """

    group: str
    name: str
    settings: TrainConfig
    expected: tuple[str, ...] = ()
    twin: str | None = None
    faults: tuple[Fault, ...] = ()
    split: int | None = None
    size: str = FULL
    algorithm: str = "grpo"
    also: tuple[str, ...] = ()


PARTS = {"kl_trap": ("saturated_controller",)}
"""Cause -> what it contains: one of its predicates says that the controller sits at its bound."""


def of_cause(cause: Cause, *, cured: bool) -> tuple[TrainConfig, tuple[Fault, ...]]:
    """(settings, faults) of a cause's run or of its twin's."""
    config = cause.config(cured=cured, seed=0)
    fault = cause.fault if cause.fault_in_twin or not cured else None
    return config, () if fault is None else (fault,)


def sizes(network: str = FIRST) -> list[Cell]:
    """Every cause at every size that it has, and the twins, each once."""
    suffix = "" if network == FIRST else f"-{network}"
    cells: list[Cell] = []
    for name, first in CAUSES.items():
        full = first.on_network(network)
        for size in (FULL, *SIZES.get(name, {})):
            cause = full.at_size(size)
            own = size == FULL or full.fault_in_twin or SIZES[name][size].has_own_twin
            twin = f"{name}{suffix}-cured" + (f"-{size}" if own and size != FULL else "")
            if own:
                config, faults = of_cause(cause, cured=True)
                cells.append(Cell("twin", twin, config, faults=faults, size=size))
            config, faults = of_cause(cause, cured=False)
            expected = (cause.doctor_class,)
            label = f"{name}{suffix}-{size}"
            also = PARTS.get(name, ())
            cells.append(Cell("size", label, config, expected, twin, faults, size=size, also=also))
    return cells


PAIRS = (
    ("temperature_mismatch", "fixed_positions"),
    ("temperature_mismatch", "loss_budget"),
    ("temperature_mismatch", "reward_squash"),
    ("forward_mismatch", "weak_entropy_high_lr"),
    ("forward_mismatch", "fixed_positions"),
    ("stale_behaviour", "fixed_positions"),
    ("stale_behaviour", "loss_budget"),
    ("reward_squash", "weak_entropy_high_lr"),
    ("reward_squash", "fixed_positions"),
    ("sampled_entropy_bonus", "fixed_positions"),
    ("clip_asymmetry", "fixed_positions"),
    ("sharp_optimum", "fixed_positions"),
    ("saturated_controller", "reward_squash"),
    ("dropout_in_rollout", "clip_asymmetry"),
)
"""Causes that can be switched on together, both at full size."""


def pairs() -> list[Cell]:
    """Two causes at once; the twin is the baseline's run."""
    cells = []
    for names in PAIRS:
        one, other = (CAUSES[name] for name in names)
        settings = {**one.shared, **other.shared, **one.settings, **other.settings}
        config = applied(baseline(), settings)
        faults = tuple(cause.fault for cause in (one, other) if cause.fault is not None)
        classes = (one.doctor_class, other.doctor_class)
        cells.append(Cell("pair", "+".join(names), config, classes, "baseline", faults))
    return cells


class Setting(NamedTuple):
    """An algorithm's healthy run: its preset, and the bonus that suits its advantages."""

    preset: str
    ent_coef: float


ALGORITHMS = (
    Setting("ppo_one_ply", 0.2),
    Setting("rloo", 0.03),
    Setting("delightful_pg", 0.01),
    Setting("cispo", 0.03),
    Setting("reinforce", 0.03),
)


def algorithms(network: str = "move_net") -> list[Cell]:
    """Eight faults under each of five algorithms, from the warm policy of `network`."""
    cells = []
    for preset, ent_coef in ALGORITHMS:
        own = {"preset": preset, "regularizer.ent_coef": ent_coef}
        base = applied(baseline(network), own)
        rate = base.optimizer.learning_rate
        assert rate is not None
        twin = f"{preset}-cured"
        cells.append(Cell("twin", twin, base, algorithm=preset))
        hot: Settings = {"rollout.temperature": 1.3}
        faulty: tuple[tuple[str, Settings, tuple[Fault, ...]], ...] = (
            ("temperature_mismatch", hot, (learner_temperature(1.0),)),
            ("forward_mismatch", {}, (sampler_keeps_noise(0.8),)),
            ("stale_behaviour", {"rollout.sync_interval_updates": 16}, ()),
            ("weak_entropy_high_lr", {"optimizer.learning_rate": 8 * rate,
                                      "regularizer.ent_coef": ent_coef / 20}, ()),
            ("loss_budget", {"regularizer.ent_coef": 15 * ent_coef}, ()),
            ("fixed_positions", {"env.start_positions": "random_plies:2-40@fixed=16"}, ()),
            ("no_signal", {"env.reward": "outcome"}, ()),
            ("no_signal", {}, (squashed_reward(20.0),)),
        )  # fmt: skip
        for cause, settings, faults in faulty:
            if cause == "stale_behaviour" and preset == "rloo":
                continue  # it refuses samples of older weights
            label = "reward_squash" if cause == "no_signal" and faults else cause
            config = applied(base, settings)
            name = f"{preset}-{label}"
            cells.append(Cell("algorithm", name, config, (cause,), twin, faults, algorithm=preset))
    return cells


LATE = {
    "temperature_mismatch": ({"rollout.temperature": 1.3}, learner_temperature(1.0)),
    "forward_mismatch": ({}, sampler_keeps_noise(0.8)),
    "no_signal": ({}, squashed_reward(20.0)),
}
"""Class -> (settings of the whole run, the fault that comes later)."""


def later() -> list[Cell]:
    """Faults that begin at update 20 of 40, within the run or where it is continued."""
    cells = []
    for name, (settings, fault) in LATE.items():
        config = applied(baseline(), settings)
        twin = "temperature_mismatch-cured" if settings else "baseline"
        late = (from_update(20, fault),)
        cells.append(Cell("late", f"late-{name}", config, (name,), twin, late))
        cells.append(Cell("resumed", f"resumed-{name}", config, (name,), twin, late, split=20))
    return cells


AUDIT: dict[str, tuple[str, Settings, tuple[Fault, ...]]] = {
    "bonus_0.6": ("loss_budget", {"regularizer.ent_coef": 0.6}, ()),
    "bonus_1.0": ("loss_budget", {"regularizer.ent_coef": 1.0}, ()),
    "tanh_50": ("no_signal", {}, (squashed_reward(50.0),)),
    "two_passes_unclipped": ("update_epochs", {
        "algorithm.update_epochs": 2, "algorithm.clip_range": 1.0,
        "algorithm.clip_range_high": math.inf}, ()),
    "rate_1e-3_bonus_0.01": ("weak_entropy_high_lr", {
        "optimizer.learning_rate": 1e-3, "regularizer.ent_coef": 0.01}, ()),
    "sync_2": ("stale_behaviour", {"rollout.sync_interval_updates": 2, "total_moves": 41 * 1024}, ()),
    "noise_0.15": ("forward_mismatch", {}, (sampler_keeps_noise(0.15),)),
    "temperature_1.1": ("temperature_mismatch", {"rollout.temperature": 1.1}, (learner_temperature(1.0),)),
    "cooler_learner": ("temperature_mismatch", {}, (learner_temperature(1.2),)),
}  # fmt: skip
"""Milder faults that an audit of the doctor before this one found missed, and some like them."""


def audited() -> list[Cell]:
    """The faults of `AUDIT` on the baseline."""
    return [
        Cell("audit", f"audit-{name}", applied(baseline(), settings), (cause,), "baseline", faults)
        for name, (cause, settings, faults) in AUDIT.items()
    ]


def healthy() -> list[Cell]:
    """Runs without a fault, one seed each: the place in the list."""
    cells = [
        Cell("healthy", each.name, each.config(), algorithm=each.preset, size="none")
        for each in HEALTHY
    ]
    return cells


def cells() -> list[Cell]:
    """The whole matrix."""
    base = Cell("twin", "baseline", baseline())
    found = [
        base,
        *sizes(),
        *sizes("move_net"),
        *pairs(),
        *algorithms(),
        *later(),
        *audited(),
        *healthy(),
    ]
    names = [cell.name for cell in found]
    assert len(set(names)) == len(names)
    return found
