"""Scores that come later from real engines: killed ones, and ones that a thread has started."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from functools import partial
from pathlib import Path

import pytest
import torch

from algorithms.rollouts.collect import start_rollout
from chess_env.evaluators import StockfishEvaluator
from tests.env.vector_play import make
from tests.forks import fork, kill
from tests.rollouts.play import play_positions
from tests.small import make_policy

ROOT = Path(__file__).parents[2]


@pytest.mark.stockfish
def test_an_engine_that_is_killed_changes_no_score_of_a_rollout() -> None:
    found = []
    for later in (False, True):
        with StockfishEvaluator(depth=2, num_engines=2) as engines:
            vec = make(evaluator=engines, num_envs=16, start_positions="random_plies:20-60")
            state = start_rollout(vec, 5)
            vec.scoring.later = partial(vec.scoring.later, wanted=later)
            killer = threading.Timer(0.02, os.kill, (engines._pool.pids()[0], signal.SIGKILL))
            killer.start()
            batch, _ = play_positions(vec, make_policy(), state, group_size=8)
            killer.join()
            found.append(batch)
            assert engines.counters()["queries"] == 16 * (1 + 3 * 8)
            vec.close()
    for name in ("rewards", "score_cp", "before_cp", "actions"):
        torch.testing.assert_close(*(getattr(batch, name) for batch in found), rtol=0, atol=0)


def replace_an_engine(told: int) -> None:
    """Writes to `told` which engine was started for one that was killed, and waits."""
    env = make(evaluator="stockfish-v1:depth=1", num_engines=2, num_envs=8)
    _, info = env.reset(seed=0)
    pool = env.evaluator.inner._pool if hasattr(env.evaluator, "inner") else env.evaluator._pool
    before = pool.pids()
    os.kill(before[0], signal.SIGKILL)
    with env.scoring.later():
        env.score_actions(info["legal_ids"][:, :8].astype(int))
        env.step(info["legal_ids"][:, 0].astype(int))
    new = min(set(pool.pids()) - set(before))
    os.kill(new, signal.SIGSTOP)
    os.write(told, b"%d\n" % new)
    time.sleep(100)


@pytest.mark.stockfish
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc on Linux alone")
def test_an_engine_started_meanwhile_ends_with_the_process_though_it_is_stopped() -> None:
    reading, writing = os.pipe()
    process = fork(partial(replace_an_engine, writing))
    os.close(writing)
    with open(reading) as said:
        engine = Path("/proc", said.readline().strip(), "stat")
    assert engine.exists()
    kill(process)
    deadline = time.monotonic() + 10
    while engine.exists() and " Z " not in engine.read_text():
        assert time.monotonic() < deadline
        time.sleep(0.02)
