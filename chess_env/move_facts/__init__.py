"""Facts of every legal move, from the rules alone: a table, a compiled kernel, and the same on python-chess."""

from chess_env.move_facts.kernel import move_facts_batch
from chess_env.move_facts.table import (
    FACT_INDEX,
    GROUPS,
    MOVE_FACTS,
    NUM_MOVE_FACTS,
    MoveFact,
)

__all__ = [
    "FACT_INDEX",
    "GROUPS",
    "MOVE_FACTS",
    "NUM_MOVE_FACTS",
    "MoveFact",
    "move_facts_batch",
]
