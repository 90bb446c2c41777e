"""The name of the opening that a game follows."""

from __future__ import annotations

from collections.abc import Hashable
from functools import lru_cache

import chess

from chess_env.games.reference_game import identity

_MOST_PLIES = 30
"""No line below is longer, and a game that is longer seldom comes back to one."""

# Names, moves and codes of the Encyclopaedia of Chess Openings are common knowledge, written by hand.
LINES = """
A01 Nimzowitsch-Larsen Attack: b3
A02 Bird's Opening: f4
A04 Zukertort Opening: Nf3
A09 Réti Opening: Nf3 d5 c4
A10 English Opening: c4
A20 English Opening, Reversed Sicilian: c4 e5
A30 English Opening, Symmetrical Variation: c4 c5
A40 Queen's Pawn Game: d4
A45 Indian Defence: d4 Nf6
A56 Benoni Defence: d4 Nf6 c4 c5
A57 Benko Gambit: d4 Nf6 c4 c5 d5 b5
A60 Modern Benoni: d4 Nf6 c4 c5 d5 e6
A80 Dutch Defence: d4 f5
B00 King's Pawn Opening: e4
B01 Scandinavian Defence: e4 d5
B02 Alekhine's Defence: e4 Nf6
B06 Modern Defence: e4 g6
B07 Pirc Defence: e4 d6 d4 Nf6
B10 Caro-Kann Defence: e4 c6
B12 Caro-Kann Defence, Advance Variation: e4 c6 d4 d5 e5
B20 Sicilian Defence: e4 c5
B21 Sicilian Defence, Smith-Morra Gambit: e4 c5 d4 cxd4 c3
B22 Sicilian Defence, Alapin Variation: e4 c5 c3
B23 Sicilian Defence, Closed: e4 c5 Nc3
B33 Sicilian Defence, Sveshnikov Variation: e4 c5 Nf3 Nc6 d4 cxd4 Nxd4 Nf6 Nc3 e5
B70 Sicilian Defence, Dragon Variation: e4 c5 Nf3 d6 d4 cxd4 Nxd4 Nf6 Nc3 g6
B90 Sicilian Defence, Najdorf Variation: e4 c5 Nf3 d6 d4 cxd4 Nxd4 Nf6 Nc3 a6
C00 French Defence: e4 e6
C00 French Defence: e4 e6 d4 d5
C01 French Defence, Exchange Variation: e4 e6 d4 d5 exd5
C02 French Defence, Advance Variation: e4 e6 d4 d5 e5
C03 French Defence, Tarrasch Variation: e4 e6 d4 d5 Nd2
C15 French Defence, Winawer Variation: e4 e6 d4 d5 Nc3 Bb4
C20 King's Pawn Game: e4 e5
C23 Bishop's Opening: e4 e5 Bc4
C25 Vienna Game: e4 e5 Nc3
C30 King's Gambit: e4 e5 f4
C40 King's Knight Opening: e4 e5 Nf3
C41 Philidor Defence: e4 e5 Nf3 d6
C42 Petrov's Defence: e4 e5 Nf3 Nf6
C44 Scotch Game: e4 e5 Nf3 Nc6 d4
C47 Four Knights Game: e4 e5 Nf3 Nc6 Nc3 Nf6
C50 Italian Game: e4 e5 Nf3 Nc6 Bc4
C50 Giuoco Piano: e4 e5 Nf3 Nc6 Bc4 Bc5
C51 Evans Gambit: e4 e5 Nf3 Nc6 Bc4 Bc5 b4
C55 Two Knights Defence: e4 e5 Nf3 Nc6 Bc4 Nf6
C60 Ruy Lopez: e4 e5 Nf3 Nc6 Bb5
C65 Ruy Lopez, Berlin Defence: e4 e5 Nf3 Nc6 Bb5 Nf6
C84 Ruy Lopez, Closed: e4 e5 Nf3 Nc6 Bb5 a6 Ba4 Nf6 O-O Be7
C89 Ruy Lopez, Marshall Attack: e4 e5 Nf3 Nc6 Bb5 a6 Ba4 Nf6 O-O Be7 Re1 b5 Bb3 O-O c3 d5
D00 London System: d4 d5 Bf4
D02 London System: d4 d5 Nf3 Nf6 Bf4
D06 Queen's Gambit: d4 d5 c4
D10 Slav Defence: d4 d5 c4 c6
D20 Queen's Gambit Accepted: d4 d5 c4 dxc4
D30 Queen's Gambit Declined: d4 d5 c4 e6
D30 Queen's Gambit Declined: d4 d5 c4 e6 Nf3 Nf6
D35 Queen's Gambit Declined: d4 d5 c4 e6 Nc3 Nf6
D43 Semi-Slav Defence: d4 d5 c4 e6 Nc3 Nf6 Nf3 c6
D80 Grünfeld Defence: d4 Nf6 c4 g6 Nc3 d5
E00 Catalan Opening: d4 Nf6 c4 e6 g3
E12 Queen's Indian Defence: d4 Nf6 c4 e6 Nf3 b6
E20 Nimzo-Indian Defence: d4 Nf6 c4 e6 Nc3 Bb4
E60 King's Indian Defence: d4 Nf6 c4 g6
""".strip().splitlines()
"""Code and name, then the moves from the initial position; the last position stands for the opening."""


def opening_of(game: chess.Board) -> str:
    """The opening of the last position of the game that stands in `LINES`, however it came about.

    Args:
        game: with its moves.

    Returns:
        "" where there is none, or where the game began elsewhere.
    """
    board, found = game.root(), ""
    if board.fen() == chess.STARTING_FEN:
        for move in game.move_stack[:_MOST_PLIES]:
            board.push(move)
            found = _names().get(identity(board), found)
    return found


@lru_cache(maxsize=1)
def _names() -> dict[Hashable, str]:
    """The position after each line -> code and name."""
    found: dict[Hashable, str] = {}
    for line in LINES:
        name, _, moves = line.partition(": ")
        board = chess.Board()
        for san in moves.split():
            board.push_san(san)
        found[identity(board)] = name
    return found
