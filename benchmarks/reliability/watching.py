"""What a process and its children hold, seen from outside (Linux)."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.speed.memory import descendants, resident_mb

WARM_UP = 1 / 3
"""Share of a run's time that is left out: caches, pools and the window of seen positions fill up in it."""
_WINDOW = 1 / 6
_PARTS = 12


class Sample(NamedTuple):
    """What a process held at one time.

    Attributes:
        at_s: seconds since it was begun.
        resident_mb: its resident memory, MiB.
        descriptors: its open files and pipes.
        children: processes that it had started and that it had not reaped, zombies included.
        zombies: of these, those that had ended.
    """

    at_s: float
    resident_mb: float
    descriptors: int
    children: tuple[int, ...]
    zombies: tuple[int, ...]


def _is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:  # reaped meanwhile
        return False


def alive(pid: int) -> list[int]:
    """Process ids of what a process started and what has not ended."""
    return [child for child in descendants(pid)[1:] if not _is_zombie(child)]


def sample(pid: int, begun: float) -> Sample:
    """What a process holds now; `begun` by the monotonic clock.

    Raises:
        FileNotFoundError: it has ended.
    """
    children = tuple(descendants(pid)[1:])
    return Sample(
        time.monotonic() - begun,
        resident_mb(pid),
        len(os.listdir(f"/proc/{pid}/fd")),
        children,
        tuple(child for child in children if _is_zombie(child)),
    )


def longest_zombie_s(samples: Sequence[Sample]) -> float:
    """Seconds for which one ended process stayed unreaped at most, as far as the samples show."""
    first: dict[int, float] = {}
    longest = 0.0
    for each in samples:
        first = {child: first.get(child, each.at_s) for child in each.zombies}
        longest = max([longest, *(each.at_s - since for since in first.values())])
    return longest


_READ: dict[str, Callable[[Sample], float]] = {
    "resident_mb": lambda one: one.resident_mb,
    "descriptors": lambda one: one.descriptors,
    "processes": lambda one: len(one.children),
}


def growth(samples: Sequence[Sample]) -> dict[str, float]:
    """What changed from just after the warm-up to the end, each a median over a sixth of the time.

    The warm-up is the first third of the time. The sixth after it is compared with the last sixth.
    """
    whole_s = samples[-1].at_s
    start = _between(samples, WARM_UP, WARM_UP + _WINDOW)
    end = _between(samples, 1 - _WINDOW, 1.0)
    found: dict[str, float] = {}
    for name, read in _READ.items():
        found[f"{name}_at_start"] = round(statistics.median(map(read, start)), 1)
        found[f"{name}_at_end"] = round(statistics.median(map(read, end)), 1)
        found[f"{name}_most"] = round(
            max(read(s) for s in samples if s.at_s >= WARM_UP * whole_s), 1
        )
    ratio = found["resident_mb_at_end"] / found["resident_mb_at_start"]
    return {
        "memory_growth_percent": round(100 * (ratio - 1), 2),
        **found,
        "longest_zombie_s": round(longest_zombie_s(samples), 1),
    }


def parts(samples: Sequence[Sample]) -> list[dict[str, float]]:
    """The samples in twelve parts of equal time: medians, for a curve."""
    found = []
    for part in range(_PARTS):
        inside = _between(samples, part / _PARTS, (part + 1) / _PARTS)
        if inside:
            medians = {name: statistics.median(map(read, inside)) for name, read in _READ.items()}
            found.append({"from_s": round(inside[0].at_s)} | medians)
    return found


def _between(samples: Sequence[Sample], first: float, last: float) -> list[Sample]:
    """The samples from one share of the time to another."""
    whole_s = samples[-1].at_s
    return [s for s in samples if first * whole_s <= s.at_s <= last * whole_s]
