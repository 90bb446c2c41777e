"""How long the loop over the engines sleeps while their windows of queries are full, and when it slept too long."""

from __future__ import annotations

import time

PAUSE_S = 0.5
"""Who waited this much longer than asked was paused: the machine was suspended, the program stopped, no core free."""

_FIRST_S, _MIN_S, _MAX_S = 0.002, 0.0003, 0.005


class Nap:
    """A sleep that adapts, so that each waking finds some of a window left.

    An idle engine costs more than a waking; a waking for every line that an engine prints costs most.

    Attributes:
        whole_s: seconds of sleep while a whole window is in flight.
    """

    def __init__(self, window: int) -> None:
        self.whole_s = _FIRST_S
        self._window = window

    def sleep(self, in_flight: int) -> None:
        """Sleeps for a share of `whole_s`: the share of its window that the least busy engine has in flight."""
        if in_flight > 1:
            time.sleep(self.whole_s * in_flight / self._window)

    def adapt(self, had: int, left: int, took_s: float) -> None:
        """Makes the next sleep shorter where an engine ran dry, and longer where most of a window was left.

        Args:
            had: queries in flight at the least busy engine before the sleep.
            left: the same after it.
            took_s: seconds from falling asleep until the answers were read.
        """
        if had <= self._window // 2:
            return
        # A loaded machine wakes us late, which no shorter nap would help.
        if not left and took_s < 2 * self.whole_s:
            self.whole_s = max(0.7 * self.whole_s, _MIN_S)
        elif 2 * left > had:
            self.whole_s = min(1.2 * self.whole_s, _MAX_S)
