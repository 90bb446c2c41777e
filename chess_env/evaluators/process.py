"""One engine process: started, spoken to through its pipes, and ended so that nothing of it stays behind."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import select
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable
from pathlib import Path

from chess_env.evaluators.uci import INSTALL_HINT, EngineError, Handshake, LostEngineError

PAUSE_S = 0.5
"""Who waited this much longer than asked was paused: the machine was suspended, the program stopped, no core free."""

HANDSHAKE_TIMEOUT_S = (
    20.0  # a start takes 0.2 s, on a loaded machine with a cold disk a hundred times that
)
# An engine does not end itself by these: somebody else did, or the kernel for want of memory.
_FROM_OUTSIDE = {-signal.SIGKILL, -signal.SIGTERM, -signal.SIGINT, -signal.SIGHUP}
# The GNU C library then asks for large pages, where the system gives them on request. About half of a pure depth-4
# query fills 8 MB of tables anew: measured 1.04 times as many queries a second, 1.06 on two cores.
_LARGE_PAGES = "glibc.malloc.hugetlb=1"
_DYING_S = 1.0
_MAX_REPLY_BYTES = 4 << 20  # a search of 60 plies with 218 lines each stays below this
_READ_BYTES = 1 << 16


_PRCTL: Callable[..., int] | None = (
    getattr(ctypes.CDLL(None), "prctl", None) if sys.platform == "linux" else None
)
_PR_SET_PDEATHSIG = 1


def _die_with_parent() -> None:
    if _PRCTL is not None:
        _PRCTL(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _environment() -> dict[str, str]:
    """The environment of an engine: that of this program, with large pages unless the user decides otherwise."""
    # Of two values for one setting the library takes the last.
    settings = (_LARGE_PAGES, os.environ.get("GLIBC_TUNABLES", ""))
    return {**os.environ, "GLIBC_TUNABLES": ":".join(filter(None, settings))}


def free_core(num_engines: int, used: set[int | None]) -> int | None:
    """A processor that is not in `used`; None where there are fewer processors than engines."""
    if not hasattr(os, "sched_getaffinity"):
        return None
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < num_engines:
        return None
    first = os.getpid() % len(cores)  # several programs do not all begin with the same one
    return next(core for core in cores[first:] + cores[:first] if core not in used)


class EngineProcess:
    """A running engine in its own session: its pipes, its queries in flight, and when it began the oldest of them.

    It ends with its parent, however that dies: at the end of its standard input, and on Linux by a signal from
    the kernel even when the engine hangs. That signal is tied to the *thread* that started the engine, so it is
    asked for only in the main thread, and in one that is marked by `outlives_its_engines`.
    """

    def __init__(self, path: Path, core: int | None = None) -> None:
        """Starts the process and returns at once; nothing is read yet.

        Args:
            path: the binary.
            core: the processor it is bound to; None lets the system move it. An engine hands every query from
                one of its threads to another and back, which costs least on one core, and its tables stay in
                that core's cache: measured 1.2 times as many pure depth-4 queries.

        Raises:
            EngineError: the system cannot run the file.
        """
        thread = threading.current_thread()
        lasts = thread is threading.main_thread() or getattr(thread, "outlives_its_engines", False)
        try:
            with warnings.catch_warnings():
                # Python 3.12 warns of fork with threads; the child calls one C function, resolved beforehand.
                warnings.simplefilter("ignore", DeprecationWarning)
                self._process = subprocess.Popen(
                    [str(path)],
                    env=_environment(),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    bufsize=0,
                    start_new_session=True,
                    preexec_fn=_die_with_parent if lasts and _PRCTL is not None else None,
                )
        except OSError as error:
            raise EngineError(
                f"The system cannot run {str(path)!r} as a chess engine ({error}). {INSTALL_HINT}"
            ) from error
        assert self._process.stdin is not None and self._process.stdout is not None
        self.path, self.core = path, core
        if core is not None:
            with contextlib.suppress(
                OSError
            ):  # not permitted, or it has ended already: a matter of speed only
                os.sched_setaffinity(self._process.pid, {core})
        self._input, self._output = self._process.stdin, self._process.stdout
        self.pid = self._process.pid
        self.input_fd, self.output_fd = self._input.fileno(), self._output.fileno()
        os.set_blocking(self.output_fd, False)
        self.buffer = b""
        self.ready = False  # true once the handshake is over
        self.alive = True
        self.hung_up = False  # its output has ended, so it has, or is about to
        self.untried = True  # has answered nothing yet
        self.lost = False  # was ended or stopped from outside; known once it has ended
        self.fresh = True  # has not been prepared for the current batch
        self.alone = False  # one query in flight that is suspected to end engines
        self.in_flight: deque[int] = deque()
        self.deadline = float("inf")

    def send(self, data: bytes) -> bool:
        """Whether all bytes were written; False when the engine no longer listens."""
        try:
            return os.write(self.input_fd, data) == len(data)
        except OSError:  # BrokenPipeError when it died
            return False

    def receive(self) -> bool:
        """Whether the engine still talks; all that it wrote is added to `buffer`."""
        while True:
            try:
                data = os.read(self.output_fd, _READ_BYTES)
            except BlockingIOError:
                return True
            if not data:
                self.hung_up = True
                return False
            self.buffer += data
            if len(data) < _READ_BYTES:
                return True
            if len(self.buffer) > _MAX_REPLY_BYTES:
                return True

    def overflowed(self) -> bool:
        """Whether the engine wrote far more than any reply is long."""
        return len(self.buffer) > _MAX_REPLY_BYTES

    def read_until(self, mark: bytes, timeout_s: float) -> str | None:
        """Everything up to the line `mark`, or None when it did not come in time; for handshakes only.

        A time in which this process was paused does not count: the engine may have been paused too.
        """
        left = timeout_s
        pattern = re.compile(rb"^" + mark + rb"\r?\n", re.MULTILINE)
        poll = select.poll()
        poll.register(self.output_fd, select.POLLIN)
        while not (match := pattern.search(self.buffer)):
            before = time.monotonic()
            if left <= 0 or self.overflowed():
                return None
            if poll.poll(1000 * left) and not self.receive():
                return None
            took_s = time.monotonic() - before
            left -= took_s if took_s < left + PAUSE_S else 0.0
        text, self.buffer = self.buffer[: match.end()], self.buffer[match.end() :]
        return text.decode("utf-8", "replace")

    def cpu_s(self) -> float:
        """CPU seconds used so far; 0 where the system does not tell (no /proc)."""
        fields = self._stat()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") if fields else 0.0

    def _stat(self) -> list[bytes]:
        """What the system says of the process, from its state on; empty where it does not tell."""
        try:
            with open(f"/proc/{self.pid}/stat", "rb") as file:
                return file.read().rpartition(b")")[2].split()
        except OSError:
            return []

    def end(self) -> tuple[float, str]:
        """(CPU seconds used in all, how it ended), after killing its whole process group and reaping it."""
        if not self.alive:
            return 0.0, "already ended"
        self.alive = False
        how, cpu_s, stopped = "", self.cpu_s(), self._stat()[:1] == [b"T"]
        try:
            pid, status, usage = os.wait4(self.pid, os.WNOHANG)
            patience = time.monotonic() + _DYING_S
            while self.hung_up and not pid and time.monotonic() < patience:
                time.sleep(0.001)  # a process closes its files before it has ended
                pid, status, usage = os.wait4(self.pid, os.WNOHANG)
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)
            if pid:
                how = "by itself, "
            else:
                pid, status, usage = os.wait4(self.pid, 0)
            cpu_s = usage.ru_utime + usage.ru_stime
            code = os.waitstatus_to_exitcode(status)
            how += f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
            self.lost = stopped or (how.startswith("by itself") and code in _FROM_OUTSIDE)
            how = "stopped by a signal from outside" if stopped else how
        except ChildProcessError:  # the program ignores SIGCHLD or reaps every child itself
            code, how = 0, "reaped elsewhere"
        self._process.returncode = code
        self._input.close()
        self._output.close()
        return cpu_s, how

    def forget(self) -> None:
        """Closes the pipes of an engine that belongs to the parent of this forked process; the engine lives on."""
        self.alive = False
        self._process.returncode = 0  # not our child: nothing to wait for
        self._input.close()
        self._output.close()


def shake_hands(engine: EngineProcess, timeout_s: float) -> Handshake:
    """The engine's answer to `uci`.

    Raises:
        EngineError: it is no UCI engine, or no Stockfish; the engine has been ended.
        LostEngineError: it was ended or stopped from outside.
    """
    engine.send(b"uci\n")
    text = engine.read_until(b"uciok", timeout_s)
    handshake = Handshake.parse(text or "")
    if text and "stockfish" in handshake.name.lower():
        return handshake
    heard = (text or engine.buffer[:4096].decode("utf-8", "replace")).strip()
    _, how = engine.end()
    if text:
        what = f"it calls itself {handshake.name!r}"
    elif how.startswith("by itself"):
        what = f"it ended ({how.removeprefix('by itself, ')}) without answering `uci`"
    else:
        what = f"it did not answer `uci` within {timeout_s:g} s"
    said = f"Its output begins: {heard[:200]!r}." if heard else "It printed nothing."
    raise (LostEngineError if engine.lost else EngineError)(
        f"{str(engine.path)!r} is not a working Stockfish: {what}. {said} {INSTALL_HINT}"
    )
