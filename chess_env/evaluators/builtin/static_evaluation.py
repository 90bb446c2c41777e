"""Static evaluation of a quiet position, compiled: a sum of tapered terms, integers only.

A board is a packed position (see `chess_env/rules/packed.py`) as a tuple of eight uint64, which the compiler
keeps in registers. Every term has a middlegame and an endgame value, packed into one int64; the two
sums are blended by the material left.

The values were fitted for this project by ridge least squares of win probability (Lichess formula), with material
values of PeSTO (chessprogramming.org/PeSTO's_Evaluation_Function) and a slight preference for the centre as the prior.
Data: 97,000 positions from random, engine and mixed games and one random move later, scored by Stockfish 15.1 at depth
8 (not cleared in between); a position's features are those of the leaf that the quiescence search chose for it.
Positions of the benchmark sample (benchmarks/data) were left out.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from chess_env.jit import inlined, kernel
from chess_env.rules.bitboards import (
    KING,
    KNIGHT,
    U0,
    U1,
    U8,
    beside,
    bishop_attacks,
    fill_down,
    fill_up,
    flip_vertical,
    lowest_square,
    pawn_attacks_up,
    popcount,
    rook_attacks,
    square_bit,
)
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
from chess_env.rules.rules import has_insufficient_material

# A (middlegame, endgame) pair of centipawns a term. Piece values are part of the piece-square tables. A square and its
# mirror image on the other wing share a value; rows run from the side's own first rank up, columns from the edge file
# to the centre file.
# fmt: off
_VALUES: dict[str, list[tuple[int, int]]] = {
    # pawn, knight, bishop, rook, queen, king: 8 ranks x 4 files each
    "PIECE_SQUARE": [
        (57, 78), (62, 78), (67, 78), (72, 78),
        (84, 73), (103, 73), (95, 89), (76, 96),
        (97, 53), (100, 55), (91, 63), (72, 93),
        (91, 52), (87, 78), (106, 73), (99, 68),
        (104, 80), (104, 85), (116, 72), (138, 51),
        (140, 83), (129, 133), (141, 115), (150, 53),
        (142, 171), (113, 130), (42, 156), (168, 62),
        (92, 134), (97, 134), (102, 134), (107, 134),
        (318, 159), (353, 237), (335, 273), (338, 283),
        (344, 238), (357, 247), (368, 240), (374, 268),
        (350, 284), (382, 251), (376, 257), (364, 297),
        (372, 301), (368, 333), (380, 296), (384, 307),
        (388, 295), (380, 327), (349, 324), (400, 297),
        (330, 247), (403, 255), (364, 317), (405, 275),
        (339, 220), (323, 306), (328, 303), (413, 336),
        (254, 249), (223, 352), (255, 262), (221, 280),
        (364, 305), (381, 325), (364, 309), (386, 311),
        (387, 321), (404, 269), (400, 299), (379, 295),
        (374, 324), (401, 326), (394, 319), (374, 305),
        (366, 372), (367, 290), (380, 301), (384, 280),
        (391, 290), (388, 305), (377, 283), (411, 301),
        (397, 308), (425, 234), (367, 360), (414, 281),
        (351, 353), (357, 296), (412, 275), (262, 342),
        (364, 262), (295, 348), (407, 246), (308, 348),
        (484, 474), (476, 499), (495, 489), (508, 478),
        (457, 508), (485, 499), (467, 513), (448, 532),
        (451, 509), (482, 525), (477, 539), (441, 542),
        (473, 513), (471, 514), (448, 541), (464, 506),
        (465, 566), (483, 494), (521, 460), (535, 491),
        (504, 541), (538, 494), (479, 543), (539, 499),
        (481, 552), (475, 535), (392, 569), (564, 502),
        (481, 549), (507, 546), (460, 564), (563, 475),
        (1001, 989), (997, 1102), (1037, 904), (1037, 908),
        (1018, 1038), (1044, 952), (1046, 869), (1040, 920),
        (1022, 932), (1037, 955), (1012, 999), (1022, 1012),
        (1035, 1007), (1002, 953), (1029, 986), (995, 1091),
        (1034, 1013), (1022, 1044), (1000, 955), (1019, 946),
        (1057, 941), (1057, 1128), (1028, 974), (1079, 999),
        (1030, 914), (1018, 917), (1037, 899), (971, 897),
        (1038, 937), (1005, 953), (1040, 819), (934, 955),
        (215, -64), (238, -82), (182, -46), (192, -55),
        (170, -19), (177, -25), (142, -15), (129, -5),
        (36, -49), (86, -21), (49, -20), (-21, 48),
        (-64, 40), (-83, -46), (-66, 28), (-138, 106),
        (-213, 20), (-297, 56), (-389, 192), (-226, 120),
        (6, -22), (-40, -29), (-6, 8), (-74, -53),
        (20, -8), (11, -2), (-81, -37), (-10, 4),
        (24, -15), (20, -8), (9, -4), (0, 0),
    ],
    # knight, by number of squares it can safely go to (0 .. 8)
    "MOBILITY_N": [
        (-7, -33), (19, -79), (28, -33), (30, -16), (43, -5),
        (52, 9), (55, 23), (61, 20), (73, 37),
    ],
    # bishop (0 .. 13)
    "MOBILITY_B": [
        (-19, -98), (-7, -53), (5, -29), (15, -5), (18, 5),
        (23, 27), (32, 31), (33, 41), (39, 59), (35, 68),
        (48, 76), (46, 70), (15, 72), (70, 15),
    ],
    # rook (0 .. 14)
    "MOBILITY_R": [
        (-53, -85), (-24, -34), (-11, -13), (-8, -7), (8, 3),
        (9, 11), (8, 23), (25, 15), (28, 29), (27, 39),
        (49, 39), (16, 47), (46, 24), (53, 20), (79, 65),
    ],
    # queen (0 .. 27)
    "MOBILITY_Q": [
        (-15, -4), (-61, -97), (-54, -13), (-44, -51), (-30, -92),
        (-35, -16), (-19, -24), (-19, 36), (-12, 33), (-7, 11),
        (-2, 13), (1, 90), (4, 103), (4, 97), (6, 121),
        (13, 150), (14, 76), (-11, 112), (17, 90), (9, 147),
        (-14, 94), (62, 83), (89, 45), (66, 1), (-2, -19),
        (-16, -27), (0, 0), (-1, -5),
    ],
    # passed pawn, by its rank (0 .. 7)
    "PASSED": [
        (0, 0), (-5, -20), (-30, -46), (-22, -29),
        (-27, -13), (-57, 63), (66, 15), (0, 0),
    ],
    # a man stands in front of it, by rank
    "PASSED_BLOCKED": [
        (0, 0), (-21, 12), (24, -16), (-18, -19),
        (-24, -21), (-31, -58), (-3, -40), (0, 0),
    ],
    # per rank of the pawn, by the own king's distance from its next square (0 .. 7)
    "PASSED_OWN_KING": [
        (-199, 99), (5, 21), (7, 18), (4, 10),
        (17, 5), (15, 4), (16, -1), (10, 1),
    ],
    # per rank of the pawn, by the opposing king's distance from its next square
    "PASSED_THEIR_KING": [
        (-18, 6), (-2, -1), (1, 7), (-11, 15),
        (-10, 23), (-15, 30), (-32, 49), (-39, 28),
    ],
    # pawn without a neighbour on either side file
    "ISOLATED": [(-10, 6)],
    # pawn behind an own pawn
    "DOUBLED": [(-8, -22)],
    # pawn defended by or beside a pawn, by rank
    "CONNECTED": [
        (0, 0), (7, 1), (13, 5), (7, 11),
        (14, 16), (25, 16), (69, 79), (0, 0),
    ],
    # two or more bishops
    "BISHOP_PAIR": [(76, -17)],
    # rook on a file without pawns
    "ROOK_OPEN": [(65, -8)],
    # rook on a file without own pawns
    "ROOK_SEMI_OPEN": [(32, -10)],
    # by weighted attacks on the squares around the opposing king (0 .. 31 and more)
    "KING_DANGER": [
        (-101, -11), (0, 0), (-96, -2), (-102, -13),
        (-96, -28), (-110, -6), (-59, -39), (-72, -46),
        (-19, -46), (-50, -31), (-97, -19), (3, -27),
        (-39, -42), (-8, -60), (-32, -35), (-59, -8),
        (-5, -21), (16, -24), (30, -96), (-27, 121),
        (-57, 158), (12, -36), (97, 89), (201, 90),
        (35, 49), (-17, -76), (114, -66), (59, 50),
        (161, 67), (30, 33), (139, 50), (146, 24),
    ],
    # pawns on ranks 2-4 on and beside the king file (0 .. 3 and more)
    "SHIELD": [
        (-36, 12), (-12, -9), (8, 7), (39, -9),
    ],
    # no own pawn on the king file
    "KING_OPEN_FILE": [(-9, -18)],
    # on the opponent's men (11), then on the mover's (11): pawn attacks minor, rook, queen; minor attacks rook,
    # queen; rook attacks queen; undefended and attacked pawn, knight, bishop, rook, queen
    "THREAT": [
        (57, -11), (26, -11), (50, 29), (35, 19),
        (45, -6), (3, -2), (-3, -2), (-3, 37),
        (35, -34), (-23, 33), (14, 1), (67, 44),
        (86, -75), (93, -43), (42, 37), (79, 51),
        (116, -26), (20, 38), (30, 54), (38, 48),
        (56, 13), (-8, 29),
    ],
    # the right to move
    "TEMPO": [(46, 34)],
    # knight defended by a pawn where no pawn can ever attack it
    "OUTPOST": [(13, 0)],
}
# fmt: on

_PAIRS = [pair for pairs in _VALUES.values() for pair in pairs]
NUM_TERMS = len(_PAIRS)
# int64 [NUM_TERMS]: middlegame + endgame * 2**32, so that one sum adds both.
TERMS: NDArray[np.int64] = np.array([middle + (end << 32) for middle, end in _PAIRS], np.int64)


def _first_index(name: str) -> int:
    names = list(_VALUES)
    return sum(len(_VALUES[earlier]) for earlier in names[: names.index(name)])


PIECE_SQUARE = _first_index("PIECE_SQUARE")
MOBILITY_N = _first_index("MOBILITY_N")
MOBILITY_B = _first_index("MOBILITY_B")
MOBILITY_R = _first_index("MOBILITY_R")
MOBILITY_Q = _first_index("MOBILITY_Q")
PASSED = _first_index("PASSED")
PASSED_BLOCKED = _first_index("PASSED_BLOCKED")
PASSED_OWN_KING = _first_index("PASSED_OWN_KING")
PASSED_THEIR_KING = _first_index("PASSED_THEIR_KING")
ISOLATED = _first_index("ISOLATED")
DOUBLED = _first_index("DOUBLED")
CONNECTED = _first_index("CONNECTED")
BISHOP_PAIR = _first_index("BISHOP_PAIR")
ROOK_OPEN = _first_index("ROOK_OPEN")
ROOK_SEMI_OPEN = _first_index("ROOK_SEMI_OPEN")
KING_DANGER = _first_index("KING_DANGER")
SHIELD = _first_index("SHIELD")
KING_OPEN_FILE = _first_index("KING_OPEN_FILE")
THREAT = _first_index("THREAT")
TEMPO = _first_index("TEMPO")
OUTPOST = _first_index("OUTPOST")


PHASE_TOTAL = 24
MAX_EVAL = 9_000
_HALF = np.int64(1) << np.int64(31)
_LOW = np.int64(0xFFFFFFFF)
_SHIFT_32 = np.int64(32)
# Half a board file by file: squares 8 * rank + file and 8 * rank + (7 - file) share one value.
_HALF_SQUARE = np.array([4 * (s // 8) + min(s % 8, 7 - s % 8) for s in range(64)], np.int64)
_DISTANCE = np.array(
    [[max(abs(a // 8 - b // 8), abs(a % 8 - b % 8)) for b in range(64)] for a in range(64)],
    np.int64,
)
_FILE_OF = np.array([0x0101010101010101 << (s % 8) for s in range(64)], np.uint64)
_RANK_2_TO_4 = np.uint64(0x00000000FFFFFF00)


@inlined
def _pawn_terms(own_pawns, their_pawns, own_king, their_king, occupied):
    """int64: packed value of one side's pawns, seen from that side."""
    total = np.int64(0)
    # Squares from which no opposing pawn can ever stop or capture a pawn.
    shadow = fill_down(their_pawns | beside(their_pawns)) >> U8
    attacked = pawn_attacks_up(own_pawns)
    files = fill_up(fill_down(own_pawns))
    isolated = own_pawns & ~beside(files)
    connected = own_pawns & (attacked | beside(own_pawns))
    doubled = own_pawns & (fill_down(own_pawns) >> U8)
    total += popcount(isolated) * TERMS[ISOLATED] + popcount(doubled) * TERMS[DOUBLED]
    bits = own_pawns
    while bits:
        square = lowest_square(bits)
        total += TERMS[PIECE_SQUARE + _HALF_SQUARE[square]]
        bits &= bits - U1
    while connected:
        total += TERMS[CONNECTED + (lowest_square(connected) >> 3)]
        connected &= connected - U1
    passed = own_pawns & ~shadow & ~doubled
    while passed:
        square = lowest_square(passed)
        rank = square >> 3
        total += TERMS[PASSED + rank]
        if square_bit(square + 8) & occupied:
            total += TERMS[PASSED_BLOCKED + rank]
        total += TERMS[PASSED_OWN_KING + _DISTANCE[square + 8, own_king]] * rank
        total += TERMS[PASSED_THEIR_KING + _DISTANCE[square + 8, their_king]] * rank
        passed &= passed - U1
    return total


