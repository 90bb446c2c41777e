"""Several processes of one command on this machine: their start, how they meet, and their common end.

They meet in a folder that nobody else can open, and talk over the loopback interface. For more machines there is
`torchrun`, whose processes are joined too.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from types import FrameType
from typing import IO, Any

import torch

from algorithms.processes.group import Group, Processes
from algorithms.run_folder.stopping import SIGNALS, environment_of_runs, handled, launcher
from algorithms.run_folder.terminal import complain

FOLDER = "CHESS_LAB_PROCESSES"
"""Environment variable with the folder in which the processes of one command meet."""

_LOOPBACK = {"linux": "lo", "darwin": "lo0"}
_WAIT = timedelta(days=7)  # a process may wait for long: for one that evaluates
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
        folder = Path(stack.enter_context(meeting_folder()))
        logs = [stack.enter_context(tempfile.TemporaryFile("w+")) for _ in range(count - 1)]
        processes = [
            _start(arguments, place, log)
            for place, log in zip(places(folder, count), [None, *logs], strict=True)
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


def meeting_folder() -> tempfile.TemporaryDirectory[str]:
    """A new folder for `places`, which this user alone can open; the processes remove it when all have come."""
    return tempfile.TemporaryDirectory(prefix="chess-lab-", ignore_cleanup_errors=True)


def places(folder: Path, count: int) -> Iterator[dict[str, str]]:
    """Environment variables of each of the processes that meet in a folder.

    Args:
        folder: new and empty; as `meeting_folder` makes it: who can open it is let in.
        count: of the processes.
    """
    shared = {FOLDER: str(folder), "WORLD_SIZE": str(count), "LOCAL_WORLD_SIZE": str(count)}
    if sys.platform in _LOOPBACK:  # nobody on the network can reach this interface
        interface = _LOOPBACK[sys.platform]
        shared |= {"GLOO_SOCKET_IFNAME": interface, "NCCL_SOCKET_IFNAME": interface}
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

    with handled(SIGNALS, pass_on):
        yield asked


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


@contextlib.contextmanager
def joined_processes() -> Iterator[Processes]:
    """The processes that `--num-processes` or `torchrun` started, joined; the plain `Processes` where none did.

    Where there is CUDA, each process computes on the device of its local rank.

    Raises:
        RuntimeError: the others did not come, or somebody else came.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield Processes()
        return
    import torch.distributed as dist

    backend = "gloo"
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())
        backend = "cpu:gloo,cuda:nccl"
    folder = os.environ.get(FOLDER)
    if folder is None:
        dist.init_process_group(backend, timeout=_WAIT)
    else:
        _meet(Path(folder), backend)
    try:
        yield Group()
    finally:
        dist.destroy_process_group()


def _meet(folder: Path, backend: str) -> None:
    """Joins the processes by a file in the folder, which is removed when all have come.

    While they come, another user of the machine could call one of them in the place of another. Each
    therefore proves that it knows a secret in the folder.

    Raises:
        RuntimeError: one does not know it.
    """
    import torch.distributed as dist

    rank, count = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    store: Any = dist.FileStore(str(folder / "store"), count)  # type: ignore[attr-defined]
    store.set_timeout(_WAIT)
    if rank == 0:
        store.set("secret", secrets.token_hex())
    dist.init_process_group(backend, store=store, rank=rank, world_size=count, timeout=_WAIT)
    secret = store.get("secret")
    proofs = [hashlib.sha256(b"%d of %s" % (rank, secret)).digest() for rank in range(count)]
    found = Group().gather_tensor(torch.frombuffer(bytearray(proofs[rank]), dtype=torch.uint8))
    if found.flatten().tolist() != list(b"".join(proofs)):
        raise RuntimeError(
            "somebody else on this machine called a process of this run: start it again"
        )
    Group().any(False)  # all have read the secret
    if rank == 0:
        shutil.rmtree(folder)
