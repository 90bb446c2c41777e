"""One batch of queries to a pool of engines: the open queries, the answers, and why engines failed."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

MAX_ATTEMPTS = 3  # a query during which engines ended this often is given up
MAX_LOST = 12  # engines that were ended from outside during one query
QUARANTINE_S = 600.0  # how long a position that was given up is not asked again


@dataclass(frozen=True)
class Job:
    """One kind of query: `prefix + fen + suffix` is written, `parse(index, reply)` understands the answer.

    Attributes:
        prefix: what is written before each FEN.
        suffix: what is written after it.
        parse: from (index, output up to `bestmove`) to the answer; raises ValueError for nonsense.
        deadline_s: after so long an engine counts as hung on one query; doubled at each further attempt.
        prepare: written to each engine before its first query of the batch.
    """

    prefix: bytes
    suffix: bytes
    parse: Callable[[int, bytes], Any]
    deadline_s: float
    prepare: bytes


class Batch:
    """The state of one batch. Queries are numbered as `fens` is.

    Attributes:
        results: the answers so far.
        todo: queries that no engine has in flight.
        suspects: queries that were being answered when an engine failed; they are sent alone and to an engine that
            has answered nothing yet, so that the next failure is theirs beyond doubt.
        failed: how each attempt ended, for queries given up.
        outstanding: queries neither answered nor given up.
    """

    def __init__(self, job: Job, fens: Sequence[bytes]) -> None:
        self.job, self.fens = job, fens
        self.results: list[Any] = [None] * len(fens)
        self.todo = deque(range(len(fens)))
        self.suspects: deque[int] = deque()
        self.failed: dict[int, str] = {}
        self.outstanding = len(fens)
        self._attempts: dict[int, list[str]] = {}
        self._lost: dict[int, int] = {}  # query -> engines that were ended from outside during it
        self._answered_by: dict[int, list[int]] = {}  # engine pid -> queries

    def take(self, count: int) -> list[int]:
        """Up to `count` queries, which are now in flight."""
        return [self.todo.popleft() for _ in range(min(count, len(self.todo)))]

    def commands(self, queries: Sequence[int]) -> bytes:
        """What to write to an engine for these queries."""
        job = self.job
        return (
            job.prefix
            + (job.suffix + job.prefix).join([self.fens[i] for i in queries])
            + job.suffix
        )

    def deadline(self, query: int) -> float:
        """When (time.monotonic) an engine that starts this query now must have answered."""
        return time.monotonic() + self.job.deadline_s * 2 ** len(self._attempts.get(query, ()))

    def answer(self, pid: int, in_flight: deque[int], replies: Sequence[bytes]) -> str:
        """What is wrong with an engine's replies to its oldest queries in flight, or ""; takes in the right ones."""
        answered = self._answered_by.setdefault(pid, [])
        for reply in replies:
            if not in_flight:
                return f"an answer to no question ({_end_of(reply)})"
            query = in_flight[0]
            try:
                self.results[query] = self.job.parse(query, reply)
            except ValueError as error:
                return f"an answer that is none ({error}: {_end_of(reply)})"
            in_flight.popleft()
            answered.append(query)
            self.outstanding -= 1
        return ""

    def doubt(self, pid: int) -> None:
        """Takes back all answers of an engine: they will be asked again."""
        doubtful = self._answered_by.pop(pid, [])
        self.todo.extend(doubtful)
        self.outstanding += len(doubtful)

    def give_back(self, in_flight: Sequence[int], reason: str, *, blamed: bool) -> None:
        """Takes back the queries of an engine that failed; only the oldest was being answered.

        Args:
            in_flight: the queries, oldest first.
            reason: how the engine failed.
            blamed: whether the oldest may be why; not where the engine was ended or stopped from outside.
        """
        if not in_flight:
            return
        head = in_flight[0]
        history = self._attempts.setdefault(head, [])
        if blamed:
            history.append(reason)
        else:
            self._lost[head] = self._lost.get(head, 0) + 1
        if len(history) < MAX_ATTEMPTS and self._lost.get(head, 0) < MAX_LOST:
            self.suspects.append(head)
        else:
            self.failed[head] = "; ".join(history or [reason])
            self.results[head] = None
            self.outstanding -= 1
        self.todo.extendleft(reversed(in_flight[1:]))


class Quarantine:
    """Positions that are not asked for a while, because no engine survived them.

    Each stays for `QUARANTINE_S`, and for twice as long as the last time where it fails again.
    """

    def __init__(self) -> None:
        self._reasons: dict[bytes, str] = {}
        self._terms: dict[bytes, tuple[float, float]] = {}  # FEN -> (until, seconds)

    def __len__(self) -> int:
        now = time.monotonic()
        return sum(until > now for until, _ in self._terms.values())

    def reasons(self, fens: Sequence[bytes]) -> dict[int, str]:
        """{index of a FEN that is not to be asked now: why}."""
        now, none = time.monotonic(), (0.0, 0.0)
        return {
            i: self._reasons[fen]
            for i, fen in enumerate(fens if self._terms else ())
            if self._terms.get(fen, none)[0] > now
        }

    def add(self, fen: bytes, reason: str) -> None:
        """Adds a position that failed."""
        _, term_s = self._terms.get(fen, (0.0, QUARANTINE_S / 2))
        self._reasons[fen] = reason
        self._terms[fen] = time.monotonic() + 2 * term_s, 2 * term_s


def _end_of(reply: bytes) -> str:
    return "..." + repr(reply[-120:].decode("utf-8", "replace").strip())
