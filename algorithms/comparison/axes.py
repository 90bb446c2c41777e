"""The values of `--grid`: settings by their dotted names, and every combination of them."""

from __future__ import annotations

import dataclasses
import itertools
import types
import typing
from collections.abc import Sequence
from typing import Any, Literal

from algorithms.comparison.plan import Plan
from algorithms.config.run import TrainConfig
from algorithms.core.checks import require, require_choice

NOT_IN_A_GRID = ("seed", "run_dir", "preset", "cause", "track", "env.cache", "preflight")

ABSENT = object()
"""The value of a setting that a run does not have."""


def parse_axis(
    text: str, configs: Sequence[TrainConfig], plan: Plan
) -> tuple[str, tuple[Any, ...]]:
    """(dotted name, values) of "key=v1,v2"; the key may be the last part of the name alone.

    Raises:
        ValueError: there is no such setting or value, or the comparison decides it itself.
    """
    key, equals, listed = text.partition("=")
    require(
        bool(key and equals and listed),
        f"--grid is {text!r}: expected a setting and its values, such as group_size=4,8",
    )
    kinds: dict[str, Any] = {}
    for config in configs:
        kinds |= settings_of(config)
    kinds = {name: kind for name, kind in kinds.items() if name not in NOT_IN_A_GRID}
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
    values = tuple(_parsed(f"--grid {key}", value, kinds[key]) for value in listed.split(","))
    return key, values


def combinations(
    grid: Sequence[tuple[str, tuple[Any, ...]]], config: TrainConfig
) -> list[dict[str, Any]]:
    """Every combination of the grid's values, of the settings that this run has."""
    own = [(key, values) for key, values in grid if value_at(config, key) is not ABSENT]
    keys = [key for key, _ in own]
    return [
        dict(zip(keys, values, strict=True))
        for values in itertools.product(*(values for _, values in own))
    ]


def last_part(name: str) -> str:
    """The name of a setting without what it is in."""
    return name.rpartition(".")[2]


ABSENT = object()


def value_at(config: Any, name: str) -> Any:
    """The value of a dotted setting; `ABSENT` where the algorithm has no such field."""
    for part in name.split("."):
        config = getattr(config, part, ABSENT)
    return config


def settings_of(config: Any, prefix: str = "") -> dict[str, Any]:
    """{dotted name: type} of every setting that holds a single value."""
    hints = typing.get_type_hints(type(config))
    found: dict[str, Any] = {}
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if dataclasses.is_dataclass(value):
            found |= settings_of(value, f"{prefix}{field.name}.")
        elif not isinstance(value, tuple):
            found[prefix + field.name] = hints[field.name]
    return found


def _parsed(what: str, text: str, hint: Any) -> Any:
    """The value that a text means in a field of this type."""
    union = typing.get_origin(hint) in (typing.Union, types.UnionType)
    kinds = typing.get_args(hint) if union else (hint,)
    if text == "None" and type(None) in kinds:
        return None
    for kind in kinds:
        if typing.get_origin(kind) is Literal:
            require_choice(what, text, typing.get_args(kind))
            return text
    if bool in kinds:
        require_choice(what, text, ("True", "False"))
        return text == "True"
    try:
        for kind in (int, float):
            if kind in kinds:
                return kind(text)
    except ValueError:
        raise ValueError(f"{what}: {text!r} is no number; give one") from None
    return text
