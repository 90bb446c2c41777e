"""Several engines answering one batch of queries: one thread, one poll loop, commands written ahead.

Stockfish executes its input strictly in order, so some queries (a window) are always waiting in its pipe
and the engine never waits for Python, not even on a loaded machine that runs Python every few milliseconds.
The loop sleeps through most of a window (`Nap`) instead of waking for every line the engine prints, and never has
more in flight than fits into a pipe, so neither side can block the other.
"""

from __future__ import annotations

import functools
import hashlib
import os
import select
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chess_env.evaluators.process import (
    HANDSHAKE_TIMEOUT_S,
    PAUSE_S,
    EngineProcess,
    free_core,
    shake_hands,
)
from chess_env.evaluators.uci import INSTALL_HINT, EngineError, Handshake, LostEngineError

MAX_ATTEMPTS = 3  # a query during which engines ended this often is given up
MAX_LOST = 12  # engines that were ended from outside during one query
QUARANTINE_S = 600.0  # how long a position that was given up is not asked again


@dataclass(frozen=True)
class QueryKind:
    """One kind of query: `prefix + fen + suffix` is written, `parse(index, reply)` understands the answer.

    Attributes:
        prefix: what is written before each FEN.
        suffix: what is written after it.
        parse: from (index, output up to `bestmove`) to the answer; raises ValueError for nonsense.
        deadline_s: after so long an engine counts as hung on one query; doubled at each further attempt.
        prepare: written to each engine before its first query of the batch.
    """

    prefix: bytes
    suffix: bytes
    parse: Callable[[int, bytes], Any]
    deadline_s: float
    prepare: bytes


class Batch:
    """The state of one batch. Queries are numbered as `fens` is.

    Attributes:
        results: the answers so far.
        todo: queries that no engine has in flight.
        suspects: queries that were being answered when an engine failed; they are sent alone and to an engine that
            has answered nothing yet, so that the next failure is theirs beyond doubt.
        failed: how each attempt ended, for queries given up.
        outstanding: queries neither answered nor given up.
    """

    def __init__(self, kind: QueryKind, fens: Sequence[bytes]) -> None:
        self.kind, self.fens = kind, fens
        self.results: list[Any] = [None] * len(fens)
        self.todo = deque(range(len(fens)))
        self.suspects: deque[int] = deque()
        self.failed: dict[int, str] = {}
        self.outstanding = len(fens)
        self._attempts: dict[int, list[str]] = {}
        self._lost: dict[int, int] = {}  # query -> engines that were ended from outside during it
        self._answered_by: dict[int, list[int]] = {}  # engine pid -> queries

    def take(self, count: int) -> list[int]:
        """Up to `count` queries, which are now in flight."""
        return [self.todo.popleft() for _ in range(min(count, len(self.todo)))]

    def commands(self, queries: Sequence[int]) -> bytes:
        """What to write to an engine for these queries."""
        kind = self.kind
        return (
            kind.prefix
            + (kind.suffix + kind.prefix).join([self.fens[i] for i in queries])
            + kind.suffix
        )

    def deadline(self, query: int) -> float:
        """When (time.monotonic) an engine that starts this query now must have answered."""
        return time.monotonic() + self.kind.deadline_s * 2 ** len(self._attempts.get(query, ()))

    def answer(self, pid: int, in_flight: deque[int], replies: Sequence[bytes]) -> str:
        """What is wrong with an engine's replies to its oldest queries in flight, or ""; takes in the right ones."""
        answered = self._answered_by.setdefault(pid, [])
        for reply in replies:
            if not in_flight:
                return f"an answer to no question ({_end_of(reply)})"
            query = in_flight[0]
            try:
                self.results[query] = self.kind.parse(query, reply)
            except ValueError as error:
                return f"an answer that is none ({error}: {_end_of(reply)})"
            in_flight.popleft()
            answered.append(query)
            self.outstanding -= 1
        return ""

    def doubt(self, pid: int) -> None:
        """Takes back all answers of an engine: they will be asked again."""
        doubtful = self._answered_by.pop(pid, [])
        self.todo.extend(doubtful)
        self.outstanding += len(doubtful)

    def give_back(self, in_flight: Sequence[int], reason: str, *, blamed: bool) -> None:
        """Takes back the queries of an engine that failed; only the oldest was being answered.

        Args:
            in_flight: the queries, oldest first.
            reason: how the engine failed.
            blamed: whether the oldest may be why; not where the engine was ended or stopped from outside.
        """
        if not in_flight:
            return
        head = in_flight[0]
        history = self._attempts.setdefault(head, [])
        if blamed:
            history.append(reason)
        else:
            self._lost[head] = self._lost.get(head, 0) + 1
        if len(history) < MAX_ATTEMPTS and self._lost.get(head, 0) < MAX_LOST:
            self.suspects.append(head)
        else:
            self.failed[head] = "; ".join(history or [reason])
            self.results[head] = None
            self.outstanding -= 1
        self.todo.extendleft(reversed(in_flight[1:]))


