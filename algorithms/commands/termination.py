"""SIGTERM as an exception, for commands whose work has no place to ask whether it came."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Terminated(KeyboardInterrupt):
    """SIGTERM came."""


@contextmanager
def sigterm_raises() -> Iterator[None]:
    """None; SIGTERM raises `Terminated` inside, as Ctrl-C raises KeyboardInterrupt."""

    def terminate(number: int, frame: FrameType | None) -> None:
        raise Terminated

    try:
        previous = signal.signal(signal.SIGTERM, terminate)
    except ValueError:  # not the main thread: signals go to whoever runs it
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


def exit_code(stop: KeyboardInterrupt) -> tuple[str, int]:
    """(name of the signal that stopped the command, its exit code): 130 after Ctrl-C, 143 after SIGTERM."""
    number = signal.SIGTERM if isinstance(stop, Terminated) else signal.SIGINT
    return number.name, 128 + number
