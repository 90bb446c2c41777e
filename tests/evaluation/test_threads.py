"""How many threads the network of a match gets, and that its games do not depend on it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch

from algorithms import cli
from algorithms.evaluation.load_policy import threads_of
from tests.commands.lab import chess_lab


@pytest.fixture(autouse=True)
def same_threads_afterwards() -> Any:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def on_machine(monkeypatch: pytest.MonkeyPatch, *, cores: int, load: float) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)), raising=False)
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 0.0, 0.0))


@pytest.mark.parametrize(
    ("cores", "load", "threads"),
    [(2, 0.0, 2), (2, 0.4, 2), (2, 1.1, 1), (2, 9.0, 1), (16, 3.2, 13), (1, 0.0, 1)],
)
def test_a_match_takes_the_cores_that_others_leave_idle(
    monkeypatch: pytest.MonkeyPatch, cores: int, load: float, threads: int
) -> None:
    on_machine(monkeypatch, cores=cores, load=load)
    assert threads_of(None) == threads


def test_threads_that_are_asked_for_are_taken_whatever_the_load(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    on_machine(monkeypatch, cores=2, load=5.0)
    assert threads_of(3) == 3


@pytest.mark.parametrize("what", [("--games", "2"), ("--positions",)])
def test_no_thread_at_all_is_an_error_that_names_the_option(what: tuple[str, ...]) -> None:
    code, _, err = chess_lab("eval", "warm", *what, "--num-threads", "0")
    assert code == 1 and "--num-threads is 0: expected at least 1" in err


def test_games_are_the_same_with_one_thread_and_with_two(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chess_env.matches.arena.MATCH_PLIES", 4)
    found = []
    for threads in (1, 2):
        games = tmp_path / f"{threads}.pgn"
        files = ["--pgn", str(games), "--json", str(tmp_path / f"{threads}.json")]
        opponents = ["--opponents", "random", "--games", "40"]
        assert cli.main(["eval", "warm", *opponents, *files, "--num-threads", str(threads)]) == 0
        figures = json.loads((tmp_path / f"{threads}.json").read_text())
        found.append((games.read_text(), figures))
        assert torch.get_num_threads() == threads
    assert found[0] == found[1]
