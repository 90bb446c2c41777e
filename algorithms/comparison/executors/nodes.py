"""What a node of a cluster has, and whether cells may run there."""

from __future__ import annotations

import dataclasses
import platform
import socket
import time
from collections.abc import Mapping
from pathlib import Path

from algorithms.run_folder import environment
from chess_env.evaluators.cluster import source_hash

_ROOT = Path(__file__).resolve().parents[3]
_PACKAGES = ("chess_env", "algorithms")
_MARKER_S = 5.0
"""Longest wait for the marker: a network file system may show a new file a little late."""


class ClusterError(RuntimeError):
    """The cluster cannot run these cells; the message says why and what to do."""


@dataclasses.dataclass(frozen=True)
class Wanted:
    """What every node is asked for.

    Attributes:
        marker: a file in the folder of the cells.
        token: what that file holds.
        evaluator: name of what scores the moves; None where it comes with the project.
    """

    marker: str
    token: str
    evaluator: str | None


@dataclasses.dataclass(frozen=True)
class Report:
    """What a node has.

    Attributes:
        host: its name.
        versions: what -> version, of all that decides the numbers of a run.
        sees_marker: whether it sees the marker.
        evaluator: the evaluator's id, or that there is none and why; None where nobody asked.
    """

    host: str
    versions: Mapping[str, str | None]
    sees_marker: bool
    evaluator: str | None


def report(wanted: Wanted) -> Report:
    """What this machine has."""
    return Report(socket.gethostname(), _versions(), _sees(wanted), _evaluator(wanted.evaluator))


def refusal(found: Report, here: Report, out: Path) -> str | None:
    """Why cells may not run on a node; None where they may.

    Args:
        found: the node's report.
        here: that of this machine.
        out: the folder of the cells.
    """
    for what, version in here.versions.items():
        if found.versions.get(what) != version:
            return (
                f"node {found.host} has {what} {found.versions.get(what)} and this machine {version}: "
                "install the same version there, or take the node out of the cluster"
            )
    if not found.sees_marker:
        return (
            f"node {found.host} does not see {out}: choose an --out on a file system that all nodes share, "
            "under the same path"
        )
    if found.evaluator != here.evaluator:
        return (
            f"node {found.host} has the evaluator {found.evaluator} and this machine {here.evaluator}: "
            "install the same engine there"
        )
    return None


def _versions() -> dict[str, str | None]:
    """Version of all that decides the numbers of a run, this project's code included."""
    found = environment.versions(("ray", *environment.PACKAGES))
    code = source_hash(*(_ROOT / package for package in _PACKAGES))
    return {"Python": platform.python_version(), **found, "this project's code": code}


def _sees(wanted: Wanted) -> bool:
    until = time.monotonic() + _MARKER_S
    while True:
        try:
            return Path(wanted.marker).read_text(encoding="utf-8") == wanted.token
        except OSError:
            if time.monotonic() > until:
                return False
            time.sleep(0.2)


def _evaluator(name: str | None) -> str | None:
    if name is None:
        return None
    from chess_env.evaluators import make_evaluator

    try:
        evaluator = make_evaluator(name, 1, None)
    except (ValueError, RuntimeError, OSError, ImportError) as error:
        return f"none ({error})"
    evaluator.close()
    return str(evaluator.id)
