"""The workers of one evaluator: batches are handed to them as they become free, and lost ones are replaced."""

from __future__ import annotations

import os
import time
import weakref
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chess_env.evaluators.cluster.batches import MAX_LOST, Batch, Question
from chess_env.evaluators.cluster.nodes import NodeReport, check_same, lending, node_label
from chess_env.evaluators.cluster.worker import Reply, Worker
from chess_env.evaluators.uci import EngineError

_IN_FLIGHT = 2  # batches at a worker: one that it computes, and the next one
_LOOK_S = 0.25
_START_S = 120.0
_HUNG_S = 300.0
_CLOSE_S = 5.0


@dataclass(eq=False)
class _Member:
    """A worker, from when it was asked for: `node` names where it runs, once it has said what it has."""

    actor: Any
    spare: bool = False
    node: str = ""
    in_flight: int = 0


class Crew:
    """Workers on the nodes of a cluster, each replaced when it ends; none outlives this process.

    A lost worker's batches go to the others at once, and a new worker is made with the first free CPU. That takes
    seconds, in which a spare worker steps in; it has no CPU of its own.
    (Ray could restart the worker itself, but then its batches would wait for that, and it might come up
    on a node that has joined since, with another engine.)
    """

    def __init__(self, ray: Any, name: str, num_engines: int, expected: NodeReport) -> None:
        """Starts the workers.

        Raises:
            EngineError: not all of them could be started, or one would give other scores than `expected`.
        """
        self._ray, self._name, self._expected = ray, name, expected
        self._num_engines = num_engines
        self._kind = ray.remote(num_cpus=1, max_restarts=0, max_task_retries=0)(Worker)
        self._members: list[_Member] = []
        self._pending: dict[Any, tuple[_Member, Question | None, Batch | None]] = {}
        self._seconds_per_row: float | None = None
        self._lost_in_a_row = 0
        self._last_seen = float("inf")  # what a start waits for is said there
        self.lost = 0
        self.counters: dict[str, int | float] = {}
        self._finalizer = weakref.finalize(self, _kill, ray, self._members, os.getpid())
        self.closed = False
        try:
            self._begin()
        except BaseException:
            self.close()
            raise

    def _begin(self) -> None:
        for _ in range(self._num_engines):
            self._hire()
        self._answered = begun = time.monotonic()
        while missing := [member for member in self._members if not member.node]:
            if time.monotonic() > begun + _START_S:
                raise EngineError(
                    f"{len(missing)} of {self._num_engines} engines on the Ray cluster did not start within "
                    f"{_START_S:g} s: `ray status` shows which CPUs others use; wait for them, or lower "
                    "num_engines (--env.num-engines)"
                )
            self._collect()
        self._last_seen = time.monotonic()
        self._keep_spare()

    def run(
        self, method: str, positions: NDArray[np.uint64], settings: dict[str, Any]
    ) -> list[Reply]:
        """The replies to all batches, in the order of the positions.

        Raises:
            EngineError: worker after worker ends, or the cluster is gone.
        """
        question = Question(len(positions), self._num_engines)
        self._answered = time.monotonic()
        while question.open:
            while member := self._least_busy():
                batch = question.take()
                if batch is None and not member.in_flight:
                    batch = question.take_late(self._seconds_per_row)
                if batch is None:
                    break
                rows = positions[batch.start : batch.stop]
                ref = member.actor.answer.remote(method, rows, settings)
                member.in_flight += 1
                self._pending[ref] = member, question, batch
            self._collect()
        return [batch.reply for batch in question.taken]

    def _least_busy(self) -> _Member | None:
        """The worker with the fewest batches; None where all have enough, or none runs."""
        ready = [each for each in self._members if each.node]
        serving = [each for each in ready if not each.spare]
        if len(serving) < self._num_engines:
            serving = ready
        free = [each for each in serving if each.in_flight < _IN_FLIGHT]
        return min(free, key=lambda each: each.in_flight, default=None)

    def close(self) -> None:
        """Ends all workers with their engines, and waits for that."""
        self.closed = True
        if self._ray.is_initialized():
            closing = [member.actor.close.remote() for member in self._members if member.node]
            if closing:
                self._ray.wait(closing, num_returns=len(closing), timeout=_CLOSE_S)
        self._pending.clear()
        self._finalizer()
        self._members.clear()

    def _hire(self) -> None:
        self._ask_for(_Member(self._kind.options(scheduling_strategy="SPREAD").remote(self._name)))

    def _keep_spare(self) -> None:
        """Asks for a spare worker where there is none, on a node that lends CPUs."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        nodes = lending(self._ray.nodes())
        if nodes and not any(member.spare for member in self._members):
            node = nodes[self.lost % len(nodes)]["NodeID"]
            there = NodeAffinitySchedulingStrategy(node, soft=False)
            actor = self._kind.options(num_cpus=0, scheduling_strategy=there).remote(self._name)
            self._ask_for(_Member(actor, spare=True))

    def _ask_for(self, member: _Member) -> None:
        self._members.append(member)
        self._pending[member.actor.report.remote()] = member, None, None

    def _collect(self) -> None:
        """Takes in what has arrived, after waiting for the first a little."""
        refs = list(self._pending)
        ready, _ = self._ray.wait(refs, num_returns=1, timeout=_LOOK_S)
        if ready:
            ready, _ = self._ray.wait(refs, num_returns=len(refs), timeout=0)
        for ref in ready:
            if ref in self._pending:  # not of a worker whose end was seen in this round
                self._take_in(ref)
        for member, question, batch in list(self._pending.values()):
            if question and batch and self._hung(batch) and member in self._members:
                self._replace(member, f"no answer for {_HUNG_S:g} s")
        if any(member.node for member in self._members):
            self._last_seen = time.monotonic()
        elif time.monotonic() > self._last_seen + _START_S:
            raise EngineError(
                f"No engine has been left on the Ray cluster for {_START_S:g} s: `ray status` shows its nodes; "
                "start them again with `ray start --address=...` and go on"
            )

    def _hung(self, batch: Batch) -> bool:
        usual_s = (self._seconds_per_row or float("inf")) * (batch.stop - batch.start)
        return time.monotonic() - batch.since > _HUNG_S + 20 * usual_s

    def _take_in(self, ref: Any) -> None:
        errors = self._ray.exceptions
        try:
            found = self._ray.get(ref)
        except (errors.RayActorError, errors.ObjectLostError) as error:
            self._replace(self._pending[ref][0], str(error).strip())
            return
        except errors.RayError as error:
            member = self._pending.pop(ref)[0]
            member.in_flight = max(0, member.in_flight - 1)
            cause = getattr(error, "cause", None) or error
            raise EngineError(
                f"The evaluator {self._name!r} failed on the Ray node {member.node or 'where it started'}: "
                f"{type(cause).__name__}: {cause}"
            ) from error
        member, question, batch = self._pending.pop(ref)
        if question is None or batch is None:
            self._welcome(member, *found)
            return
        member.in_flight -= 1
        self._lost_in_a_row, self._answered = 0, time.monotonic()
        if batch.reply is None:
            for name, count in found.counts.items():
                self.counters[name] = self.counters.get(name, 0) + count
            each_s = (time.monotonic() - batch.since) / (batch.stop - batch.start)
            before = self._seconds_per_row
            self._seconds_per_row = each_s if before is None else 0.9 * before + 0.1 * each_s
        question.answer(batch, found)

    def _welcome(
        self, member: _Member, node: str, report: NodeReport, counters: dict[str, int | float]
    ) -> None:
        labels = {each["NodeID"]: node_label(each) for each in self._ray.nodes()}
        try:
            check_same(report, self._expected, labels[node], "the cluster")
        except EngineError as error:
            self._replace(
                member, str(error)
            )  # it must not score, whatever the caller makes of the error
            raise
        member.node = labels[node]
        self.counters = counters | self.counters

    def _replace(self, member: _Member, why: str) -> None:
        """Ends a worker for good, gives its batches to others, and asks for another worker."""
        self._ray.kill(member.actor)
        self._members.remove(member)
        self.lost += 1
        self._lost_in_a_row += 1
        # Where many are killed from outside, some still answer in the end; a start takes seconds.
        many = self._lost_in_a_row > 4 * (len(self._members) + 1) + MAX_LOST
        given_up = many and time.monotonic() > self._answered + _START_S
        for ref, (holder, question, batch) in list(self._pending.items()):
            if holder is member:
                del self._pending[ref]
                if question is not None and batch is not None:
                    question.lose(batch)
                    given_up = given_up or batch.lost > MAX_LOST
        if not member.spare:
            self._hire()
        self._keep_spare()
        if given_up:
            raise EngineError(
                f"The engines on the Ray cluster end again and again without an answer; the last one: {why}"
            )


def _kill(ray: Any, members: list[_Member], owner: int) -> None:
    if os.getpid() == owner and ray.is_initialized():
        for member in members:
            ray.kill(member.actor)
