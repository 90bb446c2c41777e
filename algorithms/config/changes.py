"""Settings by their dotted names, and a configuration with some of them changed."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

Config = TypeVar("Config")


class Setting(NamedTuple):
    """A field of a nested dataclass that holds a value.

    Attributes:
        name: dotted, such as "env.evaluator".
        owner: the dataclass that it is a field of.
        field: the last part of its name.
        hint: its type.
    """

    name: str
    owner: Any
    field: str
    hint: Any

    @property
    def value(self) -> Any:
        """What the field holds."""
        return getattr(self.owner, self.field)


def settings_of(config: Any, prefix: str = "") -> Iterator[Setting]:
    """Every setting of a nested dataclass, in its order; `prefix` stands before their names."""
    hints = typing.get_type_hints(type(config))
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if dataclasses.is_dataclass(value):
            yield from settings_of(value, f"{prefix}{field.name}.")
        else:
            yield Setting(prefix + field.name, config, field.name, hints[field.name])


def kinds_of(hint: Any) -> list[Any]:
    """The types that a field may hold, by its own type."""
    union = typing.get_origin(hint) in (typing.Union, types.UnionType)
    return [k for each in typing.get_args(hint) for k in kinds_of(each)] if union else [hint]


def changed(config: Config, settings: Mapping[str, Any]) -> Config:
    """The configuration with the dotted settings in place of its own.

    Raises:
        ValueError: a setting that it does not have, or a value that is refused.
    """
    nested: dict[str, dict[str, Any]] = {}
    own: dict[str, Any] = {}
    known = {field.name for field in dataclasses.fields(config)}  # type: ignore[arg-type]
    for name, value in settings.items():
        first, _, rest = name.partition(".")
        if first not in known:
            raise ValueError(f"setting is {name!r}: known here: {', '.join(sorted(known))}")
        if rest:
            nested.setdefault(first, {})[rest] = value
        else:
            own[first] = value
    own |= {name: changed(getattr(config, name), inner) for name, inner in nested.items()}
    return dataclasses.replace(config, **own)  # type: ignore[type-var]
