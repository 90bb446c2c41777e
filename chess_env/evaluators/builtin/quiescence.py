"""Quiescence search, compiled: captures and promotions, checks at its root, every evasion of a check.

Alpha-beta on an explicit stack (cached machine code cannot call itself). Captures are ordered by most
valuable victim, then least valuable attacker; those that cannot lift the score to alpha are skipped, and
so are those that lose material by static exchange. A side in check may not stand pat and has all its
evasions searched, so a mate score is a proof (perhaps not the shortest mate). Captures end by
themselves, and nothing is searched more than QUIET_PLIES further or expanded after MAX_NODES.

With a depth, all moves but castling and under-promotions are searched for so many plies first.

In the order of the file: static exchange (does a capture lose material on its square?), the moves that are searched
and the boards after them, the search.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numba import carray
from numpy.typing import NDArray

from chess_env.evaluators.builtin import MAX_DEPTH
from chess_env.evaluators.builtin.static_evaluation import evaluate
from chess_env.jit import inlined, kernel, stack_words
from chess_env.move_facts.kernel import kind_at
from chess_env.rules.bitboards import (
    BETWEEN,
    KING,
    KNIGHT,
    LINE,
    PAWN_UP,
    U0,
    U1,
    U8,
    U16,
    bishop_attacks,
    flip_vertical,
    lowest_square,
    pawn_attacks_down,
    pawn_attacks_up,
    popcount,
    rook_attacks,
    square_bit,
)
from chess_env.rules.movegen import (
    attacked_by_opponent,
    attackers_of,
    checkers_of,
    en_passant_is_legal,
    pinned_men,
    slider_attackers,
)
from chess_env.rules.packed import (
    BISHOPS,
    EP_SHIFT,
    KINGS,
    KNIGHTS,
    OWN,
    PAWNS,
    QUEENS,
    ROOKS,
    STATE,
    en_passant_square,
    occupied_squares,
)

# A packed position as a tuple of eight uint64 (`static_evaluation.py`).
Board: TypeAlias = Any

# Exchange values by kind (pawn .. king) and 0 for an empty square.
VALUE = np.array([100, 320, 330, 500, 950, 20_000, 0], np.int64)


@kernel
def exchange_is_good(board: Board, start: int, end: int) -> bool:
    """Whether the exchange that the mover begins with start-end loses no material (pins are not looked at).

    The swap algorithm of https://www.chessprogramming.org/SEE_-_The_Swap_Algorithm with a threshold of 0.
    """
    moved, target = square_bit(start), square_bit(end)
    swap = VALUE[kind_at(board, target)]
    swap = VALUE[kind_at(board, moved)] - swap
    if swap <= 0:
        return True
    occupied = occupied_squares(board) & ~moved | target
    diagonal = board[BISHOPS] | board[QUEENS]
    straight = board[ROOKS] | board[QUEENS]
    attackers = attackers_of(board, end, occupied)
    own = board[OWN]
    side = own
    good = True
    while True:
        side = ~side
        attackers &= occupied
        mine = attackers & side
        if mine == U0:
            break
        good = not good
        kind = 0
        bits = mine & board[PAWNS]
        while not bits and kind < 4:
            kind += 1
            bits = mine & board[kind]
        if not bits:
            # The king may recapture only what is no longer defended.
            return good if attackers & ~side == U0 else not good
        swap = VALUE[kind] - swap
        if swap < (1 if good else 0):
            break
        occupied ^= bits & (~bits + U1)
        if kind == 0 or kind == 2 or kind == 4:
            attackers |= bishop_attacks(end, occupied) & diagonal
        if kind == 3 or kind == 4:
            attackers |= rook_attacks(end, occupied) & straight
    return good


EVERYWHERE = ~U0
LAST_RANK = np.uint64(0xFF << 56)
THIRD_RANK, FOURTH_RANK = np.uint64(0xFF << 16), np.uint64(0xFF << 24)
SEVENTH_RANK = np.uint64(0xFF << 48)
OWN_CASTLING = np.uint64(3)
CASTLING_LINES = np.uint64(0x28282828282828FF)
"""From which a king is checked by castling: the first rank, and the files of the castled rook."""
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
def _list_moves(
    board: Board,
    start: int,
    targets: np.uint64,
    kind: int,
    moves: NDArray[np.int64],
    count: int,
) -> int:
    """int64: end of the list after a man's moves to `targets`, written to moves[count:]."""
    while targets:
        end = lowest_square(targets)
        victim = kind_at(board, square_bit(end))
        targets &= targets - U1
        order = 0
        if victim < 6:
            order = 16 + 8 * victim - kind
        if kind == 0 and end >= 56:
            order += 50
        moves[count] = start | end << 6 | kind << 12 | victim << 15 | order << ORDER_SHIFT
        count += 1
    return count


