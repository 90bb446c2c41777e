"""Messages between the processes of one machine, through memory that they share: some ten times faster than sockets."""

from __future__ import annotations

import contextlib
import mmap
import os
import secrets
import socket
import struct
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from algorithms.processes.packing import Part

_CONNECT_S = 30.0
_LENGTH = struct.Struct("=q")
_HELLO = struct.Struct("=32sq")  # the secret of the process that is called, the rank of the caller
_NUM_FILES = 2


class SharedMemory:
    """The messages of all processes: each writes into memory of its own, and the others read there.

    A socket between each two says that a message is there and how long it is. Nothing has a name in a folder: when a
    process ends, however it does, the kernel closes its sockets and frees the memory that nobody else reads.

    Args:
        rank: which process this is.
        sockets: to each process, by rank; None in this one's place.
        files: of each process, by rank: descriptors of its two pieces of memory.
    """

    def __init__(
        self, rank: int, sockets: Sequence[socket.socket | None], files: Sequence[Sequence[int]]
    ) -> None:
        self._rank, self._sockets, self._files = rank, sockets, files
        self._maps: dict[tuple[int, int], mmap.mmap] = {}
        self._turn = 0

    def exchange(self, parts: Sequence[Part]) -> list[memoryview]:
        """Every process's message, by rank; what is found must be copied before the next call.

        Args:
            parts: the message is them, one behind the other; each process may send another number of bytes.

        Raises:
            ConnectionError: another process has ended.
            OSError: there is no memory, or too many files are open.
        """
        # A process has two pieces of memory, used in turn. While others still read its first message it may write the
        # second, and it cannot write the third before all of them have called for the second.
        turn, self._turn = self._turn, (self._turn + 1) % _NUM_FILES
        size, end = sum(map(len, parts)), 0
        place = self._memory(self._rank, turn, size)
        for part in parts:
            start, end = end, end + len(part)
            place[start:end] = part
        length = _LENGTH.pack(size)
        for peer in self._sockets:
            if peer is not None:
                peer.sendall(length)
        sizes = [
            size if peer is None else _LENGTH.unpack(_received(peer, _LENGTH.size))[0]
            for peer in self._sockets
        ]
        return [self._memory(rank, turn, size) for rank, size in enumerate(sizes)]

    def close(self) -> None:
        """Closes sockets and memory."""
        self._maps.clear()
        for peer in self._sockets:
            if peer is not None:
                peer.close()
        for file in (file for files in self._files for file in files):
            os.close(file)

    def _memory(self, rank: int, turn: int, size: int) -> memoryview:
        """The first bytes of a piece of memory; those of other processes can only be read."""
        if size == 0:
            return memoryview(bytearray())
        found = self._maps.get((rank, turn))
        if found is None or len(found) < size:
            file, own = self._files[rank][turn], rank == self._rank
            if own:
                os.ftruncate(file, size)
            access = mmap.ACCESS_WRITE if own else mmap.ACCESS_READ
            found = self._maps[rank, turn] = mmap.mmap(file, 0, access=access)
        return memoryview(found)[:size]


def share_memory(rank: int, gather: Callable[[Any], list[Any]]) -> SharedMemory | None:
    """The shared memory of all processes; None where they cannot share any: on several machines, or without Linux.

    Args:
        rank: which process this is.
        gather: every process's value, by rank; called by all of them.
    """
    with contextlib.ExitStack() as opened:  # is closed again unless all processes come to the end
        host = _host(opened)
        called = gather(None if host is None else host.called)
        machines = {None if each is None else each.machine for each in called}
        shared = None
        if host is not None and len(machines) == 1:
            with contextlib.suppress(OSError):
                shared = _connected(rank, host, called, opened)
        if not all(gather(shared is not None)):
            return None
        opened.pop_all()
    if host is not None:
        host.listener.close()
    return shared


@dataclass(frozen=True)
class _Called:
    """How a process is called: on which machine, at which address there, and the secret that a caller must know."""

    machine: str
    address: bytes
    secret: bytes


@dataclass(frozen=True)
class _Host:
    """What a process opens for the others: a socket at which it is called, and its pieces of memory."""

    called: _Called
    listener: socket.socket
    files: list[int]


def _host(opened: contextlib.ExitStack) -> _Host | None:
    """This process's; None where the system has not what it takes."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        # Addresses without a file belong to a network namespace of a machine that is up.
        boot, network = Path("/proc/sys/kernel/random/boot_id"), Path("/proc/self/ns/net")
        machine = boot.read_text() + os.readlink(network)
        files = []
        for _ in range(_NUM_FILES):
            files.append(os.memfd_create("chess-lab"))
            opened.callback(os.close, files[-1])
        listener = opened.enter_context(socket.socket(socket.AF_UNIX))
        listener.settimeout(_CONNECT_S)
        listener.bind("")  # the kernel chooses an address that is no file
        listener.listen(socket.SOMAXCONN)
    except OSError:
        return None
    return _Host(_Called(machine, listener.getsockname(), secrets.token_bytes(32)), listener, files)


def _connected(
    rank: int, host: _Host, called: Sequence[_Called], opened: contextlib.ExitStack
) -> SharedMemory:
    """Calls the processes of lower rank, and is called by those of higher rank.

    Raises:
        OSError: one of them does not answer.
    """
    sockets: list[socket.socket | None] = [None] * len(called)
    for lower in range(rank):
        peer = opened.enter_context(socket.socket(socket.AF_UNIX))
        peer.settimeout(_CONNECT_S)
        peer.connect(called[lower].address)
        peer.sendall(_HELLO.pack(called[lower].secret, rank))
        sockets[lower] = peer
    while None in sockets[rank + 1 :]:
        caller, _ = host.listener.accept()
        opened.enter_context(caller)
        caller.settimeout(_CONNECT_S)
        secret, higher = _HELLO.unpack(_received(caller, _HELLO.size))
        if secrets.compare_digest(secret, host.called.secret):  # any process here may call
            sockets[higher] = caller
    files = [host.files if peer is None else _swapped(peer, host.files, opened) for peer in sockets]
    return SharedMemory(rank, sockets, files)


def _swapped(peer: socket.socket, own: list[int], opened: contextlib.ExitStack) -> list[int]:
    """The other process's pieces of memory, in exchange for one's own.

    Raises:
        OSError: it does not answer, or too many files are open.
    """
    socket.send_fds(peer, [b"."], own)
    _, files, _, _ = socket.recv_fds(peer, 1, _NUM_FILES)
    for each in files:
        opened.callback(os.close, each)
    if len(files) < _NUM_FILES:
        raise OSError("a process did not get the memory of another")
    peer.settimeout(None)  # a process may wait for long: for one that evaluates
    return files


def _received(peer: socket.socket, size: int) -> bytes:
    """So many bytes.

    Raises:
        ConnectionError: the process at the other end has ended.
    """
    found = b""
    while len(found) < size:
        more = peer.recv(size - len(found))
        if not more:
            raise ConnectionResetError("the process at the other end has ended")
        found += more
    return found
