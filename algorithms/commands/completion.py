"""`chess-lab completion`: a script that completes commands, names and flags in a shell.

The words are gathered from the commands' parsers, once, when the script is printed.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Mapping, Sequence

from algorithms.commands import COMMANDS
from algorithms.commands.parser import Parser

EXAMPLES = (
    "source <(chess-lab completion bash)",
    "chess-lab completion zsh > ~/.zfunc/_chess-lab",
    "chess-lab completion fish > ~/.config/fish/completions/chess-lab.fish",
)
SHELLS = ("bash", "fish", "zsh")
Choices = Mapping[str, Sequence[str]]
"""The command and what its help calls an argument, or a flag -> the names that it may be."""


def run(arguments: Sequence[str]) -> int:
    """Exit code 0; prints the script."""
    import shtab

    shell = make_parser().parse_args(list(arguments)).shell
    print(shtab.complete(whole_parser(), shell=shell))
    return 0


def make_parser() -> argparse.ArgumentParser:
    """The parser of its options."""
    parser = Parser(
        prog="chess-lab completion",
        description="Prints a script that completes commands, names of algorithms and causes, and "
        "flags with their choices.",
    )
    parser.add_argument("shell", choices=SHELLS, help="whose script is printed")
    return parser


def whole_parser() -> argparse.ArgumentParser:
    """One parser that has all commands, their names and their flags."""
    from algorithms.collapse import CAUSES, COMPOSITES
    from algorithms.collapse.cause import ARCHITECTURES, SIZE_NAMES
    from algorithms.config.names import NAMES, named_run
    from algorithms.networks.build import shipped_names
    from chess_env.rewards import REWARDS

    choices: Choices = {
        "train NAME": NAMES,
        "compare NAME": NAMES,
        "eval CHECKPOINT": tuple(shipped_names()),
        "board RUN": tuple(shipped_names()),
        "uci CHECKPOINT": tuple(shipped_names()),
        "causes NAME": (*CAUSES, *COMPOSITES),
        "causes --network": tuple(ARCHITECTURES),
        "causes --size": SIZE_NAMES,
        "check --evaluator": ("auto", "builtin", "stockfish"),
        "check --reward": REWARDS,
        "train --preset": ("strong",),
    }
    parser = argparse.ArgumentParser("chess-lab")
    commands = parser.add_subparsers()
    for name, text in COMMANDS.items():
        module = importlib.import_module(f"algorithms.commands.{name}")
        if name == "train":
            # Every algorithm has settings of its own; offered are those of all.
            own = module.make_parser(*map(named_run, NAMES))
            own.add_argument("name", metavar="NAME", nargs="?")
        else:
            own = module.make_parser()
        _add_choices(own, name, choices)
        own.description = text
        commands.add_parser(name, parents=[own], add_help=False, help=text)
    return parser


def _add_choices(parser: argparse.ArgumentParser, command: str, choices: Choices) -> None:
    """Gives names to the arguments of a command that check theirs later: to know them takes torch."""
    for action in parser._actions:  # argparse has no public list of them
        if isinstance(action, argparse._SubParsersAction):
            for sub in action.choices.values():
                _add_choices(sub, command, choices)
        for called in action.option_strings or [str(action.metavar)]:
            action.choices = choices.get(f"{command} {called}", action.choices)
