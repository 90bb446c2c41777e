"""The outcome of a run by its log: does the reward rise, and what becomes of the entropy?"""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from algorithms.doctor.metric_rows import (
    FORCED_UP,
    KEPT,
    LEARNING,
    LOST,
    NOT_LEARNING,
    SPENT,
    UNKNOWN,
    WORSE,
)
from algorithms.foreign.reading import Floats, Log

SURE = 3.0
"""Standard errors of the change that a change must have."""

LEAST_GAIN = 0.2
"""A change below this part of the rewards' standard deviation is none."""

LEAST_SHARE, LEAST_SHARE_OF_RETURNS = 0.05, 0.2
"""The same where that deviation is not in the log, as a part of the rewards: less is too little to judge by. Returns of
agents are means over many episodes of the past, whose scatter is larger than it looks."""

LOSS, RISE = 0.35, 1.15
"""Entropy that fell by less than this share is kept; one that ends above this multiple was forced up."""

GONE = 0.02
"""Share of its start below which entropy is gone."""

FEWEST = 8
"""Updates without which nothing is judged."""


@dataclasses.dataclass(frozen=True)
class Change:
    """A quantity at the beginning and at the end.

    Attributes:
        before: mean of the first values.
        after: mean of the last values.
        error: standard error of the difference, from the scatter about the curve.
    """

    before: float
    after: float
    error: float

    @property
    def size(self) -> float:
        """After less before."""
        return self.after - self.before


@dataclasses.dataclass(frozen=True)
class ForeignOutcome:
    """The outcome.

    Attributes:
        learning: `LEARNING`, `NOT_LEARNING`, `WORSE` or `UNKNOWN`.
        entropy: `KEPT`, `SPENT`, `LOST`, `FORCED_UP` or `UNKNOWN`.
        judged_by: "eval_reward" or "reward"; "" where there is neither.
        reward: its change.
        nats: change of the entropy.
    """

    learning: str
    entropy: str
    judged_by: str
    reward: Change
    nats: Change

    @property
    def is_poor(self) -> bool:
        """Whether the run does not learn, gets worse, or loses its entropy without return."""
        return self.learning in (NOT_LEARNING, WORSE) or self.entropy == LOST


def change_of(values: Floats) -> Change:
    """Ends of a series: three values at the beginning, a tenth at the end; both fewer in a short series."""
    if len(values) < 2:
        return Change(math.nan, math.nan, math.nan)
    head = min(3, max(1, len(values) // 4))
    tail = min(max(3, len(values) // 10), max(1, len(values) // 3))
    scatter = float(np.std(np.diff(values, 2)) / math.sqrt(6)) if len(values) > 3 else math.nan
    error = scatter * math.sqrt(1 / head + 1 / tail)
    return Change(float(values[:head].mean()), float(values[-tail:].mean()), error)


def outcome_of(log: Log) -> ForeignOutcome:
    """The outcome of a log."""
    nats = change_of(log.values("entropy"))
    # An evaluation tells where prompts can be learned by heart; elsewhere it is a few episodes more of the same.
    order = ("eval_reward", "reward") if log.trainer.unit != "action" else ("reward", "eval_reward")
    changes = {name: change_of(log.values(name)) for name in order if len(log.values(name)) >= 3}
    if not changes or log.num_updates < FEWEST:
        nothing = Change(math.nan, math.nan, math.nan)
        return ForeignOutcome(UNKNOWN, _entropy_word(nats, UNKNOWN), "", nothing, nats)
    words = {name: _learning(change, log) for name, change in changes.items()}
    judged_by = next(iter(words))
    # Few evaluations scatter: the rewards of training decide where both go the same way.
    if "reward" in words and words[judged_by] == NOT_LEARNING:
        same = changes["reward"].size * changes[judged_by].size > 0
        judged_by = (
            "reward"
            if same and abs(changes[judged_by].size) > abs(changes["reward"].size) / 2
            else judged_by
        )
    learning = words[judged_by]
    return ForeignOutcome(
        learning, _entropy_word(nats, learning), judged_by, changes[judged_by], nats
    )


def _learning(change: Change, log: Log) -> str:
    error = 0.0 if math.isnan(change.error) else change.error
    spread = log.begin("reward_std")
    # Without a spread only a share of the rewards themselves says what is much, and rewards may have any offset.
    share = LEAST_SHARE_OF_RETURNS if log.trainer.unit == "action" else LEAST_SHARE
    much = LEAST_GAIN * spread if spread > 0 else share * max(abs(change.before), abs(change.after))
    if abs(change.size) <= max(SURE * error, 1e-9):
        return NOT_LEARNING
    if abs(change.size) <= much:
        return NOT_LEARNING if spread > 0 or change.size < 0 else UNKNOWN
    return LEARNING if change.size > 0 else WORSE


def _entropy_word(nats: Change, learning: str) -> str:
    if not nats.before > 0:
        return UNKNOWN
    kept = nats.after / nats.before
    if kept > RISE and learning != LEARNING:
        return FORCED_UP
    if kept > 1 - LOSS:
        return KEPT
    return (
        SPENT if learning == LEARNING else LOST if learning != UNKNOWN or kept < GONE else UNKNOWN
    )
