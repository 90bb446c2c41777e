"""Scores from engines on many machines, the nodes of a Ray cluster: `ray:` before the name of any evaluator.

The same scores and the same id as on one machine. An engine is an actor of Ray: Ray finds it a CPU, starts it again
where its process or its node is lost, and asks it again then, which is safe because a score is a pure function of the
position. Batches go to whoever is free, by Ray's own pool of actors. Before anything starts the nodes are compared:
the same engine, network and version of this project. What travels between the machines Ray pickles (SECURITY.md).
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import signal
import socket
import threading
import time
import weakref
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chess_env.evaluators.protocol import (
    Evaluator,
    Positions,
    RuleAwareEvaluator,
    Scores,
    pack_positions,
)
from chess_env.evaluators.uci import EngineError

# Rows of a batch: a call to a worker costs about as much as one or two scores at depth 4.
_LARGEST, _LEAST = 128, 4
_MAX_LOST = 12  # workers that may end during one batch
_CONNECT_S, _LOOK_S, _START_S = 5.0, 60.0, 120.0
_REMEDY = (
    "Start a cluster with `ray start --head --include-dashboard=false` on one machine and "
    "`ray start --address=HOST:6379` on the others, and set RAY_ADDRESS=HOST:6379 here "
    "(docs/scaling.md). Without `ray:` in an evaluator's name, and without --ray, no cluster is needed."
)
_HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
_lock = threading.Lock()
_users = 0
_ours = False  # whether the connection was made here, not by the program that uses us


def connect() -> Any:
    """The module `ray`, connected: to RAY_ADDRESS, otherwise to the cluster that this machine belongs to.

    One connection serves all of this process; one that the program has made itself is used as it is. Each call needs
    one of `disconnect`.

    Raises:
        EngineError: there is no Ray, no such cluster, or one of other versions.
    """
    global _users, _ours
    # Ray asks a head node that does not let it in 20 times, a second apart; read when it is imported.
    os.environ.setdefault("RAY_NUM_REDIS_GET_RETRIES", "5")
    try:
        import ray
    except ImportError as error:
        raise EngineError(
            f'A cluster needs Ray, which cannot be imported ({error}): pip install -e ".[ray]"'
        ) from error
    with _lock:
        if not ray.is_initialized():
            _init(ray)
            _ours = True
        _users += 1
    return ray


def disconnect() -> None:
    """Gives up the connection where nobody else in this process uses it and it was made here."""
    global _users, _ours
    import ray

    with _lock:
        _users -= 1
        if not _users and _ours:
            _ours = False
            ray.shutdown()


def _init(ray: Any) -> None:
    address = os.environ.get("RAY_ADDRESS") or "auto"
    if address != "auto":
        _check_answers(address)
    before = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except ConnectionError as error:
        if address == "auto":
            raise EngineError(f"No Ray cluster was found: {error} {_REMEDY}") from error
        raise EngineError(
            f"What answers at RAY_ADDRESS={address!r} lets no program in from here: {error}. Where the cluster asks "
            "for a token, set RAY_AUTH_MODE=token here and copy ~/.ray/auth_token from its head. Otherwise it is "
            "no Ray cluster."
        ) from error
    except Exception as error:  # Ray raises many kinds, RuntimeError for other versions among them
        raise EngineError(
            f"The Ray cluster at {address!r} cannot be used from here: {error} Every machine needs the "
            "same Ray and the same Python, and this one must be part of the cluster: "
            "`ray start --address=HOST:6379`, with --num-cpus=0 where no engine shall run."
        ) from error
    finally:  # Ray puts its own handler there, and a run ends by ours
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)


def _check_answers(address: str) -> None:
    """Asks for a sign of life: Ray itself would wait for minutes where there is none, or where another server is."""
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdecimal() or "/" in host:
        raise EngineError(
            f"RAY_ADDRESS={address!r}: expected HOST:PORT of the cluster's head, such as 10.0.0.1:6379, "
            f"or auto. {_REMEDY}"
        )
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_S) as talk:
            talk.settimeout(_CONNECT_S)
            talk.sendall(_HELLO)
            kind = talk.recv(4)[3:]
    except (OSError, OverflowError) as error:
        raise EngineError(
            f"No Ray cluster answers at RAY_ADDRESS={address!r} ({error}). {_REMEDY}"
        ) from error
    if kind != b"\x04":  # the settings of a gRPC server
        raise EngineError(f"What answers at RAY_ADDRESS={address!r} is no Ray cluster. {_REMEDY}")


def source_hash(*folders: Path) -> str:
    """Hash of the source in these folders, 12 hexadecimal digits: equal on two machines with the same version."""
    found = hashlib.sha256()
    for folder in folders:
        for path in sorted(folder.rglob("*.py")):
            name = path.relative_to(folder.parent).as_posix()
            found.update(name.encode() + b"\0" + path.read_bytes())
    return found.hexdigest()[:12]


class NodeReport(NamedTuple):
    """What a node would score with.

    Attributes:
        evaluator_id: names everything that a score depends on.
        pure: whether a score depends on nothing else.
        project: hash of `chess_env` there.
        fault: why the node cannot score; "" where it can.
    """

    evaluator_id: str
    pure: bool
    project: str
    fault: str = ""

    @classmethod
    def of(cls, evaluator: Evaluator) -> NodeReport:
        """What this machine would score with."""
        project = source_hash(Path(__file__).parents[1])
        return cls(evaluator.id, getattr(evaluator, "pure", True), project)


def look(name: str) -> NodeReport:
    """What this machine would score with under that name of an evaluator; a fault is reported, not raised."""
    from chess_env.evaluators import make_evaluator

    try:
        with contextlib.closing(make_evaluator(name, num_engines=1, num_threads=1)) as evaluator:
            return NodeReport.of(evaluator)
    except (EngineError, ValueError) as error:
        return NodeReport("", True, "", str(error))


def check_same(report: NodeReport, expected: NodeReport, label: str, of: str) -> None:
    """Raises EngineError, with the remedy, where a node would give other scores than is expected.

    Args:
        report: what the node says.
        expected: what it should say.
        label: names the node.
        of: names whoever set the expectation.
    """
    if report.fault:
        raise EngineError(
            f"The Ray node {label} cannot score: {report.fault} Mend that there and start the node again, or "
            "start it with --num-cpus=0: then no engine runs on it."
        )
    if report.project != expected.project:
        raise EngineError(
            f"The Ray node {label} has another version of this project (source {report.project}) than {of} "
            f"(source {expected.project}): install the same commit there and start the node again."
        )
    if report.evaluator_id != expected.evaluator_id:
        raise EngineError(
            f"The Ray node {label} has another engine: {report.evaluator_id!r}, and {of} has "
            f"{expected.evaluator_id!r}. Scores of two engines must not be mixed: install the same build there "
            "(or set STOCKFISH_PATH before `ray start`) and start the node again, or start it with --num-cpus=0."
        )
    if not report.pure:
        raise EngineError(
            f"{report.evaluator_id!r} cannot be spread over a cluster: with pure=False a score depends on what "
            "the engine was asked before, and a lost batch could not be asked again; leave pure=False out"
        )


def _agreed_report(ray: Any, name: str, num_engines: int) -> NodeReport:
    """What all nodes with a CPU report, each of which is asked; EngineError where they differ or are too few."""
    lending = [n for n in ray.nodes() if n["Alive"] and n["Resources"].get("CPU", 0) >= 1]
    nodes = sorted(lending, key=lambda node: (node["NodeManagerAddress"], node["NodeID"]))
    labels = {node["NodeID"]: _label(node) for node in nodes}
    cpus = [int(node["Resources"]["CPU"]) for node in nodes]
    if sum(cpus) < num_engines:
        listed = ", ".join(f"{a}: {b}" for a, b in zip(labels.values(), cpus, strict=True))
        raise EngineError(
            f"num_engines={num_engines} and the Ray cluster has {sum(cpus)} CPUs ({listed or 'none'}): an engine "
            "takes one; lower num_engines (--env.num-engines), or add nodes with `ray start --address=...`"
        )
    reports = _asked(ray, list(labels), name)
    here = ray.get_runtime_context().get_node_id()
    own = here if here in labels else next(iter(labels))
    for node in (own, *labels):
        check_same(reports[node], reports[own], labels[node], labels[own])
    return reports[own]


def _label(node: dict[str, Any]) -> str:
    """A node's address, its name where it has one, and the beginning of its id."""
    address, name = node["NodeManagerAddress"], node.get("NodeName", "")
    named = "" if name in ("", address) else f"{name}, "
    return f"{address} ({named}id {node['NodeID'][:8]})"


