"""Quiescence search, compiled: captures and promotions, checks at the root, every evasion of a check.

Alpha-beta on an explicit stack (cached machine code cannot call itself). Captures are ordered by most
valuable victim, then least valuable attacker; those that cannot lift the score to alpha are skipped, and
so are those that lose material by static exchange. A side in check may not stand pat and has all its
evasions searched, so a mate score is a proof (perhaps not the shortest mate). Captures end by
themselves, and nothing is searched below MAX_PLY or expanded after MAX_NODES.
"""

from __future__ import annotations

import numpy as np

from chess_env.evaluators.builtin.exchange import VALUE, exchange_is_good
from chess_env.evaluators.builtin.piece_square_tables import TERMS
from chess_env.evaluators.builtin.static_evaluation import evaluate
from chess_env.evaluators.builtin.tactical_moves import (
    LAST_RANK,
    checking_moves,
    moves_to,
    pinned_men,
    play,
)
from chess_env.jit import inlined, kernel
from chess_env.rules.bitboards import BETWEEN, KING, U0, U1, U8, lowest_square, popcount, square_bit
from chess_env.rules.movegen import attacked_by_opponent, checkers_of
from chess_env.rules.packed import (
    BISHOPS,
    KINGS,
    KNIGHTS,
    OWN,
    PAWNS,
    QUEENS,
    ROOKS,
    occupied_squares,
)

MATE = 30_000  # mate now, inside the search; one ply further away is one less
MATE_BOUND = 29_000
MATE_SCORE = 10_000  # mate in n moves is +-(MATE_SCORE - n) outside
INFINITY = 32_000
MAX_PLY = 8
MAX_NODES = 20_000  # from here on nothing is expanded; random play needs up to about 3,000
MOVES_PER_PLY = 256
DELTA = 60  # what a capture may gain beyond the victim's value
ROUGH_MARGIN = 200  # what the evaluation may add to the material balance
ALPHA, BETA, BEST, STAND, NEXT, END, STAGE = range(7)  # columns of a node
ATTACKED, PINNED = 8, 9  # columns of a board after its eight words
CAPTURES, EVASIONS, CHECKS, CUT = range(4)  # stages of a node


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
def _open_node(boards, nodes, moves, ply, horizon):
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
    if checkers != U0 and ply < horizon:
        nodes[ply, STAGE] = EVASIONS
        nodes[ply, BEST] = ply - MATE
        king_targets = (
            KING[king] & ~own & ~attacked_by_opponent(board, occupied ^ square_bit(king), their)
        )
        allowed = U0
        if checkers & (checkers - U1) == U0:
            allowed = checkers | BETWEEN[king, lowest_square(checkers)]
        pushes = allowed
        pinned = pinned_men(board, occupied)
    else:
        nodes[ply, STAGE] = CAPTURES
        # A side with king and pawns only may be stalemated: it is evaluated in full and asked for moves.
        bare = own & ~(board[PAWNS] | board[KINGS]) == U0
        if ply > 0 and not bare:
            rough = rough_score(board, own, their)
            nodes[ply, BEST] = rough - ROUGH_MARGIN
            if rough - ROUGH_MARGIN >= nodes[ply, BETA]:
                return
            bound = rough + ROUGH_MARGIN + largest_gain(board, own, their)
            if bound <= nodes[ply, ALPHA]:
                nodes[ply, BEST] = bound
                return
        stand, their_attacks = evaluate(board, TERMS)
        nodes[ply, STAND] = stand
        nodes[ply, BEST] = stand
        king_targets = KING[king] & ~own & ~their_attacks
        stuck = bare and king_targets == U0
        if (stand >= nodes[ply, BETA] and not stuck) or ply >= horizon:
            return
        pinned = pinned_men(board, occupied)
        boards[ply, ATTACKED] = their_attacks
        boards[ply, PINNED] = pinned
        allowed = their
        pushes = LAST_RANK
        king_targets &= their
        if stuck:
            allowed = ~own
            pushes = ~own
    end = moves_to(board, allowed, pushes, king_targets, pinned, moves, base)
    if stuck:
        if end == base:
            nodes[ply, BEST] = 0
            return
        if nodes[ply, STAND] >= nodes[ply, BETA]:
            return
    nodes[ply, ALPHA] = max(nodes[ply, BEST], nodes[ply, ALPHA])
    nodes[ply, END] = end


@inlined
def _is_hopeless(board, boards, nodes, ply, move):
    """Whether a capture cannot lift the score to alpha or loses material; at the root a check never is."""
    start, end, kind, victim = move & 63, move >> 6 & 63, move >> 12 & 7, move >> 15 & 7
    bound = nodes[ply, STAND] + VALUE[victim] + DELTA
    if kind == 0 and end >= 56:
        bound += VALUE[4] - VALUE[0]
    if bound > nodes[ply, ALPHA]:
        defended = boards[ply, ATTACKED] & square_bit(end) != U0
        if kind <= victim or not defended or exchange_is_good(board, start, end):
            return False
        bound = nodes[ply, BEST]
    if ply == 0 and checkers_of(play(board, start, end, kind)) != U0:
        return False
    nodes[ply, BEST] = max(bound, nodes[ply, BEST])
    return True


@inlined
def _next_move(boards, nodes, moves, ply):
    """int64: the next move to search at `ply`; -1 when none is left."""
    while True:
        first, last = nodes[ply, NEXT], nodes[ply, END]
        if first < last:
            nodes[ply, NEXT] = first + 1
            move = _take_best(moves, first, last)
            if nodes[ply, STAGE] != CAPTURES:
                return move
            if not _is_hopeless(load_board(boards, ply), boards, nodes, ply, move):
                return move
        elif ply == 0 and nodes[ply, STAGE] == CAPTURES:
            board = load_board(boards, ply)
            nodes[ply, STAGE] = CHECKS
            nodes[ply, NEXT] = 0
            nodes[ply, END] = checking_moves(
                board, occupied_squares(board), boards[0, ATTACKED], boards[0, PINNED], moves, 0
            )
        else:
            return -1


@kernel
def search(boards, nodes, moves):
    """(int64 score of boards[0] from its mover's view in centipawns or as +-(MATE - plies), int64 nodes searched)."""
    ply = 0
    visited = 1
    nodes[0, ALPHA] = -INFINITY
    nodes[0, BETA] = INFINITY
    _open_node(boards, nodes, moves, 0, MAX_PLY)
    while True:
        move = _next_move(boards, nodes, moves, ply)
        if move >= 0:
            child = play(load_board(boards, ply), move & 63, move >> 6 & 63, move >> 12 & 7)
            nodes[ply + 1, ALPHA] = -nodes[ply, BETA]
            nodes[ply + 1, BETA] = -nodes[ply, ALPHA]
            ply += 1
            visited += 1
            _store_board(boards, ply, child)
            _open_node(boards, nodes, moves, ply, MAX_PLY if visited < MAX_NODES else 0)
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


@kernel
def score_batch(positions, scores):
    """int64 nodes searched; writes to `scores` (int32 [N]) the score of each position (uint64 [N, 8]).

    The positions must have legal moves: how a finished game scores is not a matter of search.
    """
    boards = np.zeros((MAX_PLY + 1, 10), np.uint64)
    nodes = np.zeros((MAX_PLY + 1, 7), np.int64)
    moves = np.empty((MAX_PLY + 1) * MOVES_PER_PLY, np.int64)
    visited = 0
    for i in range(positions.shape[0]):
        for word in range(8):
            boards[0, word] = positions[i, word]
        score, count = search(boards, nodes, moves)
        scores[i] = to_centipawns(score)
        visited += count
    return visited
