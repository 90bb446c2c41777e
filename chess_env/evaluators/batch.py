"""One batch of queries to a pool of engines: what is still to ask, what was answered, what engines died of."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

MAX_ATTEMPTS = 3  # a query during which engines ended this often is given up


@dataclass(frozen=True)
class Job:
    """One kind of query: `prefix + fen + suffix` is written, `parse(index, reply)` understands the answer.

    Attributes:
        prefix: what is written before each FEN.
        suffix: what is written after it.
        parse: from (index, output up to `bestmove`) to the answer; raises ValueError for nonsense.
        deadline_s: an engine that needs longer for one query hangs; doubled at each further attempt.
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
        suspects: queries that were being answered when an engine failed; they are sent alone, so that the next
            failure is theirs beyond doubt.
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
        """Takes in one engine's replies to its oldest queries in flight; what is wrong with them, or ""."""
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

    def give_back(self, in_flight: Sequence[int], reason: str) -> None:
        """Takes back the queries of an engine that failed; only the oldest was being answered."""
        if not in_flight:
            return
        head = in_flight[0]
        history = self._attempts.setdefault(head, [])
        history.append(reason)
        if len(history) < MAX_ATTEMPTS:
            self.suspects.append(head)
        else:
            self.failed[head] = "; ".join(history)
            self.results[head] = None
            self.outstanding -= 1
        self.todo.extendleft(reversed(in_flight[1:]))


def _end_of(reply: bytes) -> str:
    return "..." + repr(reply[-120:].decode("utf-8", "replace").strip())
