"""Rows divided among threads: the compiled kernels release the interpreter's lock, and each call writes its own."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from functools import lru_cache, partial
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")

PART_ENDS = 5, 7, 8
"""Where the parts of a thread's rows end, in eighths. Where its core is busy elsewhere, another thread does the last
ones; these are small, so that all threads are done at nearly the same time."""

MANY_THREADS = 8
"""Parts are handed over under the interpreter's lock: from so many threads on each takes one (measured
once, 4,096 boards on 16 cores: 1.11 times the plies)."""


def usable_cores() -> int:
    """Cores on which this process may run."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@lru_cache
def _divided(num_rows: int, workers: int) -> tuple[list[slice], list[list[int]]]:
    """(the parts of the rows; for each worker the order in which it takes them: its own first, of others the last)."""
    ends = (
        PART_ENDS
        if workers < MANY_THREADS and num_rows >= PART_ENDS[-1] * workers
        else PART_ENDS[-1:]
    )
    whole, each = PART_ENDS[-1] * workers, len(ends)
    bounds = [
        num_rows * (PART_ENDS[-1] * worker + end) // whole
        for worker in range(workers)
        for end in ends
    ]
    parts = [slice(begin, end) for begin, end in zip([0, *bounds], bounds, strict=False)]
    own = [list(range(each * worker, each * (worker + 1))) for worker in range(workers)]
    orders = [
        mine + [part for theirs in own if theirs is not mine for part in reversed(theirs)]
        for mine in own
    ]
    return parts, orders


def _serve(calls: SimpleQueue[Callable[[], None] | None]) -> None:
    while (call := calls.get()) is not None:
        call()
        del call  # while it waits it keeps no array and no evaluator


class OneThread:
    """A thread that makes one call after another and ends with its owner; an executor takes longer to begin and end.

    Attributes:
        calls: what it is to call; None ends it.
        end: lets it end after the calls that wait.
    """

    def __init__(self, owner: object) -> None:
        self.calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self.thread = threading.Thread(
            target=_serve, args=(self.calls,), name="chess-env", daemon=True
        )
        self.thread.start()
        self.end = weakref.finalize(owner, self.calls.put, None)


class Threads:
    """A few threads that work on parts of the rows; where there are few rows, the caller's own thread does it all.

    They start when they are first needed, and again after `close` and in the child of a fork. The caller's own thread
    is one of them. At each call a thread gets the same rows, which its core has in its cache, and other rows only
    where another thread is late.

    Args:
        num_threads: at most so many; None: one for each core on which the process may run.

    Raises:
        ValueError: `num_threads` is not None or a whole number from 1 on.
    """

    def __init__(self, num_threads: int | None = None) -> None:
        wrong = isinstance(num_threads, bool) or not isinstance(num_threads, int) or num_threads < 1
        if num_threads is not None and wrong:
            raise ValueError(
                f"num_threads is {num_threads!r}: expected a whole number from 1 on, or None for one a core"
            )
        self.num_threads = num_threads or usable_cores()
        self._others: list[OneThread] = []
        self._process = 0

    def over(self, num_rows: int, run: Callable[[slice], T], *, least: int) -> list[T]:
        """What `run` gives for consecutive parts of the rows, which together are all of them, in their order.

        Args:
            num_rows: N; the parts are slices of range(N).
            run: works on the rows of a slice, changes nothing else, and calls no `over` of this object.
            least: rows that are worth handing to another thread.
        """
        workers = min(self.num_threads, num_rows // least)
        if workers < 2:
            return [run(slice(0, num_rows))]
        if self._process != os.getpid():  # the child of a fork has no threads
            self._others, self._process = [], os.getpid()
        while len(self._others) < workers - 1:
            self._others.append(OneThread(self))
        parts, orders = _divided(num_rows, workers)
        left = dict.fromkeys(range(len(parts)), True)
        found: list[Any] = [None] * len(parts)
        failed: dict[int, BaseException] = {}
        done: SimpleQueue[None] = SimpleQueue()

        def work(worker: int) -> None:
            for part in orders[worker]:
                if left.pop(part, False):  # nobody else has taken it
                    try:
                        found[part] = run(parts[part])
                    except BaseException as error:
                        failed[part] = error
                    done.put(None)

        for worker, other in zip(range(1, workers), self._others, strict=False):
            other.calls.put(partial(work, worker))
        work(0)
        for _ in parts:
            done.get()
        if failed:
            raise failed[min(failed)]
        return found

    def close(self) -> None:
        """Ends the threads."""
        others, self._others = self._others, []
        if self._process == os.getpid():
            for other in others:
                other.end()
            for other in others:
                other.thread.join()

    def __reduce__(self) -> tuple[type[Threads], tuple[int]]:
        """Pickled as their number."""
        return Threads, (self.num_threads,)
