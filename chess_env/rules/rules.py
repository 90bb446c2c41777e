"""The rules of chess on batches of packed positions, compiled: moves, children, hash, how a game ends, random play.

The layout of a packed position (uint64 [8], mover's view) is described in `packed.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from chess_env.jit import announced, inlined, kernel
from chess_env.rules.bitboards import DARK_SQUARES, LIGHT_SQUARES, U0, popcount
from chess_env.rules.movegen import MAX_LEGAL, apply, in_check, legal_actions_of
from chess_env.rules.packed import (
    BISHOPS,
    IDENTITY_BITS,
    KINGS,
    KNIGHTS,
    OWN,
    PAWNS,
    QUEENS,
    ROOKS,
    STATE,
    Positions,
    occupied_squares,
    rule50_clock,
)

ONGOING, CHECKMATE, STALEMATE, INSUFFICIENT_MATERIAL, FIFTY_MOVES, THREEFOLD = range(6)
SEVENTYFIVE_MOVES, FIVEFOLD, TWOFOLD = 6, 7, 8
Statuses = NDArray[np.int8]
"""Such codes, as arrays."""

STATUS_NAMES = (
    "ongoing",
    "checkmate",
    "stalemate",
    "insufficient_material",
    "fifty_moves",
    "threefold_repetition",
    "seventyfive_moves",
    "fivefold_repetition",
    "twofold_repetition",
)
OPENING, MIDDLEGAME, ENDGAME = range(3)

_MIX_A = np.uint64(0xBF58476D1CE4E5B9)
_MIX_B = np.uint64(0x94D049BB133111EB)
_SALT = np.arange(1, 8, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
_SHIFT_30, _SHIFT_27, _SHIFT_31 = np.uint64(30), np.uint64(27), np.uint64(31)
_SHIFT_32, _ROW_MIX = np.uint64(32), np.uint64(0x9E3779B97F4A7C15)
_BOTTOM_RANK, _TOP_RANK = np.uint64(0xFF), np.uint64(0xFF << 56)


@inlined
def _mix(word: np.uint64) -> np.uint64:
    """uint64: the finaliser of splitmix64 (https://prng.di.unimi.it/splitmix64.c)."""
    word = (word ^ (word >> _SHIFT_30)) * _MIX_A
    word = (word ^ (word >> _SHIFT_27)) * _MIX_B
    return word ^ (word >> _SHIFT_31)


@kernel
def position_hash(position: Positions) -> np.uint64:
    """uint64: identity of the position as FIDE 9.2 counts repetitions.

    Men, side to move, castling rights and a *legal* en passant capture count; the clocks do not.
    """
    # Words are mixed independently and summed, so that the multiplications overlap.
    total = position[STATE] & IDENTITY_BITS
    for word in range(7):
        total += _mix(position[word] + _SALT[word])
    return _mix(total)


@inlined
def occurred(history: NDArray[np.uint64], length: int, key: np.uint64) -> int:
    """int64: how often `key` stands among the `length` hashes at an even distance before the next one."""
    count = 0
    for back in range(length - 2, -1, -2):
        if history[back] == key:
            count += 1
    return count


@inlined
def has_insufficient_material(position: Positions) -> bool:
    """Whether no sequence of moves can mate either side: bare kings, one minor piece, or bishops of one colour."""
    if position[PAWNS] | position[ROOKS] | position[QUEENS]:
        return False
    knights = position[KNIGHTS]
    bishops = position[BISHOPS]
    if knights:
        return bishops == U0 and popcount(knights) == 1
    return bishops & DARK_SQUARES == U0 or bishops & LIGHT_SQUARES == U0


@inlined
def status_of(
    position: Positions, num_legal: int, repetitions: int, fifty_move: bool, drawn_at: int
) -> int:
    """int64 status code. `repetitions` counts earlier occurrences of the position in the game.

    `fifty_move`, and 3 for the occurrence `drawn_at`, end the game where a player could claim the draw (FIDE 9.2,
    9.3); without it and with 5 the automatic limits of FIDE 9.6 hold: 75 moves and the fifth occurrence. The
    second is the one that engines' searches count as a draw.
    """
    if num_legal == 0:
        return CHECKMATE if in_check(position) else STALEMATE
    if has_insufficient_material(position):
        return INSUFFICIENT_MATERIAL
    clock = rule50_clock(position)
    if fifty_move:
        if clock >= 100:
            return FIFTY_MOVES
    elif clock >= 150:
        return SEVENTYFIVE_MOVES
    if repetitions + 1 >= drawn_at:
        if drawn_at == 2:
            return TWOFOLD
        return THREEFOLD if drawn_at == 3 else FIVEFOLD
    return ONGOING


@inlined
def phase_of(position: Positions) -> int:
    """int64: 0 opening, 1 middlegame, 2 endgame.

    With m knights, bishops, rooks and queens on the board: endgame when m <= 6; otherwise opening
    when m > 10 and both players have at least 4 men on their own back rank; otherwise middlegame.
    (The material and back-rank parts of Lichess's divider, scalachess `Divider.scala`.)
    """
    occupied = occupied_squares(position)
    men = popcount(occupied & ~(position[PAWNS] | position[KINGS]))
    if men <= 6:
        return ENDGAME
    own = position[OWN]
    settled = popcount(own & _BOTTOM_RANK) >= 4 and popcount((occupied ^ own) & _TOP_RANK) >= 4
    return OPENING if men > 10 and settled else MIDDLEGAME


@kernel
def _legal_actions_batch(
    positions: Positions, legal_ids: NDArray[np.int16], num_legal: NDArray[np.int16]
) -> None:
    for i in range(positions.shape[0]):
        count = legal_actions_of(positions[i], legal_ids[i])
        num_legal[i] = count
        legal_ids[i, count:] = -1


@kernel
def _apply_batch(positions: Positions, actions: NDArray[np.int64], out: Positions) -> None:
    for i in range(positions.shape[0]):
        apply(positions[i], actions[i], out[i])


@kernel
def _hash_batch(positions: Positions, out: NDArray[np.uint64]) -> None:
    for i in range(positions.shape[0]):
        out[i] = position_hash(positions[i])


@kernel
def _status_batch(positions: Positions, fifty_move: bool, status: NDArray[np.int8]) -> None:
    legal_ids = np.empty(MAX_LEGAL, np.int16)
    for i in range(positions.shape[0]):
        count = legal_actions_of(positions[i], legal_ids)
        status[i] = status_of(positions[i], count, 0, fifty_move, 3)


@kernel
def _phase_batch(positions: Positions, phase: NDArray[np.int8]) -> None:
    for i in range(positions.shape[0]):
        phase[i] = phase_of(positions[i])


@kernel
def _number_rows(
    rows: NDArray[np.uint64],
    table: NDArray[np.intp],
    first: NDArray[np.intp],
    number: NDArray[np.intp],
) -> int:
    """How many distinct rows there are; fills `first` and `number` by open addressing in a table of -1."""
    last, found = np.uint64(len(table) - 1), 0
    for row in range(len(rows)):
        mixed = np.uint64(0)
        for word in range(rows.shape[1]):
            mixed = (mixed ^ rows[row, word]) * _ROW_MIX
            mixed ^= mixed >> _SHIFT_32
        place = mixed & last
        while True:
            seen = table[place]
            if seen < 0:
                table[place], first[found], number[row] = found, row, found
                found += 1
                break
            same = True
            for word in range(rows.shape[1]):
                same &= rows[first[seen], word] == rows[row, word]
            if same:
                number[row] = seen
                break
            place = (place + np.uint64(1)) & last
    return found


@kernel
def perft(position: Positions, depth: int) -> int:
    """int64: number of move sequences of `depth` plies, generated, encoded as actions, decoded and made."""
    if depth < 1:
        return 1
    path = np.empty((depth, 8), np.uint64)
    legal_ids = np.empty((depth, MAX_LEGAL), np.int16)
    remaining = np.zeros(depth, np.int64)
    path[0] = position
    remaining[0] = legal_actions_of(path[0], legal_ids[0])
    if depth == 1:
        return remaining[0]
    total, ply = 0, 0
    while ply >= 0:
        if remaining[ply] == 0:
            ply -= 1
            continue
        remaining[ply] -= 1
        apply(path[ply], legal_ids[ply, remaining[ply]], path[ply + 1])
        count = legal_actions_of(path[ply + 1], legal_ids[ply + 1])
        if ply + 2 == depth:
            total += count
        else:
            ply += 1
            remaining[ply] = count
    return total


def as_batch(positions: Positions) -> Positions:
    """uint64 [N, 8]: the positions as one contiguous batch.

    Raises:
        ValueError: not of dtype uint64 and shape [N, 8].
    """
    if positions.dtype != np.uint64 or positions.ndim != 2 or positions.shape[1] != 8:
        raise ValueError(
            f"packed positions are {positions.dtype} {list(positions.shape)}: expected uint64 [N, 8]; "
            "make them with chess_env.rules.fen.pack_fens"
        )
    return np.ascontiguousarray(positions)


def legal_actions_batch(positions: Positions) -> tuple[NDArray[np.int16], NDArray[np.int16]]:
    """(int16 [N, 218] legal action ids, ascending, padded with -1; int16 [N] their number)."""
    positions = as_batch(positions)
    legal_ids = np.empty((len(positions), MAX_LEGAL), np.int16)
    num_legal = np.empty(len(positions), np.int16)
    _legal_actions_batch(positions, legal_ids, num_legal)
    return legal_ids, num_legal


def apply_batch(positions: Positions, actions: NDArray[np.integer]) -> Positions:
    """uint64 [N, 8]: the positions after one legal action each; legality is the caller's promise."""
    positions = as_batch(positions)
    out = np.empty_like(positions)
    _apply_batch(positions, np.asarray(actions, np.int64), out)
    return out


def hash_batch(positions: Positions) -> NDArray[np.uint64]:
    """uint64 [N]: `position_hash` of each position."""
    out = np.empty(len(positions), np.uint64)
    _hash_batch(as_batch(positions), out)
    return out


def status_batch(positions: Positions, fifty_move: bool = True) -> NDArray[np.int8]:
    """int8 [N]: how each game stands by the rules that need no history (mate, stalemate, material, clock)."""
    status = np.empty(len(positions), np.int8)
    _status_batch(as_batch(positions), fifty_move, status)
    return status


def phase_batch(positions: Positions) -> NDArray[np.int8]:
    """int8 [N]: `phase_of` each position: 0 opening, 1 middlegame, 2 endgame."""
    phase = np.empty(len(positions), np.int8)
    _phase_batch(as_batch(positions), phase)
    return phase


def children(position: Positions) -> tuple[Positions, NDArray[np.int16]]:
    """(uint64 [L, 8] every position one legal move away, int16 [L] the moves' actions, ascending)."""
    legal_ids, num_legal = legal_actions_batch(position[None])
    actions = legal_ids[0, : num_legal[0]].copy()
    return apply_batch(np.repeat(position[None], len(actions), axis=0), actions), actions


def distinct(packed: NDArray[np.uint64]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """(`[D]` first row of each distinct position in order of appearance, `[N]` index into these of every row).

    Args:
        packed: uint64 `[N, 8]` positions.
    """
    count = len(packed)
    table = np.full(1 << (2 * count + 1).bit_length(), -1, np.intp)
    first, number = np.empty(count, np.intp), np.empty(count, np.intp)
    found = _number_rows(np.ascontiguousarray(packed), table, first, number)
    return first[:found], number


@kernel
def _walk(start: Positions, uniforms: NDArray[np.float64], path: Positions) -> int:
    """Number of plies played; writes the positions passed to `path` [T + 1, 8], the start first."""
    legal_ids = np.empty(MAX_LEGAL, np.int16)
    path[0] = start
    for ply in range(len(uniforms)):
        count = legal_actions_of(path[ply], legal_ids)
        if status_of(path[ply], count, 0, True, 3) != ONGOING:
            return ply
        slot = min(int(uniforms[ply] * count), count - 1)
        apply(path[ply], legal_ids[slot], path[ply + 1])
    return len(uniforms)


@lru_cache(maxsize=1)
def _compiled_walk() -> Callable[[Positions, NDArray[np.float64], Positions], int]:
    """`_walk`, compiled; the first call tells the user where that takes long."""
    with announced("random play"):
        _walk(np.zeros(8, np.uint64), np.empty(0), np.empty((1, 8), np.uint64))
    return _walk


def random_walk(start: Positions, num_plies: int, rng: np.random.Generator) -> Positions:
    """uint64 [n + 1, 8]: the start and the positions after each of up to `num_plies` random plies.

    Shorter when the game ends on the way (mate, stalemate, dead position, fifty moves); the last
    position may be such an end. Draws `rng.random(num_plies)`, whatever happens.
    """
    path = np.empty((num_plies + 1, 8), np.uint64)
    played = _compiled_walk()(start, rng.random(num_plies), path)
    return path[: played + 1]
