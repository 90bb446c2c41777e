"""`chess-lab completion`: a script that completes commands, names and flags in a shell.

The words are gathered from the parsers and dataclasses themselves, once, when the script is printed.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import typing
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from algorithms.commands import COMMANDS
from algorithms.commands.completion_scripts import SCRIPTS, Words
from algorithms.core.messages import Parser

EXAMPLES = (
    "source <(chess-lab completion bash)",
    "chess-lab completion zsh > ~/.zfunc/_chess-lab",
    "chess-lab completion fish > ~/.config/fish/completions/chess-lab.fish",
)


def run(arguments: Sequence[str]) -> int:
    """Exit code 0; prints the script."""
    shell = make_parser().parse_args(list(arguments)).shell
    print(SCRIPTS[shell]({name: words(name, text) for name, text in COMMANDS.items()}))
    return 0


def make_parser() -> argparse.ArgumentParser:
    """The parser of its options."""
    parser = Parser(
        prog="chess-lab completion",
        description="Prints a script that completes commands, names of algorithms and causes, and "
        "flags with their choices.",
    )
    parser.add_argument("shell", choices=sorted(SCRIPTS), help="whose script is printed")
    return parser


def words(command: str, text: str) -> Words:
    """The words that may follow a command.

    Args:
        command: its name.
        text: its description, for the shells that show one.
    """
    if command == "train":
        from algorithms.config.names import NAMES, named_run
        from algorithms.config.run import TrainOptions

        # Every algorithm has settings of its own; offered are those of all.
        flags: dict[str, tuple[str, ...]] = {"--preset": ("strong",)}
        for name in NAMES:
            flags |= setting_flags(TrainOptions(named_run(name)))
        return Words(text, NAMES, flags)
    if command == "pretrain":
        from algorithms.pretraining.config import PretrainConfig, PretrainOptions

        return Words(text, (), setting_flags(PretrainOptions(PretrainConfig())))
    module = importlib.import_module(f"algorithms.commands.{command}")
    names, flags = parser_words(module.make_parser())
    if command == "compare":
        from algorithms.config.names import NAMES

        names = NAMES
    elif command in ("board", "eval", "uci"):
        from algorithms.networks.weights import shipped_names

        names = tuple(shipped_names())
    elif command == "causes":
        from algorithms.collapse.causes import CAUSES, COMPOSITES
        from algorithms.collapse.causes.architectures import ARCHITECTURES
        from algorithms.collapse.causes.sizes import SIZE_NAMES

        flags |= {"--network": tuple(ARCHITECTURES), "--size": SIZE_NAMES}
        return Words(text, names, flags, (*CAUSES, *COMPOSITES))
    return Words(text, names, flags)


class Setting(NamedTuple):
    """A field that the command line knows.

    Attributes:
        sections: names of the dataclasses around it, but for those that the flag leaves out.
        flag: what sets it, as tyro calls it.
        owner: the dataclass that it is a field of.
        name: of the field.
    """

    sections: tuple[str, ...]
    flag: str
    owner: Any
    name: str


def setting_flags(options: Any) -> dict[str, tuple[str, ...]]:
    """{flag: its named choices} of the fields of a nested dataclass."""
    from algorithms.commands.arguments import choices_of

    return {each.flag: choices_of(each.owner, [each.name]) for each in settings_of(options)}


def settings_of(options: Any, sections: tuple[str, ...] = ()) -> Iterator[Setting]:
    """Every field of a nested dataclass that the command line knows, in its order.

    Args:
        options: the dataclass.
        sections: names of the dataclasses around it.
    """
    from tyro.conf import Suppress

    hidden = typing.get_args(Suppress[int])[1]
    hints = typing.get_type_hints(type(options), include_extras=True)
    for field in dataclasses.fields(options):
        value = getattr(options, field.name)
        marks = typing.get_args(hints[field.name])[1:]
        if hidden in marks:
            continue
        if dataclasses.is_dataclass(value):
            # tyro.conf.arg(name="") leaves the section's name out.
            unnamed = any(getattr(mark, "name", None) == "" for mark in marks)
            yield from settings_of(value, sections if unnamed else (*sections, field.name))
        else:
            # A switch that is on has only the flag that turns it off.
            name = f"no-{field.name}" if value is True else field.name
            flag = "--" + ".".join((*sections, name)).replace("_", "-")
            yield Setting(sections, flag, options, field.name)


def parser_words(
    parser: argparse.ArgumentParser,
) -> tuple[tuple[str, ...], dict[str, tuple[str, ...]]]:
    """(choices of the positional arguments, {flag: its choices}) of a parser and its subcommands."""
    names: tuple[str, ...] = ()
    flags: dict[str, tuple[str, ...]] = {}
    for action in parser._actions:  # argparse has no public list of them
        choices = tuple(map(str, action.choices or ()))
        long = (flag for flag in action.option_strings if flag.startswith("--"))
        flags |= {flag: choices for flag in long if flag != "--help"}
        names += () if action.option_strings else choices
        if isinstance(action, argparse._SubParsersAction):
            for sub in action.choices.values():
                flags |= parser_words(sub)[1]
    return names, flags
