"""A second real client: Debian's `polyglot` translates for a GUI that speaks xboard's protocol."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path

import chess
import chess.engine
import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.slow, pytest.mark.polyglot]


def polyglot_command(run_dir: Path, log: Path) -> list[str]:
    """What a GUI would be told to run."""
    path = shutil.which("polyglot", path=f"{os.environ['PATH']}:/usr/games")
    assert path, "polyglot is not installed: apt-get install polyglot"
    uci = f"{shlex.quote(sys.executable)} -m algorithms.cli uci {shlex.quote(str(run_dir))}"
    options = ["-uci", "Seed=3", "-uci", "MultiPV=3"]
    return [path, "-noini", "-ec", uci, "-log", "true", "-lf", str(log), *options]


def test_polyglot_plays_a_game_with_the_engine_and_understands_every_line(
    run_dir: Path, tmp_path: Path
) -> None:
    log = tmp_path / "polyglot.log"
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HOME": str(tmp_path)}
    rng = np.random.default_rng(0)
    board, game = chess.Board(), object()
    with chess.engine.SimpleEngine.popen_xboard(
        polyglot_command(run_dir, log), cwd=ROOT, env=environment, timeout=60.0
    ) as client:
        assert client.id["name"] == "chess-lab small"
        assert (client.options["Temperature"].default, client.options["Temperature"].max) == (
            0,
            1000,
        )
        client.configure({"Temperature": 50, "TopK": 5})
        limit = chess.engine.Limit(white_clock=300, black_clock=300, white_inc=1, black_inc=1)
        while board.ply() < 40 and not board.is_game_over(claim_draw=True):
            if board.turn == chess.WHITE:
                move = list(board.legal_moves)[rng.integers(board.legal_moves.count())]
            else:
                result = client.play(board, limit, game=game)
                assert result.move is not None
                move = result.move
            assert move in board.legal_moves
            board.push(move)
        client.quit()
    written = log.read_text()
    assert "setoption name Temperature value 50" in written
    assert "info string limits are ignored" in written
    assert "Child exited with status 0" in written
    moves = written.count("Engine->Adapter: bestmove")
    assert moves == board.ply() // 2
    assert written.count("Adapter->GUI: move ") == moves
