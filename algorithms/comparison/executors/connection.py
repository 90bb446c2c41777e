"""The connection with a Ray cluster."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from collections.abc import Iterator
from types import ModuleType

from algorithms.comparison.executors.nodes import ClusterError

CONNECT_S = 5.0
"""Longest wait for the head node to answer."""
HOW_TO_START = (
    "start one, and give the same command again:\n"
    "  ray start --head --disable-usage-stats --include-dashboard=false\n"
    "  ray start --address HEAD:6379     # on each further machine"
)


@contextlib.contextmanager
def connected() -> Iterator[ModuleType]:
    """Ray, connected with a cluster; the connection ends with the context, unless it was there before.

    Raises:
        ClusterError: Ray is not installed, there is no cluster, or it does not take this machine.
    """
    # Ray asks a head node that answers something else 20 times, a second apart; read when it is imported.
    os.environ.setdefault("RAY_NUM_REDIS_GET_RETRIES", "5")
    try:
        import ray
    except ImportError as error:
        raise ClusterError('--ray needs Ray: pip install -e ".[ray]"') from error
    if ray.is_initialized():
        yield ray
        return
    address = os.environ.get("RAY_ADDRESS", "auto")
    reach(address)
    before = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    except (OSError, RuntimeError, ValueError) as error:
        if address == "auto":
            raise ClusterError(
                f"no Ray cluster runs on this machine, and RAY_ADDRESS is not set: {HOW_TO_START}"
            ) from error
        raise ClusterError(
            f"RAY_ADDRESS is {address}, and Ray cannot connect ({last_line(error)}): this machine must be one of "
            f"its nodes; {HOW_TO_START}"
        ) from error
    try:
        with contextlib.suppress(ValueError):  # not the main thread, where Ray sets none either
            signal.signal(signal.SIGTERM, before)
        yield ray
    finally:
        ray.shutdown()


def reach(address: str) -> None:
    """Raises ClusterError where nothing answers at `address`, which Ray itself would try for a minute."""
    host, _, port = address.rpartition(":")
    if address == "auto":
        return
    if not host or "/" in host or not port.isdecimal():
        raise ClusterError(f"RAY_ADDRESS is {address!r}: expected HOST:PORT, such as head:6379")
    try:
        socket.create_connection((host, int(port)), CONNECT_S).close()
    except OSError as error:
        raise ClusterError(
            f"RAY_ADDRESS is {address}, and nothing answers there ({error}): correct it, or {HOW_TO_START}"
        ) from error


def last_line(error: Exception) -> str:
    """What an error of Ray says in the end: the lines before are a trace through its own code."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
