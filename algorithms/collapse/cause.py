"""A cause of collapse: a change of settings, its cured twin, and the predicates that tell them apart.

A cause is the same on every network: the same switch, the same readings, the same sides of the bounds. `ARCHITECTURES`
says where its runs start on a network, how fast they learn, and gives a bound where another start or another speed
makes another number necessary. What is said of move_net was chosen in runs on seeds 101 and 102.

`SIZES` has each cause at half and at a third of its size, and at one at which the fault does no harm. The full size
is the cause itself. `half` and `third` are that share of the distance between the twin's value and the cause's, in the
unit of the setting: steps between synchronisations, passes, coefficients, standard deviations. Where the setting is a
number of positions or a scale to which less is worse, it is two and three times as large. `harmless` was chosen so
that the run with the fault learns as its twin does.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from algorithms import PRESETS
from algorithms.collapse import faults
from algorithms.collapse.faults import Fault
from algorithms.config.changes import changed
from algorithms.config.run import EnvConfig, OptimizerConfig, RolloutConfig, TrainConfig
from algorithms.core.checks import require_choice, shown
from algorithms.regularization import RegularizerConfig

Settings = Mapping[str, Any]
"""Dotted names of a run's settings and their values; "preset" brings its algorithm along."""


class Bound(NamedTuple):
    """The bound of a reading, and its least distance from the twin's."""

    bound: float
    margin: float


@dataclasses.dataclass(frozen=True)
class Architecture:
    """Settings and bounds of the runs on a network.

    Attributes:
        settings: of all runs; the rest is the same on every network.
        changed: cause -> "shared", "settings" or "cured" -> what it has there in place of its own.
        bounds: cause -> reading -> the bound in place of the cause's own.
    """

    settings: Settings
    changed: Mapping[str, Mapping[str, Settings]] = dataclasses.field(default_factory=dict)
    bounds: Mapping[str, Mapping[str, Bound]] = dataclasses.field(default_factory=dict)


REGRET, PASS, ENTROPY = "last eval/regret_cp", "last eval/pass_at_8", "last eval/entropy"

FIRST = "resnet"
"""The network that the causes were written down for; its bounds stand at the causes."""

ARCHITECTURES: dict[str, Architecture] = {
    "resnet": Architecture(
        settings={
            "policy.network": "resnet", "init_from": "warm", "optimizer.learning_rate": 5e-4,
        },
    ),
    "move_net": Architecture(
        settings={
            "policy.network": "move_net", "init_from": "warm_move_net",
            "optimizer.learning_rate": 1e-3,
        },
        changed={
            # Eight times the rate, as on resnet.
            "weak_entropy_high_lr": {"settings": {"optimizer.learning_rate": 8e-3}},
            # A pass moves it less: after four the KL to the old policy is too small for the excursion to come.
            "sampled_entropy_bonus": {"shared": {"algorithm.update_epochs": 10}},
            "kl_trap": {"settings": {"regularizer.ent_coef": 0.7}},
            # An update moves it by .003 nats: a target of .01 sends the coefficient to 0.
            "saturated_controller": {"cured": {"regularizer.kl_target": 0.002}},
        },
        bounds={
            "dropout_in_rollout": {REGRET: Bound(120.0, 20.0)},
            "forward_mismatch": {REGRET: Bound(150.0, 15.0)},
            "stale_behaviour": {REGRET: Bound(150.0, 25.0)},
            "update_epochs": {
                "median ratio/ess": Bound(0.6, 0.3), "last eval/entropy": Bound(1.1, 0.3),
            },
            "weak_entropy_high_lr": {PASS: Bound(0.73, 0.06)},
            "sampled_entropy_bonus": {REGRET: Bound(320.0, 20.0), ENTROPY: Bound(0.5, 0.4)},
            "kl_trap": {ENTROPY: Bound(0.5, 0.4)},
            "saturated_controller": {REGRET: Bound(135.0, 25.0)},
            "fixed_positions": {REGRET: Bound(125.0, 25.0), PASS: Bound(0.76, 0.05)},
            "support_limit": {PASS: Bound(0.68, 0.06)},
            "reward_squash": {REGRET: Bound(120.0, 20.0)},
        },
    ),
}  # fmt: skip
"""Network -> settings and bounds of its runs."""


