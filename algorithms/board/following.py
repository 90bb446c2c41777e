"""The run folders among the offered policies, followed while they are trained: their policies, and how they do."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from algorithms.doctor.watch import Watch
from algorithms.evaluation.following import News, RunFollower
from algorithms.evaluation.record_tail import Row
from algorithms.evaluation.snapshots import Snapshot, thinned
from algorithms.run_folder.console import number
from algorithms.run_folder.reading import cut

LOOK_INTERVAL_S = 1.0
"""A folder is not looked at more often, however many pages ask."""

MOST_STOPS = 200
"""Policies of a run on the slider; of more, as many are taken evenly."""

MOST_NOTES = 8
_MOST_BYTES = 4 * 2**20  # of a record at once: its rows take ten times as much memory


class FollowedRun:
    """A folder that is, or may become, a run; threads may share it.

    Args:
        name: its path; where there is no such folder there is nothing to tell.

    Attributes:
        run_dir: the folder.
        stops: policies on the slider, in the order of training, as of the last look.
        scored_moves: update -> scored moves, by the record, as of the last look.
        looked: whether there was a look.
    """

    def __init__(self, name: str) -> None:
        self.run_dir = Path(name)
        self.stops: tuple[Snapshot, ...] = ()
        self.scored_moves: Mapping[int, int] = {}
        self.looked = False
        self._follower = RunFollower(self.run_dir, _MOST_BYTES)
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
                found = False
            else:
                found = self._look()
                self._looked_at = time.monotonic()
            self.looked = True
            return found

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

    def _look(self) -> bool:
        is_new, more = False, True
        while more:
            news = self._follower.look()
            self._read(news)
            is_new, more = is_new or bool(news), news.more
        notes = tuple(map(cut, news.notes[:MOST_NOTES]))
        if not is_new and notes == self._notes:
            return False
        self._notes = notes
        self.stops = thinned(self._follower.present.every, MOST_STOPS)
        self.scored_moves = dict(self._follower.scored_moves)
        self._changes += 1
        return True

    def _may_be_run(self) -> bool:
        try:
            is_checkpoint = (self.run_dir / "manifest.json").exists()
            return self.run_dir.is_dir() and not is_checkpoint
        except OSError:  # such as a name that is too long: what loads the policy says so
            return False

    def _read(self, news: News) -> None:
        if news.anew:
            self._watch, self._health, self._newest = Watch(), "", {}
        # Only the last evaluation's line is shown: the rows before are what it is judged by.
        last = max((i for i, row in enumerate(news.rows) if "eval/regret_cp" in row), default=-1)
        for i, row in enumerate(news.rows):
            if i == last:
                self._health = self._watch({name: _known(value) for name, value in row.items()})
            else:
                self._watch.add(row)
            self._newest |= row


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
