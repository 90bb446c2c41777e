"""The settings of a run as options of the command line, read from the dataclasses of its configuration."""

from __future__ import annotations

import argparse
import functools
import typing
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from algorithms.commands.parser import Parser, flags_ending_in, one_of, whole
from algorithms.config.changes import Config, Setting, changed, kinds_of, settings_of
from algorithms.config.foreign import ALGORITHM, LEADING_OUT, Trust
from algorithms.run_folder.terminal import complain

LABELS = ("preset", "cause")
"""Settings that say where a run comes from: the command line does not set them."""
WITHOUT_SECTION = ("labels",)
"""Sections that flags leave out."""


class RunOption(NamedTuple):
    """A setting and what sets it on the command line.

    Attributes:
        flag: such as "--env.evaluator"; that of a switch that is on turns it off.
        section: the flag's part before the dot; empty for the run's own.
        setting: what is set.
    """

    flag: str
    section: str
    setting: Setting


def options_of(config: Any) -> list[RunOption]:
    """The options of a run, in the order of its settings."""
    return [_option(each) for each in settings_of(config) if each.name not in LABELS]


def _option(setting: Setting) -> RunOption:
    section = setting.name.rpartition(".")[0]
    section = "" if section in WITHOUT_SECTION else section.replace("_", "-")
    # A switch that is on has only the flag that turns it off.
    name = ("no-" if setting.value is True else "") + setting.field.replace("_", "-")
    return RunOption(f"--{section}.{name}" if section else f"--{name}", section, setting)


def add_settings(
    parser: argparse.ArgumentParser,
    configs: Iterable[Any],
    shown: Sequence[str] | None = None,
) -> None:
    """Adds an option for every setting; a parsed namespace has those that were given, by their dotted names.

    Args:
        parser: of the command.
        configs: runs, with the defaults that the help names; the first that has a setting decides.
        shown: the settings that the help shows, in this order; None: all.
    """
    options = {each.flag: each for config in reversed([*configs]) for each in options_of(config)}
    groups = {"": parser.add_argument_group("settings")}
    first = list(shown or ())
    for flag, section, setting in sorted(
        options.values(),
        key=lambda o: first.index(o.setting.name) if o.setting.name in first else len(first),
    ):
        told = argparse.SUPPRESS
        if shown is None or setting.name in shown:
            told = help_of(setting).replace("%", "%%")
        section = section if shown is None else ""
        if section not in groups:
            groups[section] = parser.add_argument_group(f"settings of {section}")
        groups[section].add_argument(
            flag, dest=setting.name, default=argparse.SUPPRESS, help=told, **_read_as(setting)
        )


def help_of(setting: Setting) -> str:
    """What a setting does, and its value where it is not given."""
    # mypy takes a class for something that has no hash.
    text = descriptions(type(setting.owner)).get(setting.field, "")  # type: ignore[arg-type]
    value = setting.value
    if isinstance(value, bool):
        return negated(text) if value else text
    listed = " ".join(map(str, value)) if isinstance(value, tuple) else str(value)
    return text if value is None or not listed else f"{text.rstrip('.')} (default: {listed})"


def negated(text: str) -> str:
    """The help of `--no-X`, from the help of X."""
    return f"turn this off: {text}"


@functools.cache
def descriptions(record: type) -> dict[str, str]:
    """What each field of a dataclass does, from the Attributes sections of its docstring and its bases'."""
    import docstring_parser

    parsed = [docstring_parser.parse(base.__doc__ or "") for base in reversed(record.__mro__)]
    return {
        p.arg_name: " ".join((p.description or "").split()) for each in parsed for p in each.params
    }


def _read_as(setting: Setting) -> dict[str, Any]:
    """How argparse reads the words behind a setting's flag."""
    kinds = kinds_of(setting.hint)
    if kinds == [bool]:
        return {"action": "store_const", "const": not setting.value}
    if len(kinds) == 1 and typing.get_origin(kinds[0]) is tuple:
        inside = typing.get_args(kinds[0])
        count: Any = "*" if inside[1:] == (Ellipsis,) else len(inside)
        # argparse makes a list; `given` makes it a tuple again.
        return {"nargs": count, "type": _reader(kinds_of(inside[0])), "metavar": "VALUE"}
    names = _names(kinds)
    if names:
        named = one_of(list(names))
        written = "{" + ",".join(names) + "}"
        return {
            "type": lambda text: names[named(text)], "choices": list(names.values()), "metavar": written,
        }  # fmt: skip
    written = "|".join(_METAVARS.get(kind, "VALUE") for kind in kinds)
    return {"type": _reader(kinds), "metavar": written}


_METAVARS = {int: "N", float: "X", Path: "PATH", str: "TEXT", type(None): "None"}


def _names(kinds: Sequence[Any]) -> dict[str, Any]:
    """{name: value} of a field that has named choices, or is on, off or neither; empty for others."""
    named = [
        v for kind in kinds if typing.get_origin(kind) is Literal for v in typing.get_args(kind)
    ]
    named += [True, False] if bool in kinds else []
    return {
        str(value): value for value in [*named, *([None] if named and type(None) in kinds else [])]
    }


def _reader(kinds: Sequence[Any]) -> Callable[[str], Any]:
    """What makes a value of one of these types from a text."""

    def read(text: str) -> Any:
        if type(None) in kinds and text.casefold() == "none":
            return None
        for kind, make in ((int, whole), (float, float), (Path, Path), (str, str)):
            try:
                if kind in kinds:
                    return make(text)
            except (ValueError, argparse.ArgumentTypeError) as error:
                failed = error
        if int in kinds:
            raise failed
        if float in kinds:
            raise argparse.ArgumentTypeError(f"{text!r} is no number")
        raise argparse.ArgumentTypeError(f"a setting of type {kinds[0]} can only be set in Python")

    return read


def given(parser: Parser, words: Sequence[str], config: Any) -> dict[str, Any]:
    """{dotted name: value} of the settings on the command line.

    Raises:
        SystemExit: of code 2, after an error that is printed.
    """
    found = vars(parser.parse_args(words))
    names = [each.setting.name for each in options_of(config)]
    values = {name: found[name] for name in names if name in found}
    return {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}


def with_settings(config: Config, settings: dict[str, Any], *, command: str) -> Config:
    """The run with these settings in place of its own.

    Args:
        config: the run.
        settings: what `given` found.
        command: what an error calls the command.

    Raises:
        SystemExit: of code 2, after an error that is printed.
    """
    try:
        return changed(config, settings)
    except ValueError as error:
        complain(command, error)
        raise SystemExit(2) from None  # the parser's own code for a line that makes no sense


def trust_in(words: Sequence[str], name: str | None, *, everything: bool) -> Trust:
    """The names that a folder's configuration may use, by the command line that opens it.

    A setting that is given here replaces the folder's, and `module:Name` in front replaces its algorithm.

    Args:
        words: the settings on the command line.
        name: of the algorithm, where one was given.
        everything: whether the folder is trusted.
    """
    flags = [word.partition("=")[0] for word in words if word.startswith("--")]
    replaced = set()
    for setting in LEADING_OUT:
        whole_flag = f"--{setting.replace('_', '-')}"
        ours = [whole_flag, whole_flag.replace("--labels.", "--")]
        if setting != ALGORITHM and any(flags_ending_in(flag, ours) for flag in flags):
            replaced.add(setting)
    return Trust(everything, frozenset(replaced), name)
