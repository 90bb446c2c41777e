from __future__ import annotations

import dataclasses
import math

import pytest
import torch

from algorithms.core.distribution import MaskedCategorical
from algorithms.core.metrics import (
    add_sums,
    batch_metrics,
    legal_entropy,
    ratio_metrics,
    ratio_sums,
    to_floats,
)
from tests.core.conftest import make_batch


def metrics_of(ratio: list[float], advantages: list[float], valid: list[bool]) -> dict[str, float]:
    logprobs = torch.tensor([ratio], dtype=torch.float64).log()
    weighed = torch.tensor([advantages]), torch.tensor([valid])
    sums = ratio_sums(logprobs, torch.zeros_like(logprobs), *weighed, 0.2, 0.2)
    return to_floats(ratio_metrics(sums))


def test_zero_gradient_samples_are_fewer_than_ratios_out_of_range() -> None:
    metrics = metrics_of([1.5, 1.5, 0.5, 0.5, 1.0, 9.0], [1, -1, 1, -1, 1, 1], [True] * 5 + [False])
    assert metrics["policy/clip_fraction_high"] == pytest.approx(1 / 5)
    assert metrics["policy/clip_fraction_low"] == pytest.approx(1 / 5)
    assert metrics["policy/ratio_out_of_range"] == pytest.approx(4 / 5)
    assert metrics["ratio/max"] == pytest.approx(1.5)


def test_ratio_statistics_equal_hand_computed_ones() -> None:
    metrics = metrics_of([0.5, 2.0], [1, 1], [True, True])
    assert metrics["policy/approx_kl"] == pytest.approx(
        ((0.5 - 1 - math.log(0.5)) + (2 - 1 - math.log(2))) / 2
    )
    assert metrics["ratio/std"] == pytest.approx(0.75)
    assert metrics["ratio/ess"] == pytest.approx(2.5**2 / (2 * 4.25))


def test_sums_of_two_minibatches_equal_those_of_both_together() -> None:
    generator = torch.Generator().manual_seed(0)
    logprobs, old, advantages = torch.randn(3, 10, 4, generator=generator)
    valid = torch.rand(10, 4, generator=generator) < 0.7

    def sums(rows: slice) -> dict[str, torch.Tensor]:
        return ratio_sums(logprobs[rows], old[rows], advantages[rows], valid[rows], 0.2, 0.3)

    parts = add_sums(add_sums({}, sums(slice(0, 3))), sums(slice(3, 10)))
    assert to_floats(ratio_metrics(parts)) == pytest.approx(
        to_floats(ratio_metrics(sums(slice(0, 10))))
    )


def test_legal_entropy_of_padded_logprobs_is_the_distribution_s_entropy() -> None:
    legal = torch.arange(7) < torch.tensor([[7], [3], [1]])
    dist = MaskedCategorical(
        torch.randn(3, 7, generator=torch.Generator().manual_seed(2)), legal, 2
    )
    torch.testing.assert_close(legal_entropy(dist.logprobs), dist.entropy())


def test_forced_positions_are_left_out_of_the_entropy() -> None:
    batch = make_batch("positions")
    legal_ids = batch.legal_ids.clone()
    legal_ids[0, :, 1:] = -1
    legal_logprobs = batch.old_legal_logprobs.clone()
    legal_logprobs[0] = torch.tensor([0.0] + [-math.inf] * 5)
    forced = dataclasses.replace(
        batch,
        legal_ids=legal_ids,
        old_legal_logprobs=legal_logprobs,
        slots=torch.where(torch.arange(3)[:, None, None] == 0, 0, batch.slots),
    )
    metrics = batch_metrics(forced, torch.zeros_like(batch.rewards))
    expected = legal_entropy(batch.old_legal_logprobs[1:]).mean().item()
    assert metrics["policy/entropy"] == pytest.approx(expected, rel=1e-5)
    assert metrics["rollout/forced_fraction"] == pytest.approx(1 / 3)