@inlined
def _piece_terms(board, occupied, their_pawn_attacks, ring):
    """(int64 packed value, uint64 minor, rook, queen attacks, int64 king attack units) of the mover's men."""
    own = board[OWN]
    own_pawns = board[PAWNS] & own
    their_pawns = board[PAWNS] & ~own
    pawn_attacks = pawn_attacks_up(own_pawns)
    reach = ~(their_pawn_attacks | own_pawns | (board[KINGS] & own))
    total = np.int64(0)
    units = np.int64(0)
    minors = rooks = queens = U0

    bits = board[KNIGHTS] & own
    if bits:
        outposts = bits & pawn_attacks & ~fill_down(beside(their_pawns))
        total += popcount(outposts) * TERMS[OUTPOST]
    while bits:
        square = lowest_square(bits)
        attacks = KNIGHT[square]
        minors |= attacks
        units += 2 * popcount(attacks & ring)
        total += (
            TERMS[PIECE_SQUARE + 32 + _HALF_SQUARE[square]]
            + TERMS[MOBILITY_N + popcount(attacks & reach)]
        )
        bits &= bits - U1
    bits = board[BISHOPS] & own
    if bits & (bits - U1):
        total += TERMS[BISHOP_PAIR]
    while bits:
        square = lowest_square(bits)
        attacks = bishop_attacks(square, occupied)
        minors |= attacks
        units += 2 * popcount(attacks & ring)
        total += (
            TERMS[PIECE_SQUARE + 64 + _HALF_SQUARE[square]]
            + TERMS[MOBILITY_B + popcount(attacks & reach)]
        )
        bits &= bits - U1
    bits = board[ROOKS] & own
    while bits:
        square = lowest_square(bits)
        attacks = rook_attacks(square, occupied)
        rooks |= attacks
        units += 3 * popcount(attacks & ring)
        total += (
            TERMS[PIECE_SQUARE + 96 + _HALF_SQUARE[square]]
            + TERMS[MOBILITY_R + popcount(attacks & reach)]
        )
        file = _FILE_OF[square]
        if file & own_pawns == U0:
            total += TERMS[ROOK_SEMI_OPEN] if file & their_pawns else TERMS[ROOK_OPEN]
        bits &= bits - U1
    bits = board[QUEENS] & own
    while bits:
        square = lowest_square(bits)
        attacks = bishop_attacks(square, occupied) | rook_attacks(square, occupied)
        queens |= attacks
        units += 5 * popcount(attacks & ring)
        total += (
            TERMS[PIECE_SQUARE + 128 + _HALF_SQUARE[square]]
            + TERMS[MOBILITY_Q + popcount(attacks & reach)]
        )
        bits &= bits - U1

    king = lowest_square(board[KINGS] & own)
    total += TERMS[PIECE_SQUARE + 160 + _HALF_SQUARE[king]]
    near = (_FILE_OF[king] | beside(_FILE_OF[king])) & own_pawns
    total += TERMS[SHIELD + min(3, popcount(near & _RANK_2_TO_4))]
    if _FILE_OF[king] & own_pawns == U0:
        total += TERMS[KING_OPEN_FILE]
    return total, minors, rooks, queens, units


