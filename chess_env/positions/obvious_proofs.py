"""Proofs for the set of obvious moves that need no engine: short mates by search, three-man endings by tables.

`mating_moves` tries every move of both sides on a python-chess board. `mate_table` finds the distance to mate of every
position with king and queen, rook or pawn against king, by iteration from the mates outwards. Both are slow and
serve the generator alone.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import chess
import numpy as np
from numpy.typing import NDArray

from chess_env.rules.movegen import in_check
from chess_env.rules.packed import KINGS, OWN, PAWNS, QUEENS, ROOKS, STATE, Positions
from chess_env.rules.rules import (
    CHECKMATE,
    ONGOING,
    apply_batch,
    legal_actions_batch,
    status_batch,
)

NO_MATE = 10_000
"""In place of a number of plies where nobody can force mate."""

MEN = {"Q": QUEENS, "R": ROOKS, "P": PAWNS}
_ONE = np.uint64(1)
_CHUNK = 1 << 16


def mating_moves(board: chess.Board, num_moves: int) -> list[chess.Move]:
    """The legal moves that force mate within `num_moves` moves of the side to move, the first included.

    Args:
        board: a position; it is the same afterwards. Its history and its clock play no part.
        num_moves: at least 1.
    """
    return [move for move in board.legal_moves if _forces(board, move, num_moves)]


def _forces(board: chess.Board, move: chess.Move, num_moves: int) -> bool:
    """Whether the move mates at once or every reply to it allows mate in one move less."""
    if num_moves == 1 and not board.gives_check(move):
        return False
    board.push(move)
    try:
        replies = list(board.legal_moves)
        if not replies:
            return board.is_check()
        if num_moves == 1 or board.is_insufficient_material():
            return False
        return all(_is_mated_after(board, reply, num_moves - 1) for reply in replies)
    finally:
        board.pop()


def _is_mated_after(board: chess.Board, reply: chess.Move, num_moves: int) -> bool:
    board.push(reply)
    # Most mates begin with a check.
    moves = sorted(board.legal_moves, key=board.gives_check, reverse=True)
    mated = any(_forces(board, move, num_moves) for move in moves)
    board.pop()
    return mated


class MateTable(NamedTuple):
    """Distances to mate of one man and a king against a king.

    Attributes:
        stronger: int16 [64, 64, 64], by the squares of the mover's king, the other king and the man, in the mover's
            view: plies to mate where the side with the man moves, `NO_MATE` where it cannot force mate; -1 for
            what is no position.
        weaker: int16 [64, 64, 64], the same where the bare king moves (its own square comes first).
    """

    stronger: NDArray[np.int16]
    weaker: NDArray[np.int16]


def _placements(man: str, mover_has_it: bool) -> tuple[NDArray[np.int64], Positions]:
    """(int64 [N] flat indices into [64, 64, 64], uint64 [N, 8] positions) of all legal positions."""
    own, other, square = (axis.reshape(-1) for axis in np.indices((64, 64, 64)))
    apart = np.maximum(abs(own // 8 - other // 8), abs(own % 8 - other % 8)) > 1
    fits = apart & (square != own) & (square != other)
    if man == "P":
        fits &= (square >= 8) & (square < 56)
    index = np.flatnonzero(fits)
    bits = [_ONE << axis[index].astype(np.uint64) for axis in (own, other, square)]
    positions = np.zeros((len(index), 8), np.uint64)
    positions[:, KINGS] = bits[0] | bits[1]
    positions[:, MEN[man]] = bits[2]
    positions[:, OWN] = bits[0] | bits[2] if mover_has_it else bits[0]
    positions[:, STATE] = _ONE << np.uint64(32)
    if mover_has_it:
        # The side that does not move may not be in check: look from its side of the board.
        turned = positions.copy()
        turned[:, OWN] = bits[1]
        turned[:, :7] = turned[:, :7].byteswap()
        legal = ~np.array([in_check(row) for row in turned])
        index, positions = index[legal], positions[legal]
    return index, positions


def _squares(bits: NDArray[np.uint64]) -> NDArray[np.int64]:
    """int64 [N]: the square of the one bit in each word."""
    return np.log2(bits.astype(np.float64)).astype(np.int64)


def flat_index(positions: Positions, man: str) -> NDArray[np.int64]:
    """int64 [N]: where positions (uint64 [N, 8]) with that man stand in the flat arrays of its table."""
    kings, own = positions[:, KINGS], positions[:, OWN]
    squares = (_squares(kings & own), _squares(kings & ~own), _squares(positions[:, MEN[man]]))
    return (squares[0] * 64 + squares[1]) * 64 + squares[2]


class _Graph(NamedTuple):
    """Positions of one side to move, and what their moves lead to.

    Attributes:
        where: int64 [N], flat indices of those positions that have a legal move.
        first: int64 [N], where the moves of each begin.
        to: int64 [E], flat index that each move leads to; -1 where its distance is fixed.
        fixed: int16 [E], the distance after a move that leaves the ending.
        mated: int64 [M], flat indices of checkmates.
        drawn: int64 [K], flat indices of positions that the rules end as draws.
    """

    where: NDArray[np.int64]
    first: NDArray[np.int64]
    to: NDArray[np.int64]
    fixed: NDArray[np.int16]
    mated: NDArray[np.int64]
    drawn: NDArray[np.int64]


def _graph(man: str, mover_has_it: bool) -> _Graph:
    index, positions = _placements(man, mover_has_it)
    status = status_batch(positions)
    going = status == ONGOING
    to, fixed, counts = [], [], []
    ongoing = positions[going]
    for start in range(0, len(ongoing), _CHUNK):
        chunk = ongoing[start : start + _CHUNK]
        ids, num_legal = legal_actions_batch(chunk)
        counts.append(num_legal.astype(np.int64))
        actions = ids[np.arange(ids.shape[1]) < num_legal[:, None]]
        after = apply_batch(np.repeat(chunk, num_legal.astype(np.int64), axis=0), actions)
        stays = after[:, MEN[man]] != 0
        where, distance = np.full(len(after), -1), np.full(len(after), NO_MATE, np.int16)
        where[stays] = flat_index(after[stays], man)
        for promoted in ("Q", "R") if man == "P" else ():
            became = ~stays & (after[:, MEN[promoted]] != 0)
            table = mate_table(promoted).weaker.reshape(-1)
            distance[became] = table[flat_index(after[became], promoted)]
        to.append(where)
        fixed.append(distance)
    num_moves = np.concatenate(counts)
    return _Graph(
        index[going],
        np.concatenate([[0], np.cumsum(num_moves)[:-1]]),
        np.concatenate(to),
        np.concatenate(fixed),
        index[status == CHECKMATE],
        index[~going & (status != CHECKMATE)],
    )


@lru_cache(maxsize=3)
def mate_table(man: str) -> MateTable:
    """The distances to mate with "Q", "R" or "P" against the bare king; seconds of work, kept.

    A pawn becomes any piece; what queen and rook are worth comes from their own tables.
    """
    attack, defence = _graph(man, True), _graph(man, False)
    stronger, weaker = np.full(64**3, -1, np.int16), np.full(64**3, -1, np.int16)
    for table, graph in ((stronger, attack), (weaker, defence)):
        table[graph.where] = NO_MATE
        table[graph.drawn] = NO_MATE
        table[graph.mated] = 0
    while True:
        before = stronger[attack.where].copy(), weaker[defence.where].copy()
        after = np.where(attack.to >= 0, weaker[attack.to], attack.fixed)
        best = np.minimum.reduceat(after, attack.first)
        stronger[attack.where] = np.where(best < NO_MATE, best + 1, NO_MATE)
        after = np.where(defence.to >= 0, stronger[defence.to], defence.fixed)
        longest = np.maximum.reduceat(after, defence.first)
        weaker[defence.where] = np.where(longest < NO_MATE, longest + 1, NO_MATE)
        if (before[0] == stronger[attack.where]).all() and (
            before[1] == weaker[defence.where]
        ).all():
            return MateTable(stronger.reshape(64, 64, 64), weaker.reshape(64, 64, 64))
