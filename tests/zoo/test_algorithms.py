from __future__ import annotations

import dataclasses
import subprocess
import sys

import pytest
import torch
from torch import Tensor

import algorithms
from algorithms.core.algorithm import Algorithm, Controls
from algorithms.core.batch import FlatBatch
from algorithms.core.distribution import MaskedCategorical
from algorithms.grpo import GRPO
from algorithms.regularization import Regularizer, RegularizerConfig

NAMES = sorted(algorithms.ALGORITHMS)


def flat_batch(logits: Tensor, legal: Tensor, slots: Tensor, temperature: float) -> FlatBatch:
    """States whose behaviour policy is the softmax of `logits` at `temperature`."""
    dist = MaskedCategorical(logits.detach(), legal, temperature)
    return FlatBatch(
        obs=torch.zeros(len(logits), 19, 8, 8, dtype=torch.uint8),
        legal_ids=torch.arange(logits.shape[1]).expand_as(logits).masked_fill(~legal, -1).short(),
        slots=slots,
        old_logprobs=dist.gather(slots),
        valid=torch.ones_like(slots, dtype=torch.bool),
        old_legal_logprobs=dist.logprobs,
        ref_legal_logprobs=None,
        temperature=temperature,
    )


@pytest.fixture(params=NAMES)
def algorithm(request: pytest.FixtureRequest) -> Algorithm:
    return algorithms.PRESETS[request.param][0]


def test_importing_the_package_loads_no_torch() -> None:
    code = "import sys, algorithms; assert 'torch' not in sys.modules, 'torch was imported'"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_every_algorithm_has_a_preset_and_is_found_by_its_own_name() -> None:
    assert set(algorithms.PRESETS) >= set(NAMES)
    for name in NAMES:
        assert algorithms.ALGORITHMS[name].name == name
        assert isinstance(algorithms.PRESETS[name][0], algorithms.ALGORITHMS[name])
    with pytest.raises(AttributeError, match="NO_SUCH_NAME"):
        algorithms.NO_SUCH_NAME  # noqa: B018


@pytest.mark.parametrize("temperature", [0.5, 1.3])
def test_the_first_step_raises_the_rewarded_move_s_probability(
    algorithm: Algorithm, temperature: float
) -> None:
    logits = torch.randn(1, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    logits.requires_grad_()
    legal = torch.ones(1, 5, dtype=torch.bool)
    batch = flat_batch(logits, legal, torch.tensor([[0, 1, 2, 3]]), temperature)
    advantages = torch.tensor([[3.0, -1.0, -1.0, -1.0]], dtype=torch.float64)
    dist = MaskedCategorical(logits, legal, temperature)
    loss = algorithm.policy_loss(dist, batch, advantages, algorithm.controls())
    assert loss.shape == (1, 4)
    (gradient,) = torch.autograd.grad(loss.mean(), logits)
    after = MaskedCategorical(logits - 0.1 * gradient, legal, temperature)
    assert after.probs[0, 0] > dist.probs[0, 0]


def test_zero_advantages_give_no_gradient(algorithm: Algorithm) -> None:
    logits = torch.randn(2, 5, dtype=torch.float64).requires_grad_()
    legal = torch.ones(2, 5, dtype=torch.bool)
    batch = flat_batch(logits, legal, torch.tensor([[0, 1], [2, 2]]), 1.0)
    dist = MaskedCategorical(logits, legal, 1.0)
    zeros = torch.zeros(2, 2, dtype=torch.float64)
    loss = algorithm.policy_loss(dist, batch, zeros, algorithm.controls())
    (gradient,) = torch.autograd.grad(loss.sum(), logits)
    assert (gradient == 0).all()


def test_on_policy_the_expected_gradient_is_the_policy_gradient(algorithm: Algorithm) -> None:
    generator = torch.Generator().manual_seed(5)
    logits = torch.randn(1, 4, generator=generator, dtype=torch.float64, requires_grad=True)
    legal = torch.tensor([[True, True, True, False]])
    rewards = torch.randn(1, 3, generator=generator, dtype=torch.float64)
    dist = MaskedCategorical(logits, legal, 0.8)
    batch = flat_batch(logits, legal, torch.tensor([[0, 1, 2]]), 0.8)
    (exact,) = torch.autograd.grad((dist.probs[:, :3] * rewards).sum(), logits, retain_graph=True)
    loss = algorithm.policy_loss(dist, batch, rewards, algorithm.controls())
    weighted = (dist.probs[:, :3].detach() * loss).sum()
    (gradient,) = torch.autograd.grad(weighted, logits)
    torch.testing.assert_close(-gradient, exact)


def test_the_regulariser_adds_the_same_value_to_every_algorithm() -> None:
    logits = torch.randn(3, 5, generator=torch.Generator().manual_seed(1))
    legal = torch.ones(3, 5, dtype=torch.bool)
    regularizer = Regularizer(RegularizerConfig(ent_coef=0.1, kl_old_coef=0.2))
    values = []
    for name in NAMES:
        batch = flat_batch(logits, legal, torch.zeros(3, 2, dtype=torch.int64), 1.1)
        dist = MaskedCategorical(logits + 0.3, legal, batch.temperature)
        algorithms.PRESETS[name][0].policy_loss(
            dist, batch, torch.zeros(3, 2), algorithms.PRESETS[name][0].controls()
        )
        values.append(regularizer.loss(dist, batch.old_legal_logprobs, None)[0])
    for value in values:
        assert torch.equal(value, values[0])
        torch.testing.assert_close(value, -0.1 * dist.entropy())


def test_a_larger_upper_bound_in_controls_lets_a_larger_ratio_through() -> None:
    algorithm = GRPO(clip_range=0.2)
    logits = torch.zeros(1, 2, dtype=torch.float64)
    legal = torch.ones(1, 2, dtype=torch.bool)
    batch = flat_batch(logits, legal, torch.tensor([[0]]), 1.0)
    moved = torch.tensor([[0.6, 0.0]], dtype=torch.float64, requires_grad=True)  # ratio 1.29
    advantage = torch.ones(1, 1, dtype=torch.float64)

    def gradient(controls: Controls) -> Tensor:
        loss = algorithm.policy_loss(
            MaskedCategorical(moved, legal, 1.0), batch, advantage, controls
        )
        return torch.autograd.grad(loss.sum(), moved)[0]

    assert (gradient(algorithm.controls()) == 0).all()
    assert (gradient(Controls(clip_low=0.2, clip_high=0.4)) != 0).any()


@pytest.mark.parametrize("group_size", [1, 0, -3])
def test_grpo_refuses_a_group_without_a_baseline(group_size: int) -> None:
    with pytest.raises(ValueError, match=rf"group_size is {group_size}.*group_size >= 2"):
        GRPO(group_size=group_size)


def test_grpo_refuses_clip_bounds_that_make_no_range() -> None:
    with pytest.raises(ValueError, match=r"clip_low is 1\.5"):
        GRPO(clip_range=1.5)
    with pytest.raises(ValueError, match=r"clip_high is 0\.0"):
        GRPO(clip_range_high=0.0)
    with pytest.raises(ValueError, match="update_epochs is 0"):
        GRPO(update_epochs=0)


def test_controls_survive_a_checkpoint() -> None:
    controls = GRPO(clip_range=0.2, clip_range_high=0.28).controls()
    assert dataclasses.astuple(controls) == (0.2, 0.28)
    controls.clip_high = 0.5
    restored = GRPO().controls()
    restored.load_state_dict(controls.state_dict())
    assert restored == controls
