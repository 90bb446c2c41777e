"""Short runs without a slow start, for tests: a process that has loaded everything forks itself for each.

    python -P -m tests.forks      reads {"arguments": [...], "log": path}, a line each, and answers each with the exit
                                  code of `chess-lab ARGUMENTS`

Linux alone: elsewhere the libraries do not survive a fork.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import json
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import NoReturn

from algorithms.run_folder.stopping import environment_of_runs, launcher

_CLI = "algorithms.cli"
_LOADED = (
    "torch._dynamo",  # the first optimizer imports it
    _CLI,
    "algorithms.doctor",
    "algorithms.commands.run_options",
    "algorithms.commands.train",
    "algorithms.training.trainer",
)
_PR_SET_PDEATHSIG = 1


class Forks:
    """Takes the place of `subprocess.Popen`, for one run after the other."""

    def __init__(self) -> None:
        # PASSIVE as in `chess-lab train`: torch reads it when it is imported.
        self._process = subprocess.Popen(
            [*launcher(), sys.executable, "-P", "-m", "tests.forks"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True,
            env={"OMP_WAIT_POLICY": "PASSIVE", **environment_of_runs()},
            preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),  # `nohup` ignores it
        )  # fmt: skip

    def begin(self, arguments: Sequence[str], log: Path) -> None:
        """Starts a run, which appends what it prints to `log`."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # `wait` says how the process ended
            print(
                json.dumps({"arguments": [*arguments], "log": str(log)}),
                file=self._process.stdin, flush=True,
            )  # fmt: skip

    def wait(self) -> int:
        """Exit code of the run, negative for a signal."""
        assert self._process.stdout is not None
        answer = self._process.stdout.readline()
        return int(answer) if answer else self._process.wait()

    def send_signal(self, number: signal.Signals) -> None:
        """Sends the signal to the run, and SIGKILL to both processes."""
        self._process.send_signal(number)

    @property
    def alive(self) -> bool:
        """Whether it can make another run."""
        return self._process.poll() is None

    def close(self) -> None:
        """Ends the process."""
        assert self._process.stdin is not None and self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


def fork(work: Callable[[], object]) -> int:
    """Process id of a copy of this process that does some work, and nothing of this one's clean-up."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return pid


def kill(pid: int) -> None:
    """Kills a fork outright and waits for its end."""
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def serve() -> None:
    """Makes the runs asked for on standard input until it ends."""
    for name in _LOADED:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # a collection in a fork would copy every page that it looks at
    child = 0

    def pass_on(number: int, frame: FrameType | None) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, number)

    parent = os.getpid()
    for line in sys.stdin:
        request = json.loads(line)
        # A signal that comes between the fork and the handlers waits.
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
        child = os.fork()
        if child == 0:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
            _run(request["arguments"], request["log"], parent)
        signal.signal(signal.SIGTERM, pass_on)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
        _, status = os.waitpid(child, 0)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _run(arguments: list[str], log: str, parent: int) -> NoReturn:
    """Ends the process with the exit code of the command."""
    cli = importlib.import_module(_CLI)  # a command that is run, as in `executors.COMMAND`
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    written = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.dup2(written, 1)
    os.dup2(written, 2)
    sys.argv = [str(cli.__file__), *arguments]
    try:
        code = cli.main(arguments)
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # taking the interpreter down takes as long as the run


if __name__ == "__main__":
    serve()