@inlined
def _list_slides(
    board: Board,
    kind: int,
    reach: np.uint64,
    allowed: np.uint64,
    pinned: np.uint64,
    moves: NDArray[np.int64],
    count: int,
) -> int:
    """int64: end of the list after the moves of own bishops, rooks or queens (`kind`: their place on the board)."""
    own, occupied = board[OWN], occupied_squares(board)
    king = lowest_square(board[KINGS] & own)
    men = board[kind] & own if reach & allowed else U0
    while men:
        start = lowest_square(men)
        targets = bishop_attacks(start, occupied) if kind != ROOKS else U0
        if kind != BISHOPS:
            targets |= rook_attacks(start, occupied)
        targets &= allowed
        if pinned & square_bit(start):
            targets &= LINE[king, start]
        men &= men - U1
        count = _list_moves(board, start, targets, kind, moves, count)
    return count


@inlined
def moves_to(
    board: Board,
    allowed: np.uint64,
    pushes: np.uint64,
    king_targets: np.uint64,
    pinned: np.uint64,
    reach: tuple[np.uint64, np.uint64, np.uint64],
    moves: NDArray[np.int64],
    base: int,
) -> int:
    """int64: end of the list of legal moves that starts at moves[base].

    Men move to `allowed` squares, the king to `king_targets`, pawns push to `pushes`; an en passant
    capture is always listed. Castling and under-promotion are left out. `reach` are squares outside which no minor,
    rook or queen attacks anything. A move is
    start | end << 6 | kind << 12 | victim << 15 | order << 20 (kind and victim 0 pawn .. 5 king,
    6 nobody), with a higher order for moves to try first.
    """
    own = board[OWN]
    occupied = occupied_squares(board)
    empty = ~occupied
    king = lowest_square(board[KINGS] & own)
    target_ep = en_passant_square(board)
    count = _list_moves(board, king, king_targets, 5, moves, base)
    pawns = board[PAWNS] & own
    captured = ~own & occupied & allowed
    pushed = pawns << U8 & empty
    reached = (pushed | (pushed & THIRD_RANK) << U8 & empty) & pushes
    # The pawns that can move; mostly there are none, and each is looked at only then.
    men = pawn_attacks_down(captured) | reached >> U8 | (reached & FOURTH_RANK) >> U16
    men &= pawns
    while men:
        start = lowest_square(men)
        bit = square_bit(start)
        men &= men - U1
        targets = bit << U8 & empty
        if start < 16:
            targets |= targets << U8 & empty
        targets = targets & pushes | PAWN_UP[start] & captured
        if pinned & bit:
            targets &= LINE[king, start]
        count = _list_moves(board, start, targets, 0, moves, count)
    if target_ep > 0:
        men = pawn_attacks_down(square_bit(target_ep)) & pawns
        while men:
            start = lowest_square(men)
            men &= men - U1
            if en_passant_is_legal(board, start, target_ep):
                moves[count] = start | target_ep << 6 | 16 << ORDER_SHIFT
                count += 1
    men = board[KNIGHTS] & own & ~pinned if reach[0] & allowed else U0
    while men:
        start = lowest_square(men)
        men &= men - U1
        count = _list_moves(board, start, KNIGHT[start] & allowed, 1, moves, count)
    count = _list_slides(board, BISHOPS, reach[0], allowed, pinned, moves, count)
    count = _list_slides(board, ROOKS, reach[1], allowed, pinned, moves, count)
    count = _list_slides(board, QUEENS, reach[2], allowed, pinned, moves, count)
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
    snipers = slider_attackers(board, target, U0, own)
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