class Quarantine:
    """Positions that are not asked for a while, because no engine survived them.

    Each stays for `QUARANTINE_S`, and for twice as long as the last time where it fails again.
    """

    def __init__(self) -> None:
        self._reasons: dict[bytes, str] = {}
        self._terms: dict[bytes, tuple[float, float]] = {}  # FEN -> (until, seconds)

    def __len__(self) -> int:
        now = time.monotonic()
        return sum(until > now for until, _ in self._terms.values())

    def reasons(self, fens: Sequence[bytes]) -> dict[int, str]:
        """{index of a FEN that is not to be asked now: why}."""
        now, none = time.monotonic(), (0.0, 0.0)
        return {
            i: self._reasons[fen]
            for i, fen in enumerate(fens if self._terms else ())
            if self._terms.get(fen, none)[0] > now
        }

    def add(self, fen: bytes, reason: str) -> None:
        """Adds a position that failed."""
        _, term_s = self._terms.get(fen, (0.0, QUARANTINE_S / 2))
        self._reasons[fen] = reason
        self._terms[fen] = time.monotonic() + 2 * term_s, 2 * term_s


def _end_of(reply: bytes) -> str:
    return "..." + repr(reply[-120:].decode("utf-8", "replace").strip())


_FIRST_S, _MIN_S, _MAX_S = 0.002, 0.0003, 0.005


class Nap:
    """A sleep that adapts, so that each waking finds some of a window left.

    An idle engine costs more than a waking; a waking for every line that an engine prints costs most.

    Attributes:
        whole_s: seconds of sleep while a whole window is in flight.
    """

    def __init__(self, window: int) -> None:
        self.whole_s = _FIRST_S
        self._window = window

    def sleep(self, in_flight: int) -> None:
        """Sleeps for a share of `whole_s`: the share of its window that the least busy engine has in flight."""
        if in_flight > 1:
            time.sleep(self.whole_s * in_flight / self._window)

    def adapt(self, had: int, left: int, took_s: float) -> None:
        """Makes the next sleep shorter where an engine ran dry, and longer where most of a window was left.

        Args:
            had: queries in flight at the least busy engine before the sleep.
            left: the same after it.
            took_s: seconds from falling asleep until the answers were read.
        """
        if had <= self._window // 2:
            return
        # A loaded machine wakes us late, which no shorter nap would help.
        if not left and took_s < 2 * self.whole_s:
            self.whole_s = max(0.7 * self.whole_s, _MIN_S)
        elif 2 * left > had:
            self.whole_s = min(1.2 * self.whole_s, _MAX_S)


@functools.lru_cache(maxsize=64)
def _digest(path: Path, inode: int, size: int, changed_ns: int) -> str:
    """The digest of a file's content, kept while the system says that the file is the same."""
    with path.open("rb") as file:
        # SHA-1 is the fastest: a few tenths of a second.
        return hashlib.file_digest(file, "sha1").hexdigest()


def fingerprint(path: Path) -> str:
    """What tells a file's content from another's; "" where there is none. No proof against an attacker."""
    try:
        state = path.stat()
        return _digest(path, state.st_ino, state.st_size, state.st_mtime_ns)
    except OSError:
        return ""


WINDOW = 32  # queries that wait in the pipe of one engine
MAX_MULTIPV = 218  # no position has more legal moves
MAX_START_FAILURES = 5  # engines in a row that ended before they were ready
MAX_DEATHS_WITHOUT_ANSWER = 4 * MAX_ATTEMPTS
_LONGEST_WAIT_S = 0.25


class EnginePool:
    """Engines that start when first needed, are replaced when they fail, and never outlive this process.

    After a fork the child owns no engines and starts its own.
    """

    def __init__(self, path: Path, num_engines: int, options: Mapping[str, object]) -> None:
        """Starts the first engine, to learn what it is; another one where that is ended from outside.

        Raises:
            EngineError: the file is not a working Stockfish.
            ValueError: an option that it does not have, or a value outside the option's range.
        """
        self.path, self.num_engines = path, num_engines
        self.restarts = 0
        self._ended_cpu_s = 0.0
        self._start_failures = self._deaths_without_answer = 0
        self._nap = Nap(WINDOW)
        self._closed = False
        self._engines: list[EngineProcess] = []
        self._own()
        while not self._engines:
            try:
                self._begin_first(options)
            except LostEngineError:
                self._start_failures += 1
                if self._start_failures >= MAX_START_FAILURES:
                    raise
                self.restarts += 1
                time.sleep(0.05 * self._start_failures)
        nets = [Path(str(net)) for name, net in options.items() if "evalfile" in name.lower()]
        self._files = {file: fingerprint(file) for file in (path, *nets)}

    def _begin_first(self, options: Mapping[str, object]) -> None:
        """Starts the engine that says what all of them are, and makes it ready."""
        engine = self._new_engine()
        try:
            self.handshake: Handshake = shake_hands(engine, HANDSHAKE_TIMEOUT_S)
            self._setup = b"uci\n" + self.handshake.commands(options) + b"isready\n"
            self.handshake.commands({"MultiPV": MAX_MULTIPV})
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

    def run(self, kind: QueryKind, fens: Sequence[bytes]) -> tuple[list[Any], dict[int, str]]:
        """(what `kind.parse` made of each answer, reason by index of the queries that no engine survived).

        Raises:
            EngineError: no engine can be started any more, or none answers anything.
        """
        if self._closed:
            raise EngineError(
                "This Stockfish evaluator is closed; make a new one with make_evaluator."
            )
        with self._lock:
            batch = Batch(kind, fens)
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
        target = min(WINDOW, max(2, -(-batch.outstanding // (2 * len(self._engines)))))
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
                data, engine.fresh = batch.kind.prepare + data, False
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
            for file, content in self._files.items():
                if fingerprint(file) != content:
                    raise EngineError(
                        f"The file {file} changed while it was in use: another engine or network has its name now. "
                        "Scores of two engines must not be mixed: put the old file back, or start again."
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
