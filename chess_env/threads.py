"""Rows divided among threads: the compiled kernels release the interpreter's lock, and each call writes its own."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")

MANY_THREADS = 8
"""Parts are handed over under the interpreter's lock: from so many threads on each takes one (measured
once, 4,096 boards on 16 cores: 1.11 times the plies). Fewer take two, since a core may be busy elsewhere."""


def usable_cores() -> int:
    """Cores on which this process may run."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Threads:
    """A few threads that work on parts of the rows; where there are few rows, the caller's own thread does it all.

    They start when they are first needed, and again after `close` and in the child of a fork.

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
        self._pool: ThreadPoolExecutor | None = None
        self._process = 0

    def over(self, num_rows: int, run: Callable[[slice], T], *, least: int) -> list[T]:
        """What `run` gives for consecutive parts of the rows, which together are all of them, in their order.

        Args:
            num_rows: N; the parts are slices of range(N).
            run: works on the rows of a slice, changes nothing else, and calls no `over` of this object.
            least: rows that are worth handing to another thread.
        """
        most = self.num_threads * (2 if self.num_threads < MANY_THREADS else 1)
        parts = min(most, num_rows // least)
        if self.num_threads == 1 or parts < 2:
            return [run(slice(0, num_rows))]
        if self._pool is None or self._process != os.getpid():  # the child of a fork has no threads
            self._pool = ThreadPoolExecutor(self.num_threads, "chess-env")
            self._process = os.getpid()
        bounds = [num_rows * part // parts for part in range(parts + 1)]
        return list(self._pool.map(run, map(slice, bounds, bounds[1:])))

    def close(self) -> None:
        """Ends the threads."""
        if self._pool is not None and self._process == os.getpid():
            self._pool.shutdown()
        self._pool = None

    def __reduce__(self) -> tuple[type[Threads], tuple[int]]:
        """Pickled as their number."""
        return Threads, (self.num_threads,)
