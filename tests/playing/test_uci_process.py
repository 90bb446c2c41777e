"""The engine as a GUI starts it: a process, spoken to by python-chess."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import chess
import chess.engine
import numpy as np
import pytest

from algorithms.playing.conversation import SEED, TEMPERATURE, TOP_K
from tests.commands.lab import unwrapped

ROOT = Path(__file__).parents[2]
ENV = {**os.environ, "OMP_NUM_THREADS": "1"}
START_S = 120.0


def command(source: object) -> list[str]:
    return [sys.executable, "-m", "algorithms.cli", "uci", str(source)]


def twenty_plies(engine: chess.engine.SimpleEngine, *, temperature: int | None) -> list[str]:
    """Twenty plies of the engine against itself; with None, of an engine whose options nobody has set."""
    board, game = chess.Board(), object()
    options = {} if temperature is None else {TEMPERATURE.name: temperature}
    while board.ply() < 20 and not board.is_game_over():
        result = engine.play(
            board,
            chess.engine.Limit(nodes=1),
            game=game,
            info=chess.engine.INFO_ALL,
            options=options,
        )
        if not temperature:
            assert ", rank 1 of " in result.info["string"]
        board.push(result.move)
    return [move.uci() for move in board.move_stack]


@pytest.fixture(scope="module")
def process(run_dir: Path) -> Iterator[chess.engine.SimpleEngine]:
    with chess.engine.SimpleEngine.popen_uci(
        command(run_dir), cwd=ROOT, env=ENV, timeout=START_S
    ) as started:
        yield started


@pytest.fixture(scope="module")
def untouched(process: chess.engine.SimpleEngine) -> list[list[str]]:
    """Two games of the engine before any test has set an option."""
    return [twenty_plies(process, temperature=None) for _ in range(2)]


@pytest.fixture(scope="module")
def engine(
    process: chess.engine.SimpleEngine, untouched: list[list[str]]
) -> chess.engine.SimpleEngine:
    return process


def started(source: object, *, env: dict[str, str]) -> subprocess.Popen[bytes]:
    # A shell ignores SIGINT in what it runs in the background, and a child inherits that.
    return subprocess.Popen(
        command(source),
        cwd=ROOT,
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def said_after(process: subprocess.Popen[bytes], lines: bytes, last: bytes) -> None:
    """Sends `lines` and waits until `last` was said."""
    process.stdin.write(lines)
    process.stdin.flush()
    assert last in iter(process.stdout.readline, b"")


def random_options(rng: np.random.Generator) -> dict[str, int]:
    return {
        TEMPERATURE.name: int(rng.choice([0, 1, 30, 100, 1000])),
        TOP_K.name: int(rng.choice([0, 1, 2, 218])),
        SEED.name: int(rng.choice([-1, 0, 1, 2**31 - 1])),
    }


def random_limit(rng: np.random.Generator) -> chess.engine.Limit:
    limits = [
        chess.engine.Limit(depth=1 + int(rng.integers(40))),
        chess.engine.Limit(nodes=1),
        chess.engine.Limit(time=0.001),
        chess.engine.Limit(mate=3),
        chess.engine.Limit(white_clock=60, black_clock=60, white_inc=1, black_inc=1),
    ]
    return limits[rng.integers(len(limits))]


def stopped(
    engine: chess.engine.SimpleEngine, board: chess.Board, rng: np.random.Generator
) -> chess.Move:
    """The move of an endless analysis that is stopped at once, or a little later."""
    shown = int(rng.integers(1, 5))
    with engine.analysis(board, multipv=shown, info=chess.engine.INFO_ALL) as analysis:
        if rng.random() < 0.5:
            time.sleep(rng.random() * 0.02)
        analysis.stop()
        best = analysis.wait().move
    lines = [line for line in analysis.multipv if "pv" in line]
    assert len(lines) == min(shown, board.legal_moves.count())
    assert all(line["pv"][0] in board.legal_moves for line in lines)
    assert all("score" in line for line in lines)
    return best


def play_game(
    engine: chess.engine.SimpleEngine, rng: np.random.Generator, max_plies: int
) -> chess.Board:
    """A game of the engine against itself and, one move in four, chance; python-chess checks every move."""
    board, game = chess.Board(), object()
    while not board.is_game_over(claim_draw=True) and board.ply() < max_plies:
        kind = rng.random()
        if kind < 0.25:
            move = list(board.legal_moves)[rng.integers(board.legal_moves.count())]
        elif kind < 0.5:
            move = stopped(engine, board, rng)
        else:
            result = engine.play(
                board, random_limit(rng), game=game, info=chess.engine.INFO_ALL,
                options=random_options(rng), ponder=bool(rng.integers(2)),
            )  # fmt: skip
            move = result.move
            assert result.info["pv"] == [move]
            assert result.info["string"].startswith("p=")
        assert move in board.legal_moves
        board.push(move)
    return board


def test_python_chess_plays_games_with_random_options_and_abrupt_stops(
    engine: chess.engine.SimpleEngine, caplog: pytest.LogCaptureFixture
) -> None:
    rng = np.random.default_rng(0)
    boards = [play_game(engine, rng, max_plies=40) for _ in range(2)]
    assert all(board.ply() == 40 or board.is_game_over(claim_draw=True) for board in boards)
    assert caplog.records == []  # python-chess logs every line that it does not understand


@pytest.mark.slow
def test_python_chess_plays_whole_games(
    engine: chess.engine.SimpleEngine, caplog: pytest.LogCaptureFixture
) -> None:
    rng = np.random.default_rng(1)
    for _ in range(3):
        board = play_game(engine, rng, max_plies=100_000)
        assert board.is_game_over(claim_draw=True)
    assert caplog.records == []


def test_without_options_the_same_game_is_played_every_time_by_the_most_probable_moves(
    engine: chess.engine.SimpleEngine, untouched: list[list[str]]
) -> None:
    assert untouched[0] == untouched[1] == twenty_plies(engine, temperature=0)
    assert untouched[0] != twenty_plies(engine, temperature=100)


def test_python_chess_takes_none_for_no_move(engine: chess.engine.SimpleEngine) -> None:
    mated = chess.Board("7k/6Q1/6K1/8/8/8/8/8 b - - 0 1")
    assert engine.play(mated, chess.engine.Limit(depth=1)).move is None


def test_an_engine_that_is_still_loading_leaves_without_a_crash(run_dir: Path) -> None:
    done = subprocess.run(
        command(run_dir), cwd=ROOT, env=ENV, input=b"uci\n", capture_output=True, timeout=START_S
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.endswith(b"uciok\n")


@pytest.mark.parametrize(
    ("source", "given", "message"),
    [
        ("example", b"", "the input ended before any command: give `chess-lab uci CHECKPOINT` to"),
        ("example", None, "standard input or output is closed: give `chess-lab uci CHECKPOINT`"),
        ("nowhere", b"uci\n", "'nowhere' cannot be read"),
    ],
)
def test_an_engine_that_nobody_can_speak_to_says_so_and_fails(
    source: str, given: bytes | None, message: str
) -> None:
    closed = (lambda: os.close(0)) if given is None else None
    done = subprocess.run(
        command(source), cwd=ROOT, env=ENV, input=given, capture_output=True, timeout=START_S,
        preexec_fn=closed,
    )  # fmt: skip
    assert done.returncode == 1
    said = unwrapped(done.stderr.decode())
    assert said.startswith(f"chess-lab uci: {message}") and said.count("\n") == 1


@pytest.mark.slow
def test_moves_that_a_pipe_asks_for_are_given_before_the_end() -> None:
    given = (
        b"\xef\xbb\xbfuci\r\nisready\r\nposition startpos moves e2e4\r\ngo depth 1\r\ngo infinite"
    )
    done = subprocess.run(
        command("warm"), cwd=ROOT, env=ENV, input=given, capture_output=True, timeout=START_S
    )
    said = done.stdout.decode().splitlines()
    assert done.returncode == 0
    assert [line.split()[0] for line in said].count("bestmove") == 2
    assert said.index("uciok") < said.index("readyok") < len(said) - 1
    assert said[-1].startswith("bestmove ")


@pytest.mark.slow
def test_the_first_move_takes_no_longer_than_the_others_and_ctrl_c_ends_the_engine_quietly() -> (
    None
):
    process = started("warm", env=ENV)
    said_after(process, b"isready\n", b"readyok\n")
    took = []
    for moves in ("e2e4", "e2e4 e7e5", "e2e4 e7e5 g1f3"):
        began = time.monotonic()
        process.stdin.write(f"position startpos moves {moves}\ngo wtime 1000\n".encode())
        process.stdin.flush()
        assert any(line.startswith(b"bestmove") for line in iter(process.stdout.readline, b""))
        took.append(time.monotonic() - began)
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 130
    assert process.stderr.read() == b""
    assert took[0] < 0.25 + 5 * max(took[1:])  # it took .25 to 2.6 s where later ones took 2 ms


@pytest.mark.parametrize("last", [b"quit\n", b""])
def test_an_engine_whose_imports_take_long_exits_soon_after_the_last_line(
    last: bytes, run_dir: Path, tmp_path: Path
) -> None:
    (tmp_path / "chess.py").write_text("import time\ntime.sleep(60)\n")
    env = {**ENV, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ENV.get('PYTHONPATH', '')}"}
    process = started(run_dir, env=env)
    said_after(process, b"uci\nposition startpos\n", b"uciok\n")
    began = time.monotonic()
    process.stdin.write(last)
    process.stdin.close()
    assert process.wait(30) == 0
    assert time.monotonic() - began < 2.0  # a second, and what a busy machine adds


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_engine_quietly_while_it_loads(
    number: signal.Signals, code: int, run_dir: Path
) -> None:
    process = started(run_dir, env=ENV)
    said_after(process, b"uci\n", b"uciok\n")
    process.send_signal(number)
    assert process.wait(30) == code
    assert process.stderr.read() == b""
