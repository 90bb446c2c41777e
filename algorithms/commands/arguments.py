"""The nearest name for a wrong choice on the command line, which the parser only lists."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Sequence
from typing import Any, Literal

from algorithms.core.checks import require_choice


def check_choices(arguments: Sequence[str], config: Any) -> None:
    """None; looks at every `--section.setting value` whose setting has named choices.

    Unknown flags are left to the parser, which suggests flags itself.

    Args:
        arguments: of the command line.
        config: the nested dataclass that they set.

    Raises:
        ValueError: a value is none of its setting's choices; the message names the nearest.
    """
    for position, argument in enumerate(arguments):
        if not argument.startswith("--"):
            continue
        flag, equals, value = argument.partition("=")
        if not equals:
            value = arguments[position + 1] if position + 1 < len(arguments) else ""
        choices = choices_of(config, flag[2:].replace("-", "_").split("."))
        if choices and value:
            require_choice(flag, value, choices)


def choices_of(config: Any, path: list[str]) -> tuple[str, ...]:
    """The named choices of a setting; empty where it has none, or is not there.

    Args:
        config: the nested dataclass that has it.
        path: names of the sections and of the setting in them, with underscores.
    """
    if not dataclasses.is_dataclass(config) or isinstance(config, type):
        return ()
    hints = typing.get_type_hints(type(config))
    if path[0] not in hints:
        return ()
    if len(path) > 1:
        return choices_of(getattr(config, path[0]), path[1:])
    hint = hints[path[0]]
    kinds = [hint, *typing.get_args(hint)]
    names = [name for k in kinds if typing.get_origin(k) is Literal for name in typing.get_args(k)]
    return (*map(str, names), "None") if names and type(None) in kinds else tuple(map(str, names))
