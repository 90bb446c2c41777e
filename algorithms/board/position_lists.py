"""The positions to step through, sorted by what changed most over a run: made in the background, with progress."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from algorithms.evaluation.snapshots import Snapshot
from algorithms.networks.policy_net import PolicyNet
from algorithms.playing.over_training import most_changed, over_training
from algorithms.playing.position_sets import PositionSet, heldout_sets, probe_set
from algorithms.run_folder.files import UntrustedError
from algorithms.run_folder.reading import cut
from chess_env.rules.fen import to_fen

SETS: Mapping[str, Callable[[], list[PositionSet]]] = {
    "probe": lambda: [probe_set()],
    "heldout": lambda: list(heldout_sets().values()),
}
"""What can be stepped through."""

TEMPERATURE = 1.0
"""At which the policies are compared."""

MOST_KEPT = 8

Key = tuple[str, Snapshot, Snapshot]


class Job:
    """One list in the making.

    Attributes:
        progress: 0 to 1.
        positions: the list when it is done.
        problem: why there will be none; "" otherwise.
    """

    def __init__(self) -> None:
        self.progress = 0.0
        self.positions: list[dict[str, Any]] | None = None
        self.problem = ""

    def told(self) -> dict[str, Any]:
        """What the page is told, as JSON values."""
        return {"progress": self.progress, "positions": self.positions, "problem": self.problem}


class PositionLists:
    """Makes lists one after the other in a thread of its own, and keeps the newest.

    Args:
        load: loads a policy, such as `snapshots.Policies`.
    """

    def __init__(self, load: Callable[[Snapshot], PolicyNet]) -> None:
        self._load = load
        self._jobs: OrderedDict[Key, Job] = OrderedDict()
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="board-lists")
        self._lock = threading.Lock()

    def ask(self, kind: str, stops: Sequence[Snapshot]) -> Job:
        """The list as far as it is; the first question begins it.

        Args:
            kind: one of `SETS`.
            stops: policies of a run, in order, at least one; the first and the last are compared.
        """
        key = (kind, stops[0], stops[-1])
        with self._lock:
            if key not in self._jobs:
                self._jobs[key] = Job()
                self._worker.submit(self._make, key, self._jobs[key])
                while len(self._jobs) > MOST_KEPT:
                    self._jobs.popitem(last=False)
            self._jobs.move_to_end(key)
            return self._jobs[key]

    def close(self) -> None:
        """Ends the thread; what waits is not made."""
        self._worker.shutdown(wait=False, cancel_futures=True)

    def _make(self, key: Key, job: Job) -> None:
        kind, first, last = key
        with self._lock:
            if self._jobs.get(key) is not job:  # given up while it waited
                return
        try:
            sets = SETS[kind]()
            curves = []
            for number, at in enumerate(sets):
                curves.append(over_training([first, last], self._load, at, TEMPERATURE))
                job.progress = (number + 1) / len(sets)
            job.positions = [
                {
                    "name": each.at.names[row],
                    "fen": to_fen(each.at.positions[row]),
                    "change": float(each.change[row]),
                }
                for each, row in most_changed(curves)
            ]
        except (ValueError, RuntimeError, OSError, ImportError, UntrustedError) as error:
            job.problem = f"The positions cannot be sorted: {cut(error)}"
