"""The facts of the legal moves of many boards: those of `MOVE_FACTS`, and further groups where they are asked for."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from chess_env.jit import announced
from chess_env.move_facts.further import write_further_facts
from chess_env.move_facts.kernel import Facts, write_facts
from chess_env.move_facts.table import (
    FURTHER_GROUPS,
    NUM_MOVE_FACTS,
    FactsAsked,
    checked_groups,
    facts_asked,
)
from chess_env.rules.packed import Positions
from chess_env.rules.rules import as_batch

FIFTY_MOVES_CLOCK, SEVENTYFIVE_MOVES_CLOCK = 100, 150
"""Half-moves on the rule-50 clock at which a game ends, with `fifty_move` and without."""


def move_facts_batch(
    positions: Positions,
    legal_ids: NDArray[np.int16],
    history: NDArray[np.uint64] | None = None,
    history_length: NDArray[np.int64] | None = None,
    *,
    fifty_move: bool = True,
    asked: FactsAsked = True,
) -> Facts:
    """uint8 [N, L, F]: the facts (`facts_asked(asked)`) of the legal moves, in their order; 0 on padding.

    Args:
        positions: uint64 [N, 8], packed.
        legal_ids: int16 [N, L], all their legal moves, ascending, padded with -1 (`legal_actions_batch`).
        history: uint64 [N, H], hashes of each game since the last capture or pawn move, the present position's last;
            None: no position has occurred before.
        history_length: int64 [N], valid entries in `history`.
        fifty_move: the game ends at 100 half-moves on the rule-50 clock; False: at 150.
        asked: True for `MOVE_FACTS`, or names of further groups that follow them.

    Raises:
        ValueError: the arrays are not of the same boards, a history has no lengths, or there is no such group.
    """
    positions = as_batch(positions)
    count = len(positions)
    if legal_ids.ndim != 2 or len(legal_ids) != count or legal_ids.dtype != np.int16:
        raise ValueError(
            f"legal_ids are {legal_ids.dtype} {list(legal_ids.shape)}: expected int16 [{count}, L], the "
            "legal moves of the same boards, as legal_actions_batch gives them"
        )
    if (history is None) != (history_length is None):
        raise ValueError("history and history_length go together: give both, or neither")
    if history is None or history_length is None:
        history, history_length = np.zeros((count, 0), np.uint64), np.zeros(count, np.int64)
    asked = asked is True or checked_groups(asked, "asked")
    facts = np.empty((*legal_ids.shape, len(facts_asked(asked))), np.uint8)
    boards = positions, legal_ids, history, history_length[:, None]
    write_facts_of(np.arange(count), *boards, fifty_move, asked, facts)
    return facts


def write_facts_of(
    rows: NDArray[np.int64],
    positions: Positions,
    legal_ids: NDArray[np.int16],
    history: NDArray[np.uint64],
    history_length: NDArray[np.int64],
    fifty_move: bool,
    asked: FactsAsked,
    facts: Facts,
) -> None:
    """Writes to `facts`, uint8 [N, L, F], what `move_facts_batch` gives, on the boards `rows`, int64 [n], alone.

    The arrays of the N boards are as there and not copied, but a row of `legal_ids` may be longer than L, and
    `history_length`, int64 [N, 1 or more], has the number of valid entries in its first column.
    """
    limit = FIFTY_MOVES_CLOCK if fifty_move else SEVENTYFIVE_MOVES_CLOCK
    with announced("the facts of moves", write_facts):
        write_facts(rows, positions, legal_ids, history, history_length, limit, facts)
    if asked is not True:
        _add_further(rows, positions, legal_ids, asked, facts)


def with_further_facts(
    facts: Facts, positions: Positions, legal_ids: NDArray[np.int16], asked: FactsAsked
) -> Facts:
    """uint8 [N, L, F]: `facts`, which are those of `MOVE_FACTS`, and behind them the further groups that are asked for.

    Args:
        facts: uint8 [N, L, F'], told of their games; they are given back where no more is asked for.
        positions: uint64 [N, 8], packed.
        legal_ids: int16 [N, L], their legal moves, padded with -1.
        asked: True, or names of further groups.
    """
    if asked is True:
        return facts
    more = np.zeros((*legal_ids.shape, len(facts_asked(asked))), np.uint8)
    more[..., :NUM_MOVE_FACTS] = facts
    _add_further(np.arange(len(more)), positions, legal_ids, asked, more)
    return more


def _add_further(
    rows: NDArray[np.int64],
    positions: Positions,
    legal_ids: NDArray[np.int16],
    asked: FactsAsked,
    facts: Facts,
) -> None:
    """Writes the further groups; in their columns of `facts` stands 0."""
    columns = [fact.group for fact in facts_asked(asked)]
    first = [columns.index(group) if group in columns else -1 for group in FURTHER_GROUPS]
    with announced("the further facts of moves", write_further_facts):
        write_further_facts(rows, positions, legal_ids, np.array(first), facts)
