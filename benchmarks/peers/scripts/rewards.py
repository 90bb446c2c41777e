"""Random self-play with a Stockfish reward for each ply; python rewards.py ours|python_chess ENGINE DEPTH.

Both clear the engine before each query, so that a score depends on the position alone. The CPU time is that of the
process and of its one engine.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

from rounds import one_core, rng, serve

one_core()

NUM_ENVS = 64
who, engine, depth = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
pids: list[int]
if who == "ours":
    import gymnasium as gym
    import numpy as np

    import chess_env  # noqa: F401 - registers the environment
    from chess_env.evaluators import StockfishEvaluator

    evaluator = StockfishEvaluator(path=engine, depth=depth, num_engines=1)
    env: Any = gym.make_vec("ChessSelfPlay-v0", num_envs=NUM_ENVS, evaluator=evaluator)
    _, info = env.reset(seed=0)
    pids = evaluator.engine_pids()

    def step() -> int:
        global info
        slots = (rng.random(NUM_ENVS) * info["num_legal"]).astype(np.int64)
        *_, info = env.step(info["legal_ids"][np.arange(NUM_ENVS), slots])
        return NUM_ENVS

else:
    from benchmarks.speed.rivals.python_chess_rewards import PythonChessRewards

    rival = PythonChessRewards(engine, depth, pure=True)
    pids = [rival.engine_pid()]

    def step() -> int:
        rival.play(1)
        return 1


def cpu_s() -> float:
    """CPU-seconds of this process and of the engine."""
    ticks = 0
    for pid in pids:
        # The second field is a name in parentheses and may hold spaces; user and system time are the 14th and 15th.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return time.process_time() + ticks / os.sysconf("SC_CLK_TCK")


serve(step, "chess-selfplay-lab" if who == "ours" else "chess", cpu_s)
