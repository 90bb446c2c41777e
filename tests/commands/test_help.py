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
from algorithms.core.checks import times
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


def test_the_help_of_train_begins_with_what_people_change_most() -> None:
    for words in (["train", "--help"], ["train", "grpo", "--help"], ["train", "help"]):
        shown = chess_lab(*words).out
        settings = shown[shown.index("settings:") :]
        first = re.findall(r"^  (--\S+)", settings, re.MULTILINE)[:3]
        assert first == ["--total-moves", "--optimizer.learning-rate", "--regularizer.ent-coef"]
        assert shown[: shown.index("--optimizer.learning-rate")].count("\n") < 45


@pytest.mark.parametrize(
    "command", [["train", "grpo"], ["compare", "grpo"], ["causes"], ["report"]]
)
def test_a_wrong_option_is_answered_in_a_few_lines_without_the_usage(command: list[str]) -> None:
    code, out, err = chess_lab(*command, "--no-such-option")
    assert code == 2 and out == "" and len(err.splitlines()) <= 3
    assert "usage" not in err and "--help` lists the options." in err


def test_seeds_are_a_number_or_a_row_of_them() -> None:
    parser = module_of("compare").make_parser()
    assert parser.parse_args(["--seeds", "3"]).seeds == {"num_seeds": 3}
    assert parser.parse_args(["--seeds", "4,5,6"]).seeds == {"num_seeds": 3, "first_seed": 4}
    code, _, err = chess_lab("compare", "grpo", "--seeds", "1,3")
    assert code == 2 and "'1,3' is no row of seeds that follow each other" in err


@pytest.mark.parametrize(
    ("size", "text"), [(1.234, "1.2"), (9.96, "10"), (680.4, "680"), (12345.0, "12,345")]
)
def test_a_factor_is_written_in_plain_figures(size: float, text: str) -> None:
    assert times(size) == text
