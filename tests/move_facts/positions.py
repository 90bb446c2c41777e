"""Positions in which the facts of moves are tried: random play, and those that random play hardly ever meets."""

from __future__ import annotations

import chess
import numpy as np

from chess_env.positions.start_positions import RandomPlies
from chess_env.rules.fen import pack_fens
from chess_env.rules.packed import Positions

SPECIAL_FENS = (
    "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1",  # castling both ways
    "r3k2r/8/8/8/8/8/8/R3K2R b KQkq - 3 9",  # castling that gives check and that is barred
    "n1n5/PPPk4/8/8/8/8/4Kppp/5N1N b - - 0 1",  # promotions with and without capture
    "8/8/8/K2pP2r/8/8/8/7k w - d6 0 2",  # en passant that leaves the king on a rank
    "8/8/8/8/k2Pp2Q/8/8/3K4 b - d3 0 1",  # the same, which is not legal
    "4k3/8/8/8/4r3/8/4B3/4K3 w - - 0 1",  # a pinned bishop
    "4k3/8/4r3/8/8/3n4/4R3/4K3 w - - 4 30",  # check by a knight, and a pinned rook
    "4k3/8/8/8/1b2r3/8/8/4K3 w - - 4 30",  # double check
    "4k3/4r3/8/8/4N3/8/8/4RK2 w - - 4 30",  # discovered and double checks
    "7k/8/8/8/8/8/8/KB5N w - - 12 50",  # a capture away from insufficient material
    "7k/8/8/8/8/8/6p1/K6B w - - 12 50",
    "7k/5Q2/8/8/8/8/8/K7 w - - 99 80",  # stalemate, mate, and the 50-move limit
    "k7/8/5QK1/8/8/8/8/8 w - - 149 120",  # the 75-move limit
    "R6R/3Q4/1Q4Q1/4Q3/2Q4Q/Q4Q2/pp1Q4/kBNN1KB1 w - - 0 1",  # 218 moves
    "3k4/5q2/1q6/8/5Q2/1Q6/8/3K4 w - - 0 1",  # queens loose
    "6k1/5ppp/8/8/8/8/5PPP/3R2K1 w - - 0 1",  # a back-rank mate
)


def special_positions() -> Positions:
    """uint64 [2n, 8]: the positions of `SPECIAL_FENS`, each also with the colours exchanged."""
    mirrored = [chess.Board(fen).mirror().fen() for fen in SPECIAL_FENS]
    return pack_fens([*SPECIAL_FENS, *mirrored])


def random_positions(count: int, seed: int) -> Positions:
    """uint64 [n, 8]: positions after 0 to 200 random plies."""
    source, rng = RandomPlies(0, 200, exclude_heldout=False), np.random.default_rng(seed)
    return np.array([source.sample(rng) for _ in range(count)], np.uint64)
