"""config.json: writing and reading a run's configuration, and the settings that a continued run may change."""

from __future__ import annotations

import dataclasses
import sys
import typing
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple

from algorithms.config.changes import kinds_of
from algorithms.config.custom import named_class, recorded_name
from algorithms.config.foreign import ALGORITHM, NO_TRUST, Trust, foreign_names, require_trust
from algorithms.config.run import DEFAULT_STARTS, RolloutConfig, TrainConfig
from algorithms.core.checks import shown
from algorithms.networks.settings import NetworkConfig, PrecisionConfig
from algorithms.run_folder.atomic_files import (
    CHECKSUM,
    closed_object,
    cut,
    object_intact,
    parse_json,
    read_file,
    replace_file,
)
from chess_env.evaluators import of_version, without_version
from chess_env.rewards import DEFAULT_REWARD

PRETRAIN = "pretrain"
"""`loop` in the config.json of a pretraining run, which has other settings than a TrainConfig."""

# What may differ between a run and its continuation: nothing that changes the stream of moves or
# the meaning of a metric, except the length of the run.
RESUME_MAY_CHANGE = frozenset(
    {
        "total_moves",
        "eval_interval_updates",
        "diagnostics_interval_updates",
        "checkpoint_interval_updates",
        "checkpoint_keep",
        "track",
        "device",
        "compile",
        "run_dir",
        "env.num_engines",
        "env.num_threads",
        "env.cache",
        "num_threads",
        "match.opponents",
        "match.games",
        "match.interval_updates",
        "preflight",
    }
)


_EXPECTED: dict[Any, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    Path: "text",
    tuple: "a list",
    type(None): "null",
}
"""Kinds of values, and what JSON has for them; others are looked at by whoever has the field."""


def build(cls: Any, values: dict[str, Any], where: str = "config") -> Any:
    """An instance of the dataclass from JSON values, its dataclass fields built likewise.

    Raises:
        ValueError: an unknown or missing field, or a value of another kind; the message names it by `where`.
    """
    if not isinstance(values, dict):
        raise ValueError(f"{where} is {shown(values)}: expected an object")
    hints = typing.get_type_hints(cls)
    known = {f.name for f in dataclasses.fields(cls)}
    unknown = sorted(set(values) - known)
    if unknown:
        named = cut(", ".join(unknown))
        raise ValueError(
            f"{where}: unknown field {named}; known fields: {', '.join(sorted(known))}"
        )
    arguments = {}
    for name, value in values.items():
        arguments[name] = _value(hints[name], value, f"{where}.{name}")
    try:
        return cls(**arguments)
    except TypeError as error:
        raise ValueError(f"{where}: {error}") from error


def _value(hint: Any, value: Any, where: str) -> Any:
    """A field's value from JSON, which knows neither tuples nor paths nor dataclasses.

    Raises:
        ValueError: it is of another kind than the field.
    """
    kinds = list(_kinds(hint))
    for kind, inside in kinds:
        if dataclasses.is_dataclass(kind):
            if value is None:
                continue  # only where nothing is another of the kinds
            return build(kind, value, where)
        if kind is tuple and isinstance(value, list | tuple):
            of = inside[0] if inside[1:] == (Ellipsis,) else Any
            return tuple(_value(of, each, where) for each in value)
        if kind is Path and isinstance(value, str):
            return Path(value)
        if kind not in _EXPECTED or type(value) is kind or (kind is float and _is_float(value)):
            return value
    expected = " or ".join(dict.fromkeys(_EXPECTED.get(kind, "an object") for kind, _ in kinds))
    raise ValueError(f"{where} is {shown(value)}: expected {expected}")


def _kinds(hint: Any) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    """(class, what it is made of) of all that a type allows; of a choice, the classes of its values."""
    for kind in kinds_of(hint):
        origin, inside = typing.get_origin(kind), typing.get_args(kind)
        if origin is Literal:
            yield from ((type(choice), ()) for choice in inside)
        else:
            yield origin or kind, inside


def _is_float(value: Any) -> bool:
    """Whether a number that was written without a point may stand for a float."""
    return type(value) is int and abs(value) <= sys.float_info.max


def to_dict(config: TrainConfig) -> dict[str, Any]:
    """The configuration as JSON values; the algorithm's name, or module:Name, stands beside its fields."""
    values = dataclasses.asdict(config)
    values["algorithm"] = {"name": recorded_name(config.algorithm), **values["algorithm"]}
    values["run_dir"] = None if config.run_dir is None else str(config.run_dir)
    return values


