"""Writes docs/command_line.md from the parsers and dataclasses: python docs/command_line_page.py [--check]."""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from settings_tables import descriptions

from algorithms.commands import COMMANDS
from algorithms.commands.completion import settings_of
from algorithms.config.names import named_run
from algorithms.config.run import TrainOptions
from algorithms.pretraining.config import PretrainConfig, PretrainOptions

PAGE = Path(__file__).resolve().parent / "command_line.md"

INTRO = """\
# Command line

Every command and every option. `chess-lab COMMAND --help` says the same, and `chess-lab completion` completes it in a
shell. This page is written by `python docs/command_line_page.py` from the commands themselves. A switch that is on is
listed with the flag that turns it off.
"""

TRAIN = """\
`chess-lab train NAME` takes the settings below; the value shown is that of `grpo`, other names begin with their own
([algorithms](algorithms/README.md), which also says what each algorithm's `--algorithm.` options do).
`--preset strong` (grpo alone) begins with [the settings for whole games](results.md); `--resume RUN_DIR` continues a
run, `--like RUN_DIR` begins one with another's settings.
"""


def page() -> str:
    """The text of the page."""
    parts = [INTRO]
    for name, text in COMMANDS.items():
        module = importlib.import_module(f"algorithms.commands.{name}")
        parts.append(f"## chess-lab {name}\n\n{text[0].upper()}{text[1:]}.")
        parts.append("\n".join(["```console", *module.EXAMPLES, "```"]))
        if name == "train":
            parts += [TRAIN, *settings(TrainOptions(named_run("grpo")), "algorithm")]
        elif name == "pretrain":
            parts += settings(PretrainOptions(PretrainConfig()))
        else:
            parts += parsed(module.make_parser())
    return "\n\n".join(part.rstrip() for part in parts) + "\n"


def settings(options: Any, elsewhere: str | None = None) -> list[str]:
    """A table for each section of nested dataclasses.

    Args:
        options: the dataclass.
        elsewhere: a section that is left out.
    """
    tables: dict[str, list[str]] = {}
    for sections, flag, owner, name in settings_of(options):
        section = ".".join(sections)
        if section != elsewhere:
            text = descriptions(type(owner))[name]
            tables.setdefault(section, []).append(row(flag, text, _shown(getattr(owner, name))))
    return [
        (f"**{name}**\n\n" if name else "") + "\n".join([*head("value"), *rows])
        for name, rows in tables.items()
    ]


def _shown(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "on" if value else "off"
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def parsed(parser: argparse.ArgumentParser) -> list[str]:
    """The table of a parser, and those of its subcommands."""
    subcommands: dict[str, argparse.ArgumentParser] = {}
    rows = []
    for action in parser._actions:  # argparse has no public list of them
        if isinstance(action, argparse._SubParsersAction):
            subcommands |= action.choices
        elif "--help" not in action.option_strings and action.help != argparse.SUPPRESS:
            rows.append(row(_usage(action), (action.help or "").replace("%%", "%")))
    tables = ["\n".join([*head(None), *rows])] if rows else []
    for name, own in subcommands.items():
        tables += [f"**{own.prog.removeprefix('chess-lab ')}**", *parsed(own)] if name else []
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


def head(second: str | None) -> list[str]:
    """The two lines that begin a table."""
    names = ["option", *([second] if second else []), "what it does"]
    return ["| " + " | ".join(names) + " |", "|" + " --- |" * len(names)]


def row(option: str, text: str, value: str | None = None) -> str:
    """One line of a table, with a cell for the value unless it is None."""
    cells = [f"`{option}`", " ".join(text.split()).replace("|", "\\|")]
    if value is not None:
        cells.insert(1, f"`{value}`" if value else "")
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """None; writes the page, or with --check only compares it."""
    text = page()
    if "--check" in sys.argv:
        if not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text:
            raise SystemExit("command_line.md differs: run docs/command_line_page.py")
        return
    PAGE.write_text(text, encoding="utf-8")
    print(f"written to {PAGE}")


if __name__ == "__main__":
    main()
