"""Stockfish held back by its options: its names, its label, and its moves in a game."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from algorithms.evaluation import limited_stockfish as module
from algorithms.evaluation.limited_stockfish import (
    is_limited_stockfish,
    label_of,
    limited_stockfish,
)
from chess_env.evaluators.uci import EngineError
from chess_env.matches.arena import play_match
from chess_env.positions.start_positions import make_start_positions
from tests.commands.lab import evaluate


def test_only_names_with_its_options_are_meant_and_only_uci_elo_is_a_label() -> None:
    names = ["engine:nodes=1", "engine:nodes=1,skill_level=0", "engine:uci_elo=1500,movetime_ms=9"]
    assert [is_limited_stockfish(name) for name in names] == [False, True, True]
    assert [label_of(name) for name in names] == [None, None, 1500]
    assert not is_limited_stockfish("policy:runs/uci_elo=1500")


@pytest.mark.parametrize(
    "settings",
    ["skill_level=0", "nodes=1,skill_level=0,uci_elo=1400", "nodes=1,depth=1,skill_level=0",
     "nodes=1,skill_level=-1", "nodes=1,skill_level=", "nodes=1,skill_level=0,skill_level=1",
     "nodes=1,skill_level=0@random=0.5"],
)  # fmt: skip
def test_a_name_that_is_none_is_refused_and_says_what_is_expected(settings: str) -> None:
    with pytest.raises(ValueError, match="expected one limit and either skill_level or uci_elo"):
        limited_stockfish(f"engine:{settings}")


def test_without_stockfish_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "find_stockfish", lambda: None)
    with pytest.raises(EngineError, match="no Stockfish was found: install it"):
        limited_stockfish("engine:nodes=1,skill_level=0")


@pytest.mark.stockfish
@pytest.mark.parametrize(
    ("settings", "message"),
    [("skill_level=21", "to be at most 20, got: 21"), ("uci_elo=9", "to be at least 1.*, got: 9")],
)
def test_a_value_that_stockfish_does_not_take_is_named(settings: str, message: str) -> None:
    with pytest.raises(EngineError, match=message):
        limited_stockfish(f"engine:nodes=1,{settings}")


@pytest.mark.stockfish
def test_skill_0_loses_to_stockfish_that_is_not_held_back() -> None:
    weak, full = limited_stockfish("engine:nodes=200,skill_level=0"), None
    try:
        full = limited_stockfish("engine:nodes=200,skill_level=20")
        match = play_match(
            weak, full, openings=make_start_positions("openings"), pairs=2, seed=0, max_plies=200
        )
    finally:
        weak.close()
        if full is not None:
            full.close()
    assert np.mean(match.pair_points()) < 1
    assert match.first.startswith("Stockfish") and match.first.endswith("skill_level=0)")


@pytest.mark.stockfish
def test_a_rating_over_two_opponents_is_said_with_its_scale(run_dir: Path, tmp_path: Path) -> None:
    names = [f"engine:nodes=1,uci_elo={elo}" for elo in (1350, 1500)]
    file = tmp_path / "found.json"
    said = evaluate(run_dir, "--games", 2, "--opponents", "random", *names, "--json", file)
    assert said.code == 0
    assert "Elo by 4 games against players with uci_elo: " in said.out
    assert "not to people" in " ".join(said.out.split())
    # The first line names the policy, whose path may be long.
    assert max(map(len, said.out.splitlines()[1:])) <= 80
    found = json.loads(file.read_text())
    assert found["joint_elo"]["pairs"] == 2 and "UCI_Elo" in found["joint_elo"]["scale"]
