"""The facts of moves on a python-chess board: the oracle of the compiled ones."""

from __future__ import annotations

import chess
import numpy as np
from numpy.typing import NDArray

from chess_env.move_facts.table import FACT_INDEX, KINDS, NUM_MOVE_FACTS, REPLY_LIMITS


def move_facts(
    board: chess.Board, move: chess.Move, earlier: int, *, fifty_move: bool = True
) -> NDArray[np.uint8]:
    """uint8 [F]: the facts (`MOVE_FACTS`) of one legal move.

    Args:
        board: before the move; left as it is.
        move: legal on it.
        earlier: how often the position after the move has occurred before in the game.
        fifty_move: the game ends at 100 half-moves on the rule-50 clock; False: at 150.
    """
    after = board.copy(stack=False)
    after.push(move)
    found = _of_move(board, move) | _of_ending(after, earlier, 100 if fifty_move else 150)
    found |= _of_man(after, move.to_square) | _of_loose_men(after)
    facts = np.zeros(NUM_MOVE_FACTS, np.uint8)
    for name, value in found.items():
        facts[getattr(FACT_INDEX, name)] = value
    return facts


def _least(board: chess.Board, attackers: chess.SquareSet) -> str | None:
    """The least kind among the men on the squares; None where there is none."""
    kinds = [board.piece_type_at(square) or 0 for square in attackers]
    return KINDS[min(kinds) - 1] if kinds else None


def _of_move(board: chess.Board, move: chess.Move) -> dict[str, int]:
    mover, origin = board.turn, move.from_square
    kind = board.piece_type_at(origin)
    assert kind is not None  # the move is legal
    taken = chess.PAWN if board.is_en_passant(move) else board.piece_type_at(move.to_square)
    castles = board.is_castling(move)
    found = {
        f"moves_{KINDS[kind - 1]}": 1,
        f"takes_{KINDS[taken - 1]}" if taken and not castles else "takes_nothing": 1,
        "castles": int(castles),
        "en_passant": int(board.is_en_passant(move)),
        "origin_defended": int(bool(board.attackers(mover, origin))),
    }
    if move.promotion:
        found[f"promotes_to_{KINDS[move.promotion - 1]}"] = 1
    if attacker := _least(board, board.attackers(not mover, origin)):
        found[f"origin_attacked_by_{attacker}"] = 1
    return found


def _of_ending(after: chess.Board, earlier: int, clock_limit: int) -> dict[str, int]:
    replies = after.legal_moves.count()
    return {
        "gives_check": int(after.is_check()),
        "gives_double_check": int(len(after.checkers()) > 1),
        "checkmates": int(after.is_checkmate()),
        "stalemates": int(after.is_stalemate()),
        "insufficient_material": int(after.is_insufficient_material()),
        "rule50_limit": int(after.halfmove_clock >= clock_limit),
        "repeats": int(earlier >= 1),
        "repeats_twice": int(earlier >= 2),
    } | {f"replies_at_most_{limit}": int(replies <= limit) for limit in REPLY_LIMITS}


def _of_man(after: chess.Board, square: chess.Square) -> dict[str, int]:
    """How the man that moved stands on its square."""
    replier, mover = after.turn, not after.turn
    attackers, defenders = after.attackers(replier, square), after.attackers(mover, square)
    found = {
        "attacked_twice": int(len(attackers) > 1),
        "defended_twice": int(len(defenders) > 1),
    }
    if attacker := _least(after, attackers):
        found[f"attacked_by_{attacker}"] = 1
    if defender := _least(after, defenders):
        found[f"defended_by_{defender}"] = 1
    for target in after.attacks(square):
        piece = after.piece_at(target)
        if piece is not None and piece.color == replier:
            found[f"attacks_{KINDS[piece.piece_type - 1]}"] = 1
    return found


def _of_loose_men(after: chess.Board) -> dict[str, int]:
    found: dict[str, int] = {}
    for side, color in (("opponent", after.turn), ("mover", not after.turn)):
        attacked = {
            square: [
                after.piece_type_at(other) or 0 for other in after.attackers(not color, square)
            ]
            for square in chess.SquareSet(after.occupied_co[color])
        }
        attacked = {square: kinds for square, kinds in attacked.items() if kinds}
        loose = [after.piece_type_at(s) for s in attacked if not after.attackers(color, s)]
        for kind in range(chess.PAWN, chess.KING):
            name = KINDS[kind - 1]
            found[f"{side}_{name}_loose"] = int(loose.count(kind) > 0)
            found[f"{side}_{name}s_loose"] = int(loose.count(kind) > 1)
            if kind != chess.PAWN:
                found[f"{side}_{name}_under_lesser"] = int(
                    any(
                        after.piece_type_at(square) == kind and _is_lesser(min(kinds), kind)
                        for square, kinds in attacked.items()
                    )
                )
        king = after.king(color)
        assert king is not None
        ring = chess.BB_KING_ATTACKS[king] & _attacked_squares(after, not color)
        found[f"{side}_king_ring"] = chess.popcount(ring)
        found[f"{side}_squares"] = chess.popcount(_attacked_squares(after, color))
        found[f"{side}_men_attacked"] = len(attacked)
    return found


def _attacked_squares(board: chess.Board, color: chess.Color) -> chess.Bitboard:
    squares = chess.BB_EMPTY
    for square in chess.scan_forward(board.occupied_co[color]):
        squares |= board.attacks_mask(square)
    return squares


def _is_lesser(attacker: int, kind: int) -> bool:
    """Whether a kind stands below another in the order P < N = B < R < Q < K."""
    order = {chess.PAWN: 0, chess.KNIGHT: 1, chess.BISHOP: 1, chess.ROOK: 2, chess.QUEEN: 3}
    return order.get(attacker, 4) < order[kind]
