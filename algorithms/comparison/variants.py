"""The variants of a comparison: presets x values of `--grid` x treatments, and the settings that all share."""

from __future__ import annotations

import dataclasses
import itertools
import re
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from algorithms.collapse.cause import applied
from algorithms.comparison.plan import GROUP_SIZE, Plan, Treatment
from algorithms.config import files as config_file
from algorithms.config.changes import kinds_of, settings_of
from algorithms.config.compatibility import check_settings
from algorithms.config.foreign import foreign_names
from algorithms.config.names import named_run
from algorithms.config.run import ALL_MOVES_GUESS, EnvConfig, TrainConfig
from algorithms.core.checks import require, require_choice, split_list
from algorithms.reports.tasks import TASK

# One rollout is one minibatch, so that a pass over it is one step for every algorithm: one that
# must take a single step (RLOO) would otherwise make fewer steps than the others.
ROLLOUTS: dict[str, dict[str, int]] = {
    "positions": {"num_envs": 32, "num_plies": 1},
    "games": {"num_envs": 4, "num_plies": 16},
}

SHARED = (*itertools.chain(*TASK.values()), "algorithm.gamma", "algorithm.credit")
"""First parts of the settings that all variants share if they have them: the task, and the credit horizon."""

NOT_IN_A_GRID = ("seed", "run_dir", "preset", "cause", "track", "env.cache", "preflight")

MOVES_PER_EVALUATION = 2_048
"""An evaluation takes about as long as 1,000 scored moves of GRPO do."""

EVALUATIONS, SMOKE_EVALUATIONS = 10, 2
"""Least number of evaluations of a run, without that of its start."""

CONTROL = "control"
"""Family of the variants that must equal others."""

NO_BONUS = {
    "regularizer.ent_coef": 0.0,
    "regularizer.ent_coef_final": None,
    "regularizer.ent_controller": "none",
}


@dataclasses.dataclass(frozen=True)
class Variant:
    """One variant: the same run on every seed.

    Attributes:
        name: unique, and the name of its folder.
        base: the name without the treatment: what tuning and calibration are for.
        family: variants of one family are compared with each other.
        config: its run, at any seed.
    """

    name: str
    base: str
    family: str
    config: TrainConfig

    def with_settings(self, settings: Mapping[str, Any]) -> Variant:
        """The variant with these dotted settings in place of its own."""
        return dataclasses.replace(self, config=applied(self.config, settings))


def make_variants(plan: Plan, *, cache: Path | None = None) -> tuple[Variant, ...]:
    """The variants of presets, treatment by treatment; `share` still has the coefficient of `equal`.

    Args:
        plan: the comparison.
        cache: file of the shared evaluation cache, or None.

    Raises:
        ValueError: an unknown key or value of the grid, a combination that cannot run, or variants
            that do not share what they must.
    """
    bases = {name: base_config(plan, name, cache=cache) for name in plan.presets}
    grid = [parse_axis(text, list(bases.values()), plan) for text in plan.grid]
    variants = []
    for treatment in plan.treatments:
        for name, base in bases.items():
            for settings in combinations(grid, base):
                shown = {
                    k: " ".join(v) or "none" if isinstance(v, tuple) else v
                    for k, v in settings.items()
                }
                label = "+".join([name, *(f"{last_part(k)}={v}" for k, v in shown.items())])
                label = re.sub(r"[^\w.,=+-]", "-", label)
                values = {**_treatment_settings(plan, treatment), **settings}
                config = with_intervals(
                    applied(base, values), SMOKE_EVALUATIONS if plan.smoke else EVALUATIONS
                )
                variants.append(Variant(f"{label}+{treatment}", label, treatment, config))
    names = [variant.name for variant in variants]
    require(
        len(set(names)) == len(names),
        f"two columns would have one name among {sorted(names)}: give each grid value once",
    )
    for variant in variants:
        check_settings(variant.config)
        least = moves_per_update(variant.config)
        require(
            least <= variant.config.total_moves,
            f"--budget-moves is {variant.config.total_moves} and one rollout of {variant.name} scores "
            f"{least}: raise the budget",
        )
    reasons = mixed_settings(variants)
    require(
        plan.allow_mixed or not reasons,
        f"{'; '.join(reasons)}: such runs are not comparable; --allow-mixed compares them anyway",
    )
    return tuple(variants)