def from_dict(values: dict[str, Any], algorithm_class: Any = None) -> TrainConfig:
    """The configuration that `to_dict` wrote; values of a folder come through `load`, which asks for trust.

    Args:
        values: of a configuration.
        algorithm_class: that of its algorithm; None: the class that it names, which may be imported.

    Raises:
        ValueError: an unknown field or algorithm, a missing field, or a value out of range.
    """
    values = dict(values)
    if values.get("loop") == PRETRAIN:
        raise ValueError(
            "it is that of a pretraining run: continue it with `chess-lab pretrain --resume`, or "
            "start a run of `chess-lab train` from it with --init-from"
        )
    try:
        algorithm = dict(values.pop("algorithm"))
        name = algorithm.pop("name")
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"configuration without an algorithm and its name ({error!r})") from error
    cls = algorithm_class or named_class(name)
    return build(TrainConfig, {**values, "algorithm": build(cls, algorithm, name)})


def save(config: TrainConfig, path: Path) -> None:
    """Writes the configuration as readable JSON, in one atomic step: a run is lost without it."""
    replace_file(path, closed_object(to_dict(config)))


def read_settings(path: Path) -> dict[str, Any]:
    """The JSON values of a config.json, as `of_its_time` reads them; nothing that they name is looked up.

    Raises:
        ValueError: it cannot be read, holds no object, or is not what was written; the message names the file.
    """
    with _reading(path):
        data = read_file(path)
        values = parse_json(data)
        if not isinstance(values, dict):
            raise ValueError(f"it holds a {type(values).__name__}, an object is expected")
        if object_intact(data) is False:
            raise ValueError(
                "it does not match its checksum, so it was damaged or edited: put back what it was, or "
                f'take the line "{CHECKSUM}" out to use it as it is'
            )
        values.pop(CHECKSUM, None)
        return of_its_time(values)


def of_its_time(values: dict[str, Any]) -> dict[str, Any]:
    """The JSON values of a record with what its evaluator, reward and gate meant when it was written.

    A record names the version of its evaluator since there are two of them. One that names none is older: version 1
    gave its scores, and a reward that it leaves open was `win_prob_delta`. The gate of a `delightful_pg` that names
    no unit for eta was in units of the advantages' standard deviation.
    """
    algorithm = values.get("algorithm")
    if isinstance(algorithm, dict) and algorithm.get("name") == "delightful_pg":
        values = values | {"algorithm": {"gate_scale": "std"} | algorithm}
    for group in ("env", "labels"):
        settings = values.get(group)
        if not isinstance(settings, dict) or not isinstance(settings.get("evaluator"), str):
            continue
        was = of_version(settings["evaluator"], "v1")
        older = was != settings["evaluator"]
        if older and "reward" in settings and settings["reward"] is None:
            settings = settings | {"reward": "win_prob_delta"}
        values = values | {group: settings | {"evaluator": was}}
    return values


_STARTS_BEFORE = "random_plies:2-40"
"""The default start positions until a share of them was decided."""


def as_it_began(recorded: TrainConfig, config: TrainConfig) -> TrainConfig:
    """The settings of a continued run with the recorded version of its evaluator, and the defaults of that time."""
    was, now = recorded.env, config.env
    if now.start_positions == DEFAULT_STARTS and was.start_positions == _STARTS_BEFORE:
        now = dataclasses.replace(now, start_positions=was.start_positions)
        config = dataclasses.replace(config, env=now)
    if was.evaluator == now.evaluator or without_version(was.evaluator) != without_version(
        now.evaluator
    ):
        return config
    reward = was.reward if now.reward == DEFAULT_REWARD else now.reward
    return dataclasses.replace(
        config, env=dataclasses.replace(now, evaluator=was.evaluator, reward=reward)
    )


def label_of(values: dict[str, Any]) -> tuple[str, ...]:
    """What the run of these JSON values is called: its preset or algorithm, and its cause where it has one."""
    names = (values.get("preset") or _algorithm_name(values), values.get("cause"))
    return tuple(str(name) for name in names if name)


def load(path: Path, trust: Trust = NO_TRUST, other: TrainConfig | None = None) -> TrainConfig:
    """The configuration in a folder's JSON file, to be run.

    Args:
        path: the config.json.
        trust: names from outside the project that it may use.
        other: a run whose algorithm and regulariser take the place of the recorded ones.

    Raises:
        ValueError: it cannot be read; the message names the file.
        UntrustedError: it names code, a program or a file outside that `trust` does not allow; nothing was
            imported then.
    """
    values = read_settings(path)
    if other is not None:
        own = to_dict(other)
        values |= {name: own[name] for name in ("algorithm", "regularizer", "preset")}
    with _reading(path):
        require_trust(path, foreign_names(values), trust)
        return from_dict(values)


