"""A process ends cleanly when it is asked to: by Ctrl-C, or by SIGTERM from a scheduler."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


class Stop:
    """Whether, and by which signal, the run was asked to stop."""

    name: str | None = None
    _said = False

    def asked(self, say: Callable[[str], None]) -> bool:
        """Whether a signal has come; says once what happens now.

        The signal's handler says nothing: it may have interrupted the display in mid-write.
        """
        if self.name is not None and not self._said:
            self._said = True
            say(
                f"{self.name}: a last evaluation and a checkpoint, then the end "
                "(once more: at once)"
            )
        return self.name is not None


@contextmanager
def stop_on_signal() -> Iterator[Stop]:
    """A `Stop` set by the first SIGINT or SIGTERM; a second one raises KeyboardInterrupt."""
    stop = Stop()

    def note(number: int, frame: FrameType | None) -> None:
        if stop.name is not None:
            raise KeyboardInterrupt
        stop.name = signal.Signals(number).name

    previous: dict[signal.Signals, Any] = {}
    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            previous[number] = signal.signal(number, note)
    except ValueError:  # not the main thread: signals go to whoever runs it
        pass
    try:
        yield stop
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


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
