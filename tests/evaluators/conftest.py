"""Real Stockfish, fake engines and sample positions for the tests of the evaluators."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from chess_env.evaluators import StockfishEvaluator
from chess_env.rules import fen, rules

START = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1"


@pytest.fixture(scope="session")
def positions() -> np.ndarray:
    """uint64 [120, 8]: distinct ongoing positions, 10 after each of 12 numbers of random plies."""
    rng = np.random.default_rng(7)
    boards, sample = np.repeat(fen.pack_fens([START]), 80, axis=0), []
    for ply in range(1, 37):
        ids, num_legal = rules.legal_actions_batch(boards)
        pick = (rng.random(len(boards)) * num_legal).astype(int)
        boards = rules.apply_batch(boards, ids[np.arange(len(boards)), pick])
        boards = boards[rules.status_batch(boards) == rules.ONGOING]
        if ply % 3 == 0:
            sample.append(boards[:10])
    return np.concatenate(sample)


@pytest.fixture(scope="module")
def stockfish() -> Iterator[StockfishEvaluator]:
    """A pure evaluator at depth 4 on two real engines, shared by the tests of a module."""
    with StockfishEvaluator(num_engines=2) as evaluator:
        yield evaluator


@pytest.fixture
def fake_engine(tmp_path: Path) -> Callable[[str], Path]:
    """Writes a fake engine with the given behaviour and returns its path."""
    source = Path(__file__).with_name("fake_engine.py").read_text()

    def write(behaviour: str = "good") -> Path:
        path = tmp_path / "stockfish"
        text = source.replace('BEHAVIOUR = "good"', f"BEHAVIOUR = {behaviour!r}")
        text = text.replace('MARKER = ""', f"MARKER = {str(tmp_path / 'marker')!r}")
        path.write_text(f"#!{sys.executable} -SE\n{text}")
        path.chmod(0o755)
        return path

    return write
