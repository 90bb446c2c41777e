"""A process ends cleanly when it is asked to: by Ctrl-C, a scheduler's SIGTERM, or the end of its terminal.

Processes of `chess-lab` that it starts end with it.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

SIGNALS = tuple(
    signal.Signals[name]
    for name in ("SIGINT", "SIGTERM", "SIGHUP")
    if name in signal.Signals.__members__  # Windows has no SIGHUP
)
"""Signals that ask a process to end."""

_IMPORTING = "<frozen importlib._bootstrap>"
_COMPILER = f"{os.sep}llvmlite{os.sep}"


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


class Stopped(KeyboardInterrupt):
    """A signal ends the command now.

    Attributes:
        number: the signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = signal.Signals(number)


@contextmanager
def stop_on_signal() -> Iterator[Stop]:
    """A `Stop` set by the first of `SIGNALS`; a second one raises `Stopped`.

    Raises:
        KeyboardInterrupt: Ctrl-C came before, inside `raise_outside_imports`, and a library took the exception.
    """
    stop = Stop()
    before = signal.getsignal(signal.SIGINT)
    if isinstance(before, _Interrupt) and before.came:
        raise KeyboardInterrupt

    def note(number: int, frame: FrameType | None) -> None:
        if stop.name is not None:
            raise Stopped(number)
        stop.name = signal.Signals(number).name

    with handled(SIGNALS, note):
        yield stop


@contextmanager
def signals_raise() -> Iterator[None]:
    """A context in which each of `SIGNALS` but SIGINT raises `Stopped`, as Ctrl-C raises KeyboardInterrupt."""

    def end(number: int, frame: FrameType | None) -> None:
        raise Stopped(number)

    with handled([number for number in SIGNALS if number != signal.SIGINT], end):
        yield


class _Interrupt:
    """Handler of SIGINT that remembers that it came.

    Where a KeyboardInterrupt gets lost it ends the process at once: some modules turn one inside an
    import into an ImportError, and the import system's locks, destructors and the compiler's
    callbacks print it and go on. Elsewhere it raises; `stop_on_signal` raises it again where a
    library took it all the same.
    """

    came = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self.came = True
        while frame is not None:
            code = frame.f_code
            if (
                code.co_filename == _IMPORTING
                or code.co_name == "__del__"
                or _COMPILER in code.co_filename
            ):
                os.write(2, b"interrupted\n")
                os._exit(128 + number)
            frame = frame.f_back
        raise KeyboardInterrupt


@contextmanager
def raise_outside_imports() -> Iterator[None]:
    """A context in which Ctrl-C ends the process at once while a module is imported or compiled, else raises."""
    ours = threading.current_thread() is threading.main_thread()  # no other may set a handler
    if not ours or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, _Interrupt())
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@contextmanager
def handled(
    numbers: Sequence[signal.Signals], handler: Callable[[int, FrameType | None], None]
) -> Iterator[None]:
    """A context in which the handler is in force, for SIGHUP only where that is not ignored (`nohup`)."""

    def handle(number: int, frame: FrameType | None) -> None:
        if signal.Signals(number).name == "SIGHUP":
            _leave_lost_terminal(terminals)
        handler(number, frame)

    terminals = [descriptor for descriptor in (1, 2) if os.isatty(descriptor)]
    previous: dict[signal.Signals, Any] = {}
    try:
        for number in numbers:
            ignored = signal.getsignal(number) is signal.SIG_IGN
            if not (ignored and number.name == "SIGHUP"):
                previous[number] = signal.signal(number, handle)
    except ValueError:  # not the main thread: signals go to whoever runs it
        pass
    try:
        yield
    finally:
        for number, old in previous.items():
            signal.signal(number, old)


def _leave_lost_terminal(descriptors: Sequence[int]) -> None:
    """What was a terminal and is none any more becomes /dev/null: each write to it would fail."""
    lost = [descriptor for descriptor in descriptors if not os.isatty(descriptor)]
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for descriptor in lost:
        os.dup2(nowhere, descriptor)
    os.close(nowhere)


def exit_code(stop: KeyboardInterrupt) -> tuple[str, int]:
    """(name of the signal that stopped the command, its exit code): 130 for Ctrl-C, 143 SIGTERM, 129 SIGHUP."""
    number = stop.number if isinstance(stop, Stopped) else signal.SIGINT
    return number.name, 128 + number


# Pools of libraries, which would have a thread for each core of the machine in every run. The network's threads are
# a setting of the run, because their number decides how sums are rounded.
_POOLS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")

# A grid that is killed outright cannot tell its children, so the kernel does (Linux only; elsewhere
# they train on to their end, and the lock of their run folder keeps a second process out). It is set
# in a process between, because code run between fork and exec of a threaded process may hang.
_DIES_WITH_PARENT = """
import ctypes, os, signal, sys
if sys.platform.startswith("linux"):
    ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # 1: PR_SET_PDEATHSIG
    if os.getppid() != int(sys.argv[1]):
        sys.exit(1)  # the grid was gone before
os.execv(sys.argv[2], sys.argv[2:])
"""


def launcher() -> list[str]:
    """First words of a command whose process shall end with this one."""
    return [sys.executable, "-I", "-S", "-c", _DIES_WITH_PARENT, str(os.getpid())]


def environment_of_runs() -> dict[str, str]:
    """Environment variables of the runs, which find this package wherever the grid was started.

    Each pool of a library has one thread, unless its variable is set.
    """
    root = str(Path(__file__).resolve().parents[2])
    paths = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**dict.fromkeys(_POOLS, "1"), **os.environ, "PYTHONPATH": os.pathsep.join(paths)}
