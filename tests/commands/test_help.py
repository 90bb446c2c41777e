"""Every command's help ends with examples, and every example is understood by that command."""

from __future__ import annotations

import importlib
import re
import shlex
from collections.abc import Callable
from typing import Any

import pytest

from algorithms.commands import COMMANDS
from algorithms.commands.run_options import descriptions, options_of
from algorithms.config.names import named_run
from algorithms.pretraining import loop
from algorithms.pretraining.config import PretrainConfig
from tests.commands.lab import chess_lab


def module_of(command: str):
    return importlib.import_module(f"algorithms.commands.{command}")


EXAMPLES = [
    pytest.param(command, example, id=example)
    for command in COMMANDS
    for example in module_of(command).EXAMPLES
]


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_a_command_ends_with_its_examples_within_80_columns(
    command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    code, text, _ = chess_lab(command, "--help")
    assert code == 0
    shown = text.partition("\nexamples:\n")[2].splitlines()
    assert tuple(map(str.strip, shown)) == module_of(command).EXAMPLES
    assert len(shown) in (2, 3)
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize(
    ("command", "config"),
    [
        (["train", "grpo"], named_run("grpo")),
        (["train", "ppo"], named_run("ppo")),
        (["pretrain"], PretrainConfig()),
    ],
    ids=["grpo", "ppo", "pretrain"],
)
def test_the_help_of_a_flag_that_turns_something_off_says_that(
    command: list[str], config: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    text = " ".join(chess_lab(*command, "--help-all").out.split())
    on = [each for each in options_of(config) if each.setting.value is True]
    assert len(on) >= 2 and all(re.search(r"(--|\.)no-", each.flag) for each in on)
    for flag, _, setting in on:
        what = descriptions(type(setting.owner))[setting.field]
        assert f"{flag} turn this off: {what}" in text
    assert text.count("turn this off") == len(on)


@pytest.mark.parametrize(("command", "example"), EXAMPLES)
def test_an_example_is_understood(
    command: str,
    example: str,
    monkeypatch: pytest.MonkeyPatch,
    replace_training: Callable[..., None],
) -> None:
    # What stands around the command is the shell's: `source <(...)`, `> FILE`.
    (line,) = re.findall(rf"chess-lab {command}[^()>]*", example)
    arguments = shlex.split(line)[2:]
    if command not in ("train", "pretrain"):
        parser = module_of(command).make_parser()
        parse = parser.parse_intermixed_args if command == "compare" else parser.parse_args
        assert vars(parse(arguments))
        return
    asked = []

    def no_run(config, **_):
        asked.append(config)
        raise ValueError("nothing is run here")

    replace_training(no_run)
    monkeypatch.setattr(loop, "pretrain", no_run)
    code, _, err = chess_lab(command, *arguments)
    assert code == 1 and err.startswith(f"chess-lab {command}: nothing is run here")
    assert len(asked) == 1
