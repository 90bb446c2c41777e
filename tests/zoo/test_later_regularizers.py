"""ADAPO's clip and MARA's reward fit the regulariser's hooks: the loop takes them as it is.

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

from algorithms.config.run import OptimizerConfig
from algorithms.core.algorithm import Controls
from algorithms.core.batch import RolloutBatch
from algorithms.grpo import GRPO
from algorithms.regularization import Measurements, Regularizer, RegularizerConfig, Signals
from algorithms.reports.run_files import read_metrics
from algorithms.run_folder import checkpoint
from algorithms.training import session as session_module
from algorithms.training.trainer import train
from algorithms.updates.training_batch import make_targets
from algorithms.updates.update import update
from tests.small import make_batch, make_policy
from tests.training.runs import Watcher, rows_without_time, stopped_and_straight, tiny
from tests.updates.learners import learner_of

Move = Callable[[Measurements, Controls], Controls]
Shape = Callable[[RolloutBatch], Tensor]


OTHERS = {
    *("needs_learner", "shape_advantage", "loss", "penalties", "terms"),
    *("metrics", "state_dict", "load_state_dict"),
}
"""All that a regulariser is asked for besides what `Extended` says itself."""


class Extended:
    """The regulariser with one hook of a user's own; no subclass, only the same methods."""

    def __init__(self, *parts: Any, move: Move | None = None, shape: Shape | None = None) -> None:
        self._inner, self._move, self._shape = Regularizer(*parts), move, shape

    def __getattr__(self, name: str) -> Any:
        if name not in OTHERS:
            raise AttributeError(name)
        return getattr(self._inner, name)

    @property
    def needs_reference(self) -> bool:
        return self._shape is not None or self._inner.needs_reference

    def shape_reward(self, batch: RolloutBatch) -> Tensor:
        shaped = self._inner.shape_reward(batch)
        if self._shape is None:
            return shaped
        return self._shape(dataclasses.replace(batch, rewards=shaped))

    def update(self, reading: Measurements, controls: Controls) -> Signals:
        if self._move is not None:
            controls = self._move(reading, controls)
        return self._inner.update(reading, controls)


def adapo(reading: Measurements, controls: Controls, *, target: float) -> Controls:
    """The upper clip bound a tenth wider below the entropy target, a tenth narrower above it."""
    factor = 1.1 if reading.entropy < target else 1 / 1.1
    return dataclasses.replace(controls, clip_high=min(max(controls.clip_high * factor, 0.1), 1.0))


def mara(batch: RolloutBatch, *, tau: float, beta: float) -> Tensor:
    """r(z) + beta (log ref(z) - log ref(y)) where r(y) >= tau; z: the likeliest such sample."""
    assert batch.ref_legal_logprobs is not None
    ref = batch.ref_legal_logprobs.gather(-1, batch.slots)
    good = batch.valid & (batch.rewards >= tau)
    z = ref.masked_fill(~good, -torch.inf).argmax(-1, keepdim=True)
    flat = batch.rewards.gather(-1, z) + beta * (ref.gather(-1, z) - ref)
    return torch.where(good, flat, batch.rewards)


ADAPO = GRPO(group_size=4, clip_range=0.2, update_epochs=2)


def put_in_place(monkeypatch: pytest.MonkeyPatch, **hooks: Any) -> None:
    monkeypatch.setattr(session_module, "Regularizer", functools.partial(Extended, **hooks))


def clip_high(run_dir: Path) -> float:
    return checkpoint.load_newest(run_dir / "checkpoints").state["controls"]["clip_high"]


def test_adapo_s_controller_moves_the_clip_of_a_run_and_goes_on_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_in_place(monkeypatch, move=functools.partial(adapo, target=100.0))
    # Far steps, so that ratios pass the bound and a lost bound would show in the weights.
    far = OptimizerConfig(learning_rate=0.05, lr_final=None, minibatch_size=8)
    changes = {"updates": 4, "algorithm": ADAPO, "optimizer": far, "eval_interval_updates": 9}
    _, stopped, straight = stopped_and_straight(tmp_path, 1, **changes)
    assert clip_high(stopped) == pytest.approx(0.2 * 1.1**4)
    rows = rows_without_time(straight)
    assert any(row.get("policy/clip_fraction_high", 0) > 0 for row in rows)


def test_the_loss_is_clipped_where_adapo_s_controller_put_the_bound() -> None:
    batch, learner = make_batch(), make_policy(seed=7)
    extended: Any = Extended(
        RegularizerConfig(), batch.temperature, move=functools.partial(adapo, target=3.0)
    )
    controls, reading = ADAPO.controls(), Measurements(0.0, 0, 2.0, 0.5, 0.0, None)
    for _ in range(5):
        controls = extended.update(reading, controls).controls
    controls = extended.update(dataclasses.replace(reading, entropy=3.5), controls).controls
    bound = 0.2 * 1.1**4
    assert controls.clip_high == pytest.approx(bound)
    targets = make_targets(ADAPO, extended, batch)
    metrics = update(learner_of(learner, ADAPO, extended, controls=controls), batch, targets)
    flat = batch.flat()
    logprobs = learner.outputs(flat.obs, flat.legal_ids, batch.temperature).dist.gather(flat.slots)
    ratio = (logprobs.detach() - flat.old_logprobs).exp()
    each = targets.advantages.reshape(12, 4)
    loss = metrics["train/policy_loss"]
    wanted = -torch.minimum(ratio * each, ratio.clamp(0.8, 1 + bound) * each).mean()
    assert loss == pytest.approx(float(wanted), rel=1e-4)
    configured = -torch.minimum(ratio * each, ratio.clamp(0.8, 1.2) * each).mean()
    assert loss != pytest.approx(float(configured), rel=1e-2)


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
