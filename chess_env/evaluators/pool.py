"""Several engines answering one batch of queries: one thread, one poll loop, commands written ahead.

Stockfish executes its input strictly in order, so some queries (a window) are always waiting in its pipe
and the engine never waits for Python, not even on a loaded machine that runs Python every few milliseconds.
The loop sleeps through most of a window (`nap.py`) instead of waking for every line the engine prints, and never has
more in flight than fits into a pipe, so neither side can block the other.
"""

from __future__ import annotations

import os
import select
import threading
import time
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from chess_env.evaluators.batch import MAX_ATTEMPTS, Batch, Job
from chess_env.evaluators.nap import PAUSE_S, Nap
from chess_env.evaluators.process import HANDSHAKE_TIMEOUT_S, EngineProcess, free_core, shake_hands
from chess_env.evaluators.uci import INSTALL_HINT, EngineError, Handshake, LostEngineError

MAX_START_FAILURES = 5  # engines in a row that ended before they were ready
MAX_DEATHS_WITHOUT_ANSWER = 4 * MAX_ATTEMPTS
_LONGEST_WAIT_S = 0.25


class EnginePool:
    """Engines that start when first needed, are replaced when they fail, and never outlive this process.

    After a fork the child owns no engines and starts its own.
    """

    def __init__(
        self,
        path: Path,
        num_engines: int,
        options: Mapping[str, object],
        window: int = 32,
        max_multipv: int = 218,
    ) -> None:
        """Starts the first engine, to learn what it is; another one where that is ended from outside.

        Raises:
            EngineError: the file is not a working Stockfish.
            ValueError: an option that it does not have, or a value outside the option's range.
        """
        self.path, self.num_engines, self._window = path, num_engines, window
        self.restarts = 0
        self._ended_cpu_s = 0.0
        self._start_failures = self._deaths_without_answer = 0
        self._nap = Nap(window)
        self._closed = False
        self._engines: list[EngineProcess] = []
        self._own()
        while not self._engines:
            try:
                self._begin_first(options, max_multipv)
            except LostEngineError:
                self._start_failures += 1
                if self._start_failures >= MAX_START_FAILURES:
                    raise
                self.restarts += 1
                time.sleep(0.05 * self._start_failures)

    def _begin_first(self, options: Mapping[str, object], max_multipv: int) -> None:
        """Starts the engine that says what all of them are, and makes it ready."""
        engine = self._new_engine()
        try:
            self.handshake: Handshake = shake_hands(engine, HANDSHAKE_TIMEOUT_S)
            self._setup = b"uci\n" + self.handshake.commands(options) + b"isready\n"
            self.handshake.commands({"MultiPV": max_multipv})
            self._start(engine)
            if engine.read_until(b"readyok", HANDSHAKE_TIMEOUT_S) is None:
                what = f"it ended or fell silent while options were set ({dict(options)})"
                why = f"{what}; {engine.end()[1]}"
                raise (LostEngineError if engine.lost else EngineError)(self._useless(why))
        except BaseException:
            self._discard(engine)
            raise
        self._become_ready(engine)

    def _own(self) -> None:
        self._lock = threading.Lock()
        self._finalizer = weakref.finalize(self, _end_all, self._engines, os.getpid())
        _POOLS.add(self)

    def _new_engine(self) -> EngineProcess:
        core = free_core(self.num_engines, {engine.core for engine in self._engines})
        self._engines.append(EngineProcess(self.path, core))
        return self._engines[-1]

    def _after_fork_in_child(self) -> None:
        for engine in self._engines:
            engine.forget()
        self._finalizer.detach()
        self._engines = []
        self._ended_cpu_s, self.restarts = 0.0, 0
        self._own()

    def close(self) -> None:
        """Ends all engines; the pool answers no more."""
        self._closed = True
        while self._engines:
            self._discard(self._engines[-1])

    def pids(self) -> list[int]:
        """Process ids of the engines that run now."""
        return [engine.pid for engine in self._engines]

    def engine_cpu_s(self) -> float:
        """CPU seconds used by all engines of this pool, ended ones included."""
        return self._ended_cpu_s + sum(engine.cpu_s() for engine in self._engines)

    def run(self, job: Job, fens: Sequence[bytes]) -> tuple[list[Any], dict[int, str]]:
        """(what `job.parse` made of each answer, reason by index of the queries that no engine survived).

        Raises:
            EngineError: no engine can be started any more, or none answers anything.
        """
        if self._closed:
            raise EngineError(
                "This Stockfish evaluator is closed; make a new one with make_evaluator."
            )
        with self._lock:
            batch = Batch(job, fens)
            try:
                self._drive(batch)
            finally:  # after an error or Ctrl-C, engines that still owe answers are of no further use
                for engine in [e for e in self._engines if e.in_flight]:
                    self._discard(engine)
            return batch.results, batch.failed

    def _drive(self, batch: Batch) -> None:
        last = time.monotonic()
        self._begin(batch)
        while batch.outstanding or self._talking_out_of_turn(batch):
            self._refill(batch)
            had = min((len(e.in_flight) for e in self._engines if e.in_flight), default=0)
            start = time.monotonic()
            self._nap.sleep(had)
            poll = select.poll()
            by_fd = {engine.output_fd: engine for engine in self._engines}
            for fd in by_fd:
                poll.register(fd, select.POLLIN)
            timeout_s = min(engine.deadline for engine in self._engines) - time.monotonic()
            for fd, _ in poll.poll(1000 * min(max(0.0, timeout_s), _LONGEST_WAIT_S) + 1):
                self._collect(batch, by_fd[fd])
            if batch.todo:  # towards the end of a batch the windows say little
                left = min((len(e.in_flight) for e in self._engines if e.ready), default=0)
                self._nap.adapt(had, left, time.monotonic() - start)
            now = time.monotonic()
            if now - last > _LONGEST_WAIT_S + PAUSE_S:  # perhaps the engines were paused too
                for engine in self._engines:
                    engine.deadline += now - last
            last = now
            for engine in [engine for engine in self._engines if engine.deadline < now]:
                self._replace(batch, engine, "no answer before the deadline")

    def _begin(self, batch: Batch) -> None:
        """Replaces engines that ended or spoke since the last batch and starts missing ones."""
        for engine in [engine for engine in self._engines if engine.ready]:
            if not engine.receive() or engine.buffer != b"\n":
                self._discard(engine)
                self.restarts += 1
        while len(self._engines) < min(self.num_engines, len(batch.fens)):
            self._start(self._new_engine())
        for engine in self._engines:
            engine.fresh = True

    def _start(self, engine: EngineProcess) -> None:
        engine.buffer = b"\n"
        engine.deadline = time.monotonic() + HANDSHAKE_TIMEOUT_S
        engine.send(self._setup)

    def _become_ready(self, engine: EngineProcess) -> None:
        engine.ready, engine.fresh = True, True
        engine.buffer, engine.deadline = b"\n", float("inf")
        self._start_failures = 0

    def _refill(self, batch: Batch) -> None:
        if not batch.todo and not batch.suspects:
            return
        # Towards the end the windows shrink, so that all engines finish together.
        target = min(self._window, max(2, -(-batch.outstanding // (2 * len(self._engines)))))
        for engine in self._engines:
            in_flight = engine.in_flight
            if not engine.ready or engine.alone or 4 * len(in_flight) > 3 * target:
                continue
            if batch.suspects and engine.untried and not in_flight:
                queries, engine.alone = [batch.suspects.popleft()], True
            else:
                queries = batch.take(target - len(in_flight))
            if not queries:
                continue
            data = batch.commands(queries)
            if engine.fresh:
                data, engine.fresh = batch.job.prepare + data, False
            if not in_flight:
                engine.deadline = batch.deadline(queries[0])
            in_flight.extend(queries)
            engine.send(data)  # where this fails, the end of the engine's output follows

    def _collect(self, batch: Batch, engine: EngineProcess) -> None:
        """Takes in what the engine wrote: answers, the end of its start, or its end."""
        talks = engine.receive()
        if not engine.ready:
            self._continue_start(batch, engine, talks)
            return
        buffer = engine.buffer
        end = buffer.rfind(b"\n") + 1
        replies = buffer[:end].split(b"\nbestmove ")
        if len(replies) > 1:
            last = replies.pop()
            engine.buffer = last[last.index(b"\n") :] + buffer[end:]
            in_flight = engine.in_flight
            if nonsense := batch.answer(engine.pid, in_flight, replies):
                self._distrust(batch, engine, nonsense)
                return
            engine.alone = engine.untried = False
            self._deaths_without_answer = 0
            engine.deadline = batch.deadline(in_flight[0]) if in_flight else float("inf")
        if not talks:
            self._replace(batch, engine, "the engine ended")
        elif engine.overflowed():
            self._distrust(batch, engine, "megabytes of output without an answer")

    def _continue_start(self, batch: Batch, engine: EngineProcess, talks: bool) -> None:
        if b"\nreadyok" in engine.buffer:
            again = Handshake.parse(engine.buffer.decode("utf-8", "replace"))
            if again != self.handshake:
                raise EngineError(
                    f"The binary {self.path} changed while it was in use: it was {self.handshake.name!r} and is now "
                    f"{again.name!r} or has other options. Scores of two engines must not be mixed: start again."
                )
            self._become_ready(engine)
        elif not talks or engine.overflowed():
            self._replace(batch, engine, "the engine ended while it started")

    def _talking_out_of_turn(self, batch: Batch) -> bool:
        """Whether an engine said more than it was asked; all its answers are then asked again."""
        for engine in self._engines:
            if engine.ready and engine.buffer != b"\n":
                self._distrust(batch, engine, f"output nobody asked for ({engine.buffer[:80]!r})")
        return batch.outstanding > 0

    def _distrust(self, batch: Batch, engine: EngineProcess, what: str) -> None:
        """Replaces an engine that talks nonsense; what it answered in this batch is asked again."""
        batch.doubt(engine.pid)
        self._replace(batch, engine, what)

    def _replace(self, batch: Batch, engine: EngineProcess, what: str) -> None:
        """Ends the engine, asks its queries again, and starts another one in its place."""
        was_ready, in_flight = engine.ready, list(engine.in_flight)
        reason = f"{what} ({self._discard(engine)})"
        self.restarts += 1
        if was_ready:
            self._deaths_without_answer += 1
        else:
            self._start_failures += 1
        batch.give_back(in_flight, reason, blamed=not engine.lost)
        if self._start_failures >= MAX_START_FAILURES:
            why = f"the last {self._start_failures} engines did not start: {reason}"
            raise EngineError(self._useless(why))
        if self._deaths_without_answer >= MAX_DEATHS_WITHOUT_ANSWER:
            why = f"{self._deaths_without_answer} engines in a row gave no answer, last: {reason}"
            raise EngineError(self._useless(why))
        time.sleep(0.05 * self._start_failures)
        self._start(self._new_engine())

    def _useless(self, why: str) -> str:
        return f"The engine {self.path} cannot be used: {why}. Try `{self.path} bench` in a terminal. {INSTALL_HINT}"

    def _discard(self, engine: EngineProcess) -> str:
        self._engines.remove(engine)
        cpu_s, how = engine.end()
        self._ended_cpu_s += cpu_s
        return how


def _end_all(engines: list[EngineProcess], owner: int) -> None:
    if os.getpid() == owner:  # a forked child must leave its parent's engines alone
        for engine in engines:
            engine.end()


_POOLS: weakref.WeakSet[EnginePool] = weakref.WeakSet()


def _forget_engines_after_fork() -> None:
    for pool in list(_POOLS):
        pool._after_fork_in_child()


os.register_at_fork(after_in_child=_forget_engines_after_fork)
