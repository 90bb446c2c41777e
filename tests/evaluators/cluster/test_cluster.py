"""Scores from a cluster of two nodes: those of the local pool, whatever happens to workers and programs."""

from __future__ import annotations

import contextlib
import os
import pickle
import random
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from benchmarks.speed.stockfish_pool import random_positions
from chess_env.evaluators import EngineError, Evaluator, find_stockfish, make_evaluator
from chess_env.testing import check_evaluator
from tests.evaluators.cluster.nodes_here import killing, nodes_here, pids_of

pytestmark = [pytest.mark.ray, pytest.mark.stockfish, pytest.mark.slow]

NAME = "ray:stockfish:depth=4"


def engines() -> list[int]:
    return pids_of(str(find_stockfish()))


def gone_within(seconds: float, pids: list[int]) -> bool:
    """Whether these processes have ended, or do so within that time."""
    end = time.monotonic() + seconds
    while any(os.path.exists(f"/proc/{pid}") for pid in pids):
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


@pytest.fixture(scope="module")
def local() -> Iterator[Evaluator]:
    with contextlib.closing(make_evaluator("stockfish:depth=4", 2)) as evaluator:
        yield evaluator


@pytest.mark.parametrize("name", [NAME, "ray:builtin"])
def test_it_keeps_the_contract_of_every_evaluator(two_nodes: Any, name: str) -> None:
    check_evaluator(lambda: make_evaluator(name, 1))


def test_scores_id_and_counters_are_those_of_the_local_pool(
    two_nodes: Any, local: Evaluator
) -> None:
    positions = random_positions(300, seed=1)
    positions = np.concatenate([positions, positions[::3]])  # some twice
    before = local.counters()
    with contextlib.closing(make_evaluator(NAME, 2)) as spread:
        assert spread.id == local.id
        assert spread.counters() == dict.fromkeys(before, 0)
        assert np.array_equal(spread.evaluate(positions), local.evaluate(positions))
        for ours, theirs in zip(
            spread.score_moves(positions[:9]), local.score_moves(positions[:9]), strict=True
        ):
            assert np.array_equal(ours, theirs)
        found, after = spread.counters(), local.counters()
    for name in ("queries", "unique_queries", "engine_restarts", "quarantined"):
        assert found[name] == after[name] - before[name], name
    assert found["engine_cpu_s"] > 0


def test_ten_thousand_scores_are_right_while_workers_are_killed(
    two_nodes: Any, local: Evaluator
) -> None:
    positions, before = random_positions(10_000, seed=2), engines()
    begun = time.monotonic()
    with contextlib.closing(make_evaluator(NAME, 2)) as spread:
        # A worker that is killed while it starts answers nothing: on a busy machine they start slowly.
        with killing(max(2.0, (time.monotonic() - begun) / 2), seed=3) as killed:
            scores = spread.evaluate(positions)
        assert len(killed) > 1
        # One that is killed before its first answer is not counted.
        assert 1 <= spread.counters()["engine_restarts"] <= len(killed)
        assert np.array_equal(scores, local.evaluate(positions))
        workers = pids_of("ray::Worker")
    assert gone_within(5.0, workers)
    assert gone_within(1.0, sorted(set(engines()) - {*before, *local.engine_pids()}))  # type: ignore[attr-defined]


def test_a_worker_that_hangs_does_not_hold_up_the_others(two_nodes: Any, local: Evaluator) -> None:
    positions = random_positions(1_000, seed=4)
    with contextlib.closing(make_evaluator(NAME, 2)) as spread:
        spread.evaluate(positions[:200])
        stopped = random.Random(5).choice(pids_of("ray::Worker"))
        os.kill(stopped, signal.SIGSTOP)
        try:
            assert np.array_equal(spread.evaluate(positions), local.evaluate(positions))
        finally:
            os.kill(stopped, signal.SIGKILL)


def test_a_lost_node_costs_its_share_of_the_speed_and_no_score(local: Evaluator) -> None:
    positions = random_positions(3_000, seed=6)
    with (
        nodes_here() as cluster,
        contextlib.closing(make_evaluator(NAME, 2)) as spread,
    ):
        spread.evaluate(positions[:200])
        losing = threading.Timer(
            0.3, cluster.remove_node, [next(iter(cluster.worker_nodes)), False]
        )
        losing.start()
        assert np.array_equal(spread.evaluate(positions), local.evaluate(positions))
        losing.join()
        assert np.array_equal(spread.evaluate(positions[:50]), local.evaluate(positions[:50]))


def test_a_closed_evaluator_and_a_forked_one_say_so(two_nodes: Any) -> None:
    spread = make_evaluator("ray:builtin", 1)
    spread._owner += 1  # type: ignore[attr-defined]  # as in a forked process
    with pytest.raises(EngineError, match="was forked"):
        spread.evaluate(random_positions(1, seed=1))
    spread._owner -= 1  # type: ignore[attr-defined]
    copy = pickle.loads(pickle.dumps(spread))
    spread.close()
    with pytest.raises(EngineError, match="is closed"):
        spread.evaluate(random_positions(1, seed=1))
    assert len(copy.evaluate(random_positions(1, seed=1))) == 1
    copy.close()


def test_more_engines_than_the_cluster_has_cpus_are_refused(two_nodes: Any) -> None:
    with pytest.raises(EngineError, match=r"num_engines=3 and the Ray cluster has 2 CPUs"):
        make_evaluator(NAME, 3)


def test_engines_for_which_others_leave_no_cpu_are_an_error_that_says_so(
    two_nodes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with contextlib.closing(make_evaluator("ray:builtin", 2)):
        monkeypatch.setattr("chess_env.evaluators.cluster._START_S", 2.0)
        with pytest.raises(
            EngineError, match="1 of 1 engines .* did not start within 2 s: `ray status`"
        ):
            make_evaluator("ray:builtin", 1)


def test_another_version_of_ray_is_refused_and_the_next_attempt_succeeds(
    two_nodes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ray

    with monkeypatch.context() as patched:
        patched.setattr(ray, "__version__", "2.0.0")
        with pytest.raises(
            EngineError, match=r"cannot be used from here: .*Version mismatch"
        ) as error:
            make_evaluator("ray:builtin", 1)
    assert "the same Ray and the same Python" in str(error.value)
    make_evaluator("ray:builtin", 1).close()


PROGRAM = """
import signal, sys
from benchmarks.speed.stockfish_pool import random_positions
from chess_env.evaluators import make_evaluator
handler = signal.getsignal(signal.SIGTERM)
evaluator = make_evaluator("ray:stockfish:depth=4", 2)
assert signal.getsignal(signal.SIGTERM) == handler
evaluator.evaluate(random_positions(100, seed=1))
print("scored", flush=True)
if sys.argv[1] != "exit":
    while True:
        evaluator.evaluate(random_positions(2000, seed=1))
"""


@pytest.mark.parametrize("end", ["exit", "SIGTERM", "SIGKILL"])
def test_nothing_is_left_of_a_program_that_ends_without_closing(two_nodes: Any, end: str) -> None:
    before = engines()
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(PROGRAM), end], stdout=subprocess.PIPE, text=True
    ) as program:
        assert program.stdout is not None
        said = program.stdout.readline()
        started = [*pids_of("ray::Worker"), *(set(engines()) - set(before))]
        if end != "exit":
            program.send_signal(getattr(signal, end))
    assert said == "scored\n"
    assert end == "exit" or len(started) >= 4
    assert gone_within(10.0, started)
    assert gone_within(10.0, [*pids_of("ray::Worker"), *(set(engines()) - set(before))])
