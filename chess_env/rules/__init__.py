"""The rules of chess, compiled: packed positions, move generation, endings, FEN.

What other packages ask of the rules stands here; the layout of a packed position is described in `packed`.
"""

from chess_env.rules.packed import Positions
from chess_env.rules.rules import (
    CHECKMATE,
    ENDGAME,
    FIFTY_MOVES,
    FIVEFOLD,
    INSUFFICIENT_MATERIAL,
    MIDDLEGAME,
    ONGOING,
    OPENING,
    SEVENTYFIVE_MOVES,
    STALEMATE,
    STATUS_NAMES,
    THREEFOLD,
    apply_batch,
    children,
    hash_batch,
    legal_actions_batch,
    perft,
    phase_batch,
    phase_of,
    position_hash,
    status_batch,
    status_of,
)

__all__ = [
    "CHECKMATE",
    "ENDGAME",
    "FIFTY_MOVES",
    "FIVEFOLD",
    "INSUFFICIENT_MATERIAL",
    "MIDDLEGAME",
    "ONGOING",
    "OPENING",
    "SEVENTYFIVE_MOVES",
    "STALEMATE",
    "STATUS_NAMES",
    "THREEFOLD",
    "Positions",
    "apply_batch",
    "children",
    "hash_batch",
    "legal_actions_batch",
    "perft",
    "phase_batch",
    "phase_of",
    "position_hash",
    "status_batch",
    "status_of",
]
