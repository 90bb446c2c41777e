"""Facts of every legal move, from the rules alone: a table, and compiled kernels."""

from chess_env.move_facts.batch import move_facts_batch, with_further_facts
from chess_env.move_facts.table import (
    FACT_INDEX,
    FURTHER_FACTS,
    FURTHER_GROUPS,
    GROUPS,
    MOVE_FACTS,
    NUM_MOVE_FACTS,
    FactsAsked,
    MoveFact,
    checked_groups,
    facts_asked,
    groups_of_columns,
)

__all__ = [
    "FACT_INDEX",
    "FURTHER_FACTS",
    "FURTHER_GROUPS",
    "GROUPS",
    "MOVE_FACTS",
    "NUM_MOVE_FACTS",
    "FactsAsked",
    "MoveFact",
    "checked_groups",
    "facts_asked",
    "groups_of_columns",
    "move_facts_batch",
    "with_further_facts",
]