MATE = 30_000  # mate now, inside the search; one ply further away is one less
MATE_BOUND = 29_000
MATE_SCORE = 10_000  # mate in n moves is +-(MATE_SCORE - n) outside
INFINITY = 32_000
QUIET_PLIES = 8  # of captures and evasions below them
MAX_NODES = 20_000  # from here on nothing is expanded; random play needs up to about 3,000
NODES_SHIFT = 2  # each ply of depth allows four times as many nodes
MOVES_PER_PLY = 256
_LEVELS = MAX_DEPTH + QUIET_PLIES + 1
_BOARD_WORDS, _NODE_WORDS, _MOVE_WORDS = 10 * _LEVELS, 8 * _LEVELS, MOVES_PER_PLY * _LEVELS
DELTA = 60  # what a capture may gain beyond the victim's value
ROUGH_MARGIN = 200  # what the evaluation may add to the material balance
ALPHA, BETA, BEST, STAND, NEXT, END, STAGE, FORCED = range(
    8
)  # columns of a node; FORCED of the root alone
ATTACKED, PINNED = 8, 9  # columns of a board after its eight words
CAPTURES, ALL, CHECKS, CUT = range(4)  # stages of a node; all moves: evasions, and within the depth
FEW_REPLIES = 2
"""A mate in two is looked for behind a check that leaves at most so many (`short_mates.py`)."""


@inlined
def _take_best(moves, first, last):
    """int64: the move of highest order in moves[first:last], swapped to moves[first]."""
    best = first
    for i in range(first + 1, last):
        if moves[i] > moves[best]:
            best = i
    chosen = moves[best]
    moves[best] = moves[first]
    moves[first] = chosen
    return chosen


@inlined
def rough_score(board, own, their):
    """int64: material balance in centipawns."""
    score = 98 * (popcount(board[PAWNS] & own) - popcount(board[PAWNS] & their))
    score += 312 * (popcount(board[KNIGHTS] & own) - popcount(board[KNIGHTS] & their))
    score += 333 * (popcount(board[BISHOPS] & own) - popcount(board[BISHOPS] & their))
    score += 493 * (popcount(board[ROOKS] & own) - popcount(board[ROOKS] & their))
    return score + 980 * (popcount(board[QUEENS] & own) - popcount(board[QUEENS] & their))


@inlined
def largest_gain(board, own, their):
    """int64: upper bound of what one capture or promotion wins, in centipawns."""
    gain = 100
    if board[QUEENS] & their:
        gain = 1000
    elif board[ROOKS] & their:
        gain = 500
    elif (board[KNIGHTS] | board[BISHOPS]) & their:
        gain = 340
    if board[PAWNS] & own & LAST_RANK >> U8:
        gain += 900
    return gain


@inlined
def load_board(boards, ply):
    """uint64 x 8: a board of the stack."""
    return (
        boards[ply, 0],
        boards[ply, 1],
        boards[ply, 2],
        boards[ply, 3],
        boards[ply, 4],
        boards[ply, 5],
        boards[ply, 6],
        boards[ply, 7],
    )


@inlined
def _store_board(boards, ply, board):
    boards[ply, 0] = board[0]
    boards[ply, 1] = board[1]
    boards[ply, 2] = board[2]
    boards[ply, 3] = board[3]
    boards[ply, 4] = board[4]
    boards[ply, 5] = board[5]
    boards[ply, 6] = board[6]
    boards[ply, 7] = board[7]


