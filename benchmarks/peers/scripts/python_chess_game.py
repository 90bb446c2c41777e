"""A loop on python-chess, written as well as Python allows (`benchmarks/speed/rivals/python_chess_loop.py`)."""

from __future__ import annotations

import numpy as np
from rounds import one_core, rng, serve

from benchmarks.speed.rivals.python_chess_loop import PythonChessLoop

one_core()
loop = PythonChessLoop()


def step() -> int:
    # The loop keeps its moves in a list; the mask is read as of every other peer.
    count = len(np.flatnonzero(loop.mask.view(np.bool_)))
    loop.step(int(rng.random() * count))
    return 1


serve(step, "chess")
