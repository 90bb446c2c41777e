"""The rows of a run's record: what every row begins and ends with, to the file and to the display."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from algorithms.training import machine
from algorithms.training.console import Display
from algorithms.training.progress import Progress
from algorithms.training.run_log import RunLog


class RowWriter:
    """Writes rows, with the amounts done and the time spent so far.

    Args:
        progress: of the run; its times are counted here.
        log: the record.
        display: is shown each row.
        watch: is given every row and says in a line how the run does; None says nothing.
    """

    def __init__(
        self,
        progress: Progress,
        log: RunLog,
        display: Display,
        watch: Callable[[Mapping[str, float]], str] | None,
    ) -> None:
        self._progress = progress
        self._log = log
        self._display = display
        self._watch = watch
        self._wall = time.monotonic()
        self._cpu = machine.cpu_seconds()

    def write(self, metrics: Mapping[str, float]) -> None:
        """Writes and shows one row."""
        done = self._progress
        self._clock()
        row = {
            "step": done.update,
            "plies": done.plies,
            "scored_moves": done.scored_moves,
            **metrics,
            "time/wall_s": done.wall_s,
            "time/cpu_s": done.cpu_s,
        }
        self._log.write(row)
        self._display.show(row, "" if self._watch is None else self._watch(row))

    def _clock(self) -> None:
        done, wall, cpu = self._progress, time.monotonic(), machine.cpu_seconds()
        done.wall_s += wall - self._wall
        done.cpu_s += max(0.0, cpu - self._cpu)
        self._wall, self._cpu = wall, cpu
