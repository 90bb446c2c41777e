"""What a soak does to a training run from outside: engines killed and stopped, a tracker that hangs and fails."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from benchmarks.reliability.watching import alive

KINDS = ("engine_kills", "engine_stalls", "tracker_stalls", "tracker_failures")


class Faults:
    """Faults that are due at random times. Linux alone.

    An engine is killed every 1 to 3 s. Every 10 to 20 s one is stopped, for 0.2 to 10 s: shorter and longer than the
    deadline after which it is replaced. Every 20 to 40 s the tracker hangs for 1 to 10 s. It fails once, and for good,
    because a run leaves a tracker that failed.

    Args:
        trainer: process id of the run.
        tracker: the folder that tells the tracker what to do.
        seed: of the times and the engines.
        fail_after_s: seconds until the tracker fails.

    Attributes:
        counts: faults by kind that happened.
    """

    def __init__(self, trainer: int, tracker: Path, seed: int, fail_after_s: float) -> None:
        self.counts = Counter(dict.fromkeys(KINDS, 0))
        self._trainer, self._tracker, self._rng = trainer, tracker, random.Random(seed)
        self._due: list[tuple[float, Callable[[], None]]] = []
        self._after(2.0, self._kill)
        self._after(10.0, self._stop)
        self._after(5.0, self._hang)
        self._after(fail_after_s, self._fail)

    def happen(self) -> None:
        """Lets all happen that is due."""
        now = time.monotonic()
        due = [act for at, act in self._due if at <= now]
        self._due = [(at, act) for at, act in self._due if at > now]
        for act in due:
            act()

    def end(self) -> None:
        """Ends what has not ended, so that the run can go on to its end; nothing more happens."""
        for act in [act for _, act in self._due if act not in self._beginnings()]:
            act()
        self._due.clear()

    def _beginnings(self) -> tuple[Callable[[], None], ...]:
        return self._kill, self._stop, self._hang, self._fail

    def _after(self, seconds: float, act: Callable[[], None]) -> None:
        self._due.append((time.monotonic() + seconds, act))

    def _send(self, number: signal.Signals) -> int | None:
        """The engine that the signal was sent to; None where there is none now."""
        engines = alive(self._trainer)
        engine = self._rng.choice(engines) if engines else None
        if engine is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(engine, number)
        return engine

    def _kill(self) -> None:
        self.counts["engine_kills"] += self._send(signal.SIGKILL) is not None
        self._after(self._rng.uniform(1, 3), self._kill)

    def _stop(self) -> None:
        engine = self._send(signal.SIGSTOP)
        self.counts["engine_stalls"] += engine is not None

        def go_on() -> None:
            if engine in alive(self._trainer):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(engine, signal.SIGCONT)

        self._after(self._rng.uniform(0.2, 10), go_on)
        self._after(self._rng.uniform(10, 20), self._stop)

    def _hang(self) -> None:
        stall = self._tracker / "stall"
        stall.touch()
        self.counts["tracker_stalls"] += 1
        self._after(self._rng.uniform(1, 10), lambda: stall.unlink(missing_ok=True))
        self._after(self._rng.uniform(20, 40), self._hang)

    def _fail(self) -> None:
        (self._tracker / "fail").touch()
        self.counts["tracker_failures"] += 1
