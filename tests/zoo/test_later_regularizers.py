"""MARA's reward fits the regulariser's hooks: the loop takes it as it is.

A run builds its regulariser from its configuration, so here a test puts another class in the place
where `Session` looks it up: what an edit of `algorithms/regularization` would do.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from algorithms.core.batch import RolloutBatch
from algorithms.grpo import GRPO
from algorithms.regularization import Regularizer
from algorithms.reports.run_files import read_metrics
from algorithms.training import session as session_module
from algorithms.training.trainer import train
from tests.training.runs import Watcher, tiny

Shape = Callable[[RolloutBatch], Tensor]


OTHERS = {
    *("needs_learner", "shape_advantage", "shape_by_learner", "loss", "penalties", "terms"),
    *("update", "metrics", "state_dict", "load_state_dict"),
}
"""All that a regulariser is asked for besides what `Extended` says itself."""


class Extended:
    """The regulariser with one hook of a user's own; no subclass, only the same methods."""

    def __init__(self, *parts: Any, shape: Shape) -> None:
        self._inner, self._shape = Regularizer(*parts), shape

    def __getattr__(self, name: str) -> Any:
        if name not in OTHERS:
            raise AttributeError(name)
        return getattr(self._inner, name)

    @property
    def needs_reference(self) -> bool:
        return True

    def shape_reward(self, batch: RolloutBatch) -> Tensor:
        shaped = self._inner.shape_reward(batch)
        return self._shape(dataclasses.replace(batch, rewards=shaped))


def mara(batch: RolloutBatch, *, tau: float, beta: float) -> Tensor:
    """r(z) + beta (log ref(z) - log ref(y)) where r(y) >= tau; z: the likeliest such sample."""
    assert batch.ref_legal_logprobs is not None
    ref = batch.ref_legal_logprobs.gather(-1, batch.slots)
    good = batch.valid & (batch.rewards >= tau)
    z = ref.masked_fill(~good, -torch.inf).argmax(-1, keepdim=True)
    flat = batch.rewards.gather(-1, z) + beta * (ref.gather(-1, z) - ref)
    return torch.where(good, flat, batch.rewards)


def put_in_place(monkeypatch: pytest.MonkeyPatch, **hooks: Any) -> None:
    monkeypatch.setattr(session_module, "Regularizer", functools.partial(Extended, **hooks))


def test_a_run_shaped_by_mara_trains_and_logs_the_raw_rewards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[tuple[Tensor, Tensor]] = []

    def shape(batch: RolloutBatch) -> Tensor:
        given.append((batch.rewards, mara(batch, tau=-1.0, beta=0.1)))
        return given[-1][1]

    put_in_place(monkeypatch, shape=shape)
    train(tiny(tmp_path, updates=2, algorithm=GRPO(group_size=4)), display=Watcher())
    rows = read_metrics(tmp_path)[1:]
    assert len(rows) == len(given) == 2
    for row, (raw, shaped) in zip(rows, given, strict=True):
        assert not torch.equal(raw, shaped)
        assert row["rollout/reward_mean"] == pytest.approx(float(raw.mean()), rel=1e-5)
        assert "policy/kl_ref" in row  # the reference that the hook asked for was provided
