"""Tables that come from the code: options, settings, planes, facts and step sizes."""

from __future__ import annotations

import argparse
import dataclasses
import importlib
from typing import Any

from algorithms import PRESETS
from algorithms.commands import COMMANDS, pretrain, train
from algorithms.commands.run_options import descriptions, negated, options_of
from algorithms.config.names import named_run
from algorithms.networks.settings import LEARNING_RATES
from algorithms.pretraining.config import PretrainConfig
from algorithms.regularization import RegularizerConfig
from chess_env.move_facts import MOVE_FACTS, facts_asked
from chess_env.observation import PLANES
from docs.pages.markdown import table

Titled = tuple[str, str]
"""Title of a table and the table, either of which may be empty."""


def planes() -> str:
    """The observation planes."""
    rows = [
        (str(number), f"`{plane.name}`", f"0-{plane.high}", plane.meaning)
        for number, plane in enumerate(PLANES)
    ]
    return table(["plane", "name", "range", "it says"], rows)


def facts(group: str) -> str:
    """The facts of a move of one group, in the columns that they have without other further groups."""
    usual = any(fact.group == group for fact in MOVE_FACTS)
    rows = [
        (str(column), f"`{fact.name}`", f"0-{fact.high}", fact.meaning)
        for column, fact in enumerate(facts_asked(usual or (group,)))
        if fact.group == group
    ]
    return table(["column", "name", "range", "it says"], rows)


def learning_rates() -> str:
    """The step size of each network."""
    rows = [(f"`{name}`", f"{rate:g}") for name, rate in LEARNING_RATES.items()]
    return table(["network", "step size"], rows)


def preset(name: str) -> str:
    """The settings of one preset: all of the algorithm's, and the regulariser's that are not off."""
    algorithm, regularizer = PRESETS[name]
    off = RegularizerConfig()
    rows = [_setting("algorithm", algorithm, field.name) for field in dataclasses.fields(algorithm)]
    rows += [
        _setting("regularizer", regularizer, field.name)
        for field in dataclasses.fields(regularizer)
        if getattr(regularizer, field.name) != getattr(off, field.name)
    ]
    return table(["setting", "value", "what it does"], rows, "---") if rows else "No settings."


def _setting(prefix: str, record: Any, name: str) -> tuple[str, str, str]:
    option = f"`--{prefix}.{name.replace('_', '-')}`"
    return option, f"`{getattr(record, name)}`", descriptions(type(record))[name]


def command(name: str) -> str:
    """What a command does, and command lines that show it."""
    does = COMMANDS[name]
    examples = "\n".join(importlib.import_module(f"algorithms.commands.{name}").EXAMPLES)
    return f"{does[0].upper()}{does[1:]}.\n\n```console\n{examples}\n```"


def options(name: str) -> str:
    """The tables of a command's options."""
    if name == "train":  # what each algorithm's own options do stands on its page
        tables = parsed(train.which_run()) + settings(named_run("grpo"), "algorithm")
    elif name == "pretrain":
        tables = parsed(pretrain.which_run()) + settings(PretrainConfig())
    else:
        tables = parsed(importlib.import_module(f"algorithms.commands.{name}").make_parser())
    parts = [part for title, own in tables for part in (title and f"**{title}**", own)]
    return "\n\n".join(filter(None, parts))


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
