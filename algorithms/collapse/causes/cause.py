"""A cause of collapse: a change of settings, its cured twin, and the predicates that tell them apart."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Literal

from algorithms import PRESETS
from algorithms.collapse.causes.architectures import ARCHITECTURES, FIRST, Settings
from algorithms.collapse.causes.faults import Fault
from algorithms.collapse.causes.sizes import FULL, SIZES
from algorithms.config.changes import changed
from algorithms.config.run import EnvConfig, OptimizerConfig, RolloutConfig, TrainConfig
from algorithms.core.checks import require_choice, shown
from algorithms.regularization import RegularizerConfig


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
        doctor_class: the doctor's name for it; causes that no record tells apart share one.
        title: in a few words.
        because: what goes wrong, and why.
        shared: settings of both runs.
        settings: those that switch it on, besides the fault.
        cured: the twin's settings in their place.
        fault: a change of the run that no setting can make.
        fault_says: the same in words.
        fault_in_twin: whether the twin has the fault too: then it is only the background.
        predicates: all must hold.
        published: figures of others.
        remedy: what to change.
        blocked_by_preflight: the run starts only with `--no-preflight`.
        composite: the classes of a run with several causes; it has no twin and no predicates.
        network: the network that it is run on, a name of `ARCHITECTURES`.
        size: how large the fault is, a name of `SIZES`.
    """

    name: str
    doctor_class: str
    title: str
    because: str
    remedy: str
    predicates: tuple[Predicate, ...]
    shared: Settings = dataclasses.field(default_factory=dict)
    settings: Settings = dataclasses.field(default_factory=dict)
    cured: Settings = dataclasses.field(default_factory=dict)
    fault: Fault | None = None
    fault_says: str = ""
    fault_in_twin: bool = False
    published: tuple[Published, ...] = ()
    blocked_by_preflight: bool = False
    composite: tuple[str, ...] = ()
    network: str = FIRST
    size: str = FULL

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
        env=EnvConfig(evaluator="builtin"),
        optimizer=OptimizerConfig(lr_final=None, warmup_updates=5),
        total_moves=40 * 1024,
        eval_interval_updates=5,
        diagnostics_interval_updates=5,
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