FULL = "full"
SIZE_NAMES = (FULL, "half", "third", "harmless")


class Size(NamedTuple):
    """The settings of a cause at a size, in place of its own.

    Attributes:
        times: setting -> factor on the cause's value, of the run with the fault alone.
        settings: of the run with the fault alone.
        shared: of both runs.
        cured: of the twin alone.
        fault: a change of the run that no setting can make.
        fault_says: the same in words.
    """

    times: Mapping[str, float] = {}
    settings: Mapping[str, Any] = {}
    shared: Mapping[str, Any] = {}
    cured: Mapping[str, Any] = {}
    fault: Fault | None = None
    fault_says: str = ""


def _learner_at(temperature: float) -> Size:
    says = f"the learner's softmax runs at temperature {temperature:g}"
    return Size(fault=faults.learner_temperature(temperature), fault_says=says)


def _noise(std: float) -> Size:
    says = f"fixed noise of standard deviation {std:g} on the sampler's logits"
    return Size(fault=faults.sampler_keeps_noise(std), fault_says=says)


def _squashed(scale_cp: float) -> Size:
    says = f"the reward is the change of tanh(cp / {scale_cp:g})"
    return Size(fault=faults.squashed_reward(scale_cp), fault_says=says)


def _sharp(factor: float) -> Size:
    """Both start sharper by `factor`; the twin's temperature undoes half of it, as at full size."""
    temperature = {"rollout.temperature": max(1.0, factor / 2)}
    return Size(shared={"init_logit_scale": factor}, cured=temperature)


_BONUS = "regularizer.ent_coef"
_STARTS = "env.start_positions"

SIZES: dict[str, dict[str, Size]] = {
    "temperature_mismatch": {
        "half": _learner_at(1.15),
        "third": _learner_at(1.2),
        "harmless": _learner_at(1.29),
    },
    "dropout_in_rollout": {
        "half": Size(shared={"policy.dropout": 0.05}),
        "third": Size(shared={"policy.dropout": 0.033}),
        "harmless": Size(shared={"policy.dropout": 0.001}),
    },
    "forward_mismatch": {"half": _noise(0.4), "third": _noise(0.27), "harmless": _noise(0.05)},
    "stale_behaviour": {
        "half": Size(settings={"rollout.sync_interval_updates": 8}),
        "third": Size(settings={"rollout.sync_interval_updates": 5}),
        "harmless": Size(
            settings={"rollout.sync_interval_updates": 2, "optimizer.learning_rate": 1e-4},
            cured={"optimizer.learning_rate": 1e-4},
        ),
    },
    "update_epochs": {
        "half": Size(settings={"algorithm.update_epochs": 4}),
        "third": Size(settings={"algorithm.update_epochs": 3}),
        "harmless": Size(
            settings={"algorithm.update_epochs": 2, "optimizer.learning_rate": 1e-4},
            cured={"optimizer.learning_rate": 1e-4},
        ),
    },
    "weak_entropy_high_lr": {
        "half": Size(times={"optimizer.learning_rate": 1 / 2}),
        "third": Size(times={"optimizer.learning_rate": 1 / 3}),
        "harmless": Size(times={"optimizer.learning_rate": 1 / 6}, settings={_BONUS: 0.15}),
    },
    "clip_asymmetry": {
        "half": Size(settings={"algorithm.clip_range_high": 0.04}),
        "third": Size(settings={"algorithm.clip_range_high": 0.06}),
        "harmless": Size(settings={"algorithm.clip_range_high": 0.2}),
    },
    "sampled_entropy_bonus": {
        "half": Size(shared={_BONUS: 0.06}),
        "third": Size(shared={_BONUS: 0.04}),
        "harmless": Size(shared={_BONUS: 0.002}),
    },
    "kl_trap": {
        "half": Size(times={_BONUS: 1 / 2}),
        "third": Size(times={_BONUS: 1 / 3}),
        "harmless": Size(settings={_BONUS: 0.002}),
    },
    "saturated_controller": {
        "half": Size(times={"regularizer.kl_coef_max": 1 / 2}),
        "third": Size(times={"regularizer.kl_coef_max": 1 / 3}),
        "harmless": Size(settings={"regularizer.kl_coef_max": 0.2}),
    },
    "loss_budget": {
        "half": Size(times={_BONUS: 1 / 2}),
        "third": Size(times={_BONUS: 1 / 3}),
        "harmless": Size(settings={_BONUS: 0.25}),
    },
    "sharp_optimum": {
        "half": Size(settings={"regularizer.kl_ref_coef": 0.002}),
        "third": Size(settings={"regularizer.kl_ref_coef": 0.003}),
        "harmless": Size(settings={"regularizer.kl_ref_coef": 0.03}),
    },
    "fixed_positions": {
        "half": Size(settings={_STARTS: "random_plies:2-40@fixed=32"}),
        "third": Size(settings={_STARTS: "random_plies:2-40@fixed=48"}),
        "harmless": Size(settings={_STARTS: "random_plies:2-40@fixed=2048"}),
    },
    "support_limit": {"half": _sharp(4.0), "third": _sharp(2.7), "harmless": _sharp(1.2)},
    "reward_squash": {
        "half": _squashed(40.0),
        "third": _squashed(60.0),
        "harmless": _squashed(400.0),
    },
}
"""Cause -> size -> its settings there. `low_precision` and `zero_variance_groups` have no sizes: the
one is a kind of number, the other a reward."""


