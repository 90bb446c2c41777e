"""The contract of every reward term of a user's own; see `chess_env.rewards.reward_terms.RewardTerm`."""

from __future__ import annotations

from typing import Any

import numpy as np

from chess_env.rewards.reward_terms import RewardTerm
from chess_env.rewards.rewards import MATE_SCORE_CP
from chess_env.testing import ContractError, rule


def check_reward_term(term: RewardTerm, *, seed: int = 0) -> None:
    """Checks that a function (after_cp, before_cp) -> float32 [N] keeps the contract of a reward term.

    Args:
        term: the function.
        seed: of the scores it is tried on.

    Raises:
        ContractError: what broke: dtype and shape, finite values over the whole range of scores, the caller's
            arrays, repetition, batches, the mover's view.
    """
    rng = np.random.default_rng(seed)
    edges = np.array([0, 1, -1, MATE_SCORE_CP, -MATE_SCORE_CP, MATE_SCORE_CP - 1], np.int32)
    drawn = rng.integers(-MATE_SCORE_CP, MATE_SCORE_CP + 1, (2, 64)).astype(np.int32)
    after = np.concatenate([np.repeat(edges, len(edges)), drawn[0]])
    before = np.concatenate([np.tile(edges, len(edges)), drawn[1]])
    given = after.copy(), before.copy()
    paid: Any = _call(term, *given)
    rule(
        np.array_equal(given[0], after) and np.array_equal(given[1], before),
        "a reward term must leave the caller's arrays as they were",
    )
    shown = f"{paid.dtype} {list(paid.shape)}" if isinstance(paid, np.ndarray) else repr(paid)
    rule(
        isinstance(paid, np.ndarray) and paid.dtype == np.float32 and paid.shape == after.shape,
        f"a reward term must give float32 [{len(after)}], one for each move, not {shown}",
    )
    bad = ~np.isfinite(paid)
    rule(
        not bad.any(),
        "a reward must be finite for every pair of scores, mates included; it is not for after_cp "
        f"{after[bad.argmax()]} and before_cp {before[bad.argmax()]}",
    )
    rule(
        np.array_equal(_call(term, after, before), paid),
        "a reward must not change when the same question is repeated",
    )
    alone = np.concatenate([_call(term, after[i : i + 1], before[i : i + 1]) for i in range(60)])
    rule(
        np.array_equal(alone, paid[:60]),
        "a reward must not depend on what other moves are in the batch",
    )
    good, bad_move = _call(term, np.array([500, -500], np.int32), np.array([0, 0], np.int32))
    rule(
        good > bad_move,
        "scores are the mover's view: from equality a move to +500 must pay more than one to -500, "
        f"it pays {good} and {bad_move}",
    )


def _call(term: RewardTerm, after: Any, before: Any) -> Any:
    try:
        return term(after, before)
    except Exception as error:  # whatever a user's function raises, the contract is what it breaks
        raise ContractError(
            f"a reward term is called with two arrays (after_cp, before_cp), it raised {error!r}"
        ) from error
