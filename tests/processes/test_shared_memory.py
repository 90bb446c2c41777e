"""Processes of one machine tell each other things through memory, and notice when one of them ends."""

from __future__ import annotations

import contextlib
import gc
import os
import resource
import signal
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from algorithms.processes import Group, Processes, shared_memory
from algorithms.processes.group import ProcessLostError
from algorithms.processes.shared_memory import SharedMemory, share_memory
from tests.processes.together import together

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="forks on Linux alone")


def memory_of(processes: Processes) -> SharedMemory | None:
    assert isinstance(processes, Group)
    return processes.memory


def test_messages_of_every_length_arrive_in_order_and_whole() -> None:
    def work(processes: Processes) -> None:
        memory = memory_of(processes)
        assert memory is not None
        for turn, length in enumerate([5, 0, 1, 100_000, 3, 0, 70_000, 300_000, 2]):
            lengths = [length * (1 + rank) for rank in range(3)]
            own = bytes([10 * turn + processes.rank]) * lengths[processes.rank]
            if turn % 3 == processes.rank:
                time.sleep(0.02)  # the others are there first
            found = [bytes(each) for each in memory.exchange([own[:2], own[2:]])]
            assert found == [bytes([10 * turn + rank]) * lengths[rank] for rank in range(3)]

    together(3, work)


@pytest.mark.parametrize("shared", [True, False])
def test_values_and_tensors_are_gathered_in_the_order_of_ranks(
    shared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not shared:  # as on several machines
        monkeypatch.setattr(shared_memory, "_host", lambda opened: None)

    def work(processes: Processes) -> None:
        assert (memory_of(processes) is not None) == shared
        rank = processes.rank
        for step in range(3):
            value = {"rank": rank, "tensor": torch.full((2, rank), float(step))}
            found = processes.gather(value)
            assert [each["rank"] for each in found] == [0, 1, 2]
            assert [tuple(each["tensor"].shape) for each in found] == [(2, 0), (2, 1), (2, 2)]
            assert all((each["tensor"] == step).all() for each in found)
            turned = torch.arange(6).view(2, 3).t() + 100 * rank
            stacked = processes.gather_tensor(turned)
            assert stacked.tolist() == [(turned - 100 * rank + 100 * r).tolist() for r in range(3)]
            assert processes.gather_tensor(torch.tensor(rank)).tolist() == [0, 1, 2]
            assert processes.any(rank == step) and not processes.any(False)
            stacked += 1  # memory of its own

    together(3, work)


def test_where_one_process_is_on_another_machine_none_shares_memory() -> None:
    def work(processes: Processes) -> None:
        if processes.rank == 1:
            made = shared_memory._host
            shared_memory._host = lambda opened: _elsewhere(made(opened))  # type: ignore[assignment]
        before = _open_files(processes)
        assert share_memory(processes.rank, processes.gather) is None
        assert _open_files(processes) == before

    together(3, work)


def _elsewhere(host: Any) -> Any:
    called = shared_memory._Called("another machine", host.called.address, host.called.secret)
    return shared_memory._Host(called, host.listener, host.files)


def test_a_caller_that_does_not_know_the_secret_is_not_let_in() -> None:
    def work(processes: Processes) -> None:
        gather = processes.gather

        def meddled(value: Any) -> list[Any]:
            found = gather(value)
            if processes.rank == 1 and isinstance(value, shared_memory._Called):
                stranger = socket.socket(socket.AF_UNIX)
                stranger.connect(found[0].address)
                stranger.sendall(shared_memory._HELLO.pack(b"?" * 32, 1))
                threading.Timer(5, stranger.close).start()
            return found

        memory = share_memory(processes.rank, meddled)
        assert memory is not None
        assert [bytes(each) for each in memory.exchange([b"%d" % processes.rank])] == [b"0", b"1"]
        memory.close()

    together(2, work)


def test_a_killed_process_is_noticed_by_the_others_at_once(tmp_path: Path) -> None:
    def work(processes: Processes) -> None:
        if processes.rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        began = time.monotonic()
        with pytest.raises(ProcessLostError, match="has ended"):
            for _ in range(3):
                processes.gather_tensor(torch.zeros(1000))
        assert time.monotonic() - began < 2
        (tmp_path / str(processes.rank)).touch()

    with pytest.raises(AssertionError, match="-9"):
        together(3, work)
    assert {each.name for each in tmp_path.iterdir()} == {"0", "2"}


def test_too_many_open_files_are_not_taken_for_a_process_that_has_ended() -> None:
    def work(processes: Processes) -> None:
        resource.setrlimit(
            resource.RLIMIT_NOFILE, (3, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
        )
        with pytest.raises(OSError, match="Too many open files"):
            processes.gather_tensor(torch.zeros(1_000_000))

    together(2, work)


def test_sockets_and_memory_are_given_back() -> None:
    def work(processes: Processes) -> None:
        before = _open_files(processes)
        memory = share_memory(processes.rank, processes.gather)
        assert memory is not None
        memory.exchange([b"x" * 5000])
        memory.close()
        assert _open_files(processes) == before

    together(2, work)


def _open_files(processes: Processes) -> tuple[int, int]:
    """Pieces of memory and local sockets, once the memory of the processes' own messages is large enough."""
    for _ in range(2):
        processes.gather(b"." * 5000)
    gc.collect()
    links = []
    for each in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # the descriptor of the list itself
            links.append(str(each.readlink()))
    local = Path("/proc/self/net/unix").read_text()
    inodes = {line.split()[6] for line in local.splitlines()[1:]}
    return (
        sum("memfd:chess-lab" in link for link in links),
        sum(link.startswith("socket:") and link[8:-1] in inodes for link in links),
    )
