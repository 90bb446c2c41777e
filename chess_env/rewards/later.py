"""Scores that come while games go on: the evaluator works in a thread, and nobody waits for it at every ply."""

from __future__ import annotations

import queue
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chess_env.evaluators.protocol import Evaluator, Scores
from chess_env.rewards.rewards import RewardFunction, terminal_score_cp
from chess_env.rules.packed import Positions
from chess_env.rules.rules import ONGOING, Statuses

Index = NDArray[np.int64]
_Call = tuple[Future[Scores], Callable[[Positions], Scores], Positions]


class EvaluatorThread:
    """One thread that asks an evaluator, in the order of the questions.

    It is a daemon: a program that ends does not wait for an evaluator. It ends with this object.
    """

    def __init__(self, evaluator: Evaluator) -> None:
        self._evaluate = evaluator.evaluate
        self._calls: queue.SimpleQueue[_Call | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def ask(self, positions: Positions) -> Future[Scores]:
        """The scores to come, int32 [N], of positions uint64 [N, 8]."""
        if self._thread is None or not self._thread.is_alive():  # the child of a fork has none
            self._calls = queue.SimpleQueue()
            self._thread = threading.Thread(target=_answer, args=(self._calls,), daemon=True)
            # It lasts as long as the boards. Engines that are used without them afterwards are replaced.
            self._thread.outlives_its_engines = True  # type: ignore[attr-defined]
            self._thread.start()
            self._end = weakref.finalize(self, self._calls.put, None)
        scores: Future[Scores] = Future()
        self._calls.put((scores, self._evaluate, positions))
        return scores

    def close(self) -> None:
        """Lets the thread end after what it was asked; a later question starts another one."""
        if self._thread is not None:
            self._end()
            self._thread = None


def _answer(calls: queue.SimpleQueue[_Call | None]) -> None:
    while (call := calls.get()) is not None:
        scores, evaluate, positions = call
        if scores.set_running_or_notify_cancel():
            try:
                scores.set_result(evaluate(positions))
            except BaseException as error:
                scores.set_exception(error)
        del call, scores, evaluate, positions  # while it waits it keeps no evaluator alive


class _Look(NamedTuple):
    """Moves that were looked at: actions and how the game stands after them [N, G], scores of those that go on."""

    actions: Index
    status: Statuses
    scores: Future[Scores]


class _Step(NamedTuple):
    """Moves that were made, and what their scores are if they are not among those looked at."""

    actions: Index
    status: Statuses
    goes_on: Index
    restarted: Index
    scores: Future[Scores] | None


class ScoresLater:
    """Collects the questions of some plies, and makes scores and rewards of the answers."""

    def __init__(self, thread: EvaluatorThread, reward: RewardFunction) -> None:
        self._thread, self._reward = thread, reward
        self._looks: list[_Look] = []
        self._steps: list[_Step] = []
        self._played: Index | None = None

    def look(self, actions: Index, status: Statuses, children: Positions) -> None:
        """Asks what moves are worth: actions int64 and status int8 [N, G], children uint64 [N, G, 8].

        Raises:
            RuntimeError: no move was made since the last call.
        """
        if len(self._looks) != len(self._steps):
            raise RuntimeError(
                "moves were scored twice before one was made: make one move after each scoring"
            )
        open_positions = children.reshape(-1, 8)[status.reshape(-1) == ONGOING]
        self._looks.append(_Look(actions, status, self._thread.ask(open_positions)))

    def play(self, actions: Index) -> None:
        """Says which moves (int64 [N]) are made.

        Raises:
            RuntimeError: nobody asked what moves are worth.
        """
        if len(self._looks) != len(self._steps) + 1:
            raise RuntimeError(
                "a move is made whose score nobody asked for: call score_actions before each step"
            )
        self._played = actions

    def settle(
        self, status: Statuses, open_positions: Positions, restarted: Index, starts: Positions
    ) -> None:
        """Asks for the rest after the moves: of new games, and of moves that were not looked at.

        Args:
            status: int8 [N], after the moves.
            open_positions: uint64 [n, 8], after the moves where the game goes on.
            restarted: the boards on which a new game stands.
            starts: uint64 [len(restarted), 8], the new games.
        """
        assert self._played is not None
        goes_on, known = np.flatnonzero(status == ONGOING), self._looks[-1].actions
        if (known == self._played[:, None]).any(axis=1).all():
            goes_on, open_positions = goes_on[:0], open_positions[:0]
        asked = np.concatenate([open_positions, starts])
        scores = self._thread.ask(asked) if len(asked) else None
        self._steps.append(_Step(self._played, status.copy(), goes_on, restarted, scores))

    def cancel(self) -> None:
        """Drops what has not been begun."""
        for asked in [look.scores for look in self._looks] + [step.scores for step in self._steps]:
            if asked is not None:
                asked.cancel()

    def found(self, score_cp: Scores) -> list[dict[str, NDArray[Any]]]:
        """Waits for all answers; for each ply `rewards` float32 [N, G], `score_cp` int32 [N, G], `before_cp` int32 [N].

        Args:
            score_cp: int32 [N], the scores before the first ply; holds those after the last one afterwards.

        Raises:
            EngineError: as of the evaluator.
        """
        plies = []
        for look, step in zip(self._looks, self._steps, strict=True):
            flat_status, size = look.status.reshape(-1), look.actions.shape
            after_cp = terminal_score_cp(flat_status)
            after_cp[flat_status == ONGOING] = look.scores.result()
            before_cp = score_cp.copy()
            total, _ = self._reward(
                flat_status, False, np.repeat(before_cp, size[1]), after_cp, None
            )
            after_cp = after_cp.reshape(size)
            plies.append(
                {"rewards": total.reshape(size), "score_cp": -after_cp, "before_cp": before_cp}
            )
            slots = (look.actions == step.actions[:, None]).argmax(axis=1)
            score_cp[:] = after_cp[np.arange(size[0]), slots]
            rest = step.scores.result() if step.scores is not None else score_cp[:0]
            if len(step.goes_on):
                score_cp[:] = terminal_score_cp(step.status)
                score_cp[step.goes_on] = rest[: len(step.goes_on)]
            score_cp[step.restarted] = rest[len(step.goes_on) :]
        return plies
