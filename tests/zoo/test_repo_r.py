"""REPO-R: advantages scaled by the learner's own surprise, and the controller of its signed strength."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from algorithms.core.algorithm import Controls
from algorithms.grpo import GRPO
from algorithms.regularization import Measurements, Regularizer, RegularizerConfig
from algorithms.regularization.repo import repo_r, reshaped_r
from algorithms.reports.run_files import read_metrics
from algorithms.testing import check_regularizer_term
from algorithms.updates.training_batch import make_targets, make_training_batch
from algorithms.updates.update import loss_of
from tests.regularization.regularizer_cases import TEMPERATURE, policy, random_case
from tests.small import make_batch, make_policy
from tests.training.runs import stopped_and_straight
from tests.updates.learners import learner_of

READING = Measurements(0.0, 0, 2.0, 0.5, 0.0, None)
LOSS = GRPO(advantage_scale="none", reduction="sample_mean")


def regularizer(**changes: Any) -> Regularizer:
    return Regularizer(RegularizerConfig(**changes), TEMPERATURE)


def strengths(reg: Regularizer, entropies: list[float]) -> list[float]:
    """Zeta after each rollout with one of these entropies."""
    found = []
    for entropy in entropies:
        reg.update(dataclasses.replace(READING, entropy=entropy), Controls())
        found.append(reg.metrics()["reg/repo_r_coef"])
    return found


def test_a_hand_computed_case_of_both_signs() -> None:
    advantages = torch.tensor([[2.0, -2.0, 2.0, -2.0, 0.0]], dtype=torch.float64)
    logprobs = torch.tensor([[-1.0, -1.0, -4.0, -4.0, -4.0]], dtype=torch.float64)
    valid = torch.ones(1, 5, dtype=torch.bool)
    up = reshaped_r(advantages, logprobs, valid, 0.3)
    assert up[0].tolist() == pytest.approx([2.6, -1.4, 4.4, 0.0, 0.0])  # 1 - .3 * 4 < 0: clamped
    down = reshaped_r(advantages, logprobs, valid, -0.3)
    assert down[0].tolist() == pytest.approx([1.4, -2.6, 0.0, -4.4, 0.0])
    hidden = advantages.masked_fill(advantages > 0, torch.nan)
    masked = reshaped_r(hidden, logprobs, advantages <= 0, 0.3)
    assert masked[0].tolist() == pytest.approx([0.0, -1.4, 0.0, 0.0, 0.0])


@settings(max_examples=40)
@given(seed=st.integers(0, 10**6), zeta=st.floats(-2, 2))
def test_loss_and_gradient_are_those_of_the_formula(seed: int, zeta: float) -> None:
    logits, batch, advantages = random_case(seed)
    reg = regularizer(repo_r_coef=0.5)
    reg.state = reg.state.moved(repo_r_coef=zeta)
    dist = policy(logits, batch)
    shaped = reg.shape_by_learner(dist, batch, advantages)
    assert not shaped.requires_grad
    loss = LOSS.policy_loss(dist, batch, shaped, LOSS.controls()).loss
    loss = torch.where(batch.valid, loss, 0.0)
    (gradient,) = torch.autograd.grad(loss.sum(), logits)

    z, expected = logits.detach().numpy() / TEMPERATURE, np.zeros(logits.shape)
    for n, legal in enumerate(batch.legal.numpy()):
        exponents = np.where(legal, np.exp(z[n] - z[n][legal].max()), 0.0)
        probs = exponents / exponents.sum()
        for k in np.flatnonzero(batch.valid[n].numpy()):
            move, a = int(batch.slots[n, k]), float(advantages[n, k])
            surprise = -math.log(probs[move])
            grown = a * (1 + zeta * surprise) if a > 0 else a * (1 - zeta * surprise)
            kept = max(grown, 0.0) if a > 0 else min(grown, 0.0)
            ratio = probs[move] / math.exp(float(batch.old_logprobs[n, k]))
            clipped = min(max(ratio, 0.8), 1.2)
            assert float(loss[n, k].detach()) == pytest.approx(
                -min(ratio * kept, clipped * kept), abs=1e-10
            )
            if ratio * kept <= clipped * kept:  # not clipped
                expected[n] -= kept * ratio * (np.arange(6) == move) / TEMPERATURE
                expected[n] += kept * ratio * probs / TEMPERATURE
    np.testing.assert_allclose(gradient.numpy(), expected, rtol=1e-10, atol=1e-10)


def test_without_it_the_advantages_are_the_tensor_itself_and_nothing_is_logged() -> None:
    logits, batch, advantages = random_case(4)
    off = regularizer(repo_coef=0.1)
    assert off.shape_by_learner(policy(logits, batch), batch, advantages) is advantages
    assert "reg/repo_r_coef" not in off.metrics()
    on = regularizer(repo_r_coef=0.1)
    assert on.shape_advantage(advantages, batch) is advantages


@pytest.mark.parametrize("normalize", [False, True])
def test_each_step_reads_the_learner_as_it_is_then(normalize: bool) -> None:
    batch = make_batch()
    reg = Regularizer(RegularizerConfig(repo_r_coef=0.2), batch.temperature)
    algorithm: Any = LOSS
    if normalize:

        @dataclasses.dataclass(frozen=True)
        class Normalized(GRPO):
            def needs(self) -> Any:
                return dataclasses.replace(super().needs(), normalize_advantages=True)

        algorithm = Normalized(advantage_scale="none", reduction="sample_mean")
    targets = make_targets(algorithm, reg, batch)
    training = make_training_batch(algorithm, batch, targets, torch.Generator().manual_seed(0))
    flat, raw = training.flat, training.advantages.double()
    if normalize:
        raw = (raw - raw[flat.valid].mean()) / raw[flat.valid].std()
    for seed in (0, 5):  # the policy that sampled, and another one
        learner = learner_of(make_policy(seed), algorithm, reg, temperature=batch.temperature)
        found = loss_of(learner, training).advantages
        outputs = learner.policy.outputs(flat.obs, flat.legal_ids, batch.temperature)
        logprobs = outputs.dist.gather(flat.slots).detach().double()
        expected = raw * (1 - 0.2 * raw.sign() * logprobs).clamp(min=0)
        torch.testing.assert_close(found.double(), expected, rtol=1e-3, atol=1e-5)


def test_a_hand_computed_walk_of_zeta_with_a_turn_of_its_sign() -> None:
    reg = regularizer(repo_r_coef=1e-3, repo_r_controller="doubling", ent_hold=2.0)
    rise = strengths(reg, [1.0] * 7)
    assert rise == pytest.approx([2e-3, 4e-3, 8e-3, 1.6e-2, 3.2e-2, 0.05, 0.05])
    assert reg.metrics()["reg/controller_saturated"] == 1
    fall = strengths(reg, [3.0] * 11)
    halves = [0.05 / 2**k for k in range(1, 9)]
    assert fall == pytest.approx([*halves, -1e-4, -2e-4, -4e-4])
    assert strengths(reg, [2.0, 1.0, 1.0, 1.0]) == pytest.approx([-4e-4, -2e-4, -1e-4, 1e-4])


@settings(max_examples=50)
@given(
    entropies=st.lists(st.floats(0, 5), min_size=1, max_size=60),
    hold=st.none() | st.floats(0, 5),
    start=st.floats(1e-4, 0.05),
)
def test_any_walk_of_zeta_equals_a_replay_of_the_rule(
    entropies: list[float], hold: float | None, start: float
) -> None:
    reg = regularizer(repo_r_coef=start, repo_r_controller="doubling", ent_hold=hold)
    found = strengths(reg, entropies)
    held = entropies[0] if hold is None else hold
    size, sign = start, 1
    for entropy, zeta in zip(entropies, found, strict=True):
        needed = 0 if entropy == held else (1 if entropy < held else -1)
        if needed == sign:
            size = 0.05 if 2 * size > 0.05 else 2 * size
        elif needed and size / 2 < 1e-4:
            size, sign = 1e-4, needed
        elif needed:
            size = size / 2
        assert zeta == sign * size


def test_the_entropy_of_the_first_rollout_is_held_through_a_checkpoint() -> None:
    first = regularizer(repo_r_coef=1e-3, repo_r_controller="doubling")
    assert strengths(first, [3.0, 2.9]) == pytest.approx([1e-3, 2e-3])
    second = regularizer(repo_r_coef=1e-3, repo_r_controller="doubling")
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    assert strengths(second, [2.95, 3.05]) == strengths(first, [2.95, 3.05])


def test_recovery_relaxes_the_kl_coefficients_and_leaves_zeta_alone() -> None:
    given_: dict[str, Any] = {"ent_coef": 0.1, "ent_controller": "recovery", "ent_patience": 1}
    reg = regularizer(repo_r_coef=0.01, kl_ref_coef=0.2, **given_)
    reg.update(dataclasses.replace(READING, entropy=1.0), Controls())
    assert (reg.state.coefs["repo_r_coef"], reg.state.coefs["kl_ref_coef"]) == (0.01, 0.1)


def test_the_term_keeps_the_contract() -> None:
    check_regularizer_term(repo_r(RegularizerConfig(repo_r_coef=0.05)))


def test_a_run_logs_zeta_and_goes_on_where_it_was(tmp_path: Path) -> None:
    reg = RegularizerConfig(repo_r_coef=1e-3, repo_r_controller="doubling", ent_hold=100.0)
    changes: dict[str, Any] = {"algorithm": GRPO(group_size=4, update_epochs=2), "regularizer": reg}
    _, _, straight = stopped_and_straight(tmp_path, 1, updates=3, **changes)
    logged = [row["reg/repo_r_coef"] for row in read_metrics(straight)[1:]]
    assert logged == pytest.approx([2e-3, 4e-3, 8e-3])
