"""An engine served in this process, spoken to through a pipe."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType

from algorithms.playing.uci_threads import Thinker, serve

DEADLINE_S = 30.0


class Wire:
    """`serve` in a thread, between a real pipe and a list of lines.

    Args:
        load: as for `serve`.
    """

    def __init__(self, load: Callable[[], Thinker]) -> None:
        reading, self._writing = os.pipe()
        self._source = os.fdopen(reading, "rb")
        self._said: list[str] = []
        self._news = threading.Condition()
        self._pool = ThreadPoolExecutor(1)
        self._done: Future[None] = self._pool.submit(serve, "small", load, self._source, self)

    def write(self, text: bytes) -> None:
        with self._news:
            self._said += text.decode().splitlines()
            self._news.notify_all()

    def flush(self) -> None:
        pass

    def __enter__(self) -> Wire:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.end()

    def send(self, *lines: bytes) -> None:
        os.write(self._writing, b"".join(line + b"\n" for line in lines))

    def wait_for(self, word: str, count: int = 1) -> list[str]:
        """All that was said, once `count` lines of it begin with `word`."""
        deadline = time.monotonic() + DEADLINE_S
        with self._news:
            while sum(line.split(" ")[0] == word for line in self._said) < count:
                left = deadline - time.monotonic()
                assert left > 0 and not self._done.done(), (word, self._said[-5:])
                self._news.wait(min(left, 0.05))
            return list(self._said)

    def said(self) -> list[str]:
        """All that was said so far."""
        with self._news:
            return list(self._said)

    def outcome(self) -> None:
        """None, once the engine has ended by itself; raises what it raised."""
        self._done.result(DEADLINE_S)

    def end(self) -> list[str]:
        """All that was said, after the end of the input; raises what the engine raised."""
        if self._writing >= 0:
            os.close(self._writing)
            self._writing = -1
        self._pool.shutdown()
        self.outcome()
        return self.said()
