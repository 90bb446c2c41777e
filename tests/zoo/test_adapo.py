"""ADAPO: DAPO whose upper clip bound follows the entropy; the controller, the loss under it, and whole runs."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from algorithms import PRESETS
from algorithms.cispo import CISPO
from algorithms.config.compatibility import check_settings
from algorithms.config.run import OptimizerConfig, TrainConfig
from algorithms.core.algorithm import Algorithm, Controls
from algorithms.exact import Exact
from algorithms.grpo import GRPO
from algorithms.regularization import Measurements, Regularizer, RegularizerConfig
from algorithms.reports.run_files import read_metrics
from algorithms.run_folder import checkpoint
from algorithms.updates.training_batch import make_targets
from algorithms.updates.update import update
from tests.small import make_batch, make_policy
from tests.training.runs import rows_without_time, stopped_and_straight
from tests.updates.learners import learner_of

READING = Measurements(0.0, 0, 2.0, 0.5, 0.0, None)
DAPO = PRESETS["dapo"][0].controls()


def config(**changes: Any) -> RegularizerConfig:
    return RegularizerConfig(clip_controller="adapo", **changes)


def followed(
    regularizer: Regularizer, controls: Controls, entropies: list[float]
) -> list[Controls]:
    """The controls after each rollout with one of these entropies."""
    found = []
    for entropy in entropies:
        signals = regularizer.update(dataclasses.replace(READING, entropy=entropy), controls)
        controls = signals.controls
        found.append(controls)
    return found


def test_a_hand_computed_walk_of_the_bound() -> None:
    regularizer = Regularizer(config(ent_hold=2.0, clip_step=0.25, clip_high_max=0.4), 1.0)
    found = followed(regularizer, DAPO, [1.9, 2.0, 1.0, 1.0, 2.1, 3.0])
    expected = [0.35, 0.35, 0.4, 0.4, 0.32, 0.256]
    assert [controls.clip_high for controls in found] == pytest.approx(expected)
    assert regularizer.metrics()["reg/clip_high"] == found[-1].clip_high


@settings(max_examples=50)
@given(
    entropies=st.lists(st.floats(0, 5), min_size=1, max_size=40),
    hold=st.none() | st.floats(0, 5),
    start=st.floats(0.1, 1.0),
    step=st.floats(0.01, 2.0),
)
def test_any_walk_equals_a_replay_of_the_rule_and_moves_nothing_else(
    entropies: list[float], hold: float | None, start: float, step: float
) -> None:
    controls = Controls(clip_low=0.2, clip_high=start, target_kl=0.3)
    found = followed(Regularizer(config(ent_hold=hold, clip_step=step), 1.0), controls, entropies)
    held, bound = entropies[0] if hold is None else hold, start
    for entropy, moved in zip(entropies, found, strict=True):
        if entropy < held:
            bound = bound * (1 + step) if bound * (1 + step) < 1.0 else 1.0
        elif entropy > held:
            bound = bound / (1 + step) if bound / (1 + step) > 0.1 else 0.1
        assert moved == Controls(clip_low=0.2, clip_high=bound, target_kl=0.3)


def test_at_a_bound_it_is_saturated_and_says_so_once() -> None:
    for entropy, bound in ((1.0, "clip_high_max 0.3"), (3.0, "clip_high_min 0.26")):
        limits = {"clip_high_min": 0.26, "clip_high_max": 0.3}
        regularizer = Regularizer(config(ent_hold=2.0, **limits), 1.0)
        reading = dataclasses.replace(READING, entropy=entropy)
        signals = regularizer.update(reading, DAPO)
        assert bound in signals.warnings[0]
        assert regularizer.update(reading, signals.controls).warnings == ()
        assert regularizer.metrics()["reg/controller_saturated"] == 1


def test_without_the_controller_the_controls_are_handed_on_and_no_bound_is_logged() -> None:
    regularizer = Regularizer(RegularizerConfig(), 1.0)
    assert regularizer.update(READING, DAPO).controls is DAPO
    assert "reg/clip_high" not in regularizer.metrics()
    assert regularizer.state.ent_first is None


@pytest.mark.parametrize(
    ("algorithm", "value"),
    [(Exact(), "inf"), (CISPO(), r"4\.0"), (GRPO(clip_range=0.05), r"0\.05")],
)
def test_an_algorithm_without_a_bound_in_reach_is_refused_before_anything_runs(
    algorithm: Algorithm, value: str
) -> None:
    with pytest.raises(ValueError, match=rf"upper clip distance {value}: .*clip_range_high"):
        check_settings(TrainConfig(algorithm, config()))


def test_an_entropy_that_is_not_finite_is_refused() -> None:
    with pytest.raises(ValueError, match="entropy is nan"):
        Regularizer(config(), 1.0).update(dataclasses.replace(READING, entropy=math.nan), DAPO)


ADAPO = GRPO(group_size=4, clip_range=0.2, update_epochs=2)


def test_a_run_logs_the_bound_and_goes_on_where_it_was(tmp_path: Path) -> None:
    # Far steps, so that ratios pass the bound and a lost bound would show in the weights.
    far = OptimizerConfig(learning_rate=0.05, lr_final=None, minibatch_size=8)
    changes = {"updates": 3, "algorithm": ADAPO, "optimizer": far, "eval_interval_updates": 9}
    changes["regularizer"] = config(ent_hold=100.0)
    _, stopped, straight = stopped_and_straight(tmp_path, 1, **changes)
    state = checkpoint.load_newest(stopped / "checkpoints").state
    assert state["controls"]["clip_high"] == pytest.approx(0.2 * 1.1**3)
    rows = rows_without_time(straight)
    assert any(row.get("policy/clip_fraction_high", 0) > 0 for row in rows)
    logged = [row["reg/clip_high"] for row in read_metrics(straight)[1:]]
    assert logged == pytest.approx([0.2 * 1.1**k for k in range(1, 4)])


def test_the_loss_is_clipped_where_the_controller_put_the_bound() -> None:
    batch, learner = make_batch(), make_policy(seed=7)
    regularizer = Regularizer(config(ent_hold=3.0), batch.temperature)
    controls = followed(regularizer, ADAPO.controls(), [2.0] * 5 + [3.5])[-1]
    bound = 0.2 * 1.1**4
    assert controls.clip_high == pytest.approx(bound)
    targets = make_targets(ADAPO, regularizer, batch)
    metrics = update(learner_of(learner, ADAPO, regularizer, controls=controls), batch, targets)
    flat = batch.flat()
    logprobs = learner.outputs(flat.obs, flat.legal_ids, batch.temperature).dist.gather(flat.slots)
    ratio = (logprobs.detach() - flat.old_logprobs).exp()
    each = targets.advantages.reshape(12, 4)
    loss = metrics["train/policy_loss"]
    wanted = -torch.minimum(ratio * each, ratio.clamp(0.8, 1 + bound) * each).mean()
    assert loss == pytest.approx(float(wanted), rel=1e-4)
    configured = -torch.minimum(ratio * each, ratio.clamp(0.8, 1.2) * each).mean()
    assert loss != pytest.approx(float(configured), rel=1e-2)
