"""What a target is, and the judge that feeds it, counts and keeps what it does wrong."""

from __future__ import annotations

import dataclasses
import hashlib
import signal
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from benchmarks.reliability.fuzz.recipes import Choices

MOST_MESSAGE = 600
"""Characters of a refusal, the path of the file left out."""
MOST_ECHO = 200
"""Characters of the input that a refusal repeats in one place."""
_AROUND = 5  # quotes and dots, which may stand in the input too


class Target(NamedTuple):
    """A reader of the project under test.

    Attributes:
        check: feeds it; None where the input is accepted and holds what it should, the text of the refusal where it
            is refused as documented. Raises where anything is wrong.
        make: the input that a recipe describes.
        most_message: characters of a refusal.
    """

    check: Callable[[bytes], str | None]
    make: Callable[[Choices], bytes]
    most_message: int = MOST_MESSAGE


@dataclasses.dataclass
class Judge:
    """Feeds one target and counts.

    Attributes:
        name: of the target.
        target: the target.
        failures_dir: where the first input of each kind of failure is kept.
        inputs: given so far.
        accepted: of them.
        refused: of them.
        failures: what is wrong -> how many inputs did it.
        longest_message: characters of the longest refusal.
        slowest_s: the most processor time that one input took.
        patience_s: of processor time, after which an input counts as one that never comes to an end; 0: for ever.
    """

    name: str
    target: Target
    failures_dir: Path
    inputs: int = 0
    accepted: int = 0
    refused: int = 0
    failures: dict[str, int] = dataclasses.field(default_factory=dict)
    longest_message: int = 0
    slowest_s: float = 0.0
    patience_s: float = 0.0

    def __post_init__(self) -> None:
        if self.patience_s:
            signal.signal(signal.SIGPROF, _too_slow)

    def cook(self, recipe: bytes) -> None:
        """Feeds the input that the recipe describes."""
        self.feed(self.target.make(Choices(recipe)))

    def feed(self, data: bytes) -> None:
        """Feeds one input."""
        self.inputs += 1
        began = time.process_time()
        if self.patience_s:
            signal.setitimer(signal.ITIMER_PROF, self.patience_s)
        try:
            said = self.target.check(data)
            if said is None:
                self.accepted += 1
            else:
                check_refusal(said, data, self.target.most_message)
                self.longest_message = max(self.longest_message, len(said))
                self.refused += 1
        except Exception as error:
            self._failed(error, data)
        finally:
            if self.patience_s:
                signal.setitimer(signal.ITIMER_PROF, 0)
        self.slowest_s = max(self.slowest_s, time.process_time() - began)

    def _failed(self, error: Exception, data: bytes) -> None:
        place = traceback.extract_tb(error.__traceback__)[-1]
        kind = f"{type(error).__name__} in {Path(place.filename).name}, {place.name}"
        if kind not in self.failures:
            self.failures_dir.mkdir(parents=True, exist_ok=True)
            name = f"{self.name}-{hashlib.sha256(data).hexdigest()[:12]}"
            (self.failures_dir / name).write_bytes(data)
            print(f"{self.name}: {kind}: {str(error)[:300]}\n  --replay {self.failures_dir / name}")
        self.failures[kind] = self.failures.get(kind, 0) + 1

    def row(self, engine: str, seconds: float) -> dict[str, Any]:
        """The counts."""
        return {
            "target": self.name,
            "engine": engine,
            "inputs": self.inputs,
            "accepted": self.accepted,
            "refused": self.refused,
            "failures": sum(self.failures.values()),
            "longest_message": self.longest_message,
            "slowest_s": round(self.slowest_s, 3),
            "seconds": round(seconds, 1),
        }


def check_refusal(said: str, data: bytes, most: int = MOST_MESSAGE) -> None:
    """Raises AssertionError where a refusal is too long, or repeats too much of the input."""
    assert len(said) <= most, f"a refusal of {len(said):,} characters: {said[:200]!r}"
    width = MOST_ECHO + _AROUND + 1
    if len(said) < width:
        return
    text = data.decode("utf-8", "replace")
    for given in (text, repr(text), ascii(text)):
        for at in range(len(said) - width + 1):
            echo = said[at : at + width]
            assert echo not in given, f"a refusal repeats {echo!r} of the input"


def _too_slow(number: int, frame: FrameType | None) -> None:
    raise TimeoutError("it comes to no end")
