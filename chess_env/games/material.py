"""Material: the balance of men in centipawns, and a player that looks at nothing else."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from chess_env.rules.packed import OWN, PAWNS, Positions
from chess_env.rules.rules import (
    CHECKMATE,
    ONGOING,
    apply_batch,
    legal_actions_batch,
    status_batch,
)

VALUES_CP = (100, 300, 300, 500, 900)
"""Pawn, knight, bishop, rook, queen, in the order of a packed position's words; no other terms."""

_MATES_CP = 1_000_000  # above every balance


def material_cp(positions: Positions) -> NDArray[np.int64]:
    """int64 [N]: own men minus the other side's, centipawns, from the side to move's view.

    Args:
        positions: uint64 [N, 8], packed.
    """
    men = positions[:, PAWNS : PAWNS + len(VALUES_CP)]
    own = positions[:, OWN, None]
    mine = np.bitwise_count(men & own).astype(np.int64)
    theirs = np.bitwise_count(men & ~own).astype(np.int64)
    return (mine - theirs) @ np.array(VALUES_CP, np.int64)


class MaterialPlayer:
    """Mates where it can, and otherwise plays a move after which its material balance is best.

    Stalemate and insufficient material count as level. Among equal moves one is drawn uniformly: most
    moves win nothing, and the lowest action id each time would only shuffle a piece. It sees neither
    recaptures nor repetitions.
    """

    name = "material"

    def choose(
        self, positions: Positions, rngs: Sequence[np.random.Generator]
    ) -> NDArray[np.int64]:
        """int64 [N]; one `integers` draw per board."""
        legal_ids, num_legal = legal_actions_batch(positions)
        counts = num_legal.astype(np.int64)
        actions = legal_ids[np.arange(legal_ids.shape[1]) < counts[:, None]].astype(np.int64)
        after = apply_batch(np.repeat(positions, counts, axis=0), actions)
        status = status_batch(after, fifty_move=False)
        scores_cp = np.where(status == ONGOING, -material_cp(after), 0)
        scores_cp[status == CHECKMATE] = _MATES_CP
        chosen = np.empty(len(positions), np.int64)
        ends = np.cumsum(counts).tolist()
        for board, (end, count) in enumerate(zip(ends, counts.tolist(), strict=True)):
            own = scores_cp[end - count : end]
            best = np.flatnonzero(own == own.max())
            chosen[board] = actions[end - count + best[rngs[board].integers(len(best))]]
        return chosen

    def close(self) -> None:
        """Does nothing: there is nothing to free."""
