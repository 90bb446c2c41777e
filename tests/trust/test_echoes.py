"""What is said of a stranger's file repeats at most 200 characters of it in one place."""

from __future__ import annotations

import itertools
import json
import random
import string
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from algorithms import PRESETS
from algorithms.config.files import load, to_dict
from algorithms.config.foreign import NO_TRUST, ForeignName, Trust, require_trust
from algorithms.config.run import TrainConfig
from algorithms.run_folder.files import UntrustedError
from tests.commands.lab import Answer, chess_lab
from tests.trust.stranger import Stranger

LONGEST = 200


def long_text(length: int = 900) -> str:
    """Letters in which no piece occurs twice."""
    return "".join(random.Random(0).choices(string.ascii_letters, k=length))


def longest_echo(text: str, said: str) -> int:
    """Characters of the longest piece of `text` in what was said."""
    said = said.replace("\n", "")
    starts = (said.find(text[at : at + 20]) for at in range(len(text) - 19))
    found = [(at, place) for at, place in enumerate(starts) if place >= 0]
    best = 0
    for at, place in found:
        pairs = zip(text[at:], said[place:], strict=False)
        best = max(
            best, sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
        )
    return best


def settings(values: dict[str, Any], prefix: str = "") -> Iterator[str]:
    """Dotted names of all settings."""
    for name, value in values.items():
        if isinstance(value, dict):
            yield from settings(value, f"{prefix}{name}.")
        else:
            yield prefix + name


TEXTS = ("env.evaluator", "env.reward", "env.start_positions", "env.opponent", "match.opponents",
         "policy.network", "algorithm.name", "regularizer.terms", "device")  # fmt: skip


def brief(answer: Answer, text: str) -> bool:
    said = answer.err + answer.out
    return longest_echo(text, said) <= LONGEST and "Traceback" not in said


def test_an_echo_is_measured() -> None:
    text = long_text()
    assert longest_echo(text, f"x {text[100:350]} y") == 250
    assert longest_echo(text, f"x {text[100:350]}... {text[:30]} y") == 250


def test_a_text_where_a_number_belongs_is_named_and_cut(stranger: Stranger) -> None:
    text, path = long_text(), stranger.folder / "config.json"
    kept, values = path.read_text(), to_dict(TrainConfig(*PRESETS["grpo"]))
    read = []
    for setting in settings(values):
        stranger.says(setting, text)
        try:
            load(path, Trust(everything=True))
            read.append(setting)
        except ValueError as error:
            assert longest_echo(text, str(error)) <= LONGEST
            assert any(part in str(error) for part in setting.split("."))
        path.write_text(kept)
    assert {*read} == {"env.evaluator", "env.reward", "env.start_positions", "env.opponent",
                       "env.cache", "preset", "cause", "init_from", "run_dir"}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("setting", TEXTS)
def test_a_long_text_in_a_setting_is_cut(stranger: Stranger, setting: str) -> None:
    several = setting in ("match.opponents", "regularizer.terms")
    for text in (
        long_text(),
        f"fens:{long_text()}",
        f"{long_text()}:X",
        f"stockfish:{long_text()}",
    ):
        stranger.says(setting, [text] if several else text)
        answer = chess_lab("train", "--resume", stranger.folder, "--total-moves", "32", "--trust")
        assert answer.code == 1 and brief(answer, text), answer.err


@pytest.mark.slow
@pytest.mark.parametrize("setting", ["env.cache", "preset", "cause", "init_from", "run_dir"])
def test_a_long_text_that_is_a_path_or_a_label_is_cut(stranger: Stranger, setting: str) -> None:
    stranger.says(setting, long_text())
    assert brief(chess_lab("train", "--like", stranger.folder, "--smoke", "--trust"), long_text())


def test_of_many_names_from_outside_ten_are_listed() -> None:
    names = [ForeignName("match.opponents", f"module_{i}:Name", "imports") for i in range(1000)]
    with pytest.raises(UntrustedError, match="and 990 more names") as refused:
        require_trust(Path("config.json"), names, NO_TRUST)
    assert "module_9:Name" in str(refused.value) and len(str(refused.value)) < 1000


def test_unknown_names_and_rows_are_cut(stranger: Stranger) -> None:
    text, path = long_text(199), stranger.folder / "config.json"
    kept = json.loads(path.read_text())
    path.write_text(json.dumps({**kept, **{f"{text[i:]}": 1 for i in range(50)}}))
    answer = chess_lab("train", "--resume", stranger.folder)
    assert answer.code == 1 and len(answer.err) < 1_000
    path.write_text(json.dumps(kept))
    record = stranger.folder / "metrics.jsonl"
    for row in (long_text(), json.dumps(long_text()), json.dumps({long_text(199): long_text()})):
        record.write_text(f"{row}\n")
        for command in ("report", "diagnose"):
            answer = chess_lab(command, stranger.folder)
            assert answer.code != 0 and brief(answer, long_text()), answer.err