@inlined
def _threat_terms(board, side, by_pawns, by_minors, by_rooks, by_any, defended, base):
    """int64: packed value of the attacks on `side`'s men; `base` is the first of eleven terms."""
    knights, bishops = board[KNIGHTS] & side, board[BISHOPS] & side
    rooks, queens = board[ROOKS] & side, board[QUEENS] & side
    minors = knights | bishops
    total = popcount(minors & by_pawns) * TERMS[base]
    total += popcount(rooks & by_pawns) * TERMS[base + 1]
    total += popcount(queens & by_pawns) * TERMS[base + 2]
    total += popcount(rooks & by_minors) * TERMS[base + 3]
    total += popcount(queens & by_minors) * TERMS[base + 4]
    total += popcount(queens & by_rooks) * TERMS[base + 5]
    loose = by_any & ~defended
    total += popcount(board[PAWNS] & side & loose) * TERMS[base + 6]
    total += popcount(knights & loose) * TERMS[base + 7]
    total += popcount(bishops & loose) * TERMS[base + 8]
    total += popcount(rooks & loose) * TERMS[base + 9]
    total += popcount(queens & loose) * TERMS[base + 10]
    return total


@inlined
def blend(total, phase):
    """int64: centipawns of a packed total at a phase (0 bare kings and pawns .. 24 full board)."""
    middlegame = ((total + _HALF) & _LOW) - _HALF
    endgame = (total - middlegame) >> _SHIFT_32
    return (middlegame * phase + endgame * (PHASE_TOTAL - phase)) // PHASE_TOTAL


