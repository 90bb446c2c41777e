"""What had another name in version 0.1.0, and still works: modules, classes, settings. Each use gives a warning.

Nothing is imported here, so that whoever reads files or settings may look names up.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, TypeVar

_HOMES = {
    "collapse.cells": "comparison.grid_runs",
    "collapse.comparison": "comparison",
    "collapse.comparison.cells": "comparison.jobs",
    "collapse.comparison.columns": "comparison.variants",
    "collapse.comparison.compare": "comparison.compare",
    "collapse.comparison.controls": "comparison.controls",
    "collapse.comparison.plan": "comparison.plan",
    "collapse.comparison.readings": "comparison.readings",
    "collapse.comparison.result": "comparison.result",
    "collapse.comparison.tuning": "comparison.tuning",
    "collapse.grid": "comparison.grid",
    "collapse.grid_files": "comparison.grid run_folder.files",
    "commands.eval_files": "commands.result_files",
    "commands.json_file": "commands.result_files",
    "commands.next_steps": "commands.run_end",
    "commands.probe_pictures": "diagnostics.probe_pictures",
    "commands.termination": "run_folder.stopping",
    "core.blind_pairs": "core.batch_metrics",
    "core.clip_by_probability": "core.ratio_metrics",
    "core.diagnostics": "core.batch_metrics core.ratio_metrics",
    "core.surrogates": "core.losses",
    "core.value_loss": "core.losses",
    "playing.conversation": "playing.uci.conversation",
    "playing.engine": "playing.uci.engine",
    "playing.ladder": "evaluation.strength",
    "playing.load_policy": "evaluation.load_policy",
    "playing.move_quality": "evaluation.move_quality",
    "playing.options": "playing.uci.options",
    "playing.protocol": "playing.uci.protocol",
    "playing.request": "playing.requests",
    "playing.strength": "evaluation.strength",
    "playing.threads": "evaluation.load_policy",
    "pretraining.pgn_lines": "pretraining.pgn_text",
    "pretraining.pgn_stream": "pretraining.pgn_text",
    "pretraining.stream": "pretraining.minibatches",
    "pretraining.targets": "pretraining.minibatches",
    "regularization.alarms": "regularization.controllers",
    "regularization.kl_cov": "regularization.terms.kl_cov",
    "regularization.shaping": "regularization.terms.repo regularization.terms.kl_old regularization.terms.kl_ref",
    "reports.readings": "reports.summaries",
    "training.boards": "rollouts.state",
    "training.checkpoint": "run_folder.checkpoint",
    "training.combinations": "config.compatibility",
    "training.config": "config.run",
    "training.config_file": "config.files",
    "training.config_sections": "config.sections",
    "training.console": "run_folder.console",
    "training.device": "networks.device",
    "training.disk": "run_folder.files",
    "training.dynamic_sampling": "rollouts.dynamic_sampling",
    "training.entropy_probe": "diagnostics.entropy_prediction",
    "training.evaluation": "evaluation.heldout reports.bootstrap",
    "training.frozen": "networks.build",
    "training.games": "rollouts.games",
    "training.initial_weights": "networks.weights",
    "training.machine": "run_folder.environment",
    "training.match_play": "evaluation.match_play",
    "training.minibatches": "updates.training_batch",
    "training.named_runs": "config.names",
    "training.own_parts": "config.custom",
    "training.own_policy": "networks.custom",
    "training.planes": "rollouts.planes",
    "training.plies": "rollouts.ply",
    "training.policy": "networks.build networks.policy_net networks.residual networks.settings",
    "training.policy_player": "evaluation.policy_player",
    "training.probe_metrics": "diagnostics.probe_metrics",
    "training.probe_set": "diagnostics.probe_set",
    "training.progress": "run_folder.progress",
    "training.rollout": "rollouts.positions rollouts.worker",
    "training.run_log": "run_folder.log run_folder.files run_folder.trackers",
    "training.run_report": "training.result",
    "training.sb3": "integrations.sb3.session",
    "training.sb3_boards": "integrations.sb3.boards",
    "training.sb3_policy": "integrations.sb3.policy",
    "training.sb3_record": "integrations.sb3.record",
    "training.sb3_settings": "integrations.sb3.settings",
    "training.seen_positions": "rollouts.seen_positions",
    "training.step_guard": "updates.nonfinite",
    "training.stopping": "run_folder.stopping",
    "training.strong": "config.names",
    "training.targets": "updates.targets",
    "training.update": "updates.update updates.loss updates.update_metrics",
    "training.update_diagnostics": "diagnostics.update_diagnostics",
}

MOVED = {
    f"algorithms.{old}": tuple(f"algorithms.{new}" for new in homes.split())
    for old, homes in _HOMES.items()
}


RENAMED = {
    "BadBatches": "NonFiniteDump",
    "Cell": "GridRun",
    "Column": "Variant",
    "EntropyProbe": "EntropyPrediction",
    "Material": "TrainingBatch",
    "OwnObjectError": "CustomObjectError",
    "OwnPolicy": "CustomPolicy",
    "PlanesPolicy": "NetworkPolicy",
    "PolicyConfig": "NetworkConfig",
    "Questions": "EvaluatorUsage",
    "RolloutState": "VecState",
    "StepGuard": "NonFiniteGuard",
    "make_columns": "make_variants",
    "make_material": "make_training_batch",
}
"""Old name of a class or function -> its name of today."""

SETTINGS = {
    "trainer": "loop",
    **{
        f"policy.{name}": f"precision.{name}"
        for name in ("autocast", "autocast_dtype", "head_dtype", "logprob_dtype")
    },
}
"""Old dotted name of a setting -> its name of today."""

VALUES = {"loop": {"own": "native"}}
"""Setting -> {old value: value of today}."""

_Class = TypeVar("_Class", bound=type)


def setting_today(name: str, value: Any) -> tuple[str, Any]:
    """(name, value) of a setting as they are today; a warning where either was another.

    Args:
        name: dotted, with underscores, such as "optimizer.learning_rate".
        value: anything.
    """
    new, of_today, said = _looked_up(name, value)
    if said:
        warnings.warn(f"{said[0]} now", FutureWarning, stacklevel=3)
    return new, of_today


def settings_today(values: dict[str, Any]) -> dict[str, Any]:
    """Nested settings, such as those of a config.json, under their names of today; one warning for all."""
    found: dict[str, Any] = {}
    said: list[str] = []
    _put(found, values, "", said)
    policy = found.get("policy")
    if isinstance(policy, dict) and policy.get("network") is None:
        policy["network"] = "resnet"  # there was one alone, and it had no name
    if said:
        text = f"settings of an older version are read as those of today: {'; '.join(said)}"
        warnings.warn(text, FutureWarning, stacklevel=2)
    return found


def _looked_up(name: str, value: Any) -> tuple[str, Any, list[str]]:
    """(name of today, value of today, what to say of the change)."""
    new = SETTINGS.get(name, name)
    of_today = VALUES.get(new, {}).get(value, value) if isinstance(value, str) else value
    if new != name:
        return new, of_today, [f"{name} is called {new}"]
    return new, of_today, [f"{new} {value!r} is called {of_today!r}"] if of_today != value else []


def _put(found: dict[str, Any], values: dict[str, Any], prefix: str, said: list[str]) -> None:
    for key, value in values.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict) and any(old.startswith(f"{name}.") for old in SETTINGS):
            _section(found, name)
            _put(found, value, f"{name}.", said)
            continue
        new, of_today, change = _looked_up(name, value)
        said += change
        section, _, field = new.rpartition(".")
        _section(found, section)[field] = of_today


def _section(found: dict[str, Any], name: str) -> dict[str, Any]:
    for part in filter(None, name.split(".")):
        found = found.setdefault(part, {})
        if not isinstance(found, dict):
            raise ValueError(f"{part} is {str(found)[:40]!r}: expected an object")
    return found


def flags_today(arguments: Sequence[str]) -> list[str]:
    """A command line with its flags under their names of today, `--no-` in front or not."""
    found: list[str] = []
    expects: str | None = None  # the setting whose value is the next argument
    for argument in arguments:
        if not argument.startswith("--"):
            if expects is not None:
                argument = str(setting_today(expects, argument)[1])
            found.append(argument)
            expects = None
            continue
        flag, equals, value = argument[2:].partition("=")
        section, dot, field = flag.replace("-", "_").rpartition(".")
        negated = field.startswith("no_")
        name, value = setting_today(f"{section}{dot}{field.removeprefix('no_')}", value)
        expects = None if equals else name
        if name != f"{section}{dot}{field.removeprefix('no_')}":
            section, dot, field = name.rpartition(".")
            flag = f"{section}{dot}{'no_' if negated else ''}{field}".replace("_", "-")
        found.append(f"--{flag}{equals}{value}")
    return found


def takes_old_arguments(*names: str) -> Callable[[_Class], _Class]:
    """A decorator of a dataclass that takes these old names of its fields as arguments, too."""

    def decorate(cls: _Class) -> _Class:
        make: Any = vars(cls)["__init__"]

        @functools.wraps(make)
        def init(self: Any, *args: Any, **given: Any) -> None:
            for old in names:
                if old in given:
                    new, value = setting_today(old, given.pop(old))
                    given[new] = value
            make(self, *args, **given)

        setattr(cls, "__init__", init)  # noqa: B010 - mypy takes no assignment to it
        return cls

    return decorate


class OldAlgorithmsPaths:
    """Finds the old names of this package, for `sys.meta_path`; imports nothing before one is asked for."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """A module that hands on what its homes have; None where the name is not an old one."""
        if fullname not in MOVED:
            return None
        from chess_env.moved import OldPaths

        return OldPaths(MOVED, RENAMED).find_spec(fullname, path, target)
