"""Several processes of one command on this machine, and their common end. For more machines there is `torchrun`."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import IO

from algorithms.core.messages import complain
from algorithms.run_folder.forks import environment_of_runs, launcher
from algorithms.run_folder.stopping import SIGNALS

_GRACE_S = 5.0
_LOOK_S = 0.05
_LAST_CHARS = 2_000


def launched() -> bool:
    """Whether this is one of several processes already, by `launch` or `torchrun`."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1


def restarted() -> bool:
    """Whether `torchrun --max-restarts` started this process again after one of the run's processes ended."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0


def launch(arguments: Sequence[str], count: int) -> int:
    """Exit code of `chess-lab ARGUMENTS` in `count` processes: the first one's, or that of one that failed before.

    The first process has this one's terminal; what another one says is shown where it fails alone. A
    signal that asks this process to end goes to all of them. Where one ends early the others are
    ended too, and a message names it. If this process is killed, the kernel ends them (Linux).
    """
    with contextlib.ExitStack() as stack:
        logs = [stack.enter_context(tempfile.TemporaryFile("w+")) for _ in range(count - 1)]
        processes = [
            _start(arguments, place, log)
            for place, log in zip(places(count), [None, *logs], strict=True)
        ]
        with _passed_on(processes) as asked:
            first = _first_ended(processes)
            failed = processes[first].returncode != 0 and not asked
            _wait(processes, _GRACE_S if failed else None)
        code = processes[first].returncode
        if failed and (first > 0 or code < 0):  # otherwise the first process has said it itself
            how = f"with exit code {code}" if code > 0 else f"by {signal.Signals(-code).name}"
            complain(
                "chess-lab",
                f"process {first} of {count} (pid {processes[first].pid}) ended {how}, and the others were "
                "ended: the run can go on from its last checkpoint with --resume",
            )
        if failed and first > 0:
            logs[first - 1].seek(0)
            sys.stderr.write(logs[first - 1].read()[-_LAST_CHARS:])
        if not failed:
            code = next((process.returncode for process in processes if process.returncode), 0)
        return code if code >= 0 else 128 - code


def _start(
    arguments: Sequence[str], place: dict[str, str], log: IO[str] | None
) -> subprocess.Popen[bytes]:
    """One of the processes.

    Args:
        arguments: of the command.
        place: environment variables that say which one it is.
        log: gets what it says; None where it has the terminal.
    """
    return subprocess.Popen(
        [*launcher(), sys.executable, "-P", "-m", "algorithms.cli", *arguments],
        env={"OMP_WAIT_POLICY": "PASSIVE", **environment_of_runs(), **place},
        stdin=None if log is None else subprocess.DEVNULL,
        stdout=None if log is None else subprocess.DEVNULL,
        stderr=log,
        start_new_session=True,  # a Ctrl-C reaches this process, which passes it on once
    )


def places(count: int) -> Iterator[dict[str, str]]:
    """Environment variables of each process, as `torchrun` sets them."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    shared = {"WORLD_SIZE": str(count), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    if sys.platform.startswith("linux"):
        shared["GLOO_SOCKET_IFNAME"] = "lo"  # a host's own name may not resolve
    for rank in range(count):
        yield {**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)}


@contextlib.contextmanager
def _passed_on(processes: Sequence[subprocess.Popen[bytes]]) -> Iterator[list[int]]:
    """A context in which signals that ask this process to end go to the processes; those that came."""
    asked: list[int] = []

    def pass_on(number: int, frame: FrameType | None) -> None:
        asked.append(number)
        for process in processes:
            if process.poll() is None:
                process.send_signal(number)

    before = {number: signal.signal(number, pass_on) for number in SIGNALS}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _first_ended(processes: Sequence[subprocess.Popen[bytes]]) -> int:
    """Number of the process that ended first; one that failed where several have ended."""
    while True:
        ended = [n for n, process in enumerate(processes) if process.poll() is not None]
        if ended:
            # A process that is killed ends the others' connections at once: it is the one to name.
            return min(ended, key=lambda n: (processes[n].returncode == 0, processes[n].returncode))
        time.sleep(_LOOK_S)


def _wait(processes: Sequence[subprocess.Popen[bytes]], grace_s: float | None) -> None:
    """Waits for all processes; after the grace, if there is one, what is left is killed."""
    until = None if grace_s is None else time.monotonic() + grace_s
    while any(process.poll() is None for process in processes):
        if until is not None and time.monotonic() > until:
            for process in processes:
                process.kill()
        time.sleep(_LOOK_S)