@kernel
def evaluate_packed(board):
    """(int64 packed total from the mover's view, uint64 x 4 squares of the opponent, own minors, rooks, queens)."""
    own = board[OWN]
    occupied = occupied_squares(board)
    their = occupied ^ own
    turned = (
        flip_vertical(board[0]),
        flip_vertical(board[1]),
        flip_vertical(board[2]),
        flip_vertical(board[3]),
        flip_vertical(board[4]),
        flip_vertical(board[5]),
        flip_vertical(their),
        U0,
    )
    turned_occupied = flip_vertical(occupied)
    own_king = lowest_square(board[KINGS] & own)
    their_king = lowest_square(board[KINGS] & their)
    own_pawn_attacks = pawn_attacks_up(board[PAWNS] & own)
    turned_pawn_attacks = pawn_attacks_up(turned[PAWNS] & turned[OWN])
    their_pawn_attacks = flip_vertical(turned_pawn_attacks)
    own_ring, their_ring = KING[own_king], KING[their_king]

    total = TERMS[TEMPO]
    total += _pawn_terms(board[PAWNS] & own, board[PAWNS] & their, own_king, their_king, occupied)
    total -= _pawn_terms(
        turned[PAWNS] & turned[OWN],
        turned[PAWNS] & ~turned[OWN],
        their_king ^ 56,
        own_king ^ 56,
        turned_occupied,
    )
    value, minors, rooks, queens, units = _piece_terms(
        board, occupied, their_pawn_attacks, their_ring
    )
    total += value + TERMS[KING_DANGER + min(units, 31)]
    own_attacks = own_pawn_attacks | minors | rooks | queens | own_ring
    value, turned_minors, turned_rooks, turned_queens, units = _piece_terms(
        turned, turned_occupied, flip_vertical(own_pawn_attacks), flip_vertical(own_ring)
    )
    total -= value + TERMS[KING_DANGER + min(units, 31)]
    their_minors, their_rooks = flip_vertical(turned_minors), flip_vertical(turned_rooks)
    their_attacks = (
        their_pawn_attacks | their_minors | their_rooks | flip_vertical(turned_queens) | their_ring
    )
    total += _threat_terms(
        board, their, own_pawn_attacks, minors, rooks, own_attacks, their_attacks, THREAT
    )
    total -= _threat_terms(
        board,
        own,
        their_pawn_attacks,
        their_minors,
        their_rooks,
        their_attacks,
        own_attacks,
        THREAT + 11,
    )
    return total, their_attacks, minors, rooks, queens


