"""The batches of one question to the cluster: what is left to hand out, who has what, what was answered."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any

LARGEST, SMALLEST, LEAST = 128, 16, 4
"""Rows of a batch: a call to a worker costs about as much as one or two scores at depth 4. `SMALLEST` holds where every
worker has that many twice; where there are more workers, batches go down to `LEAST`."""

MAX_LOST = 12
"""Workers that may end during one batch before the question fails."""


@dataclass(eq=False)
class Batch:
    """Consecutive positions of one question.

    Attributes:
        start: the first row.
        stop: the row after the last.
        since: when (time.monotonic) it was last handed out.
        held: workers that have it now.
        lost: workers that ended while they had it.
        reply: the answer; None until it is there.
    """

    start: int
    stop: int
    since: float = 0.0
    held: int = 0
    lost: int = 0
    reply: Any = None


@dataclass
class Question:
    """Rows cut into batches as workers ask for them: large ones first, small ones so that all finish together.

    Attributes:
        count: rows in all.
        workers: who share them.
        taken: every batch that was cut so far, in the order of the rows.
        returned: batches whose worker ended, to be handed out first.
        cut: rows that are in a batch by now.
        answered: rows with an answer.
    """

    count: int
    workers: int
    taken: list[Batch] = field(default_factory=list)
    returned: deque[Batch] = field(default_factory=deque)
    cut: int = 0
    answered: int = 0

    @property
    def open(self) -> bool:
        """Whether rows are without an answer."""
        return self.answered < self.count

    def take(self) -> Batch | None:
        """The next batch to hand out; None where all are."""
        batch = self.returned.popleft() if self.returned else self._cut()
        if batch is not None:
            self._hand(batch)
        return batch

    def take_late(self, seconds_per_row: float | None) -> Batch | None:
        """A batch that one worker has had for much longer than usual, to be given to a second one; or None.

        Scores are pure, so whichever answer comes first will do.
        """
        if seconds_per_row is None:
            return None
        now = time.monotonic()
        for batch in self.taken:
            usual_s = seconds_per_row * (batch.stop - batch.start)
            if batch.reply is None and batch.held == 1 and now - batch.since > 1.0 + 4 * usual_s:
                self._hand(batch)
                return batch
        return None

    def answer(self, batch: Batch, reply: Any) -> None:
        """Takes in an answer; a second one to the same batch changes nothing."""
        batch.held -= 1
        if batch.reply is None:
            batch.reply = reply
            self.answered += batch.stop - batch.start

    def lose(self, batch: Batch) -> None:
        """Takes back a batch of a worker that ended."""
        batch.held -= 1
        batch.lost += 1
        if batch.reply is None and not batch.held:
            self.returned.append(batch)

    def _cut(self) -> Batch | None:
        left = self.count - self.cut
        if not left:
            return None
        smallest = min(SMALLEST, max(LEAST, self.count // (2 * self.workers)))
        size = min(left, LARGEST, max(smallest, left // (2 * self.workers)))
        batch = Batch(self.cut, self.cut + size)
        self.cut += size
        self.taken.append(batch)
        return batch

    @staticmethod
    def _hand(batch: Batch) -> None:
        batch.held += 1
        batch.since = time.monotonic()
