"""A small opening book written as data: well-known lines of 4 to 14 plies, grouped by first moves."""

from __future__ import annotations

from functools import lru_cache

import chess
import numpy as np

from chess_env.rules.fen import pack_board
from chess_env.rules.packed import Positions

MIN_PLIES = 4  # shorter prefixes are shared by most lines

OPENINGS = {
    # 1. e4 e5
    "Ruy Lopez, Closed": "e4 e5 Nf3 Nc6 Bb5 a6 Ba4 Nf6 O-O Be7 Re1 b5 Bb3 d6",
    "Ruy Lopez, Open": "e4 e5 Nf3 Nc6 Bb5 a6 Ba4 Nf6 O-O Nxe4 d4 b5 Bb3 d5",
    "Ruy Lopez, Exchange": "e4 e5 Nf3 Nc6 Bb5 a6 Bxc6 dxc6 O-O f6 d4",
    "Ruy Lopez, Berlin": "e4 e5 Nf3 Nc6 Bb5 Nf6 O-O Nxe4 d4 Nd6 Bxc6 dxc6 dxe5 Nf5",
    "Ruy Lopez, Schliemann": "e4 e5 Nf3 Nc6 Bb5 f5 Nc3 fxe4 Nxe4 d5",
    "Italian, Giuoco Piano": "e4 e5 Nf3 Nc6 Bc4 Bc5 c3 Nf6 d3 d6 O-O O-O",
    "Italian, Evans Gambit": "e4 e5 Nf3 Nc6 Bc4 Bc5 b4 Bxb4 c3 Ba5 d4 exd4",
    "Two Knights, Main Line": "e4 e5 Nf3 Nc6 Bc4 Nf6 Ng5 d5 exd5 Na5 Bb5+ c6 dxc6 bxc6",
    "Two Knights, Max Lange": "e4 e5 Nf3 Nc6 Bc4 Nf6 d4 exd4 O-O Bc5 e5 d5",
    "Scotch Game": "e4 e5 Nf3 Nc6 d4 exd4 Nxd4 Nf6 Nxc6 bxc6 e5 Qe7",
    "Scotch Gambit": "e4 e5 Nf3 Nc6 d4 exd4 Bc4 Nf6 e5 d5",
    "Four Knights, Spanish": "e4 e5 Nf3 Nc6 Nc3 Nf6 Bb5 Bb4 O-O O-O d3 d6",
    "Petrov, Classical": "e4 e5 Nf3 Nf6 Nxe5 d6 Nf3 Nxe4 d4 d5 Bd3",
    "Philidor, Hanham": "e4 e5 Nf3 d6 d4 Nf6 Nc3 Nbd7 Bc4 Be7",
    "Vienna Gambit": "e4 e5 Nc3 Nf6 f4 d5 fxe5 Nxe4 Nf3 Be7",
    "King's Gambit Accepted": "e4 e5 f4 exf4 Nf3 g5 h4 g4 Ne5 Nf6",
    "King's Gambit Declined": "e4 e5 f4 Bc5 Nf3 d6 Nc3 Nf6 Bc4",
    "Falkbeer Countergambit": "e4 e5 f4 d5 exd5 e4 d3 Nf6",
    "Danish Gambit": "e4 e5 d4 exd4 c3 dxc3 Bc4 cxb2 Bxb2",
    "Bishop's Opening": "e4 e5 Bc4 Nf6 d3 c6 Nf3 d5 Bb3 Bd6",
    # 1. e4 c5
    "Sicilian, Najdorf": "e4 c5 Nf3 d6 d4 cxd4 Nxd4 Nf6 Nc3 a6 Be3 e5 Nb3",
    "Sicilian, Dragon": "e4 c5 Nf3 d6 d4 cxd4 Nxd4 Nf6 Nc3 g6 Be3 Bg7 f3 O-O",
    "Sicilian, Classical": "e4 c5 Nf3 d6 d4 cxd4 Nxd4 Nf6 Nc3 Nc6 Bg5 e6 Qd2",
    "Sicilian, Scheveningen": "e4 c5 Nf3 d6 d4 cxd4 Nxd4 Nf6 Nc3 e6 Be2 Be7 O-O",
    "Sicilian, Sveshnikov": "e4 c5 Nf3 Nc6 d4 cxd4 Nxd4 Nf6 Nc3 e5 Ndb5 d6 Bg5 a6",
    "Sicilian, Accelerated Dragon": "e4 c5 Nf3 Nc6 d4 cxd4 Nxd4 g6 c4 Bg7 Be3 Nf6 Nc3",
    "Sicilian, Taimanov": "e4 c5 Nf3 e6 d4 cxd4 Nxd4 Nc6 Nc3 Qc7 Be3 a6",
    "Sicilian, Kan": "e4 c5 Nf3 e6 d4 cxd4 Nxd4 a6 Bd3 Nf6 O-O Qc7",
    "Sicilian, Rossolimo": "e4 c5 Nf3 Nc6 Bb5 g6 O-O Bg7 Re1 e5",
    "Sicilian, Alapin": "e4 c5 c3 Nf6 e5 Nd5 d4 cxd4 Nf3 Nc6",
    "Sicilian, Closed": "e4 c5 Nc3 Nc6 g3 g6 Bg2 Bg7 d3 d6 Be3",
    "Sicilian, Smith-Morra Gambit": "e4 c5 d4 cxd4 c3 dxc3 Nxc3 Nc6 Nf3 d6 Bc4",
    # 1. e4, other replies
    "French, Winawer": "e4 e6 d4 d5 Nc3 Bb4 e5 c5 a3 Bxc3+ bxc3 Ne7",
    "French, Classical": "e4 e6 d4 d5 Nc3 Nf6 Bg5 Be7 e5 Nfd7 Bxe7 Qxe7",
    "French, Tarrasch": "e4 e6 d4 d5 Nd2 Nf6 e5 Nfd7 Bd3 c5 c3 Nc6",
    "French, Advance": "e4 e6 d4 d5 e5 c5 c3 Nc6 Nf3 Qb6 a3",
    "Caro-Kann, Classical": "e4 c6 d4 d5 Nc3 dxe4 Nxe4 Bf5 Ng3 Bg6 h4 h6",
    "Caro-Kann, Advance": "e4 c6 d4 d5 e5 Bf5 Nf3 e6 Be2 c5",
    "Caro-Kann, Panov": "e4 c6 d4 d5 exd5 cxd5 c4 Nf6 Nc3 e6 Nf3",
    "Scandinavian, Main Line": "e4 d5 exd5 Qxd5 Nc3 Qa5 d4 Nf6 Nf3 c6",
    "Pirc, Austrian Attack": "e4 d6 d4 Nf6 Nc3 g6 f4 Bg7 Nf3 O-O",
    "Modern Defence": "e4 g6 d4 Bg7 Nc3 d6 Be3 a6 Qd2 b5",
    "Alekhine, Modern": "e4 Nf6 e5 Nd5 d4 d6 Nf3 Bg4 Be2 e6",
    "Nimzowitsch Defence": "e4 Nc6 d4 d5 Nc3 dxe4 d5 Nb8",
    # 1. d4 d5
    "Queen's Gambit Declined, Orthodox": "d4 d5 c4 e6 Nc3 Nf6 Bg5 Be7 e3 O-O Nf3 Nbd7",
    "Queen's Gambit Declined, Exchange": "d4 d5 c4 e6 Nc3 Nf6 cxd5 exd5 Bg5 c6 e3",
    "Queen's Gambit Accepted": "d4 d5 c4 dxc4 Nf3 Nf6 e3 e6 Bxc4 c5 O-O a6",
    "Tarrasch Defence": "d4 d5 c4 e6 Nc3 c5 cxd5 exd5 Nf3 Nc6 g3 Nf6",
    "Slav, Main Line": "d4 d5 c4 c6 Nf3 Nf6 Nc3 dxc4 a4 Bf5 e3 e6",
    "Semi-Slav, Meran": "d4 d5 c4 c6 Nc3 Nf6 e3 e6 Nf3 Nbd7 Bd3 dxc4 Bxc4 b5",
    "Albin Countergambit": "d4 d5 c4 e5 dxe5 d4 Nf3 Nc6 g3",
    "Chigorin Defence": "d4 d5 c4 Nc6 Nf3 Bg4 cxd5 Bxf3 gxf3 Qxd5",
    "London System": "d4 d5 Bf4 Nf6 e3 c5 c3 Nc6 Nd2 e6",
    "Colle System": "d4 d5 Nf3 Nf6 e3 e6 Bd3 c5 c3 Nc6",
    "Veresov Attack": "d4 d5 Nc3 Nf6 Bg5 Nbd7 Nf3 g6",
    # 1. d4 Nf6 and others
    "Nimzo-Indian, Rubinstein": "d4 Nf6 c4 e6 Nc3 Bb4 e3 O-O Bd3 d5 Nf3 c5",
    "Nimzo-Indian, Classical": "d4 Nf6 c4 e6 Nc3 Bb4 Qc2 O-O a3 Bxc3+ Qxc3 b6",
    "Queen's Indian": "d4 Nf6 c4 e6 Nf3 b6 g3 Ba6 b3 Bb4+ Bd2 Be7",
    "Catalan, Open": "d4 Nf6 c4 e6 g3 d5 Bg2 dxc4 Nf3 Be7 O-O O-O",
    "Bogo-Indian": "d4 Nf6 c4 e6 Nf3 Bb4+ Bd2 Qe7 g3 Nc6",
    "King's Indian, Classical": "d4 Nf6 c4 g6 Nc3 Bg7 e4 d6 Nf3 O-O Be2 e5",
    "King's Indian, Saemisch": "d4 Nf6 c4 g6 Nc3 Bg7 e4 d6 f3 O-O Be3 e5",
    "King's Indian, Fianchetto": "d4 Nf6 c4 g6 Nf3 Bg7 g3 O-O Bg2 d6 O-O Nbd7",
    "Gruenfeld, Exchange": "d4 Nf6 c4 g6 Nc3 d5 cxd5 Nxd5 e4 Nxc3 bxc3 Bg7",
    "Gruenfeld, Russian": "d4 Nf6 c4 g6 Nc3 d5 Nf3 Bg7 Qb3 dxc4 Qxc4 O-O",
    "Modern Benoni": "d4 Nf6 c4 c5 d5 e6 Nc3 exd5 cxd5 d6 e4 g6",
    "Benko Gambit": "d4 Nf6 c4 c5 d5 b5 cxb5 a6 bxa6 Bxa6",
    "Budapest Gambit": "d4 Nf6 c4 e5 dxe5 Ng4 Bf4 Nc6 Nf3 Bb4+",
    "Trompowsky Attack": "d4 Nf6 Bg5 Ne4 Bf4 c5 f3 Qa5+ c3 Nf6",
    "Dutch, Leningrad": "d4 f5 g3 Nf6 Bg2 g6 Nf3 Bg7 O-O O-O c4 d6",
    "Dutch, Stonewall": "d4 f5 c4 Nf6 g3 e6 Bg2 d5 Nf3 c6 O-O Bd6",
    "Old Indian": "d4 Nf6 c4 d6 Nc3 e5 Nf3 Nbd7 e4 Be7",
    # Flank openings
    "English, Four Knights": "c4 e5 Nc3 Nf6 Nf3 Nc6 g3 d5 cxd5 Nxd5",
    "English, Symmetrical": "c4 c5 Nc3 Nc6 g3 g6 Bg2 Bg7 Nf3 Nf6 O-O O-O",
    "English, Reversed Dragon": "c4 e5 g3 Nf6 Bg2 d5 cxd5 Nxd5 Nc3 Nb6",
    "Reti, Gambit": "Nf3 d5 c4 dxc4 e3 Nf6 Bxc4 e6 O-O c5",
    "King's Indian Attack": "Nf3 d5 g3 Nf6 Bg2 c6 O-O Bg4 d3 Nbd7 Nbd2 e5",
    "Bird's Opening": "f4 d5 Nf3 g6 e3 Bg7 Be2 Nf6 O-O O-O",
    "Larsen's Opening": "b3 e5 Bb2 Nc6 e3 d5 Bb5 Bd6",
    "Sokolsky Opening": "b4 e5 Bb2 Bxb4 Bxe5 Nf6 Nf3 O-O e3 d5",
}
"""Name of each line -> its moves in SAN, separated by spaces."""


@lru_cache(maxsize=1)
def opening_positions() -> tuple[Positions, ...]:
    """For each line, uint64 [n, 8]: its positions after 4, 5, ... plies up to its end, packed."""
    lines = []
    for moves in OPENINGS.values():
        board = chess.Board()
        positions = []
        for ply, san in enumerate(moves.split(), start=1):
            board.push_san(san)
            if ply >= MIN_PLIES:
                positions.append(pack_board(board))
        line = np.array(positions, np.uint64)
        line.setflags(write=False)
        lines.append(line)
    return tuple(lines)