def base_config(plan: Plan, preset: str, *, cache: Path | None = None) -> TrainConfig:
    """A preset's run with everything that the comparison decides for all variants.

    Settings of the algorithm are set where it has the field, whatever its name.
    """
    start = named_run(preset)
    rollout = ROLLOUTS[plan.form]
    of_algorithm = {
        "gamma": plan.shared_gamma,
        "credit": "step" if plan.form == "positions" else "return_to_go",
        "group_size": GROUP_SIZE,
    }
    fields = {each.name for each in settings_of(start.algorithm)}
    states = rollout["num_envs"] * rollout["num_plies"]
    if plan.form == "games":
        states *= GROUP_SIZE
    settings: dict[str, Any] = {
        "policy.network": plan.network,
        "rollout.form": plan.form,
        "optimizer.minibatch_size": states,
        "total_moves": plan.budget_moves,
        "env.cache": None if cache is None else str(cache),
    }
    settings |= {f"rollout.{name}": value for name, value in rollout.items()}
    settings |= {f"algorithm.{k}": v for k, v in of_algorithm.items() if k in fields}
    if plan.smoke:
        settings |= {"policy.size": "tiny"}
    env = EnvConfig(evaluator=plan.evaluator)
    return applied(dataclasses.replace(start, env=env), settings)


def parse_axis(
    text: str, configs: Sequence[TrainConfig], plan: Plan
) -> tuple[str, tuple[Any, ...]]:
    """(dotted name, values) of "key=v1,v2"; the key may be the last part of the name alone.

    A semicolon between the values leaves commas to them. The value of a list is one entry, or `none`.

    Raises:
        ValueError: there is no such setting or value, or the comparison decides it itself.
    """
    key, equals, listed = text.partition("=")
    require(
        bool(key and equals and listed),
        f"--grid is {text!r}: expected a setting and its values, such as group_size=4,8",
    )
    every = [each for config in configs for each in settings_of(config)]
    kinds = {each.name: each.hint for each in every if each.name not in NOT_IN_A_GRID}
    short = [name for name in kinds if last_part(name) == key]
    if key not in kinds and len(short) == 1:
        key = short[0]
    require(
        key in kinds or not short, f"--grid {key}: ambiguous, it is one of {' and '.join(short)}"
    )
    require_choice("--grid", key, [*kinds, *map(last_part, kinds)] if "." not in key else kinds)
    require(
        not key.startswith("regularizer.ent_coef") or plan.treatments == ("preset",),
        f"--grid {key}: --regularization decides it; give --regularization preset beside it",
    )
    values = tuple(
        _parsed(f"--grid {key}", value, kinds[key])
        for value in split_list(listed, ";" if len(split_list(listed, ";")) > 1 else ",")
    )
    return key, values


def combinations(
    grid: Sequence[tuple[str, tuple[Any, ...]]], config: TrainConfig
) -> list[dict[str, Any]]:
    """Every combination of the grid's values, of the settings that this run has."""
    known = values_of(config)
    axes = [[(key, value) for value in values] for key, values in grid if key in known]
    return [dict(settings) for settings in itertools.product(*axes)]


def last_part(name: str) -> str:
    """The name of a setting without what it is in."""
    return name.rpartition(".")[2]


def values_of(config: TrainConfig) -> dict[str, Any]:
    """Dotted setting -> its value in the run."""
    return {each.name: each.value for each in settings_of(config)}


def _parsed(what: str, text: str, hint: Any) -> Any:
    """The value that a text means in a field of this type."""
    if typing.get_origin(hint) is tuple:
        return () if text.casefold() == "none" else (text,)
    kinds = kinds_of(hint)
    if text == "None" and type(None) in kinds:
        return None
    for kind in kinds:
        if typing.get_origin(kind) is Literal:
            require_choice(what, text, typing.get_args(kind))
            return text
    if bool in kinds:
        if text.casefold() not in ("true", "false"):
            require_choice(what, text, ("True", "False"))
        return text.casefold() == "true"
    try:
        for kind in (int, float):
            if kind in kinds:
                return kind(text)
    except ValueError:
        raise ValueError(f"{what}: {text!r} is no number; give one") from None
    quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "'\""
    return text[1:-1] if quoted else text


