"""Another user of the machine can neither join the processes of a run nor have them run anything."""

from __future__ import annotations

import contextlib
import os
import pickle
import re
import signal
import socket
import struct
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

from algorithms.processes import Processes, launch
from tests.processes.test_launch import in_two, ranks, trained
from tests.processes.together import code_of, forked, together

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc on Linux alone")
NOBODY = 65534
ALONE = os.geteuid() != 0
"""Whether these tests cannot become another user: the attacks are then made by the same one, and the mode of the folder
stands for what another one may read."""

_LISTENS = "0A"
LOOPBACK = "0100007F"  # 127.0.0.1, its bytes the other way round


class Bomb:
    """A value whose pickle touches a file when it is read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[[str], object], tuple[str]]:
        return os.mknod, (str(self.path),)


def listening(pid: int) -> list[tuple[str, int]]:
    """(address in hexadecimal digits, port) at which a process can be called."""
    inodes = set()
    for each in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            inodes.update(re.findall(r"socket:\[(\d+)\]", os.readlink(each)))
    found = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == _LISTENS and words[9] in inodes:
                address, port = words[1].split(":")
                found.append((address, int(port, 16)))
    return found


def as_a_stranger(attack: Callable[[], None]) -> None:
    """Does the attack in a process of another user.

    Raises:
        AssertionError: it raised an error.
    """
    child = os.fork()
    if child:
        assert code_of(child) == 0
        return
    code = 1
    try:
        if not ALONE:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
        attack()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def bombarded(ports: list[int], bomb: bytes) -> None:
    """Calls every port with a pickle, bare and behind each of the numbers by which gloo knows its pairs."""
    callers = []
    for port in ports:
        for number in (None, *range(8)):
            caller = socket.socket()  # create_connection imports what another user may not read
            caller.settimeout(5)
            caller.connect(("127.0.0.1", port))
            head = b"" if number is None else struct.pack("=q", number)
            with contextlib.suppress(OSError):  # it may be closed at once
                caller.sendall(head + struct.pack("=q", len(bomb)) + bomb)
            callers.append(caller)
    time.sleep(0.3)
    for caller in callers:
        caller.close()


def called_at(pid: int) -> list[int]:
    """The ports at which a process listens, as soon as there are some; all of them on the loopback interface."""
    deadline = time.monotonic() + 60
    while not (found := listening(pid)):
        assert time.monotonic() < deadline and os.waitpid(pid, os.WNOHANG) == (0, 0)
        time.sleep(0.01)
    assert {address for address, _ in found} == {LOOPBACK}
    return [port for _, port in found]


def test_a_stranger_cannot_join_a_run_whose_processes_still_come(tmp_path: Path) -> None:
    exploded = tmp_path / "exploded"

    def work(processes: Processes) -> None:
        assert processes.gather(processes.rank) == [0, 1]

    with launch.meeting_folder() as folder, contextlib.ExitStack() as ended:
        meeting = Path(folder)
        first, second = launch.places(meeting, 2)
        waits = forked(first, work)
        ended.callback(os.kill, waits, signal.SIGKILL)
        ports = called_at(waits)

        def attack() -> None:
            if not ALONE:
                for each in (meeting, meeting / "store"):
                    with pytest.raises(PermissionError):
                        os.open(each, os.O_RDONLY)
                with pytest.raises(PermissionError):
                    (meeting / "more").touch()
            bombarded(ports, pickle.dumps(Bomb(exploded)))

        assert meeting.stat().st_mode & 0o777 == 0o700
        as_a_stranger(attack)
        comes = forked(second, work)
        # A stranger that guesses right takes the place of a process at gloo. Both then end, since it knows no secret.
        codes = {code_of(comes), code_of(waits)}
        ended.pop_all()
    assert codes in ({0}, {1})
    assert not exploded.exists()


def test_one_that_does_not_know_the_secret_of_the_folder_is_refused(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    import torch.distributed as dist

    class Forgetful(dist.FileStore):
        def get(self, key: str) -> bytes:
            return super().get(key) if os.environ["RANK"] == "0" else b"a guess"

    monkeypatch.setattr(dist, "FileStore", Forgetful)
    with pytest.raises(AssertionError, match=re.escape("[1, 1]")):
        together(2, lambda processes: None)
    assert capfd.readouterr().err.count("somebody else on this machine called a process") == 2


@pytest.mark.slow
def test_a_run_of_two_processes_listens_on_loopback_alone_and_runs_nothing_that_a_stranger_sends(
    tmp_path: Path,
) -> None:
    run_dir, log, exploded = tmp_path / "run", tmp_path / "log", tmp_path / "exploded"
    command = in_two(run_dir, log)
    try:
        trained(run_dir, log, rows=3)
        pids = [command.pid, *ranks(command.pid)]
        called = [each for pid in pids for each in listening(pid)]
        assert {address for address, _ in called} == {LOOPBACK}
        ports = [port for _, port in called]
        as_a_stranger(lambda: bombarded(ports, pickle.dumps(Bomb(exploded))))
        rows = len((run_dir / "metrics.jsonl").read_text().splitlines())
        trained(run_dir, log, rows=rows + 3)
        command.send_signal(signal.SIGTERM)
        assert command.wait(timeout=60) == 143, log.read_text()
    finally:
        command.kill()
    assert not exploded.exists()
