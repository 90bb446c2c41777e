from __future__ import annotations

import dataclasses
import math

import pytest
import torch

from algorithms.core.batch import RolloutBatch, blank_batch
from algorithms.core.distribution import MaskedCategorical
from algorithms.core.metrics import batch_metrics
from tests.core.conftest import all_moves, make_batch


def with_fields(batch: RolloutBatch, **changed: torch.Tensor) -> RolloutBatch:
    """The batch with some fields replaced."""
    return dataclasses.replace(batch, **changed)  # type: ignore[arg-type]


def metrics_of(batch: RolloutBatch, **changed: torch.Tensor) -> dict[str, float]:
    """The metrics of the batch with some fields replaced and advantages of 0."""
    return batch_metrics(with_fields(batch, **changed), torch.zeros_like(batch.rewards))


def test_entropy_splits_by_phase_and_number_of_moves_average_to_the_whole() -> None:
    generator = torch.Generator().manual_seed(3)
    num_legal = torch.tensor([[1, 2, 10, 11], [25, 26, 40, 41], [60, 218, 5, 30]])
    phase = torch.tensor([[0, 0, 1, 1], [2, 2, 2, 0], [0, 1, 2, 1]], dtype=torch.int8)
    legal = torch.arange(218) < num_legal[..., None]
    dist = MaskedCategorical(torch.randn(3, 4, 218, generator=generator), legal, 1.0)
    slots = dist.sample(2, generator)
    batch = with_fields(
        blank_batch("positions", (3, 4), samples=2, num_legal=218),
        legal_ids=torch.arange(218).expand(3, 4, 218).masked_fill(~legal, -1).to(torch.int16),
        slots=slots,
        actions=slots,
        old_logprobs=dist.gather(slots),
        old_legal_logprobs=dist.logprobs,
        phase=phase,
    )
    metrics = batch_metrics(batch, batch.rewards)
    counts = {"2_10": 3, "11_25": 2, "26_40": 3, "41_plus": 3}
    total = sum(metrics[f"policy/entropy_legal_{name}"] * n for name, n in counts.items())
    assert total / 11 == pytest.approx(metrics["policy/entropy"])
    phases = {"opening": 3, "middlegame": 4, "endgame": 4}  # the forced state is an opening
    total = sum(metrics[f"policy/entropy_{name}"] * n for name, n in phases.items())
    assert total / 11 == pytest.approx(metrics["policy/entropy"])
    assert metrics["rollout/reward_zero_std_fraction"] == 1.0


def test_equal_rewards_of_all_moves_are_a_group_without_spread() -> None:
    exact = all_moves(make_batch("positions"), torch.full((3, 2, 6), 0.1))
    metrics = batch_metrics(exact, torch.zeros_like(exact.rewards))
    assert metrics["rollout/reward_zero_std_fraction"] == 1.0
    assert metrics["rollout/regret_reward"] == pytest.approx(0.0, abs=1e-12)


def test_kl_to_the_reference_is_the_exact_sum_and_ignores_padding() -> None:
    batch = make_batch("games", spread=2.0)
    legal = batch.legal_ids >= 0
    other = MaskedCategorical(
        torch.randn(legal.shape, generator=torch.Generator().manual_seed(5)), legal, 1.0
    )
    metrics = batch_metrics(batch.with_reference(other.logprobs), torch.zeros_like(batch.rewards))
    flat = batch.old_legal_logprobs.reshape(-1, 6)
    expected = [
        torch.distributions.kl_divergence(
            torch.distributions.Categorical(logits=mine[mask].double()),
            torch.distributions.Categorical(logits=theirs[mask].double()),
        ).item()
        for mine, theirs, mask in zip(
            flat, other.logprobs.reshape(-1, 6), legal.reshape(-1, 6), strict=True
        )
    ]
    assert metrics["policy/kl_ref"] == pytest.approx(sum(expected) / len(expected))


@pytest.mark.parametrize("form", ["positions", "games"])
def test_junk_in_invalid_samples_changes_no_metric(form: str) -> None:
    batch = make_batch(form)
    valid = torch.rand(batch.valid.shape, generator=torch.Generator().manual_seed(6)) < 0.6
    states = batch.obs.shape[:-3]
    batch = dataclasses.replace(
        batch,
        valid=valid,
        before_cp=torch.zeros(states, dtype=torch.int32),
        score_cp=torch.ones(batch.rewards.shape, dtype=torch.int32),
    )
    junk = dataclasses.replace(
        batch,
        rewards=batch.rewards.masked_fill(~valid, math.nan),
        actions=batch.actions.masked_fill(~valid, -7),
        old_logprobs=batch.old_logprobs.masked_fill(~valid, math.nan),
        terminated=batch.terminated | ~valid,
        score_cp=torch.where(valid, 1, 9_999).to(torch.int32),
    )
    clean = batch_metrics(batch, batch.rewards)
    assert batch_metrics(junk, junk.rewards) == clean


def test_a_batch_of_forced_moves_has_no_entropy_rather_than_zero() -> None:
    batch = make_batch("positions")
    forced = torch.full((3, 2, 6), -1, dtype=torch.int16)
    forced[..., 0] = 4
    logprobs = torch.full((3, 2, 6), -math.inf)
    logprobs[..., 0] = 0.0
    metrics = metrics_of(
        batch,
        legal_ids=forced,
        old_legal_logprobs=logprobs,
        slots=torch.zeros_like(batch.slots),
        actions=torch.full_like(batch.actions, 4),
    )
    assert math.isnan(metrics["policy/entropy"])
    assert math.isnan(metrics["policy/entropy_normalized"])
    assert metrics["rollout/forced_fraction"] == 1.0
    assert "policy/effective_moves" not in metrics
    assert "policy/entropy_bound" not in metrics
    assert "policy/action_agreement" not in metrics
