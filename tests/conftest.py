"""What tests of several rooms share.

`--device cuda`: the tests that take the `device` fixture run there; everything else stays on the CPU.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
import torch


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--device", default="cpu", choices=("cpu", "cuda"))


@pytest.fixture(scope="session")
def device(request: pytest.FixtureRequest) -> torch.device:
    name = request.config.getoption("--device")
    if name == "cuda" and not torch.cuda.is_available():
        pytest.exit("--device cuda: torch sees no CUDA device here", returncode=2)
    return torch.device(name)


@pytest.fixture
def replace_training(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[..., Any]], None]:
    """Makes `chess-lab train` call another function in place of the native loop."""
    from algorithms.integrations.loops import LOOPS

    def replace(train: Callable[..., Any]) -> None:
        monkeypatch.setitem(LOOPS, "native", dataclasses.replace(LOOPS["native"], train=train))

    return replace
