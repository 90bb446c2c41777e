"""An evaluator whose engines are spread over the nodes of a Ray cluster."""

from __future__ import annotations

import os
import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chess_env.evaluators.cluster.connection import connect, disconnect
from chess_env.evaluators.cluster.crew import Crew
from chess_env.evaluators.cluster.nodes import agreed_report
from chess_env.evaluators.cluster.worker import Reply
from chess_env.evaluators.protocol import (
    Positions,
    RuleAwareEvaluator,
    Scores,
    pack_positions,
)
from chess_env.evaluators.uci import EngineError


class ClusterEvaluator(RuleAwareEvaluator):
    """Scores by `num_engines` evaluators of one engine each on the nodes of a Ray cluster: those of one machine.

    Positions are sent packed, in batches, to whoever is free. A worker, engine or node that is lost costs time and
    changes no score: its positions are asked again elsewhere, which is safe because a score is a pure
    function of the position. The cluster is the one at RAY_ADDRESS, otherwise the one this machine belongs to.

    Args:
        name: of the evaluator that each node makes, as for `make_evaluator`, without `ray:`.
        num_engines: engines on the whole cluster; each takes one of its CPUs.

    Raises:
        EngineError: there is no Ray or no cluster, it has fewer CPUs, a node has no engine, another one or another
            version of this project, or the scores are not pure.
        ValueError: `num_engines` is not a whole number from 1 on.
    """

    out_of_process = True

    def __init__(self, name: str, num_engines: int) -> None:
        super().__init__()
        if isinstance(num_engines, bool) or not isinstance(num_engines, int) or num_engines < 1:
            raise ValueError(f"num_engines={num_engines!r}: expected a whole number from 1 on")
        self.name, self.num_engines = name, num_engines
        self._owner, self._lock = os.getpid(), threading.Lock()
        ray = connect()
        try:
            report = agreed_report(ray, name, num_engines)
            self._crew = Crew(ray, name, num_engines, report)
        except BaseException:
            disconnect()
            raise
        self._id = report.evaluator_id

    @property
    def id(self) -> str:
        """That of the evaluator on one machine: where an engine runs changes no score."""
        return self._id

    def _score_ongoing(self, positions: NDArray[np.uint64]) -> Scores:
        replies = self._ask("evaluate", positions, {})
        if not any(reply.error for reply in replies):
            return np.concatenate([reply.scores for reply in replies])
        raise _joined_error(replies, positions)

    def score_moves(self, positions: Positions, **settings: Any) -> list[Scores]:
        """int32 [L_i] per position: as the evaluator on one machine, to which `settings` (such as depth=1) are passed.

        Raises:
            EngineError: a move has no score, or positions that no engine survived.
        """
        packed = pack_positions(positions)
        self._queries += len(packed)
        if not len(packed):
            return []
        replies = self._ask("score_moves", packed, settings)
        for reply in replies:
            if reply.error:
                raise EngineError(reply.error)
        return [scores for reply in replies for scores in reply.scores]

    def _ask(
        self, method: str, positions: NDArray[np.uint64], settings: dict[str, Any]
    ) -> list[Reply]:
        if os.getpid() != self._owner:
            raise EngineError(
                "This evaluator belongs to the process from which this one was forked; make one here with "
                "make_evaluator."
            )
        with self._lock:
            if self._crew.closed:
                raise EngineError("This evaluator is closed; make a new one with make_evaluator.")
            return self._crew.run(method, positions, settings)

    def counters(self) -> dict[str, int | float]:
        """Cumulative, as on one machine; `engine_restarts` counts workers that were lost, too.

        What a lost worker did after its last reply is not counted.
        """
        found = self._crew.counters | {"queries": self._queries}
        if "engine_restarts" in found:
            found["engine_restarts"] += self._crew.lost
        return found

    def close(self) -> None:
        """Ends the engines on all nodes; the evaluator answers no more."""
        if os.getpid() != self._owner:
            return
        with self._lock:
            if not self._crew.closed:
                self._crew.close()
                disconnect()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled as its arguments: the copy starts engines of its own."""
        return ClusterEvaluator, (self.name, self.num_engines)


def _joined_error(replies: list[Reply], positions: NDArray[np.uint64]) -> EngineError:
    """The error of all batches, with the scores that there are."""
    wrong = [reply for reply in replies if reply.error]
    for reply in wrong:
        if reply.answered is None:  # no engine runs there at all
            return EngineError(reply.error)
    failed = {fen: reason for reply in wrong for fen, reason in reply.failed.items()}
    error = EngineError(
        f"{len(failed)} of {len(positions)} positions could not be scored on the Ray cluster; of the first batch: "
        f"{wrong[0].error}"
    )
    error.failed = failed
    error.scores = np.concatenate([reply.scores for reply in replies])
    error.answered = np.concatenate(
        [
            np.ones(len(reply.scores), np.bool_) if reply.answered is None else reply.answered
            for reply in replies
        ]
    )
    return error
