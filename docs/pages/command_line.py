"""docs/command_line.md, from the parsers and the dataclasses of the commands."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Sequence
from typing import Any

from algorithms.commands import COMMANDS, pretrain, train
from algorithms.commands.run_options import descriptions, negated, options_of
from algorithms.config.names import named_run
from algorithms.pretraining.config import PretrainConfig
from docs.pages.writing.markdown import filled, table

Titled = tuple[str, str]
"""Title of a table and the table, either of which may be empty."""


def pages() -> dict[str, str]:
    """{path: text} of the page."""
    text = filled("command_line", commands=COMMANDS, examples=examples, options=options)
    return {"docs/command_line.md": text}


def examples(command: str) -> Sequence[str]:
    """Command lines that show a command."""
    found: Sequence[str] = importlib.import_module(f"algorithms.commands.{command}").EXAMPLES
    return found


def options(command: str) -> list[Titled]:
    """The tables of a command."""
    if command == "train":  # what each algorithm's own options do stands on its page
        return parsed(train.which_run()) + settings(named_run("grpo"), "algorithm")
    if command == "pretrain":
        return parsed(pretrain.which_run()) + settings(PretrainConfig())
    return parsed(importlib.import_module(f"algorithms.commands.{command}").make_parser())


def settings(record: Any, elsewhere: str | None = None) -> list[Titled]:
    """A table for each section of nested dataclasses.

    Args:
        record: the dataclass.
        elsewhere: a section that is left out.
    """
    rows: dict[str, list[tuple[str, str, str]]] = {}
    for flag, section, setting in options_of(record):
        if section != elsewhere:
            value, text = setting.value, descriptions(type(setting.owner))[setting.field]
            shown, does = _shown(value), negated(text) if value is True else text
            rows.setdefault(section, []).append((f"`{flag}`", shown and f"`{shown}`", does))
    return [(name, table(["option", "value", "what it does"], own)) for name, own in rows.items()]


def _shown(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "on" if value else "off"
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def parsed(parser: argparse.ArgumentParser, title: str = "") -> list[Titled]:
    """The table of a parser, and those of its subcommands."""
    subcommands: dict[str, argparse.ArgumentParser] = {}
    rows = []
    for action in parser._actions:  # argparse has no public list of them
        if isinstance(action, argparse._SubParsersAction):
            subcommands |= action.choices
        elif "--help" not in action.option_strings and action.help != argparse.SUPPRESS:
            rows.append((f"`{_usage(action)}`", _line((action.help or "").replace("%%", "%"))))
    own_table = table(["option", "what it does"], rows) if rows else ""
    tables = [(title, own_table)] if rows or title else []
    for own in subcommands.values():
        tables += parsed(own, own.prog.removeprefix("chess-lab "))
    return tables


def _usage(action: argparse.Action) -> str:
    named = action.option_strings[-1] if action.option_strings else ""
    if action.nargs == 0:
        return named
    value = action.metavar or (action.dest.upper() if named else action.dest)
    if action.choices is not None and action.metavar is None and len(list(action.choices)) < 6:
        value = "{" + ",".join(map(str, action.choices)) + "}"
    several = " ..." if action.nargs in ("+", "*") else ""
    return f"{named} {value}{several}".strip()


def _line(text: str) -> str:
    return " ".join(text.split())