@dataclasses.dataclass(frozen=True)
class Predicate:
    """A reading that is beyond a bound with the cause, and not in its cured twin; written down before the runs.

    Attributes:
        reading: what is read off a run's record ("last eval/entropy", see reports/run_files.py).
        direction: on which side of the bound the run with the cause lies.
        bound: the run lies beyond it, and the twin does not.
        margin: least distance of the two on the same seed.
    """

    reading: str
    direction: Literal["above", "below"]
    bound: float
    margin: float

    def holds(self, value: float) -> bool:
        """Whether a reading lies beyond the bound; False for NaN."""
        return value > self.bound if self.direction == "above" else value < self.bound

    def holds_against(self, value: float, twin: float) -> bool:
        """Whether it holds for the run, not for its twin, and they are `margin` apart.

        A twin whose record lacks the quantity (NaN) is as far away as can be.
        """
        apart = value - twin if self.direction == "above" else twin - value
        far = math.isnan(twin) or apart >= self.margin
        return self.holds(value) and not self.holds(twin) and far

    @property
    def beyond(self) -> str:
        """The side of the bound in words."""
        return f"{self.direction} {self.bound:g}"

    def __str__(self) -> str:
        """The predicate in words."""
        return f"{self.reading} {self.beyond}, and {self.margin:g} from the twin's"


@dataclasses.dataclass(frozen=True)
class Published:
    """A published figure on this cause.

    Attributes:
        quantity: what the figure measures.
        theirs: their figure, as they give it.
        source: who published it.
        reading: our reading beside it.
    """

    quantity: str
    theirs: str
    source: str
    reading: str


