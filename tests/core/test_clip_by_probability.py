"""Which samples the clip stops, by how probable their move was: counted by hand."""

from __future__ import annotations

import math

import pytest
import torch

from algorithms.core.metrics import (
    BINS,
    add_sums,
    clip_counts,
    clip_metrics,
    ratio_metrics,
    ratio_sums,
)

LOW, HIGH = 0.2, 0.28


def metrics_of(samples: list[tuple[float, float, float]]) -> dict[str, float]:
    """The metrics of samples (probability when sampled, ratio, advantage)."""
    old, ratio, advantages = torch.tensor(samples, dtype=torch.float64).unsqueeze(-1).unbind(1)
    every = torch.ones(advantages.shape, dtype=torch.bool)
    sums = ratio_sums(old.log() + ratio.log(), old.log(), advantages, every, LOW, HIGH)
    return clip_metrics(sums["clip"])


@pytest.mark.parametrize(
    ("probability", "name"),
    [
        (1e-6, "p_below_01"),
        (0.009999, "p_below_01"),
        (0.010001, "p_01_10"),
        (0.099999, "p_01_10"),
        (0.100001, "p_10_50"),
        (0.499999, "p_10_50"),
        (0.5, "p_50_90"),
        (0.899999, "p_50_90"),
        (0.900001, "p_above_90"),
        (1.0, "p_above_90"),
    ],
)
def test_a_sample_is_counted_in_the_bin_of_its_probability(probability: float, name: str) -> None:
    assert metrics_of([(probability, 1.3, 1.0)]) == {f"clip/up_{name}": 1.0}
    assert metrics_of([(probability, 0.7, -1.0)]) == {f"clip/down_{name}": 1.0}


def test_shares_are_of_the_samples_of_one_sign_in_the_bin() -> None:
    rare, likely = 0.005, 0.7
    metrics = metrics_of(
        [
            (rare, 1.29, 1.0),  # stopped
            (rare, 1.27, 1.0),
            (rare, 0.5, 1.0),  # below its range, but to rise: not stopped
            (rare, 2.0, 1.0),  # stopped
            (rare, 0.79, -1.0),  # stopped
            (rare, 2.0, -1.0),
            (likely, 0.81, -0.1),
            (likely, 1.4, 0.0),  # without an advantage in neither
        ]
    )
    assert metrics == {
        "clip/up_p_below_01": 0.5,
        "clip/down_p_below_01": 0.5,
        "clip/down_p_50_90": 0.0,
    }


def test_a_bin_without_a_sample_of_that_sign_is_absent() -> None:
    assert clip_metrics(torch.zeros(4, len(BINS))) == {}
    assert metrics_of([(0.3, 1.0, 1.0)]) == {"clip/up_p_10_50": 0.0}


def test_samples_that_do_not_count_change_nothing_whatever_they_hold() -> None:
    old = torch.tensor([[0.3, 0.3]]).log()
    some = torch.tensor([[True, False]])
    clean = clip_counts(old, torch.ones(1, 2), some, some, ~some)
    junk = torch.tensor([[0.0, math.nan]])
    dirty = clip_counts(old + junk, torch.ones(1, 2) + junk, some, some | True, ~some)
    assert torch.equal(clean, dirty)
    assert clip_metrics(clean) == {"clip/up_p_10_50": 1.0}


def test_counts_of_two_minibatches_add_up_and_are_kept_out_of_the_ratio_s_own_metrics() -> None:
    generator = torch.Generator().manual_seed(0)
    logprobs = torch.randn(10, 4, generator=generator)
    old = -torch.rand(10, 4, generator=generator) * 6
    advantages = torch.randn(10, 4, generator=generator)
    valid = torch.rand(10, 4, generator=generator) < 0.8

    def sums(rows: slice) -> dict[str, torch.Tensor]:
        new = old[rows] + 0.5 * logprobs[rows]
        return ratio_sums(new, old[rows], advantages[rows], valid[rows], LOW, HIGH)

    whole, parts = sums(slice(0, 10)), add_sums(sums(slice(0, 3)), sums(slice(3, 10)))
    assert torch.equal(whole["clip"], parts["clip"])
    up, above, down, below = whole["clip"].sum(-1).tolist()
    assert up == (valid & (advantages > 0)).sum() and down == (valid & (advantages < 0)).sum()
    assert above == whole["zero_gradient_high"] > 0
    assert below == whole["zero_gradient_low"] > 0
    assert not any(name.startswith("clip/") for name in ratio_metrics(whole))
