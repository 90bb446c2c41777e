"""Damaged inputs to every reader, a few; `make test-fuzz` gives each a hundred thousand."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.reliability.fuzz.engines import by_hypothesis
from benchmarks.reliability.fuzz.judge import Judge, Target, check_refusal
from benchmarks.reliability.fuzz.recipes import Choices, damaged
from benchmarks.reliability.fuzz.targets import TARGETS, made
from tests.commands.lab import ENV

INPUTS = 200
FOR_EVER = float("inf")


def fed(name: str, target: Target, folder: Path, inputs: int = INPUTS) -> Judge:
    judge = Judge(name, target, folder / "failures")
    by_hypothesis(judge, inputs, 0, FOR_EVER)
    return judge


@pytest.mark.parametrize("name", TARGETS)
def test_a_damaged_input_is_accepted_or_refused_as_documented(name: str, tmp_path: Path) -> None:
    judge = fed(name, made(name, tmp_path), tmp_path)
    assert judge.failures == {}
    assert judge.inputs == judge.accepted + judge.refused == INPUTS
    assert judge.accepted and judge.refused


def test_a_reader_that_fails_is_found_and_its_input_is_kept(tmp_path: Path) -> None:
    def check(data: bytes) -> str | None:
        if b"1" not in data:
            raise KeyError("a defect")
        return None if data.isascii() else "x" * 700

    judge = fed("fen", Target(check, lambda choices: damaged([b"a 1 b"], choices)), tmp_path)
    found = {path.read_bytes() for path in (tmp_path / "failures").iterdir()}
    assert {kind.split()[0] for kind in judge.failures} == {"KeyError", "AssertionError"}
    assert any(b"1" not in data for data in found) and any(not data.isascii() for data in found)
    assert sum(judge.failures.values()) + judge.accepted == INPUTS


def test_a_refusal_that_repeats_too_much_of_its_input_is_a_failure() -> None:
    text = "".join(map(chr, range(256, 506)))
    check_refusal(f"no: {text[:200]!r}...", text.encode())
    for said in (f"no: {text[:220]!r}", f"no: {ascii(text)[:220]}", "x" * 601):
        with pytest.raises(AssertionError, match="a refusal"):
            check_refusal(said, text.encode())


def test_the_same_recipe_gives_the_same_input() -> None:
    seeds = [b"one seed", b"another"]
    for recipe in (b"", b"\x02", bytes(range(2, 40)), b"\x01raw bytes"):
        assert damaged(seeds, Choices(recipe)) == damaged(seeds, Choices(recipe))
    assert damaged(seeds, Choices(b"\x01\x00raw bytes")) == b"raw bytes"
    assert damaged(seeds, Choices(b"\x00\x01")) == b"another"


def test_an_input_that_was_kept_is_fed_again(tmp_path: Path) -> None:
    kept = tmp_path / "fen-0123456789ab"
    kept.write_bytes(b"8/8/8/8/8/8/8/8 w - - 0 1")
    command = [sys.executable, "-P", "-m", "benchmarks.reliability.fuzz", "--replay", str(kept)]
    root = Path(__file__).parents[2]
    answer = subprocess.run(
        command, capture_output=True, text=True, cwd=root, env={**ENV, "PYTHONPATH": str(root)}
    )
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.startswith("refused: illegal FEN '8/8/8/8/8/8/8/8 w - - 0 1'")
