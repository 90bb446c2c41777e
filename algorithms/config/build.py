"""Settings from JSON values: dataclasses, each field of the kind that its type says."""

from __future__ import annotations

import dataclasses
import sys
import typing
from collections.abc import Iterator
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union

from algorithms.core.checks import shown
from algorithms.run_folder.atomic_files import cut

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
    hints = typing.get_type_hints(cls, include_extras=True)
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
    origin, inside = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        yield from _kinds(inside[0])
    elif origin in (Union, UnionType):
        for part in inside:
            yield from _kinds(part)
    elif origin is Literal:
        yield from ((type(choice), ()) for choice in inside)
    else:
        yield origin or hint, inside


def _is_float(value: Any) -> bool:
    """Whether a number that was written without a point may stand for a float."""
    return type(value) is int and abs(value) <= sys.float_info.max
