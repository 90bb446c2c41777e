"""The connection with a Ray cluster."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from algorithms.comparison.executors.nodes import ClusterError
from chess_env.evaluators import EngineError
from chess_env.evaluators.cluster import connect, disconnect


@contextlib.contextmanager
def connected() -> Iterator[Any]:
    """The module `ray`, connected with a cluster; the connection ends with the context, unless others use it.

    Raises:
        ClusterError: Ray is not installed, there is no cluster, or it does not take this machine.
    """
    try:
        ray = connect()
    except EngineError as error:
        raise ClusterError(str(error)) from error
    try:
        yield ray
    finally:
        disconnect()


def last_line(error: Exception) -> str:
    """What an error of Ray says in the end: the lines before are a trace through its own code."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
