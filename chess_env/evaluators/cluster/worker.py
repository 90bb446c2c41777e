"""One engine on a node of the cluster: an actor with an evaluator of its own, on a core of its own."""

from __future__ import annotations

import contextlib
import os
import socket
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chess_env.evaluators.cluster.nodes import NodeReport, report_of
from chess_env.evaluators.protocol import Evaluator
from chess_env.evaluators.uci import EngineError


@dataclass(frozen=True)
class Reply:
    """What a worker says to a batch.

    Attributes:
        scores: int32 [n] of `evaluate`, a list of int32 [L_i] of `score_moves`; None where nothing was scored.
        counts: what the batch has added to the evaluator's counters.
        error: why positions could not be scored; "" where all were.
        answered: bool [n], true where `scores` holds an answer; None where all do, or none.
        failed: reason by engine FEN.
    """

    scores: Any
    counts: dict[str, int | float]
    error: str = ""
    answered: NDArray[np.bool_] | None = None
    failed: dict[str, str] = field(default_factory=dict)


class Worker:
    """An evaluator that answers batches; Ray runs it in a process of its own, which is given one CPU."""

    def __init__(self, name: str) -> None:
        """Makes the evaluator of that name, with one engine or one thread."""
        from chess_env.evaluators import make_evaluator

        self._core = _claim_core()
        self._evaluator: Evaluator = make_evaluator(name, num_engines=1)
        self._counted: dict[str, int | float] = {}

    def report(self) -> tuple[str, NodeReport, dict[str, int | float]]:
        """(id of this node, what it scores with, the evaluator's counters at their beginning)."""
        import ray

        node = ray.get_runtime_context().get_node_id()
        return node, report_of(self._evaluator), dict.fromkeys(self._evaluator.counters(), 0)

    def answer(self, method: str, positions: NDArray[np.uint64], settings: dict[str, Any]) -> Reply:
        """The scores of a batch.

        Args:
            method: "evaluate" or "score_moves".
            positions: packed positions uint64 [n, 8].
            settings: further arguments of the method.
        """
        positions = positions.copy()  # what Ray hands over cannot be written to
        try:
            return Reply(getattr(self._evaluator, method)(positions, **settings), self._new())
        except EngineError as error:
            answered = error.answered if isinstance(error.answered, np.ndarray) else None
            return Reply(error.scores, self._new(), str(error), answered, dict(error.failed))

    def _new(self) -> dict[str, int | float]:
        counters = self._evaluator.counters()
        new = {name: count - self._counted.get(name, 0) for name, count in counters.items()}
        self._counted = dict(counters)
        return new

    def close(self) -> None:
        """Ends the engine."""
        self._evaluator.close()


def _claim_core() -> socket.socket | None:
    """Binds this process to a core that no other worker on this machine has; gives it back when it is closed.

    A pool binds each of its engines to a core (`EngineProcess` says why), and the pools of two processes must not
    choose the same one. A name in Linux's abstract space belongs to one socket, and ends with its process.
    None where the system has no such names or cores, or all are taken: then the system places the engine.
    """
    if not hasattr(os, "sched_setaffinity"):
        return None
    for core in sorted(os.sched_getaffinity(0)):
        claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            claim.bind(f"\0chess-selfplay-lab-core-{core}")
        except OSError:
            claim.close()
            continue
        with contextlib.suppress(OSError):  # not permitted: a matter of speed only
            os.sched_setaffinity(0, {core})
        return claim
    return None
