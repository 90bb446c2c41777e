"""How many CPU threads a policy gets that plays many games at once."""

from __future__ import annotations

import os


def threads_of(asked: int | None) -> int:
    """Number of threads: those asked for, or as many as there are idle cores, at least 1.

    On two idle cores two threads take a third to nearly a half off the time of a match. Where another process has one
    of the cores they wait for each other, and a match takes up to five times as long as with one; so cores that were
    busy in the last minute are left alone.

    Raises:
        ValueError: fewer than 1 were asked for.
    """
    if asked is not None:
        if asked < 1:
            raise ValueError(f"--num-threads is {asked}: expected at least 1")
        return asked
    can_tell = hasattr(os, "sched_getaffinity")
    usable = len(os.sched_getaffinity(0)) if can_tell else os.cpu_count() or 1
    return max(1, usable - round(os.getloadavg()[0]))
