"""A run computes the same whatever the process that starts it has set, and leaves that as it was."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from algorithms.evaluation.load_policy import load_policy
from algorithms.training.trainer import train
from tests.training.runs import Watcher, assert_same, final_state, rows_without_time, tiny


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("usual") / "run"
    train(tiny(folder, updates=2), display=Watcher())
    return folder


def _set() -> tuple[Any, ...]:
    """All that a process sets for torch and NumPy."""
    return (
        torch.get_default_dtype(),
        torch.get_default_device(),
        torch.get_num_threads(),
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
        torch.get_float32_matmul_precision(),
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        torch.is_autocast_enabled("cpu"),
        np.geterr(),
    )


@contextlib.contextmanager
def _kept() -> Iterator[None]:
    dtype, threads = torch.get_default_dtype(), torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_default_dtype(dtype)
        torch.set_default_device(None)
        torch.set_num_threads(threads)
        torch.use_deterministic_algorithms(False)
        torch.set_float32_matmul_precision("highest")


@pytest.mark.parametrize(
    "settings",  # each takes all of its settings at once; of two of a kind there is one in each
    [
        [
            lambda: torch.set_default_dtype(torch.bfloat16),
            lambda: torch.set_default_device("meta"),
            lambda: torch.set_num_threads(3),
            lambda: torch.use_deterministic_algorithms(True, warn_only=True),
            lambda: torch.set_float32_matmul_precision("medium"),
            lambda: torch.no_grad(),
            lambda: torch.autocast("cpu", dtype=torch.bfloat16),
            lambda: np.errstate(all="raise"),
        ],
        [
            lambda: torch.set_default_dtype(torch.float64),
            lambda: torch.device("meta"),
            lambda: torch.inference_mode(),
        ],
    ],
)
def test_a_run_does_not_depend_on_what_its_process_has_set(
    tmp_path: Path, usual: Path, settings: list[Callable[[], Any]]
) -> None:
    with _kept(), contextlib.ExitStack() as stack:
        for setting in settings:
            if isinstance(entered := setting(), contextlib.AbstractContextManager):
                stack.enter_context(entered)
        before = _set()
        train(tiny(tmp_path / "run", updates=2), display=Watcher())
        policy = load_policy(str(tmp_path / "run"))
        assert _set() == before
        assert {(p.dtype, p.device.type) for p in policy.parameters()} == {(torch.float32, "cpu")}
    assert rows_without_time(usual) == rows_without_time(tmp_path / "run")
    assert_same(final_state(usual), final_state(tmp_path / "run"))