def load_record(path: Path, known: TrainConfig) -> TrainConfig:
    """The configuration in a JSON file, to be compared with one that is known: no name in it is followed.

    Raises:
        ValueError: it cannot be read, or has another algorithm of a user's own; the message names the file.
    """
    values = read_settings(path)
    name, wanted = _algorithm_name(values), recorded_name(known.algorithm)
    if ":" in name and name != wanted:
        raise ValueError(f"{path} is of a run of algorithm {shown(name)}, not {wanted!r}")
    with _reading(path):
        return from_dict(values, type(known.algorithm) if name == wanted else None)


def _algorithm_name(values: dict[str, Any]) -> str:
    algorithm = values.get("algorithm")
    return str(algorithm.get("name")) if isinstance(algorithm, dict) else ""


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Makes the errors of a configuration that cannot be read ValueErrors that name its file."""
    try:
        yield
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        begun = ""
        if isinstance(error, FileNotFoundError):
            begun = "; no run has begun there: give another folder, or repeat the command that begins the run"
        raise ValueError(f"{path} is not a readable run configuration: {error}{begun}") from error


class RunNetwork(NamedTuple):
    """The network of a run, by its record.

    Attributes:
        policy: its settings.
        precision: where it computes below float32.
        temperature: at which it learned in the beginning.
        critic: whether it has a value head; False where the weights tell.
    """

    policy: NetworkConfig
    precision: PrecisionConfig
    temperature: float
    critic: bool


def load_network(path: Path, trust: Trust = NO_TRUST) -> RunNetwork:
    """The network of a run of either kind; other names in its settings are not looked up.

    Args:
        path: config.json of a run of `chess-lab train` or `chess-lab pretrain`.
        trust: whether it may name a network of a user's own, and an algorithm, which decides on its critic.

    Raises:
        ValueError: it cannot be read; the message names the file.
        UntrustedError: it names a network that `trust` does not allow; nothing was imported then.
    """
    values = read_settings(path)
    with _reading(path):
        policy = build(NetworkConfig, values.get("policy", {}), "policy")
        precision = build(PrecisionConfig, values.get("precision", {}), "precision")
        temperature = _temperature(values)
        if not policy.is_custom:
            return RunNetwork(policy, precision, temperature, critic=False)
        needed = ("policy.network", ALGORITHM)
        names = [name for name in foreign_names(values) if name.setting in needed]
        require_trust(path, names, trust)
        pretrained = values.get("loop") == PRETRAIN
        critic = not pretrained and from_dict(values).algorithm.needs().critic is not None
        return RunNetwork(policy, precision, temperature, critic)


def load_temperature(path: Path) -> float:
    """The temperature at which a run of either kind began to learn; no name in its settings is looked up.

    Raises:
        ValueError: it cannot be read; the message names the file.
    """
    values = read_settings(path)
    with _reading(path):
        return _temperature(values)


def _temperature(values: dict[str, Any]) -> float:
    if values.get("loop") == PRETRAIN:
        return float(values["temperature"])
    rollout: RolloutConfig = build(RolloutConfig, values.get("rollout", {}), "rollout")
    return rollout.temperature


def differences(old: TrainConfig, new: TrainConfig) -> dict[str, tuple[Any, Any]]:
    """{"env.cache": (old value, new value), ...} for every field that differs."""
    return _differences(to_dict(old), to_dict(new), "")


def _differences(old: Any, new: Any, prefix: str) -> dict[str, tuple[Any, Any]]:
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return {} if old == new else {prefix: (old, new)}
    found: dict[str, tuple[Any, Any]] = {}
    for key in sorted(set(old) | set(new)):
        name = f"{prefix}.{key}" if prefix else key
        found.update(_differences(old.get(key), new.get(key), name))
    return found


def check_resumable(old: TrainConfig, new: TrainConfig) -> None:
    """Raises ValueError where `new` differs from the run's own settings in more than it may."""
    refuse_changes(to_dict(old), to_dict(new), RESUME_MAY_CHANGE)


def refuse_changes(old: dict[str, Any], new: dict[str, Any], may_change: frozenset[str]) -> None:
    """Raises ValueError where nested JSON values differ beyond the fields of `may_change`."""
    found = _differences(old, new, "")
    refused = {k: v for k, v in found.items() if k not in may_change}
    if refused:
        listed = ", ".join(f"{k} {shown(was)} -> {shown(now)}" for k, (was, now) in refused.items())
        raise ValueError(
            f"a continued run keeps its settings, but {listed}: leave them out, or start a new run"
        )
