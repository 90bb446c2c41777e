"""The two that invent recipes: hypothesis, and atheris, which is guided by the lines of code that an input reaches."""

from __future__ import annotations

import importlib.util
import random
import re
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.reliability.fuzz.judge import Judge

MOST_RECIPE = 48
"""Bytes: a seed and about ten changes."""
_AT_A_TIME = 1000  # examples of hypothesis, which remembers each of them
_ROOT = Path(__file__).parents[3]


def installed() -> str:
    """The better engine that is installed."""
    return "atheris" if importlib.util.find_spec("atheris") else "hypothesis"


def by_hypothesis(judge: Judge, inputs: int, seed: int, until: float) -> None:
    """Feeds the judge so many inputs, or as many as it takes until `time.monotonic()` says so."""
    import hypothesis
    from hypothesis import strategies as st

    while judge.inputs < inputs and time.monotonic() < until:
        left = inputs - judge.inputs

        @hypothesis.seed(seed * 1_000_003 + judge.inputs)
        @hypothesis.settings(
            max_examples=min(_AT_A_TIME, left),
            database=None,
            deadline=None,
            phases=[hypothesis.Phase.generate],
            suppress_health_check=list(hypothesis.HealthCheck),
        )
        @hypothesis.given(st.binary(min_size=2, max_size=MOST_RECIPE))
        def shoot(recipe: bytes) -> None:
            if time.monotonic() < until:
                judge.cook(recipe)

        shoot()


def by_atheris(
    make: Callable[[], Judge], inputs: int, seed: int, until: float, done: Callable[[Judge], Any]
) -> None:
    """As `by_hypothesis`, then calls `done`, which ends the process: atheris does not come back.

    Args:
        make: the judge; what it imports of the project is watched.
        inputs: how many.
        seed: of the recipes.
        until: when to stop before that.
        done: gets the judge.
    """
    import atheris

    with atheris.instrument_imports(include=["algorithms", "chess_env"], exclude=_kernels()):
        judge = make()

    corpus, rng = tempfile.TemporaryDirectory(), random.Random(seed)

    def shoot(recipe: bytes) -> None:
        judge.cook(recipe)
        if judge.inputs >= inputs or time.monotonic() >= until:
            corpus.cleanup()
            done(judge)

    for number in range(256):
        path = Path(corpus.name) / str(number)
        path.write_bytes(rng.randbytes(rng.randint(2, MOST_RECIPE)))
    # Time and memory are watched by the judge and the system.
    options = [
        "-timeout=0",
        "-rss_limit_mb=0",
        f"-max_len={MOST_RECIPE}",
        "-len_control=0",
        "-verbosity=0",
    ]
    atheris.Setup([sys.argv[0], f"-seed={seed + 1}", *options, corpus.name], shoot)
    atheris.Fuzz()


def _kernels() -> list[str]:
    """Modules that compile their functions from the bytecode, which must stay as it is."""
    compiles = re.compile(r"^(from chess_env\.jit|import numba)", re.MULTILINE)
    paths = (
        path for path in (_ROOT / "chess_env").rglob("*.py") if compiles.search(path.read_text())
    )
    return [".".join(path.relative_to(_ROOT).with_suffix("").parts) for path in paths]
