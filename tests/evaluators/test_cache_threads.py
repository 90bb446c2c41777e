"""One cache asked by several threads at once."""

from __future__ import annotations

import threading
import warnings
from pathlib import Path

import numpy as np

from chess_env.evaluators import CachedEvaluator
from tests.evaluators.hashing import Hashing


def test_threads_share_a_cache_and_its_file(positions: np.ndarray, tmp_path: Path) -> None:
    cache = CachedEvaluator(Hashing(), memory_entries=20, path=tmp_path / "scores.sqlite")
    expected = Hashing().evaluate(positions)
    wrong: list[int] = []

    def ask(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(40):
            rows = rng.integers(len(positions), size=16)
            if not np.array_equal(cache.evaluate(positions[rows]), expected[rows]):
                wrong.append(seed)

    threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(4)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert wrong == []
    assert cache.counters()["cache_file_hits"] > 0
    cache.close()