def _asked(ray: Any, nodes: list[str], name: str) -> dict[str, NodeReport]:
    """{node id: its report}; a node that cannot even load this project has a fault."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy as On

    def ask() -> Any:  # defined here, so that Ray sends its code: the node may not have ours
        try:
            from chess_env.evaluators.cluster import look as look_there
        except ImportError as error:
            return (
                f"it has not this project, or an old version ({error}): install it there, "
                "with the Python that `ray start` runs under."
            )
        return tuple(look_there(name))

    task = ray.remote(num_cpus=0, max_retries=0)(ask)
    refs = [task.options(scheduling_strategy=On(node, soft=False)).remote() for node in nodes]
    ray.wait(refs, num_returns=len(refs), timeout=_LOOK_S)
    reports = {}
    for node, ref in zip(nodes, refs, strict=True):
        try:
            found = ray.get(ref, timeout=0)
        except ray.exceptions.GetTimeoutError:
            found = f"it did not say what it has within {_LOOK_S:g} s."
        except ray.exceptions.RayError as error:
            found = str(error).strip().splitlines()[-1].rstrip(".") + "."
        fault = isinstance(found, str)
        reports[node] = NodeReport("", True, "", found) if fault else NodeReport(*found)
    return reports


Rows = tuple[int, int, int]
"""A batch: number of the question, first row, row after the last."""


class Reply(NamedTuple):
    """What a worker says to a batch.

    Attributes:
        rows: the batch.
        process: the node and the process that answered.
        counts: what the batch has added to the evaluator's counters.
        scores: int32 [n] of `evaluate`, a list of int32 [L_i] of `score_moves`; None where there is an error.
        error: of the evaluator, with the scores that there are.
    """

    rows: Rows
    process: tuple[str, int]
    counts: dict[str, int | float]
    scores: Any = None
    error: EngineError | None = None


class Worker:
    """An evaluator that answers batches; Ray runs it in a process of its own, which is given one CPU."""

    def __init__(self, name: str, expected: NodeReport) -> None:
        """Makes the evaluator of that name, with one engine or one thread.

        Raises:
            EngineError: it would give other scores than `expected`: Ray may start a lost worker again on a node
                that has joined since.
        """
        import ray

        from chess_env.evaluators import make_evaluator

        self._core = _claim_core()
        self._process = ray.get_runtime_context().get_node_id(), os.getpid()
        self._evaluator: Evaluator = make_evaluator(name, num_engines=1, num_threads=1)
        self._counted: dict[str, int | float] = {}
        label = f"{ray.util.get_node_ip_address()} (id {self._process[0][:8]})"
        check_same(NodeReport.of(self._evaluator), expected, label, "the cluster")

    def begin(self) -> Reply:
        """A reply without scores, once the evaluator is there."""
        counts: dict[str, int | float] = dict.fromkeys(self._evaluator.counters(), 0)
        return Reply((0, 0, 0), self._process, counts)

    def answer(
        self, rows: Rows, method: str, positions: NDArray[np.uint64], settings: dict[str, Any]
    ) -> Reply:
        """The scores of a batch.

        Args:
            rows: names it in the reply.
            method: "evaluate" or "score_moves".
            positions: packed positions uint64 [n, 8].
            settings: further arguments of the method.
        """
        scores = error = None
        try:  # of a copy: what Ray hands over cannot be written to
            scores = getattr(self._evaluator, method)(positions.copy(), **settings)
        except EngineError as found:
            error = found
        counters = self._evaluator.counters()
        new = {name: count - self._counted.get(name, 0) for name, count in counters.items()}
        self._counted = dict(counters)
        return Reply(rows, self._process, new, scores, error)


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


class ClusterEvaluator(RuleAwareEvaluator):
    """Scores by `num_engines` evaluators of one engine each on the nodes of a Ray cluster: those of one machine.

    A worker, engine or node that is lost costs time and changes no score. The cluster is the one at RAY_ADDRESS,
    otherwise the one this machine belongs to.

    Args:
        name: of the evaluator that each node makes, as for `make_evaluator`, without `ray:`.
        num_engines: engines on the whole cluster; each takes one of its CPUs.

    Raises:
        EngineError: there is no Ray or no cluster, it has fewer CPUs, a node has no engine, another one or another
            version of this project, or the scores are not pure.
        ValueError: `num_engines` is not a whole number from 1 on.
    """

    in_background = True

    def __init__(self, name: str, num_engines: int) -> None:
        super().__init__()
        if isinstance(num_engines, bool) or not isinstance(num_engines, int) or num_engines < 1:
            raise ValueError(f"num_engines={num_engines!r}: expected a whole number from 1 on")
        self.name, self.num_engines = name, num_engines
        self._owner, self._lock, self._question = os.getpid(), threading.Lock(), 0
        self._end: EngineError | None = None  # why it answers no more
        self._counters: dict[str, int | float] = {}
        self._seen: set[tuple[str, int]] = set()  # processes that have answered
        self._ray = connect()
        try:
            report = _agreed_report(self._ray, name, num_engines)
            self._start(report)
        except BaseException:
            disconnect()
            raise
        self._id = report.evaluator_id

    def _start(self, report: NodeReport) -> None:
        from ray.util import ActorPool

        options = {"max_restarts": -1, "max_task_retries": _MAX_LOST}
        kind = self._ray.remote(num_cpus=1, scheduling_strategy="SPREAD", **options)(Worker)
        workers = [kind.remote(self.name, report) for _ in range(self.num_engines)]
        self._finalizer = weakref.finalize(self, _kill, self._ray, workers, os.getpid())
        try:
            begun = [worker.begin.remote() for worker in workers]
            _, missing = self._ray.wait(begun, num_returns=len(begun), timeout=_START_S)
            if missing:
                raise EngineError(
                    f"{len(missing)} of {len(begun)} engines on the Ray cluster did not start within "
                    f"{_START_S:g} s: `ray status` shows which CPUs others use; wait for them, or lower "
                    "num_engines (--env.num-engines)"
                )
            for ref in begun:
                self._take_in(lambda ref=ref: self._ray.get(ref))
        except BaseException:
            self._finalizer()
            raise
        # Each worker stands there twice: it has one batch that it computes, and the next one.
        self._pool = ActorPool([*workers, *workers])

    @property
    def id(self) -> str:
        """That of the evaluator on one machine: where an engine runs changes no score."""
        return self._id

    def _score_ongoing(self, positions: NDArray[np.uint64]) -> Scores:
        replies = self._ask("evaluate", positions, {})
        if any(reply.error for reply in replies):
            raise _joined_error(replies, len(positions))
        return np.concatenate([reply.scores for reply in replies])

    def score_moves(self, positions: Positions, **settings: Any) -> list[Scores]:
        """int32 [L_i] per position: as the evaluator on one machine, to which `settings` (such as depth=1) are passed.

        Raises:
            EngineError: a move has no score, or positions that no engine survived.
        """
        packed = pack_positions(positions)
        self._queries += len(packed)
        replies = self._ask("score_moves", packed, settings)
        for reply in replies:
            if reply.error:
                raise reply.error
        return [scores for reply in replies for scores in reply.scores]

    def _ask(
        self, method: str, positions: NDArray[np.uint64], settings: dict[str, Any]
    ) -> list[Reply]:
        """The replies to all batches, in the order of the positions.

        A batch that is out for much longer than any other is given to a second worker: its own may hang, or wait for
        a node. Whichever answer comes first will do.

        Raises:
            EngineError: closed, of another process, a worker that cannot be replaced, or nobody answers any more.
        """
        if os.getpid() != self._owner:
            raise EngineError(
                "This evaluator belongs to the process from which this one was forked; make one here with "
                "make_evaluator."
            )

        def send(worker: Any, rows: Rows) -> Any:
            return worker.answer.remote(rows, method, positions[rows[1] : rows[2]], settings)

        with self._lock:
            if self._end is not None:
                raise self._end
            self._question += 1
            size = min(_LARGEST, max(_LEAST, -(-len(positions) // (4 * self.num_engines))))
            ends = [*range(0, len(positions), size), len(positions)]
            waiting = [(self._question, *rows) for rows in pairwise(ends)]
            for rows in waiting:
                self._pool.submit(send, rows)
            replies: list[Reply] = []
            heard, longest_s = time.monotonic(), 0.0
            while waiting:
                try:
                    reply = self._take_in(lambda: self._pool.get_next_unordered(timeout=1.0))
                except TimeoutError:
                    silent_s = time.monotonic() - heard
                    if silent_s > _START_S + 20 * longest_s:
                        raise EngineError(
                            f"No engine on the Ray cluster has answered for {silent_s:.0f} s: `ray status` shows its "
                            "nodes; start them again with `ray start --address=...` and go on"
                        ) from None
                    if silent_s > 1.0 + 4 * longest_s and self._pool.has_free():
                        waiting.append(waiting.pop(0))
                        self._pool.submit(send, waiting[-1])
                    continue
                longest_s, heard = max(longest_s, time.monotonic() - heard), time.monotonic()
                if reply.rows in waiting:  # and is no second answer, nor one to an earlier question
                    waiting.remove(reply.rows)
                    replies.append(reply)
            return sorted(replies, key=lambda reply: reply.rows)

    def _take_in(self, get: Any) -> Reply:
        """The reply that `get()` gives, its counts added up; Ray's own errors in words for people."""
        try:
            reply: Reply = get()
        except self._ray.exceptions.RayError as error:
            cause = getattr(error, "cause", None) or error
            told = EngineError(
                f"The evaluator {self.name!r} failed on the Ray cluster: {type(cause).__name__}: {cause}"
            )
            if isinstance(error, self._ray.exceptions.RayActorError):  # not to be started again
                self._end = told
            raise told from error
        self._seen.add(reply.process)
        for name, count in reply.counts.items():
            self._counters[name] = self._counters.get(name, 0) + count
        return reply

    def counters(self) -> dict[str, int | float]:
        """Cumulative, as on one machine; `engine_restarts` counts workers that were replaced, too.

        What a lost worker did after its last reply is not counted.
        """
        found = self._counters | {"queries": self._queries}
        if "engine_restarts" in found:
            found["engine_restarts"] += len(self._seen) - self.num_engines
        return found

    def close(self) -> None:
        """Ends the engines on all nodes; the evaluator answers no more."""
        if os.getpid() != self._owner:
            return
        with self._lock:
            if self._finalizer.alive:
                self._end = EngineError(
                    "This evaluator is closed; make a new one with make_evaluator."
                )
                self._finalizer()
                disconnect()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled as its arguments: the copy starts engines of its own."""
        return ClusterEvaluator, (self.name, self.num_engines)


def _kill(ray: Any, workers: list[Any], owner: int) -> None:
    if os.getpid() == owner and ray.is_initialized():
        for worker in workers:
            ray.kill(worker)


def _joined_error(replies: list[Reply], num_positions: int) -> EngineError:
    """The error of all batches, with the scores that there are."""
    wrong = [reply.error for reply in replies if reply.error]
    for error in wrong:
        if error.answered is None:  # no engine runs there at all
            return error
    failed = {fen: reason for error in wrong for fen, reason in error.failed.items()}
    joined = EngineError(
        f"{len(failed)} of {num_positions} positions could not be scored on the Ray cluster; of the first batch: "
        f"{wrong[0]}"
    )
    joined.failed = failed
    parts: list[Any] = [reply.error or reply for reply in replies]
    joined.scores = np.concatenate([part.scores for part in parts])
    answered = [getattr(part, "answered", None) for part in parts]
    joined.answered = np.concatenate(
        [
            np.ones(len(part.scores), np.bool_) if found is None else found
            for part, found in zip(parts, answered, strict=True)
        ]
    )
    return joined
