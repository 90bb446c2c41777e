"""Files of games, written by python-chess."""

from __future__ import annotations

from pathlib import Path

import chess
import chess.pgn
import numpy as np


def random_game(
    seed: int,
    *,
    ratings: tuple[str, str] = ("2000", "2100"),
    num_plies: int = 30,
    fen: str | None = None,
    **headers: str,
) -> chess.pgn.Game:
    """A game of uniformly random moves with a result."""
    rng = np.random.default_rng(seed)
    game = chess.pgn.Game()
    if fen is not None:
        game.setup(fen)
    game.headers.update({"Event": f"game {seed}", "WhiteElo": ratings[0], "BlackElo": ratings[1]})
    game.headers.update({"Result": "1/2-1/2", **headers})
    node: chess.pgn.GameNode = game
    for _ in range(num_plies):
        moves = sorted(node.board().legal_moves, key=chess.Move.uci)
        if not moves:
            break
        node = node.add_variation(moves[rng.integers(len(moves))])
    return game


def write_games(path: Path, games: list[chess.pgn.Game]) -> Path:
    """`path`, with the games in it."""
    path.write_text("".join(f"{game}\n\n" for game in games))
    return path


def expected_moves(game: chess.pgn.Game, skip_plies: int = 0) -> list[tuple[str, str]]:
    """(FEN before, move in UCI) of the main line, without forced moves."""
    found = []
    for ply, node in enumerate(game.mainline()):
        board = node.parent.board()  # type: ignore[union-attr]
        if ply >= skip_plies and board.legal_moves.count() >= 2:
            found.append((board.fen(en_passant="legal"), node.move.uci()))
    return found
