"""What a browser asks, parsed once: a game, a place in it, a policy and a temperature."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import chess

from algorithms.core.checks import shown
from algorithms.playing.position import GamePosition, reached
from algorithms.run_folder.reading import JsonLimits, parse_json
from chess_env.games.reference_game import status
from chess_env.rules.rules import CHECKMATE, ONGOING, STATUS_NAMES

MAX_PLIES = 1000
"""Of a game on the page; a longer one is refused."""

MAX_TEMPERATURE = 5.0
MAX_BODY_BYTES = 2**18

_LIMITS = JsonLimits(MAX_BODY_BYTES, 4, longest_text=200_000, longest_number=30)
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
class Game:
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
        BadRequestError: it is no JSON object, or a value in it is out of bounds.
    """
    try:
        values = parse_json(raw, _LIMITS)
    except ValueError as error:
        raise BadRequestError(f"The request is no JSON that is read here: {error}.") from error
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
    if not (number and math.isfinite(value) and 0 <= value <= MAX_TEMPERATURE):
        raise BadRequestError(
            f"temperature is {shown(value)}: expected a number from 0 to {MAX_TEMPERATURE:g}."
        )
    return float(value)


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


def game_of(values: Mapping[str, Any]) -> Game:
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


def game_at(fen: str | None, moves: tuple[str, ...], at: int) -> Game:
    """The game with these moves, looked at after `at` of them.

    Raises:
        BadRequestError: the FEN or a move is not legal.
    """
    try:
        position = reached(fen, moves[:at])
        root = reached(fen, ()).board
    except ValueError as error:
        raise BadRequestError(str(error)) from error
    board, sans = root.copy(), []
    there = board.copy()
    for number, text in enumerate(moves, 1):
        try:
            move = board.parse_uci(text.lower())
        except ValueError:
            move = chess.Move.null()
        if not move:
            raise BadRequestError(f"move {number}, {shown(text)}, is not legal in {board.fen()!r}")
        sans.append(board.san_and_push(move))
        if number == at:
            there = board.copy()
    canonical = tuple(move.uci() for move in board.move_stack)
    return Game(fen, canonical, at, position, tuple(sans), there)


def facts_of(game: Game) -> dict[str, Any]:
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
        "root_turn": chess.COLOR_NAMES[board.root().turn],
        "root_number": board.root().fullmove_number,
    }


def ending(game: Game) -> dict[str, str] | None:
    """{"result", "reason", "rule"} where the rules of the environment end the game here; None where it goes on."""
    found = status(game.board, game.position.repetitions, fifty_move=True, threefold=True)
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
