"""The run folders among the offered policies, followed while they are trained: their policies, and how they do."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from algorithms.collapse.doctor.watch import Watch
from algorithms.evaluation.following import News, RunFollower
from algorithms.evaluation.record_tail import Row
from algorithms.evaluation.snapshots import Snapshot
from algorithms.run_folder.console import number
from algorithms.run_folder.reading import cut

LOOK_INTERVAL_S = 1.0
"""A folder is not looked at more often, however many pages ask."""

MOST_STOPS = 200
"""Policies of a run on the slider; of more, as many are taken evenly."""

MOST_NOTES = 8

T = TypeVar("T")


class FollowedRun:
    """A folder that is, or may become, a run; threads may share it.

    Args:
        name: its path; where there is no such folder there is nothing to tell.

    Attributes:
        run_dir: the folder.
        stops: policies on the slider, in the order of training, as of the last look.
    """

    def __init__(self, name: str) -> None:
        self.run_dir = Path(name)
        self.stops: tuple[Snapshot, ...] = ()
        self._follower = RunFollower(self.run_dir)
        self._watch, self._health = Watch(), ""
        self._newest: Row = {}
        self._notes: tuple[str, ...] = ()
        self._lock, self._looked_at = threading.Lock(), -LOOK_INTERVAL_S
        self._server, self._changes = secrets.token_hex(4), 0

    @property
    def tag(self) -> str:
        """A text that changes with what there is to tell, and with the server."""
        return f"{self._server}-{self._changes}"

    def look(self) -> bool:
        """Whether there is something new since the last look; one that was just now is not repeated."""
        with self._lock:
            now = time.monotonic()
            if now - self._looked_at < LOOK_INTERVAL_S or not self._may_be_run():
                return False
            news = self._follower.look()
            self._looked_at = time.monotonic()
            notes = tuple(map(cut, news.notes[:MOST_NOTES]))
            if not news and notes == self._notes:
                return False
            self._read(news)
            self._notes = notes
            self.stops = thinned(self._follower.present.every, MOST_STOPS)
            self._changes += 1
            return True

    def told(self) -> dict[str, Any]:
        """What the page is told of it, as JSON values."""
        with self._lock:
            left_out = len(self._follower.present.every) - len(self.stops)
            notes = list(self._notes)
            if left_out:
                notes.insert(
                    0, f"{len(self.stops)} of {len(self.stops) + left_out:,} policies are shown."
                )
            return {
                "tag": self.tag,
                "stops": [
                    {"update": each.update, "scored_moves": each.scored_moves}
                    for each in self.stops
                ],
                "row": row_text(self._newest),
                "health": self._health,
                "notes": notes,
            }

    def _may_be_run(self) -> bool:
        try:
            is_checkpoint = (self.run_dir / "manifest.json").exists()
            return self.run_dir.is_dir() and not is_checkpoint
        except OSError:  # such as a name that is too long: what loads the policy says so
            return False

    def _read(self, news: News) -> None:
        if news.anew:
            self._watch, self._health, self._newest = Watch(), "", {}
        rows = news.rows
        # Only the last evaluation's line is shown: the rows before are what it is judged by.
        last = max((i for i, row in enumerate(rows) if "eval/regret_cp" in row), default=None)
        if last is not None and not self._newest:
            self._watch, rows = Watch(rows[:last]), rows[last:]
        for row in rows:
            self._health = self._watch({name: _known(value) for name, value in row.items()})
        for row in news.rows:
            self._newest |= row


def thinned(every: Sequence[T], most: int) -> tuple[T, ...]:
    """At most `most` of them, evenly, with the first and the last."""
    if len(every) <= most:
        return tuple(every)
    return tuple(every[round(i * (len(every) - 1) / (most - 1))] for i in range(most))


def row_text(row: Row) -> str:
    """The newest row in a line, as on the console; "" without a row."""
    if not row:
        return ""
    parts = [f"update {number(row['step'])}", f"{number(row.get('scored_moves'))} scored moves"]
    for name, said in (
        ("eval/regret_cp", "regret {} cp on the held-out positions"),
        ("policy/entropy", "entropy {} nats"),
    ):
        if name in row:
            parts.append(said.format(number(row[name], 1 if "regret" in name else 2)))
    return ", ".join(parts)


def _known(value: float | None) -> float:
    return float("nan") if value is None else value
