"""A game on the page: what a browser asks, parsed once; its picture, with the policy's moves as arrows; and as PGN."""

from __future__ import annotations

import dataclasses
import io
import itertools
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import chess
import chess.pgn

from algorithms.board.openings import opening_of
from algorithms.core.checks import shown
from algorithms.playing.position import GamePosition, board_of_gui, legal_move, reached
from algorithms.playing.view import PositionView
from algorithms.pretraining.pgn import STANDARD, Movetext, games_in, read_headers, read_movetext
from algorithms.reports.page.diagrams import MoveChance, position_svg
from chess_env.games.reference_game import status
from chess_env.matches.match_result import export_text, one_line
from chess_env.moves import action_to_move
from chess_env.rules.fen import pack_board
from chess_env.rules.rules import CHECKMATE, ONGOING, STATUS_NAMES
from chess_env.rules.san import read_moves

MAX_PLIES = 1000
"""Of a game on the page; a longer one is refused."""

MAX_TEMPERATURE = 5.0
MAX_BODY_BYTES = 2**18

_REASONS = {
    "checkmate": "checkmate",
    "stalemate": "stalemate",
    "insufficient_material": "neither side can mate",
    "fifty_moves": "fifty moves without a capture or a pawn's move",
    "threefold_repetition": "the position has occurred three times",
}


class BadRequestError(ValueError):
    """What was asked makes no sense; the message is a sentence for people."""


@dataclasses.dataclass(frozen=True)
class BoardGame:
    """A game and a place in it.

    Attributes:
        fen: where it began; None for the initial position.
        moves: in UCI's notation.
        at: plies played at the place that is looked at.
        position: there.
        sans: all moves for people.
        board: at `position`, with the moves before it.
    """

    fen: str | None
    moves: tuple[str, ...]
    at: int
    position: GamePosition
    sans: tuple[str, ...]
    board: chess.Board


def body_of(raw: bytes) -> Mapping[str, Any]:
    """The object in a request's body.

    Raises:
        BadRequestError: it is no JSON object.
    """
    try:
        values = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise BadRequestError(f"The request is no JSON: {error}.") from error
    if not isinstance(values, dict):
        raise BadRequestError("The request is no JSON object.")
    return values


def text_of(values: Mapping[str, Any], name: str) -> str:
    """A text of the request; "" where it is missing.

    Raises:
        BadRequestError: it is something else.
    """
    value = values.get(name, "")
    if not isinstance(value, str):
        raise BadRequestError(f"{name} is {shown(value)}: expected a text.")
    return value


def temperature_of(values: Mapping[str, Any]) -> float:
    """The temperature asked for; 1 where none is.

    Raises:
        BadRequestError: it is none.
    """
    value = values.get("temperature", 1.0)
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not (number and 0 <= value <= MAX_TEMPERATURE):
        raise BadRequestError(
            f"temperature is {shown(value)}: expected a number from 0 to {MAX_TEMPERATURE:g}."
        )
    return float(value)


def flag_of(values: Mapping[str, Any], name: str) -> bool:
    """Whether something is asked for; False where it is missing.

    Raises:
        BadRequestError: it is neither true nor false.
    """
    value = values.get(name, False)
    if not isinstance(value, bool):
        raise BadRequestError(f"{name} is {shown(value)}: expected true or false.")
    return value


def update_of(values: Mapping[str, Any]) -> int | None:
    """The update whose policy is asked about; None where none is named.

    Raises:
        BadRequestError: it is no number of updates.
    """
    value = values.get("update")
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 10**12:
        raise BadRequestError(f"update is {shown(value)}: expected a number of updates.")
    return value


def game_of(values: Mapping[str, Any]) -> BoardGame:
    """The game asked about.

    Raises:
        BadRequestError: the FEN or a move is not legal, or there are too many moves.
    """
    moves, at = values.get("moves", []), values.get("at")
    if not isinstance(moves, list) or not all(isinstance(move, str) for move in moves):
        raise BadRequestError("moves is no list of texts.")
    if len(moves) > MAX_PLIES:
        raise BadRequestError(
            f"The game has {len(moves):,} plies: at most {MAX_PLIES:,} are shown."
        )
    at = len(moves) if at is None else at
    if isinstance(at, bool) or not isinstance(at, int) or not 0 <= at <= len(moves):
        raise BadRequestError(f"at is {shown(at)}: expected a number of plies, 0 to {len(moves)}.")
    return game_at(text_of(values, "fen") or None, tuple(moves), at)


def game_at(fen: str | None, moves: tuple[str, ...], at: int) -> BoardGame:
    """The game with these moves, looked at after `at` of them.

    Raises:
        BadRequestError: the FEN or a move is not legal.
    """
    try:
        fen = None if fen is None else _mended(fen)
        position = reached(fen, moves[:at])
        board = reached(fen, ()).board
    except ValueError as error:
        raise BadRequestError(str(error)) from error
    there, sans = board.copy(), []
    for number, text in enumerate(moves, 1):
        move = legal_move(board, text)
        if move is None:
            raise BadRequestError(f"move {number}, {shown(text)}, is not legal in {board.fen()!r}")
        sans.append(board.san_and_push(move))
        if number == at:
            there = board.copy()
    canonical = tuple(move.uci() for move in board.move_stack)
    return BoardGame(fen, canonical, at, position, tuple(sans), there)


def _mended(fen: str) -> str:
    """The FEN without rights that cannot be, as editors leave them; as it is where it cannot be read."""
    try:
        return board_of_gui(fen).fen(en_passant="fen")
    except ValueError:
        return fen