def moves_per_update(config: TrainConfig) -> int:
    """Most scored moves of one rollout; a guess where all legal moves are scored."""
    rollout, needs = config.rollout, config.algorithm.needs()
    samples = ALL_MOVES_GUESS if needs.all_moves else config.algorithm.group_size
    return int(rollout.num_envs * rollout.num_plies * samples)


def with_intervals(config: TrainConfig, least: int = EVALUATIONS) -> TrainConfig:
    """The run with an evaluation every 2,048 scored moves, but `least` at least and 40 at most.

    Gradients are measured half as often, and there are as many checkpoints as `least`.
    """
    updates = config.total_moves // moves_per_update(config)
    evaluations = min(40, max(least, config.total_moves // MOVES_PER_EVALUATION))
    return dataclasses.replace(
        config,
        eval_interval_updates=max(1, updates // evaluations),
        diagnostics_interval_updates=max(1, 2 * updates // evaluations),
        checkpoint_interval_updates=max(1, updates // least),
    )


def mixed_settings(variants: Sequence[Variant]) -> list[str]:
    """Sentences on the settings that should be equal in the variants and are not; empty where all are."""
    found = []
    every = {variant.name: values_of(variant.config) for variant in variants}
    names = [
        name
        for known in every.values()
        for name, value in known.items()
        if name.startswith(SHARED) and not isinstance(value, tuple)
    ]
    for name in dict.fromkeys(names):
        values: dict[str, list[str]] = {}
        for variant, known in every.items():
            if name in known:
                values.setdefault(str(known[name]), []).append(variant)
        if len(values) > 1:
            listed = ", ".join(f"{value} in {names[0]}" for value, names in values.items())
            found.append(f"the columns differ in {name} ({listed})")
    return found


def train_arguments(config: TrainConfig) -> tuple[str, ...]:
    """Arguments of `chess-lab` that start this run, without its folder.

    They name the network even where it is the default one: a grid that is continued later asks for the same run.

    Raises:
        ValueError: the configuration is of no preset.
    """
    if config.preset is None:
        raise ValueError("the configuration has no preset: the command line starts from one")
    default = named_run(config.preset)
    changed = {k: new for k, (_, new) in config_file.differences(default, config).items()}
    settings = {"policy.network": config.policy.network, **changed}
    return ("train", config.preset, *(w for name in settings for w in _flag(name, settings[name])))


def foreign_arguments(config: TrainConfig) -> tuple[str, ...]:
    """Arguments behind `chess-lab train` that repeat the names from outside the project, for a run that goes on.

    Such names are not taken from a folder, so the comparison repeats those that its user gave.
    """
    names = foreign_names(config_file.to_dict(config))
    settings = dict.fromkeys(name.setting for name in names)
    said = [config.preset] if "algorithm.name" in settings and config.preset else []
    settings.pop("algorithm.name", None)
    known = values_of(config)
    return (*said, *(w for name in settings for w in _flag(name, known[name])))


def _flag(setting: str, value: Any) -> list[str]:
    """The words that give a setting a value on the command line."""
    parent, _, last = setting.replace("_", "-").rpartition(".")
    prefix = f"--{parent}." if parent else "--"
    if isinstance(value, bool):
        return [f"{prefix}{last}" if value else f"{prefix}no-{last}"]
    return [f"{prefix}{last}", *map(str, value if isinstance(value, list | tuple) else [value])]


def _treatment_settings(plan: Plan, treatment: Treatment) -> dict[str, Any]:
    if treatment == "preset":
        return {}
    coefficient = 0.0 if treatment == "none" else plan.ent_coef
    return NO_BONUS | {"regularizer.ent_coef": coefficient}