@kernel
def _open_node(boards, nodes, moves, ply, depth, horizon):
    """Evaluates the board at `ply` and lists the moves to try there (none once its score is settled)."""
    board = load_board(boards, ply)
    own = board[OWN]
    occupied = occupied_squares(board)
    their = occupied ^ own
    king = lowest_square(board[KINGS] & own)
    checkers = checkers_of(board)
    base = ply * MOVES_PER_PLY
    nodes[ply, NEXT] = base
    nodes[ply, END] = base
    stuck = False
    full = ply < depth and ply < horizon
    if checkers != U0 and ply < horizon:
        nodes[ply, STAGE] = ALL
        nodes[ply, BEST] = ply - MATE
        king_targets = (
            KING[king] & ~own & ~attacked_by_opponent(board, occupied ^ square_bit(king), their)
        )
        allowed = U0
        if checkers & (checkers - U1) == U0:
            allowed = checkers | BETWEEN[king, lowest_square(checkers)]
        pushes = allowed
        pinned = pinned_men(board, occupied)
        reach = EVERYWHERE, EVERYWHERE, EVERYWHERE
    else:
        nodes[ply, STAGE] = CUT  # until there is something to try
        if ply == 1 and checkers != U0:  # out of nodes: the replies are not listed
            nodes[0, FORCED] = 1
        # A side with king and pawns only may be stalemated: it is evaluated in full and asked for moves.
        bare = own & ~(board[PAWNS] | board[KINGS]) == U0
        if ply > 0 and not bare and not full:
            rough = rough_score(board, own, their)
            nodes[ply, BEST] = rough - ROUGH_MARGIN
            if rough - ROUGH_MARGIN >= nodes[ply, BETA]:
                return
            bound = rough + ROUGH_MARGIN + largest_gain(board, own, their)
            if bound <= nodes[ply, ALPHA]:
                nodes[ply, BEST] = bound
                return
        stand, their_attacks, reach = evaluate(board)
        nodes[ply, STAND] = stand
        nodes[ply, BEST] = stand
        king_targets = KING[king] & ~own & ~their_attacks
        stuck = bare and king_targets == U0
        if (stand >= nodes[ply, BETA] and not stuck and not full) or ply >= horizon:
            return
        pinned = pinned_men(board, occupied)
        boards[ply, ATTACKED] = their_attacks
        boards[ply, PINNED] = pinned
        allowed = their
        pushes = LAST_RANK
        if full or stuck:
            allowed = ~own
            pushes = ~own
        if not full:
            king_targets &= their
    end = moves_to(board, allowed, pushes, king_targets, pinned, reach, moves, base)
    if ply == 1 and checkers != U0 and end - base <= FEW_REPLIES:
        nodes[0, FORCED] = 1
    if checkers == U0:
        if (full or stuck) and end == base:
            nodes[ply, BEST] = 0
            return
        if full:
            nodes[ply, BEST] = -INFINITY
        elif nodes[ply, STAND] >= nodes[ply, BETA]:
            return
        nodes[ply, STAGE] = ALL if full else CAPTURES
    nodes[ply, ALPHA] = max(nodes[ply, BEST], nodes[ply, ALPHA])
    nodes[ply, END] = end


@inlined
def _is_hopeless(board, boards, nodes, ply, depth, move):
    """Whether a capture cannot lift the score to alpha or loses material; where checks are tried one never is."""
    start, end, kind, victim = move & 63, move >> 6 & 63, move >> 12 & 7, move >> 15 & 7
    bound = nodes[ply, STAND] + VALUE[victim] + DELTA
    if kind == 0 and end >= 56:
        bound += VALUE[4] - VALUE[0]
    if bound > nodes[ply, ALPHA]:
        defended = boards[ply, ATTACKED] & square_bit(end) != U0
        if kind <= victim or not defended or exchange_is_good(board, start, end):
            return False
        bound = nodes[ply, BEST]
    if ply == depth and checkers_of(play(board, start, end, kind)) != U0:
        return False
    nodes[ply, BEST] = max(bound, nodes[ply, BEST])
    return True


