"""Moves of the quiescence search, compiled: legal captures, evasions and checks, and the boards after them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from chess_env.evaluators.builtin.exchange import Board, kind_at
from chess_env.jit import inlined, kernel
from chess_env.rules.bitboards import (
    BETWEEN,
    KING,
    KNIGHT,
    LINE,
    PAWN_UP,
    U0,
    U1,
    U8,
    bishop_attacks,
    flip_vertical,
    lowest_square,
    pawn_attacks_down,
    pawn_attacks_up,
    rook_attacks,
    square_bit,
)
from chess_env.rules.movegen import en_passant_is_legal
from chess_env.rules.packed import (
    BISHOPS,
    EP_SHIFT,
    KINGS,
    OWN,
    QUEENS,
    ROOKS,
    en_passant_square,
    occupied_squares,
)

LAST_RANK = np.uint64(0xFF << 56)
ORDER_SHIFT = 20


@inlined
def play(board: Board, start: int, end: int, kind: int) -> Board:
    """Board after the mover's pseudo-legal move, seen by the other side; a pawn on the last rank becomes a queen.

    Castling rights are dropped: below the root no move needs them.
    """
    moved, landed = square_bit(start), square_bit(end)
    both = moved | landed
    kept = ~landed
    pawns, knights, bishops = board[0] & kept, board[1] & kept, board[2] & kept
    rooks, queens, kings = board[3] & kept, board[4] & kept, board[5]
    their = (occupied_squares(board) ^ board[OWN]) & kept
    state = U0
    if kind == 0:
        pawns ^= moved
        if landed & LAST_RANK:
            queens |= landed
        else:
            pawns |= landed
            if end == en_passant_square(board) and end > 0:
                pawns ^= landed >> U8
                their ^= landed >> U8
            elif end - start == 16 and pawn_attacks_up(moved) << U8 & their & pawns:
                # A pawn stands beside it; whether its capture is legal is asked when it is tried.
                state = np.uint64((start + 8) ^ 56) << EP_SHIFT
    elif kind == 1:
        knights ^= both
    elif kind == 2:
        bishops ^= both
    elif kind == 3:
        rooks ^= both
    elif kind == 4:
        queens ^= both
    else:
        kings ^= both
    return (
        flip_vertical(pawns),
        flip_vertical(knights),
        flip_vertical(bishops),
        flip_vertical(rooks),
        flip_vertical(queens),
        flip_vertical(kings),
        flip_vertical(their),
        state,
    )


@inlined
def pinned_men(board: Board, occupied: np.uint64) -> np.uint64:
    """uint64: the mover's men that may not leave the line to their king."""
    own = board[OWN]
    their = occupied ^ own
    king = lowest_square(board[KINGS] & own)
    queens = board[QUEENS]
    snipers = bishop_attacks(king, their) & (board[BISHOPS] | queens)
    snipers = (snipers | rook_attacks(king, their) & (board[ROOKS] | queens)) & their
    pinned = U0
    while snipers:
        between = BETWEEN[king, lowest_square(snipers)] & own
        if between and between & (between - U1) == U0:
            pinned |= between
        snipers &= snipers - U1
    return pinned


