"""Who plays, and the rounds in which they take turns."""

from __future__ import annotations

import json
import os
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.peers.environments import NotInstalledError, python_of, reason_of
from benchmarks.records.command_line import ROOT
from benchmarks.records.contestant import Contestant, ContestantError

SCRIPTS = ROOT / "benchmarks" / "peers" / "scripts"
ONE_THREAD = {
    **{name: "1" for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")},
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
    "JAX_PLATFORMS": "cpu",
}


@dataclass(frozen=True)
class Peer:
    """One row of a table.

    Attributes:
        name: what is shown.
        script: of `scripts/`, and its arguments.
        boards: how many are played together.
        environment: name of its environment; None for the interpreter that runs the benchmark.
        requirements: what that environment holds.
        from_clone: whether the script imports from this clone.
        unavailable: why there is nothing to install; empty where there is.
    """

    name: str
    script: tuple[str, ...]
    boards: int
    environment: str | None = None
    requirements: tuple[str, ...] = ()
    from_clone: bool = False
    unavailable: str = ""


def _ours(name: str, boards: int | None, **options: Any) -> Peer:
    task = json.dumps({"num_envs": boards, "options": options})
    return Peer(name, ("our_game.py", task), boards or 1, from_clone=True)


_CHESS = ("chess==1.11.2", "numpy==2.4.6")
_JAX = ("pgx==2.6.0", "jax[cpu]==0.10.2")
_NO_PUFFER = "PufferLib 3.0.0 has no chess: the C core is in its repository, not in a release"
GAMES = (
    _ours("this project, vector", 64),
    _ours("this project, vector, copy=False", 64, copy=False),
    _ours(
        "this project, vector, no planes, bits",
        64,
        observation="positions",
        mask="bits",
        copy=False,
    ),
    _ours("this project, single", None),
    Peer("python-chess loop", ("python_chess_game.py",), 1, "python_chess", _CHESS, True),
    Peer("PettingZoo chess_v6", ("pettingzoo_game.py",), 1, "pettingzoo", ("pettingzoo[classic]==1.27.0",)),
    Peer("OpenSpiel chess", ("openspiel_game.py",), 1, "open_spiel", ("open_spiel==2.0.2",)),
    Peer("pgx chess, CPU", ("pgx_game.py", "1"), 1, "pgx", _JAX),
    Peer("pgx chess, CPU", ("pgx_game.py", "64"), 64, "pgx", _JAX),
    Peer("PufferLib chess", (), 64, unavailable=_NO_PUFFER),
)  # fmt: skip
"""The first is what the others are compared with."""


def reward_peers(engine: Path, depth: int) -> tuple[Peer, ...]:
    """This project and python-chess's client, with rewards of one engine."""
    arguments = (str(engine), str(depth))
    return (
        Peer("this project, vector", ("rewards.py", "ours", *arguments), 64, from_clone=True),
        Peer("python-chess client", ("rewards.py", "python_chess", *arguments), 1,
             "python_chess", _CHESS, True),
    )  # fmt: skip


class Entry:
    """A peer in a contest: its process, its rates, or why there are none."""

    def __init__(self, peer: Peer, cache: Path) -> None:
        self.peer, self.version = peer, ""
        self.rates: list[float] = []
        self.reason = ""
        self._cache = cache
        self._process: Contestant | None = None

    def start(self) -> None:
        """Makes the environment, starts the script, and waits until it is warm."""
        peer = self.peer
        self.reason = peer.unavailable
        if self.reason:
            return
        try:
            python = Path(sys.executable)
            if peer.environment is not None:
                python = python_of(self._cache, peer.environment, peer.requirements)
            variables = {**os.environ, **ONE_THREAD}
            variables.pop("PYTHONPATH", None)
            if peer.from_clone:
                variables["PYTHONPATH"] = str(ROOT)
            command = [str(python), str(SCRIPTS / peer.script[0]), *peer.script[1:]]
            self._process = Contestant(command, ROOT, variables)
            self.version = str(self._process.answer()["version"])
        except (NotInstalledError, ContestantError) as error:
            self._fail(error)

    def play(self, seconds: float) -> float | None:
        """Plies per CPU-second of a round; None where there is none."""
        if self._process is None:
            return None
        try:
            told = self._process.ask(seconds)
        except ContestantError as error:
            self._fail(error)
            return None
        self.rates.append(told["plies"] / told["cpu_s"])
        return self.rates[-1]

    def close(self) -> None:
        """Ends the script."""
        if self._process is not None:
            self._process.close()
            self._process = None

    def _fail(self, error: Exception) -> None:
        self.reason = reason_of(str(error), self._cache)
        self.close()


def contest(
    peers: Sequence[Peer], cache: Path, rounds: int, seconds: float
) -> list[dict[str, Any]]:
    """The rows of a table: every peer that plays, and the reason of every one that does not.

    Args:
        peers: the first is compared with the others.
        cache: the folder of the environments.
        rounds: in which all take turns.
        seconds: CPU time of each in a round.
    """
    entries = [Entry(peer, cache) for peer in peers]
    ratios: list[list[float]] = [[] for _ in entries]
    try:
        for entry in entries:
            print(f"starting {entry.peer.name}, boards: {entry.peer.boards}", flush=True)
            entry.start()
        for number in range(rounds):
            print(f"round {number + 1} of {rounds}", flush=True)
            rates = [entry.play(seconds) for entry in entries]
            for found, rate in zip(ratios, rates, strict=True):
                if rate is not None and rates[0] is not None:
                    found.append(rates[0] / rate)
    finally:
        for entry in entries:
            entry.close()
    return [_row(entry, found) for entry, found in zip(entries, ratios, strict=True)]


def _row(entry: Entry, ratios: Sequence[float]) -> dict[str, Any]:
    rates = [] if entry.reason else entry.rates
    return {
        "peer": entry.peer.name,
        "version": entry.version,
        "boards": entry.peer.boards,
        "plies_per_cpu_s": round(statistics.median(rates)) if rates else "",
        "lowest": round(min(rates)) if rates else "",
        "highest": round(max(rates)) if rates else "",
        "first_row_over_this": f"{statistics.median(ratios):.3g}" if rates and ratios else "",
        "not_measured_because": entry.reason,
    }