@inlined
def _next_move(boards, nodes, moves, ply, depth):
    """int64: the next move to search at `ply`; -1 when none is left."""
    while True:
        first, last = nodes[ply, NEXT], nodes[ply, END]
        if first < last:
            nodes[ply, NEXT] = first + 1
            move = _take_best(moves, first, last)
            if nodes[ply, STAGE] != CAPTURES:
                return move
            if not _is_hopeless(load_board(boards, ply), boards, nodes, ply, depth, move):
                return move
        elif ply == depth and nodes[ply, STAGE] == CAPTURES:
            board, base = load_board(boards, ply), ply * MOVES_PER_PLY
            attacked, pinned = boards[ply, ATTACKED], boards[ply, PINNED]
            nodes[ply, STAGE] = CHECKS
            nodes[ply, NEXT] = base
            nodes[ply, END] = checking_moves(
                board, occupied_squares(board), attacked, pinned, moves, base
            )
        else:
            return -1


@kernel
def search(boards, nodes, moves, depth):
    """(int64 score of boards[0] from its mover's view in centipawns or as +-(MATE - plies), int64 nodes searched)."""
    ply = 0
    horizon = depth + QUIET_PLIES
    most = MAX_NODES << NODES_SHIFT * depth
    visited = 1
    nodes[0, ALPHA] = -INFINITY
    nodes[0, BETA] = INFINITY
    nodes[0, FORCED] = 0
    _open_node(boards, nodes, moves, 0, depth, horizon)
    while True:
        move = _next_move(boards, nodes, moves, ply, depth)
        if move >= 0:
            child = play(load_board(boards, ply), move & 63, move >> 6 & 63, move >> 12 & 7)
            nodes[ply + 1, ALPHA] = -nodes[ply, BETA]
            nodes[ply + 1, BETA] = -nodes[ply, ALPHA]
            ply += 1
            visited += 1
            _store_board(boards, ply, child)
            _open_node(boards, nodes, moves, ply, depth, horizon if visited < most else 0)
        elif ply == 0:
            return nodes[0, BEST], visited
        else:
            score = -nodes[ply, BEST]
            ply -= 1
            nodes[ply, BEST] = max(score, nodes[ply, BEST])
            nodes[ply, ALPHA] = max(score, nodes[ply, ALPHA])
            if score >= nodes[ply, BETA]:
                nodes[ply, NEXT] = nodes[ply, END]
                nodes[ply, STAGE] = CUT


@inlined
def to_centipawns(score):
    """int64: an evaluation unchanged; mate in n moves as +-(10000 - n)."""
    if score > MATE_BOUND:
        return MATE_SCORE - (MATE - score + 1) // 2
    if score < -MATE_BOUND:
        return (MATE + score + 1) // 2 - MATE_SCORE
    return score


@inlined
def _has_more_checks(board):
    """Whether the mover may check by what is not searched: an under-promotion, or castling."""
    own = board[OWN]
    if board[PAWNS] & own & SEVENTH_RANK:
        return True
    return board[STATE] & OWN_CASTLING != U0 and board[KINGS] & ~own & CASTLING_LINES != U0


@kernel
def score_batch(positions, scores, forcing, depth):
    """int64 nodes searched; writes to `scores` (int32 [N]) the score of each position (uint64 [N, 8]).

    `depth` is the number of plies of which every move is searched, 0 to MAX_DEPTH.
    Writes to `forcing` (bool [N]) False where no check of the mover leaves at most `FEW_REPLIES`. The positions must
    have legal moves: how a finished game scores is not a matter of search.
    """
    boards = carray(stack_words(_BOARD_WORDS), (_LEVELS, 10), np.uint64)
    nodes = carray(stack_words(_NODE_WORDS), (_LEVELS, 8), np.int64)
    moves = carray(stack_words(_MOVE_WORDS), _MOVE_WORDS, np.int64)
    visited = 0
    for i in range(positions.shape[0]):
        for word in range(8):
            boards[0, word] = positions[i, word]
        score, count = search(boards, nodes, moves, depth)
        scores[i] = to_centipawns(score)
        forcing[i] = nodes[0, FORCED] != 0 or _has_more_checks(load_board(positions, i))
        visited += count
    return visited
