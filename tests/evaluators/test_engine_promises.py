"""What is promised of real engines that are killed, stopped and suspended for as long as one likes."""

from __future__ import annotations

import os
import random
import signal
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from benchmarks.speed.stockfish_pool import random_positions
from chess_env.evaluators import StockfishEvaluator
from tests.evaluators.processes import children

pytestmark = [pytest.mark.stockfish, pytest.mark.slow, pytest.mark.timeout(600)]


@contextmanager
def killed_every(
    seconds: float, evaluator: StockfishEvaluator, rng: random.Random
) -> Iterator[None]:
    """Inside, a random engine is killed every so many seconds, the first one after half of them."""
    done = threading.Event()

    def kill() -> None:
        wait = seconds / 2
        while not done.wait(wait):
            os.kill(rng.choice(evaluator.engine_pids()), signal.SIGKILL)
            wait = seconds

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        yield
    finally:
        done.set()
        killer.join()


def test_engines_that_are_killed_every_second_cost_no_answer() -> None:
    positions, rng = random_positions(500, seed=3), random.Random(3)
    processes, files = children(), len(os.listdir("/proc/self/fd"))
    with StockfishEvaluator(num_engines=2) as evaluator:
        expected = evaluator.evaluate(positions)
        begun = time.monotonic()
        evaluator.evaluate(positions)
        held = len(os.listdir("/proc/self/fd"))
        passes = max(1, round(7 / (time.monotonic() - begun)))
        before = evaluator.counters()
        with killed_every(1.0, evaluator, rng):
            scores = [evaluator.evaluate(positions) for _ in range(passes)]
        after = evaluator.counters()
        assert all(np.array_equal(each, expected) for each in scores)
        assert after["queries"] - before["queries"] == passes * len(positions)
        assert after["engine_restarts"] - before["engine_restarts"] >= 4
        assert evaluator.counters()["quarantined"] == 0
        assert "Z" not in children().values()
        assert len(os.listdir("/proc/self/fd")) == held
    assert children().keys() == processes.keys()
    assert len(os.listdir("/proc/self/fd")) == files


def test_a_hung_engine_costs_at_most_its_deadline_and_two_seconds(positions: np.ndarray) -> None:
    deadline_s, costs = 3.0, []
    with StockfishEvaluator(num_engines=2, deadline_s=deadline_s) as evaluator:
        expected = evaluator.evaluate(positions).tolist()
        for engine in (0, 1, 0):
            begun = time.monotonic()
            assert evaluator.evaluate(positions).tolist() == expected
            undisturbed_s = time.monotonic() - begun
            os.kill(evaluator.engine_pids()[engine], signal.SIGSTOP)
            begun = time.monotonic()
            assert evaluator.evaluate(positions).tolist() == expected
            costs.append(time.monotonic() - begun - undisturbed_s)
        assert evaluator.counters()["quarantined"] == 0
    # The median: a busy machine holds one of the three up now and then.
    assert deadline_s - 0.5 < statistics.median(costs) < deadline_s + 2, costs


def test_a_machine_that_is_suspended_twice_during_a_query_costs_nothing() -> None:
    position = ["r1bq1rk1/pp2bppp/2n1pn2/2pp4/3P1B2/2PBPN2/PP1N1PPP/R2QK2R w KQ - 0 9"]
    limit, deadline_s = {"nodes": 300_000}, 8.0  # more than twice what it takes
    with StockfishEvaluator(num_engines=1, **limit) as evaluator:
        begun = time.monotonic()
        expected = evaluator.evaluate(position).tolist()
        assert time.monotonic() - begun < deadline_s / 2, "choose fewer nodes for this machine"
    reading, writing = os.pipe()
    program = os.fork()
    if program == 0:
        try:
            with StockfishEvaluator(num_engines=1, deadline_s=deadline_s, **limit) as evaluator:
                os.write(writing, f"{evaluator.engine_pids()[0]}\n".encode())
                scores = evaluator.evaluate(position).tolist()
                os.write(writing, repr((scores, evaluator.counters())).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with open(reading) as said:
        everything = [int(said.readline()), program]
        for _ in range(2):
            time.sleep(0.1)
            for pid in everything:
                os.kill(pid, signal.SIGSTOP)
            time.sleep(deadline_s + 1)
            for pid in everything:
                os.kill(pid, signal.SIGCONT)
        scores, counters = eval(said.read())
    os.waitpid(program, 0)
    assert scores == expected
    assert (counters["engine_restarts"], counters["quarantined"]) == (0, 0)