@dataclasses.dataclass(frozen=True)
class Cause:
    """A collapse that can be switched on.

    Attributes:
        name: its name.
        doctor_class: the doctor's name for it; causes that no record tells apart share one. Where none is given,
            the first of `composite`, or the cause's own name.
        title: in a few words.
        because: what goes wrong, and why.
        shared: settings of both runs.
        settings: those that switch it on, besides the fault.
        cured: the twin's settings in their place.
        fault: a change of the run that no setting can make.
        fault_says: the same in words.
        predicates: all must hold.
        published: figures of others.
        remedy: what to change.
        blocked_by_preflight: the preflight finds the fault on the first rollout.
        composite: the classes of a run with several causes; it has no twin and no predicates.
        network: the network that it is run on, a name of `ARCHITECTURES`.
        size: how large the fault is, a name of `SIZES`.
    """

    name: str
    title: str
    because: str
    remedy: str
    predicates: tuple[Predicate, ...] = ()
    doctor_class: str = ""
    shared: Settings = dataclasses.field(default_factory=dict)
    settings: Settings = dataclasses.field(default_factory=dict)
    cured: Settings = dataclasses.field(default_factory=dict)
    fault: Fault | None = None
    fault_says: str = ""
    published: tuple[Published, ...] = ()
    blocked_by_preflight: bool = False
    composite: tuple[str, ...] = ()
    network: str = FIRST
    size: str = FULL

    def __post_init__(self) -> None:
        if not self.doctor_class:
            object.__setattr__(self, "doctor_class", (*self.composite, self.name)[0])

    def on_network(self, network: str) -> Cause:
        """The same cause on another network, with the settings and bounds that it has there.

        Raises:
            ValueError: the causes are not run on that network.
        """
        require_choice("network", network, ARCHITECTURES)
        own = ARCHITECTURES[network]
        changed = own.changed.get(self.name, {})
        bounds = own.bounds.get(self.name, {})
        return dataclasses.replace(
            self,
            network=network,
            shared={**self.shared, **changed.get("shared", {})},
            settings={**self.settings, **changed.get("settings", {})},
            cured={**self.cured, **changed.get("cured", {})},
            predicates=tuple(
                dataclasses.replace(each, **bounds[each.reading]._asdict())
                if each.reading in bounds
                else each
                for each in self.predicates
            ),
        )

    def at_size(self, size: str) -> Cause:
        """The same cause at a size of `SIZES`; itself at "full".

        Raises:
            ValueError: the cause does not come in that size.
        """
        if size == FULL:
            return self
        sizes = SIZES.get(self.name, {})
        if not sizes:
            raise ValueError(
                f"size is {shown(size)}: {self.name} has no sizes: run it at {FULL!r} size, the default"
            )
        require_choice("size", size, (FULL, *sizes))
        own = sizes[size]
        with_fault = {**self.shared, **self.settings}
        scaled = {name: factor * with_fault[name] for name, factor in own.times.items()}
        return dataclasses.replace(
            self,
            size=size,
            shared={**self.shared, **own.shared},
            settings={**self.settings, **scaled, **own.settings},
            cured={**self.cured, **own.cured},
            fault=own.fault or self.fault,
            fault_says=own.fault_says or self.fault_says,
            predicates=(),  # they are of the full size
        )

    def config(self, *, cured: bool, seed: int) -> TrainConfig:
        """The run's settings: the baseline's, those of both runs, and those of this one.

        Raises:
            ValueError: a composite has no cured twin.
        """
        if cured and self.composite:
            raise ValueError(
                f"{self.name} is a composite of several causes and has no cured twin: leave --cured "
                f"out, or cure its causes one by one ({', '.join(self.composite)})"
            )
        own = self.cured if cured else self.settings
        called = self.name if self.size == FULL else f"{self.name}-{self.size}"
        label = f"{called}-cured" if cured else called
        return applied(baseline(self.network), {**self.shared, **own, "seed": seed, "cause": label})


def baseline(network: str = FIRST) -> TrainConfig:
    """The healthy run on a network that every cause differs from: 40 updates from its warm policy."""
    common = TrainConfig(
        PRESETS["grpo"][0],
        RegularizerConfig(ent_coef=0.2),
        rollout=RolloutConfig(num_envs=32, num_plies=4),
        env=EnvConfig(
            evaluator="builtin-v1", reward="win_prob_delta", start_positions="random_plies:2-40"
        ),
        optimizer=OptimizerConfig(lr_final=None, warmup_updates=5),
        total_moves=40 * 1024,
        eval_interval_updates=5,
        diagnostics_interval_updates=2,
        checkpoint_interval_updates=1000,
        preset="grpo",
    )
    return applied(common, ARCHITECTURES[network].settings)


def applied(config: Any, settings: Settings) -> Any:
    """The configuration with the dotted settings in place of its own.

    Raises:
        ValueError: a setting that it does not have.
    """
    if "preset" in settings:
        config = dataclasses.replace(config, algorithm=PRESETS[settings["preset"]][0])
    return changed(config, settings)