def facts_of(game: BoardGame) -> dict[str, Any]:
    """What the rules say of the place in the game, as JSON values."""
    board = game.board
    last = board.move_stack[-1] if board.move_stack else None
    men = board.piece_map()
    return {
        "fen": board.fen(),
        "turn": chess.COLOR_NAMES[board.turn],
        "men": [_man(men.get(square)) for square in chess.SQUARES],
        "legal": [] if ending(game) else [_legal(board, move) for move in board.legal_moves],
        "check": board.is_check(),
        "last": None if last is None else [last.from_square, last.to_square],
        "over": ending(game),
        "opening": opening_of(board),
        "root_turn": chess.COLOR_NAMES[board.root().turn],
        "root_number": board.root().fullmove_number,
    }


def ending(game: BoardGame) -> dict[str, str] | None:
    """{"result", "reason", "rule"} where the rules of the environment end the game here; None where it goes on."""
    found = status(game.board, game.position.repetitions, fifty_move=True, drawn_at=3)
    if found == ONGOING:
        return None
    rule = STATUS_NAMES[found]
    result = ("0-1" if game.board.turn else "1-0") if found == CHECKMATE else "1/2-1/2"
    won = {"1-0": "White wins", "0-1": "Black wins", "1/2-1/2": "A draw"}[result]
    return {"result": result, "rule": rule, "reason": f"{won}: {_REASONS[rule]}."}


def _man(piece: chess.Piece | None) -> str:
    return (
        ""
        if piece is None
        else f"{chess.COLOR_NAMES[piece.color]} {chess.piece_name(piece.piece_type)}"
    )


def _legal(board: chess.Board, move: chess.Move) -> dict[str, Any]:
    promotion = None if move.promotion is None else chess.piece_name(move.promotion)
    return {
        "uci": move.uci(),
        "san": board.san(move),
        "from": move.from_square,
        "to": move.to_square,
        "promotion": promotion,
    }


ARROWS = 12
LEAST = 0.01
"""Moves that are less probable get no arrow."""


def picture(game: BoardGame, view: PositionView | None, *, black_below: bool) -> str:
    """SVG of the position; it refers to `boards.definitions`."""
    board = game.board
    marks = dict.fromkeys(_squares(board.move_stack[-1]), "last") if board.move_stack else {}
    king = board.king(board.turn)
    if king is not None and board.is_check():
        marks[king] = "check"
    arrows = [] if view is None else arrows_of(view)
    said = ", ".join(f"{arrow.uci} {arrow.probability:.0%}" for arrow in arrows)
    turn = chess.COLOR_NAMES[board.turn].capitalize()
    label = f"{turn} to move" + (f": {said}" if said else "")
    return position_svg(board.fen(), arrows, label=label, black_below=black_below, marks=marks)


def arrows_of(view: PositionView) -> list[MoveChance]:
    """The likeliest moves, likeliest first; promotions between the same squares are one arrow."""
    found: dict[tuple[int, int], MoveChance] = {}
    for each in view.moves:
        move = chess.Move.from_uci(each.uci)
        before = found.get(_squares(move))
        found[_squares(move)] = MoveChance(
            move.from_square,
            move.to_square,
            each.uci if before is None else f"{before.uci}, {each.uci}",
            each.probability + (0.0 if before is None else before.probability),
        )
    ranked = sorted(found.values(), key=lambda arrow: -arrow.probability)
    return [arrow for arrow in ranked[:ARROWS] if arrow.probability >= LEAST]


def _squares(move: chess.Move) -> tuple[int, int]:
    return move.from_square, move.to_square


_FIRST_MOVE = re.compile(r"(?<![\w.])1\s*\.(?=\s*[^\s.\d])")


def read_pgn(text: str) -> dict[str, Any]:
    """{"fen", "moves", "note"} of the first game with a move in the text, read as training reads games.

    Without one, it is the first game with a position. "note" says what was left out, "" if nothing.

    Raises:
        BadRequestError: there is no game of standard chess in it, or its start is no legal position.
    """
    found = None
    for headers, written in _games(text):
        if written.words or (found is None and "fen" in headers):
            found = headers, written
        if written.words:
            break
    if found is None:
        raise BadRequestError("There is no move in this text: expected PGN, such as `1. e4 e5 *`.")
    headers, written = found
    fen = headers.get("fen")
    if headers.get("variant", "").strip().lower() not in STANDARD:
        raise BadRequestError(
            "This is a game of another variant: only standard chess is played here."
        )
    board = game_at(fen, (), 0).board
    words = written.words[: MAX_PLIES + 1]
    moves = []
    for action in read_moves(pack_board(board), words).actions[:MAX_PLIES].tolist():
        move = action_to_move(action, board)
        moves.append(move.uci())
        board.push(move)
    note = ""
    if len(moves) == MAX_PLIES < len(words):
        note = f"The first {MAX_PLIES:,} plies are shown."
    elif len(moves) < len(words) or written.unreadable or written.goes_on:
        note = f"What follows ply {len(moves)} cannot be read: the game is shown up to there."
    game = game_at(fen, tuple(moves), len(moves))
    return {"fen": game.fen or "", "moves": [*game.moves], "note": note}


def _games(text: str) -> Iterator[tuple[dict[str, str], Movetext]]:
    """(headers, movetext) of each game; of what stands behind the first move's number where no line begins one."""
    first = _FIRST_MOVE.search(text)
    found = games_in(io.StringIO(text, newline=None))
    for game in itertools.chain(found, [] if first is None else [text[first.start() :]]):
        lines = game.splitlines(keepends=True)
        headers, behind, _ = read_headers(lines)
        # A result at the end, so that the last word is not taken for one that a file's end cut.
        yield headers, read_movetext("".join(lines[behind:]) + " *")


def write_pgn(game: BoardGame, *, white: str, black: str) -> str:
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
    return export_text(record)
