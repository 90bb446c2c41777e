"""Draws positions of won endings and proves each by a deep search: `python -m benchmarks.positions.endings_build`.

A position counts as won where Stockfish finds a forced mate; its `dm` is the number of moves that it found, at least
that of best play. Those in which it finds none within the limit are drawn again: KQ-KR lacks the longest wins.
"""

from __future__ import annotations

import argparse
import random
import sys
from pathlib import Path

import chess
import chess.engine

from chess_env.evaluators import find_stockfish
from chess_env.positions.endings import ENDINGS, ENDINGS_PATH

SEED = 35
SIZE = 80
"""Positions of each ending; White is the stronger side in half of them."""

_ENOUGH_DEPTH = 20
"""Once a mate is found the search goes on to this depth, which mostly finds a shorter one."""

_NODES = 3_000_000
_HASH_MB = 128
_MEN = {
    "K": chess.KING,
    "Q": chess.QUEEN,
    "R": chess.ROOK,
    "P": chess.PAWN,
}


def draw(ending: str, strong: chess.Color, rng: random.Random) -> chess.Board:
    """The men of an ending on random squares, the stronger side to move; any position, also an impossible one."""
    board = chess.Board(None)
    sides = ending.split("-")
    squares = rng.sample(range(64), sum(map(len, sides)))
    for color, men in zip((strong, not strong), sides, strict=True):
        for letter in men:
            board.set_piece_at(squares.pop(), chess.Piece(_MEN[letter], color))
    board.turn = strong
    return board


def is_trivial(board: chess.Board) -> bool:
    """Whether a side could take a man at once, if it were its turn, or the side to move mates in one."""
    for turn in chess.COLORS:
        other = board.copy(stack=False)
        other.turn = turn
        if any(other.is_capture(move) for move in other.legal_moves):
            return True
    for move in board.legal_moves:
        board.push(move)
        mates = board.is_checkmate()
        board.pop()
        if mates:
            return True
    return False


def mate_in(engine: chess.engine.SimpleEngine, board: chess.Board) -> int | None:
    """Moves of the shortest mate that a search finds for the side to move; None where it finds none."""
    mate = None
    with engine.analysis(board, chess.engine.Limit(nodes=_NODES), game=object()) as analysis:
        for info in analysis:
            if "score" not in info or info.get("lowerbound") or info.get("upperbound"):
                continue
            mate = info["score"].relative.mate()
            if mate is not None and info["depth"] >= _ENOUGH_DEPTH:
                break
    return mate


def main() -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.positions.endings_build", description="The pool of won endings."
    )
    parser.add_argument("--out", type=Path, default=ENDINGS_PATH, help="file to write")
    arguments = parser.parse_args()
    path = find_stockfish()
    if path is None:
        parser.error("no Stockfish found, which proves the wins")
    lines: list[str] = []
    with chess.engine.SimpleEngine.popen_uci(str(path)) as engine:
        engine.configure({"Threads": 1, "Hash": _HASH_MB})
        for ending in ENDINGS:
            rng = random.Random(f"{SEED} {ending}")
            found: dict[str, int] = {}
            unproven = 0
            while len(found) < SIZE:
                board = draw(ending, len(found) % 2 == 0, rng)
                if not board.is_valid() or board.epd() in found or is_trivial(board):
                    continue
                mate = mate_in(engine, board)
                if mate is not None and mate > 1:
                    found[board.epd()] = mate
                unproven += mate is None
            print(f"{ending}: {SIZE} positions, {unproven} without a mate found", file=sys.stderr)
            lines += [f'{epd} dm {mate}; id "{ending}";' for epd, mate in found.items()]
        name = engine.id["name"]
    heading = (
        f"# Won endings, the stronger side to move; dm: mate in that many moves found by {name}."
    )
    arguments.out.write_text("\n".join([heading, *lines]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
