from __future__ import annotations

import re
import warnings
from pathlib import Path

import numpy as np
import pytest

import chess_env.evaluators as evaluators
from chess_env.evaluators import (
    EngineError,
    RuleAwareEvaluator,
    make_evaluator,
    pack_positions,
)
from chess_env.rules import rules

START = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1"
MATED = "rnb1kbnr/pppp1ppp/8/4p3/6Pq/5P2/PPPPP2P/RNBQKBNR w KQkq - 1 3"
STALEMATE = "7k/5Q2/6K1/8/8/8/8/8 b - - 0 1"
BARE_KINGS = "8/8/4k3/8/8/3K4/8/8 w - - 0 1"


class Counting(RuleAwareEvaluator):
    """Scores a position by the low bits of its hash and remembers what it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[np.ndarray] = []

    @property
    def id(self) -> str:
        return "counting-v1"

    def _score_ongoing(self, positions: np.ndarray) -> np.ndarray:
        self.asked.append(positions)
        return (rules.hash_batch(positions) % np.uint64(997)).astype(np.int32)


def test_rule_endings_are_decided_and_equal_positions_asked_once() -> None:
    evaluator = Counting()
    later = START.replace("0 1", "7 30")
    scores = evaluator.evaluate([START, MATED, later, STALEMATE, BARE_KINGS, START])
    assert scores[[1, 3, 4]].tolist() == [-10_000, 0, 0]
    assert scores[0] == scores[2] == scores[5]
    assert [len(asked) for asked in evaluator.asked] == [1]
    assert evaluator.counters() == {"queries": 6, "unique_queries": 1}


@pytest.mark.parametrize(
    ("positions", "error", "expected"),
    [
        (START, TypeError, "one string"),
        ([START, 7], TypeError, r"positions\[1\] is a int"),
        ([START, "8/8/8/8/8/8/8/8 w - - 0 1"], ValueError, r"positions\[1\]"),
        (np.zeros((2, 8), np.int64), ValueError, "int64"),
        (np.zeros(8, np.uint64), ValueError, r"position\[None\]"),
        (np.zeros((2, 8), np.uint64), ValueError, r"positions\[0\] is no packed chess position"),
    ],
)
def test_what_is_no_position_is_refused_by_index(
    positions: object, error: type[Exception], expected: str
) -> None:
    with pytest.raises(error, match=expected):
        pack_positions(positions)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("stokfish", "'stokfish' is unknown"),
        ("builtin:nodes=4", "unknown setting nodes, which is one of Stockfish; expected depth"),
        ("builtin:depth=4", "depth is 4: expected 0 to 3 .*stockfish:depth=8"),
        ("stockfish:deep=4", "unknown setting 'deep=4'"),
        ("stockfish:depth", "unknown setting 'depth'"),
        ("stockfish:depth=4,dept=5", "unknown setting 'dept=5'.*in quotes.*STOCKFISH_PATH"),
        ("stockfish:dept=5,depth=4", "unknown setting 'dept=5,depth=4'"),
        ("stockfish:depth=4 nodes=5", "depth is '4 nodes=5', expected a number"),
        ("stockfish:depth=four", "depth is 'four', expected a number"),
        ("stockfish:pure=maybe", "expected True or False"),
        ("stockfish:depth=4,depth=5", "twice"),
        ("stockfish:depth=-1", "depth=-1"),
    ],
)
def test_a_wrong_evaluator_name_says_what_is_expected(name: str, expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        make_evaluator(name)


def test_a_missing_engine_is_an_error_only_when_it_was_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(evaluators, "find_stockfish", lambda path=None: None)
    monkeypatch.setattr(evaluators.stockfish, "find_stockfish", lambda path=None: None)
    monkeypatch.setattr(evaluators, "_said", set())
    with pytest.raises(EngineError, match=r"No Stockfish found.*apt-get install stockfish"):
        make_evaluator("stockfish")
    with pytest.warns(
        UserWarning,
        match=r"No Stockfish found: the built-in evaluator scores \(see chess-lab check\)",
    ):
        assert make_evaluator("auto").id == "builtin-v2"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert make_evaluator("auto").id == "builtin-v2", "said once"


@pytest.mark.parametrize(
    ("folder", "form"),
    [
        ("a,b c", "stockfish:depth=4,path={}"),
        ("my engine, v=1", "stockfish:path={},depth=4"),
        ("my engine, v=1", 'stockfish:path="{}", depth=4'),
        ("it's 1, depth=4", 'ray:stockfish:nodes=9,path="{}"'),
        ('say "a", hash_mb=4', "stockfish:path='{}'"),
    ],
)
def test_a_path_with_separators_is_understood(folder: str, form: str) -> None:
    path = f"/x/{folder}/stockfish"
    text = form.format(path).removeprefix("ray:").partition(":")[2]
    assert evaluators._parse_settings(form, text)["path"] == path
    if not form.startswith("ray:"):
        with pytest.raises(EngineError, match=re.escape(path)):
            make_evaluator(form.format(path))


@pytest.mark.stockfish
def test_a_name_makes_the_evaluator_it_describes(tmp_path: Path) -> None:
    with make_evaluator("stockfish:nodes=50,pure=False", num_engines=1) as evaluator:  # type: ignore[attr-defined]
        assert evaluator.id.endswith(";nodes=50;fast;builtin=0.4;v2")
    with make_evaluator("auto", num_engines=1, cache=tmp_path / "s.sqlite") as evaluator:  # type: ignore[attr-defined]
        assert evaluator.id.startswith("stockfish") and (tmp_path / "s.sqlite").exists()
