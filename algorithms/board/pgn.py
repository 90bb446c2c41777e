"""Games as PGN text: read from what a user gives, and written for what was played."""

from __future__ import annotations

import io
from typing import Any

import chess
import chess.pgn

from algorithms.board.positions import MAX_PLIES, BadRequestError, Game, ending, game_at
from chess_env.matches.match_result import one_line

_STANDARD = {name.lower() for name in chess.Board.aliases}


class _MainLine(chess.pgn.BaseVisitor["_MainLine"]):
    """Collects the main line of one game.

    Attributes:
        headers: of the game.
        moves: up to the first that cannot be read.
        broken: whether there was such a one.
    """

    def __init__(self) -> None:
        self.headers = chess.pgn.Headers({})
        self.moves: list[chess.Move] = []
        self.broken = False

    def begin_headers(self) -> chess.pgn.Headers:
        """The headers, for the reader."""
        return self.headers

    def visit_header(self, tagname: str, tagvalue: str) -> None:
        """Keeps a header; a name that python-chess refuses is none that is read here."""
        self.headers[tagname] = tagvalue

    def begin_variation(self) -> chess.pgn.SkipType:
        """SKIP: variations are not shown."""
        return chess.pgn.SKIP

    def visit_move(self, board: chess.Board, move: chess.Move) -> None:
        """Keeps a move; a null move is none of chess."""
        self.broken = self.broken or not move
        if not self.broken:
            self.moves.append(move)

    def handle_error(self, error: Exception) -> None:
        """Ends what is kept."""
        self.broken = True

    def result(self) -> _MainLine:
        """This visitor, when the game has been read."""
        return self


def read_pgn(text: str) -> dict[str, Any]:
    """{"fen", "moves", "note"} of the first game in the text; "note" says what was left out, "" if nothing.

    Raises:
        BadRequestError: there is no game of standard chess in it, or its start is no legal position.
    """
    found = chess.pgn.read_game(io.StringIO(text), Visitor=_MainLine)
    if found is None:
        raise BadRequestError("There is no game in this text: expected PGN, such as `1. e4 e5 *`.")
    fen = found.headers.get("FEN")
    if found.headers.get("Variant", "Standard").lower() not in _STANDARD:
        raise BadRequestError(
            "This is a game of another variant: only standard chess is played here."
        )
    if not found.moves and fen is None:
        raise BadRequestError("There is no move in this text: expected PGN, such as `1. e4 e5 *`.")
    moves, note = [move.uci() for move in found.moves[:MAX_PLIES]], ""
    if len(found.moves) > MAX_PLIES:
        note = f"The first {MAX_PLIES:,} plies are shown."
    elif found.broken:
        note = f"What follows ply {len(moves)} cannot be read: the game is shown up to there."
    game = game_at(fen, tuple(moves), len(moves))
    return {"fen": game.fen or "", "moves": [*game.moves], "note": note}


def write_pgn(game: Game, *, white: str, black: str) -> str:
    """The whole game as PGN text.

    Args:
        game: all of its moves are written.
        white: who played White.
        black: who played Black.
    """
    last = game_at(game.fen, game.moves, len(game.moves))
    record = chess.pgn.Game.from_board(last.board)
    over = ending(last)
    record.headers.update(Event="chess-lab board", White=one_line(white), Black=one_line(black))
    record.headers["Result"] = "*" if over is None else over["result"]
    if over is not None:
        record.headers["Termination"] = over["rule"]
    return f"{record}\n"