@inlined
def phase_of_board(board):
    """int64: material left, 24 at the start, 0 with pawns only."""
    phase = (
        popcount(board[KNIGHTS] | board[BISHOPS])
        + 2 * popcount(board[ROOKS])
        + 4 * popcount(board[QUEENS])
    )
    return min(phase, PHASE_TOTAL)


@inlined
def evaluate(board):
    """(int64 centipawns from the mover's view within +-9000, uint64 squares the opponent attacks, `reach`).

    `reach` are the squares that the mover's minors, rooks and queens attack, uint64 x 3.
    """
    total, their_attacks, minors, rooks, queens = evaluate_packed(board)
    reach = minors, rooks, queens
    score = blend(total, phase_of_board(board))
    own = board[OWN]
    side = own if score > 0 else ~own
    if board[PAWNS] & side == U0:
        if has_insufficient_material(board):
            return np.int64(0), their_attacks, reach
        # Without pawns and with hardly more pieces, the stronger side seldom wins.
        minors = board[KNIGHTS] | board[BISHOPS]
        ahead = 3 * (popcount(minors & side) - popcount(minors & ~side))
        ahead += 5 * (popcount(board[ROOKS] & side) - popcount(board[ROOKS] & ~side))
        ahead += 9 * (popcount(board[QUEENS] & side) - popcount(board[QUEENS] & ~side))
        if ahead <= 3:
            score //= 4
    return max(-MAX_EVAL, min(MAX_EVAL, score)), their_attacks, reach
