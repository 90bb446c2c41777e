"""FlowRL against its formula, with log Z found by search, and against the distribution that it must end at."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from algorithms.core.algorithm import Needs, PolicyLoss
from algorithms.core.batch import RolloutBatch
from algorithms.core.distribution import MaskedCategorical
from algorithms.flowrl import FlowRL, flow_balance
from algorithms.testing import check_algorithm
from algorithms.testing.cases import random_case
from chess_env.testing import ContractError
from tests.zoo.by_hand import Array, Mask, by_group, log_softmax, loss_of, rollout, samples
from tests.zoo.plain import Plain


def anchored(batch: RolloutBatch, reference: Array) -> RolloutBatch:
    """The rollout with a reference policy of these logits `[N, L]`."""
    logprobs = torch.from_numpy(log_softmax(reference))[:, None]
    return dataclasses.replace(batch, ref_legal_logprobs=logprobs)


def centred(rewards: list[float]) -> list[float]:
    """Less the mean, over the unbiased standard deviation + 1e-4."""
    if len(rewards) < 2:
        return [0.0] * len(rewards)
    departures = np.array(rewards) - np.mean(rewards)
    return list(departures / (np.sqrt((departures**2).sum() / (len(rewards) - 1)) + 1e-4))


def definition(
    logits: Array, old: Array, reference: Array, slots: Array, advantages: Array, valid: Mask,
    beta: float, weight_max: float,
) -> tuple[float, Array]:  # fmt: skip
    """Mean over the valid samples of w (log Z + log pi - beta A - log pi_ref)^2, and its gradient at fixed w."""
    logprobs, behaviour, ref = map(log_softmax, (logits, old, reference))
    loss, gradient = 0.0, np.zeros_like(logits)
    for state in range(len(logits)):
        kept = [(int(slots[state, k]), advantages[state, k]) for k in np.flatnonzero(valid[state])]
        if not kept:
            continue
        weights = [
            min(np.exp(logprobs[state, a] - behaviour[state, a]), weight_max) for a, _ in kept
        ]
        gaps = [logprobs[state, a] - beta * A - ref[state, a] for a, A in kept]
        # The lowest parabola: of w (z + g)^2 the second difference is 2 w and the slope at 0 is 2 w g.
        slope = sum(2 * w * g for w, g in zip(weights, gaps, strict=True))
        log_z = -slope / sum(2 * w for w in weights)
        for (move, _), weight, gap in zip(kept, weights, gaps, strict=True):
            loss += weight * (log_z + gap) ** 2
            score = -np.exp(logprobs[state])
            score[move] += 1.0
            gradient[state] += 2 * weight * (log_z + gap) * score
    return float(loss / valid.sum()), gradient / valid.sum()


def test_two_moves_by_hand() -> None:
    """pi = pi_old = pi_ref, beta 2, A = 1, -1: gaps -2 and 2, log Z 0, losses 4, d loss / d logprob -4 and 4."""
    logprobs = torch.tensor([[0.5, 0.5]], dtype=torch.float64).log().requires_grad_()
    fixed, valid = logprobs.detach(), torch.ones(1, 2, dtype=torch.bool)
    advantages = torch.tensor([[1.0, -1.0]], dtype=torch.float64)
    loss = flow_balance(logprobs, fixed, fixed, advantages, valid, beta=2.0, weight_max=10.0)
    assert loss.tolist() == [[4.0, 4.0]]
    (gradient,) = torch.autograd.grad(loss.sum(), logprobs)
    assert gradient.tolist() == [[-4.0, 4.0]]


@given(
    seed=st.integers(0, 2**31),
    beta=st.sampled_from([0.5, 15.0]),
    weight_max=st.sampled_from([1.1, 10.0]),
)
@settings(max_examples=40)
def test_loss_and_gradient_are_those_of_the_definition(
    seed: int, beta: float, weight_max: float
) -> None:
    case = samples(seed, 6)
    reference = np.random.default_rng(seed + 1).normal(size=case.old.shape)
    rewards = case.rewards + np.random.default_rng(seed + 2).normal(size=case.rewards.shape)
    advantages = by_group(centred, rewards, case.valid, -1)
    loss, gradient = definition(
        case.logits, case.old, reference, case.slots, advantages, case.valid, beta, weight_max
    )
    batch = anchored(rollout(case.old, case.slots, rewards, case.valid), reference)
    algorithm = FlowRL(group_size=6, beta=beta, weight_max=weight_max)
    found_loss, found_gradient = loss_of(algorithm, batch, case.logits)
    assert found_loss == pytest.approx(loss, rel=1e-10, abs=1e-13)
    np.testing.assert_allclose(found_gradient, gradient, rtol=1e-10, atol=1e-12)


def test_the_loss_is_zero_and_flat_at_the_tilted_reference() -> None:
    """pi = pi_ref exp(beta A) / Z, with every move sampled once."""
    generator = np.random.default_rng(2)
    reference, rewards = generator.normal(size=(2, 3, 5))
    slots = np.tile(np.arange(5), (3, 1))
    algorithm = FlowRL(group_size=5, beta=2.0)
    batch = anchored(rollout(reference, slots, rewards), reference)
    optimum = reference + 2.0 * algorithm.advantages(batch)[:, 0].numpy()
    loss, gradient = loss_of(algorithm, batch, optimum)
    assert loss < 1e-25
    assert np.abs(gradient).max() < 1e-12


def test_samples_that_are_not_valid_are_never_looked_at() -> None:
    case = random_case(FlowRL(), seed=1, dtype=torch.float64)
    valid = case.flat.valid.clone()
    valid[0], valid[1, :3] = False, False
    advantages = case.advantages().masked_fill(~valid, torch.nan)
    old = case.flat.old_logprobs.masked_fill(~valid, torch.nan)
    flat = dataclasses.replace(case.flat, valid=valid, old_logprobs=old)
    logits = case.logits.clone().requires_grad_()
    dist = MaskedCategorical(logits, flat.legal, flat.temperature)
    loss = FlowRL().policy_loss(dist, flat, advantages, FlowRL().controls()).loss
    assert not loss[~valid].any() and bool(loss.isfinite().all())
    (gradient,) = torch.autograd.grad(loss.sum(), logits)
    assert bool(gradient.isfinite().all()) and not gradient[0].any()


@dataclasses.dataclass(frozen=True)
class Pulled(Plain):
    """With a pull of its own that does not depend on the advantages."""

    def policy_loss(self, dist: Any, batch: Any, advantages: Any, controls: Any) -> Any:
        loss = super().policy_loss(dist, batch, advantages, controls).loss
        return PolicyLoss(loss + 0.01 * dist.gather(batch.slots))


@dataclasses.dataclass(frozen=True)
class Anchored(Pulled):
    def needs(self) -> Needs:
        return Needs(reference=True)


def test_a_pull_without_advantages_is_only_for_who_asks_for_the_reference() -> None:
    with pytest.raises(ContractError, match=r"advantages of 0 must give no gradient.*unless needs"):
        check_algorithm(Pulled())
    check_algorithm(Anchored())


def test_the_form_games_is_refused_with_the_reason() -> None:
    batch = random_case(FlowRL(), "games").batch
    with pytest.raises(ValueError, match="in different ones: set rollout.form to positions"):
        FlowRL().advantages(batch)


def test_a_batch_without_reference_is_refused() -> None:
    case = random_case(FlowRL(), seed=1)
    flat = dataclasses.replace(case.flat, ref_legal_logprobs=None)
    with pytest.raises(ValueError, match="the batch has no reference distribution"):
        FlowRL().policy_loss(case.dist(case.logits), flat, case.advantages(), FlowRL().controls())