@inlined
def moves_to(
    board: Board,
    allowed: np.uint64,
    pushes: np.uint64,
    king_targets: np.uint64,
    pinned: np.uint64,
    moves: NDArray[np.int64],
    base: int,
) -> int:
    """int64: end of the list of legal moves that starts at moves[base].

    Men move to `allowed` squares, the king to `king_targets`, pawns push to `pushes`; an en passant
    capture is always listed. Castling and under-promotion are left out. A move is
    start | end << 6 | kind << 12 | victim << 15 | order << 20 (kind and victim 0 pawn .. 5 king,
    6 nobody), with a higher order for moves to try first.
    """
    own = board[OWN]
    occupied = occupied_squares(board)
    empty = ~occupied
    king = lowest_square(board[KINGS] & own)
    target_ep = en_passant_square(board)
    count = base
    movers = own
    while movers:
        start = lowest_square(movers)
        bit = square_bit(start)
        movers &= movers - U1
        kind = kind_at(board, bit)
        if kind == 0:
            targets = bit << U8 & empty
            if start < 16:
                targets |= targets << U8 & empty
            targets = targets & pushes | PAWN_UP[start] & ~own & occupied & allowed
        elif kind == 1:
            targets = KNIGHT[start] & allowed
        elif kind == 2:
            targets = bishop_attacks(start, occupied) & allowed
        elif kind == 3:
            targets = rook_attacks(start, occupied) & allowed
        elif kind == 4:
            targets = (bishop_attacks(start, occupied) | rook_attacks(start, occupied)) & allowed
        else:
            targets = king_targets
        if pinned & bit:
            targets &= LINE[king, start]
        while targets:
            end = lowest_square(targets)
            landed = square_bit(end)
            targets &= targets - U1
            victim = kind_at(board, landed)
            order = 0
            if victim < 6:
                order = 16 + 8 * victim - kind
            if kind == 0 and end >= 56:
                order += 50
            moves[count] = start | end << 6 | kind << 12 | victim << 15 | order << ORDER_SHIFT
            count += 1
        beside = target_ep > 0 and kind == 0 and PAWN_UP[start] & square_bit(target_ep) != U0
        if beside and en_passant_is_legal(board, start, target_ep):
            moves[count] = start | target_ep << 6 | 16 << ORDER_SHIFT
            count += 1
    return count


@kernel
def checking_moves(
    board: Board,
    occupied: np.uint64,
    their_attacks: np.uint64,
    pinned: np.uint64,
    moves: NDArray[np.int64],
    base: int,
) -> int:
    """int64: end of the list of the mover's quiet moves that give check, written to moves[base:]."""
    own = board[OWN]
    their = occupied ^ own
    empty = ~occupied
    king = lowest_square(board[KINGS] & own)
    target = lowest_square(board[KINGS] & their)
    diagonal = bishop_attacks(target, occupied)
    straight = rook_attacks(target, occupied)
    knight = KNIGHT[target]
    # Own men that alone stand between an own slider and their king.
    blockers = U0
    queens = board[QUEENS]
    snipers = bishop_attacks(target, own ^ own) & (board[BISHOPS] | queens)
    snipers = (snipers | rook_attacks(target, own ^ own) & (board[ROOKS] | queens)) & own
    while snipers:
        between = BETWEEN[target, lowest_square(snipers)] & occupied
        if between & (between - U1) == U0:
            blockers |= between & own
        snipers &= snipers - U1
    count = base
    movers = own
    while movers:
        start = lowest_square(movers)
        bit = square_bit(start)
        movers &= movers - U1
        kind = kind_at(board, bit)
        if kind == 0:
            targets = bit << U8 & empty & ~LAST_RANK
            if start < 16:
                targets |= targets << U8 & empty
            checks = pawn_attacks_down(square_bit(target))
        elif kind == 1:
            targets = KNIGHT[start] & empty
            checks = knight
        elif kind == 2:
            targets = bishop_attacks(start, occupied) & empty
            checks = diagonal
        elif kind == 3:
            targets = rook_attacks(start, occupied) & empty
            checks = straight
        elif kind == 4:
            targets = (bishop_attacks(start, occupied) | rook_attacks(start, occupied)) & empty
            checks = diagonal | straight
        else:
            targets = KING[start] & empty & ~their_attacks
            checks = U0
        if blockers & bit:
            checks |= ~LINE[target, start]
        targets &= checks
        if pinned & bit:
            targets &= LINE[king, start]
        while targets:
            end = lowest_square(targets)
            targets &= targets - U1
            moves[count] = start | end << 6 | kind << 12 | 6 << 15
            count += 1
    return count
