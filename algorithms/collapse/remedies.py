"""Remedies: changes of a run that are said to hold its entropy or to mend it, to be tried against the causes.

A remedy changes settings, or the algorithm. It cannot take away a fault that is in code. Where the fault is a setting,
a remedy that sets the same one undoes it. Methods whose point is to hold the entropy by other means take the place of
the run's bonus, as their authors run them; `no_bonus` is what they have to be compared with.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping

from algorithms.collapse.cause import Settings
from algorithms.config.changes import changed
from algorithms.config.compatibility import check_settings
from algorithms.config.custom import default_algorithm
from algorithms.config.names import named_run
from algorithms.config.run import TrainConfig
from algorithms.core.checks import require

ALONE: Settings = {"regularizer.ent_coef": 0.0}
"""Of a method that is run without a bonus."""

KEPT = ("group_size", "update_epochs", "advantage_scale", "credit", "gamma")
"""Fields that another algorithm takes over from the one that it replaces, where it has them; the rest is its own."""


@dataclasses.dataclass(frozen=True)
class Remedy:
    """A remedy.

    Attributes:
        name: its name.
        title: what is changed, in a few words.
        source: where it is recommended.
        algorithm: a preset, or module:Name of your own, in place of the run's; "" keeps the run's.
        settings: dotted settings and their values.
        times: dotted setting -> factor on the run's own value.
    """

    name: str
    title: str
    source: str
    algorithm: str = ""
    settings: Settings = dataclasses.field(default_factory=dict)
    times: Mapping[str, float] = dataclasses.field(default_factory=dict)

    def treated(self, config: TrainConfig) -> TrainConfig:
        """The run with the remedy.

        Raises:
            ValueError: the run is like that already, or its settings cannot go with the remedy.
        """
        treated = config
        if self.algorithm:
            own, other = config.algorithm, named_run(self.algorithm).algorithm
            has = {field.name for field in dataclasses.fields(other)} & set(KEPT)
            kept = {name: getattr(own, name) for name in KEPT if name in has and hasattr(own, name)}
            treated = dataclasses.replace(treated, algorithm=dataclasses.replace(other, **kept))
        scaled = {}
        for name, factor in self.times.items():
            part, _, field = name.partition(".")
            value = getattr(getattr(config, part), field)
            scaled[name] = type(value)(factor * value)
        treated = changed(treated, {**scaled, **self.settings})
        require(treated != config, f"{self.name}: the run is like that already")
        check_settings(treated)
        return treated


_ALL = (
    # Samples that another policy drew.
    Remedy("tis", "weigh with learner / sampler, at most 2", "fengyao.notion.site (TIS)",
           settings={"optimizer.sampler_correction": "tis"}),
    Remedy("icepop", "the same weight, 0 outside .5 to 5", "arXiv:2510.18855",
           settings={"optimizer.sampler_correction": "icepop"}),
    Remedy("dppo", "a trust region in probability, no clip", "arXiv:2602.04879", algorithm="dppo"),
    Remedy("one_pass", "one pass over each batch", "on-policy practice",
           settings={"algorithm.update_epochs": 1}),
    # What the clip lets through.
    Remedy("clip_higher", "upper clip bound at 1.28", "arXiv:2503.14476",
           settings={"algorithm.clip_range": 0.2, "algorithm.clip_range_high": 0.28}),
    Remedy("ce_gppo", "clipped samples keep a bounded gradient", "arXiv:2509.20712", algorithm="ce_gppo",
           settings=ALONE),
    Remedy("cispo", "the weight is clipped, never the gradient", "arXiv:2506.13585", algorithm="cispo"),
    Remedy("sapo", "a sigmoid of the ratio in place of the clip", "arXiv:2511.20347", algorithm="sapo"),
    # Entropy in the objective.
    Remedy("no_bonus", "no entropy bonus", "a control", settings=ALONE),
    Remedy("exact_bonus", "an exact entropy bonus of .1", "this project's doctor",
           settings={"regularizer.ent_estimator": "exact", "regularizer.ent_coef": 0.1}),
    Remedy("adaptive_bonus", "a bonus that grows while entropy is below 1.5 nats", "arXiv:2505.22312",
           settings={"regularizer.ent_coef": 0.1, "regularizer.ent_controller": "adaptive",
                     "regularizer.ent_coef_step": 0.005}),
    Remedy("kl_cov", "a KL penalty on 2 % of the samples, no clip", "arXiv:2505.22617",
           settings={**ALONE, "regularizer.kl_cov_coef": 1.0, "algorithm.clip_range": 1.0,
                     "algorithm.clip_range_high": math.inf}),
    Remedy("clip_cov", "2 % of the samples left out", "arXiv:2505.22617", algorithm="clip_cov",
           settings=ALONE),
    Remedy("erc", "positions left out whose entropy has moved", "arXiv:2512.05591", algorithm="erc",
           settings=ALONE),
    Remedy("top_entropy", "only the fifth of the positions with most entropy", "arXiv:2506.01939",
           settings={**ALONE, "algorithm.top_entropy_fraction": 0.2}),
    Remedy("delightful_pg", "a gate that favours unlikely good moves", "arXiv:2603.14608",
           algorithm="delightful_pg", settings=ALONE),
    Remedy("no_controller", "fixed coefficients in place of a controller", "this project's doctor",
           settings={"regularizer.kl_controller": "none", "regularizer.ent_controller": "none"}),
    # The reference, the step, the groups, the sampling.
    Remedy("kl_reference", "a KL of .1 to the policy of the start", "arXiv:2009.01325",
           settings={"regularizer.kl_ref_coef": 0.1}),
    Remedy("lower_rate", "a quarter of the step size", "common practice",
           times={"optimizer.learning_rate": 0.25}),
    Remedy("larger_groups", "twice the samples of half the positions", "arXiv:2402.03300",
           times={"algorithm.group_size": 2, "rollout.num_plies": 0.5}),
    Remedy("live_groups", "groups of equal rewards sampled anew", "arXiv:2503.14476",
           settings={"algorithm.live_groups": True}),
    Remedy("hotter", "sampled, learned and judged at 1.5 times the temperature", "common practice",
           times={"rollout.temperature": 1.5}),
)  # fmt: skip
REMEDIES = {remedy.name: remedy for remedy in _ALL}
"""Name -> remedy, in the order in which they are shown."""


def remedy_of(name: str) -> Remedy:
    """The remedy of this name; of `module:Name`, the exchange of the algorithm for that one of your own.

    Raises:
        ValueError: there is none.
        CustomObjectError: it names no algorithm.
    """
    if ":" in name:
        default_algorithm(name)
        label = name.partition(":")[2]
        return Remedy(name, f"{label} in place of the algorithm", "your own", algorithm=name)
    require(
        name in REMEDIES,
        f"remedy is {name!r}: expected one of {', '.join(REMEDIES)}, or module:Name of an algorithm of your own",
    )
    return REMEDIES[name]
