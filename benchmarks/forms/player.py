"""Random legal play in the vector environment of whatever `chess_env` is first on the path; run by `benchmarks.forms`.

    python player.py '{"num_envs": 64, "options": {}, "caller": "num_legal"}'

It reads numbers of plies from standard input, one a line, and answers each with a line of JSON: the CPU-seconds
that they took, the plies played, and a digest of all positions, which is equal where equal games were played.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np

import chess_env  # noqa: F401 - registers the environment

with contextlib.suppress(ImportError):  # another commit may have none, and is not asked for bits
    from chess_env.rules.action_bits import sample_action_bits

Choose = Callable[[dict[str, Any], Any], Any]


def by_num_legal(info: dict[str, Any], uniforms: Any) -> Any:
    """Reads one id of every list."""
    slots = (uniforms * info["num_legal"]).astype(np.int64)
    return info["legal_ids"][np.arange(len(uniforms)), slots]


def by_dense_mask(info: dict[str, Any], uniforms: Any) -> Any:
    """Reads all masks at once: the fastest way that NumPy has."""
    mask = info["action_mask"]
    legal = np.flatnonzero(mask.view(np.bool_))
    row_starts = np.arange(len(mask)) * mask.shape[1]
    first = np.searchsorted(legal, row_starts)
    counts = np.append(first[1:], len(legal)) - first
    return legal[first + (uniforms * counts).astype(np.int64)] - row_starts


def by_one_mask_at_a_time(info: dict[str, Any], uniforms: Any) -> Any:
    """Reads mask by mask, as a loop over environments does."""
    chosen = []
    for mask, uniform in zip(info["action_mask"], uniforms, strict=True):
        legal = np.flatnonzero(mask.view(np.bool_))
        chosen.append(legal[int(uniform * len(legal))])
    return np.array(chosen)


def by_bits(info: dict[str, Any], uniforms: Any) -> Any:
    """Reads all words of all bitsets."""
    return sample_action_bits(info["action_mask_bits"], uniforms)


CALLERS: dict[str, Choose] = {
    "num_legal": by_num_legal,
    "dense mask": by_dense_mask,
    "one mask at a time": by_one_mask_at_a_time,
    "bits": by_bits,
}


def main() -> None:
    task = json.loads(sys.argv[1])
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    num_envs, choose = task["num_envs"], CALLERS[task["caller"]]
    env: Any = gym.make_vec(
        "ChessSelfPlay-v0", num_envs=num_envs, evaluator="none", **task["options"]
    )
    rng = np.random.default_rng(0)
    _, info = env.reset(seed=0)
    for line in sys.stdin:
        steps = -(-int(line) // num_envs)
        start = time.process_time()
        for _ in range(steps):
            _, _, _, _, info = env.step(choose(info, rng.random(num_envs)))
        cpu_s = time.process_time() - start
        digest = hashlib.sha256(env.positions.tobytes()).hexdigest()
        print(json.dumps({"cpu_s": cpu_s, "plies": steps * num_envs, "digest": digest}), flush=True)


if __name__ == "__main__":
    main()
