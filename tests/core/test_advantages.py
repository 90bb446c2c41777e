from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from algorithms.core.advantages import (
    SCALES,
    STD_FLOOR,
    AdvantageScale,
    Baseline,
    baselined,
    exact,
    gae,
    group_relative,
    leave_one_out,
    normalized,
)


def test_a_hand_computed_group() -> None:
    rewards = torch.tensor([[1.0, 2.0, 6.0]])
    valid = torch.ones(1, 3, dtype=torch.bool)
    assert group_relative(rewards, valid, -1, "none").tolist() == [[-2.0, -1.0, 3.0]]
    std = 7.0**0.5  # (4 + 1 + 9) / 2
    torch.testing.assert_close(
        group_relative(rewards, valid, -1, "group"),
        torch.tensor([[-2.0, -1.0, 3.0]]) / (std + STD_FLOOR),
    )
    rms = (14 / 3) ** 0.5
    torch.testing.assert_close(
        group_relative(rewards, valid, -1, "batch"),
        torch.tensor([[-2.0, -1.0, 3.0]]) / (rms + STD_FLOOR),
    )


def test_members_that_are_not_valid_neither_count_nor_get_an_advantage() -> None:
    rewards = torch.tensor([[1.0, 100.0, 3.0]])
    valid = torch.tensor([[True, False, True]])
    assert group_relative(rewards, valid, -1, "none").tolist() == [[-1.0, 0.0, 1.0]]


@pytest.mark.parametrize("scale", SCALES)
def test_a_group_with_one_valid_member_gets_zero(scale: AdvantageScale) -> None:
    rewards = torch.tensor([[5.0, 7.0], [1.0, 2.0]])
    valid = torch.tensor([[True, False], [True, True]])
    advantages = group_relative(rewards, valid, -1, scale)
    assert advantages[0].tolist() == [0.0, 0.0]
    assert advantages[1, 1] > 0 > advantages[1, 0]


@given(seed=st.integers(0, 10_000), scale=st.sampled_from(SCALES))
@settings(max_examples=40)
def test_shifting_a_group_changes_nothing_and_permuting_it_permutes(
    seed: int, scale: AdvantageScale
) -> None:
    generator = torch.Generator().manual_seed(seed)
    rewards = torch.randn(3, 4, 5, generator=generator, dtype=torch.float64)
    valid = torch.rand(3, 4, 5, generator=generator) < 0.8
    advantages = group_relative(rewards, valid, 1, scale)
    shift = torch.randn(3, 1, 5, generator=generator, dtype=torch.float64)
    torch.testing.assert_close(group_relative(rewards + shift, valid, 1, scale), advantages)
    order = torch.randperm(4, generator=generator)
    torch.testing.assert_close(
        group_relative(rewards[:, order], valid[:, order], 1, scale), advantages[:, order]
    )
    torch.testing.assert_close(
        advantages.sum(1), torch.zeros(3, 5, dtype=torch.float64), atol=1e-9, rtol=0
    )


def test_an_unknown_scale_and_differing_shapes_are_refused() -> None:
    rewards = torch.zeros(2, 3)
    with pytest.raises(ValueError, match=r"scale is 'groups'.*did you mean 'group'"):
        group_relative(rewards, rewards == 0, -1, "groups")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"\(2, 3\).*\(3,\)"):
        group_relative(rewards, torch.ones(3, dtype=torch.bool), -1, "none")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("scale", ["none", "group", "batch"])
def test_equal_rewards_have_exactly_no_advantage_whatever_the_group_size(
    scale: str, dtype: torch.dtype
) -> None:
    generator = torch.Generator().manual_seed(0)
    for group_size in range(2, 17):
        rewards = torch.randn(200, 1, generator=generator, dtype=dtype).expand(200, group_size)
        valid = torch.ones_like(rewards, dtype=torch.bool)
        assert not group_relative(rewards, valid, -1, scale).any()
        assert not leave_one_out(rewards, valid, -1).any()


@pytest.mark.parametrize("scale", ["none", "group", "batch"])
def test_what_an_invalid_member_holds_is_never_looked_at(scale: str) -> None:
    valid = torch.tensor([[True, True, False, True]])
    clean = group_relative(torch.tensor([[1.0, 2.0, 0.0, 4.0]]), valid, -1, scale)
    dirty = group_relative(torch.tensor([[1.0, 2.0, torch.nan, 4.0]]), valid, -1, scale)
    assert torch.equal(clean, dirty)


def test_leave_one_out_compares_each_reward_with_the_others_mean() -> None:
    rewards = torch.tensor([[1.0, 2.0, 6.0]])
    valid = torch.ones(1, 3, dtype=torch.bool)
    assert leave_one_out(rewards, valid, -1).tolist() == [[-3.0, -1.5, 4.5]]
    partly = leave_one_out(rewards, torch.tensor([[True, False, True]]), -1)
    assert partly.tolist() == [[-5.0, 0.0, 5.0]]
    alone = leave_one_out(rewards, torch.tensor([[True, False, False]]), -1)
    assert alone.tolist() == [[0.0, 0.0, 0.0]]


@pytest.mark.parametrize(
    ("baseline", "expected"),
    [
        ("none", [[1.0, 2.0, 0.0], [6.0, 3.0, 3.0]]),
        ("batch", [[-2.0, -1.0, 0.0], [3.0, 0.0, 0.0]]),
        ("group", [[-0.5, 0.5, 0.0], [2.0, -1.0, -1.0]]),
    ],
)
def test_the_three_baselines_by_hand(baseline: Baseline, expected: list[list[float]]) -> None:
    rewards = torch.tensor([[1.0, 2.0, torch.nan], [6.0, 3.0, 3.0]])
    valid = torch.tensor([[True, True, False], [True, True, True]])
    assert baselined(rewards, valid, -1, baseline).tolist() == expected


def test_an_unknown_baseline_is_refused_with_the_nearest_name() -> None:
    rewards = torch.zeros(2, 3)
    with pytest.raises(ValueError, match=r"baseline is 'groop'.*did you mean 'group'"):
        baselined(rewards, rewards == 0, -1, "groop")  # type: ignore[arg-type]


def test_generalised_advantages_by_hand() -> None:
    rewards = torch.tensor([[1.0, 2.0, 4.0]])
    values, next_values = torch.tensor([[0.5, 0.25, 1.0]]), torch.tensor([[0.25, 1.0, 8.0]])
    nothing = torch.zeros(1, 3, dtype=torch.bool)
    found = gae(rewards, values, next_values, nothing, ~nothing, -0.5, 0.5)
    # deltas: 1 - .125 - .5 = .375, 2 - .5 - .25 = 1.25, 4 - 4 - 1 = -1
    assert found.tolist() == [[0.375 - 0.25 * (1.25 + 0.25), 1.25 + 0.25, -1.0]]
    ended = torch.tensor([[False, True, False]])
    cut = gae(rewards, values, next_values, ended, ~nothing, -0.5, 0.5)
    assert cut.tolist() == [[0.375 - 0.25 * 1.25, 1.25, -1.0]]


def test_plies_that_are_not_alive_are_never_looked_at() -> None:
    alive = torch.tensor([[True, True, False, False]])
    ended = torch.tensor([[False, True, False, True]])
    rewards = torch.tensor([[1.0, 2.0, torch.nan, torch.nan]])
    values = torch.tensor([[0.5, 0.5, torch.nan, torch.nan]])
    found = gae(rewards, values, values.nan_to_num(), ended, alive, -0.9, 0.9)
    first = (each[:, :2] for each in (rewards, values, values, ended, alive))
    short = gae(*first, -0.9, 0.9)
    assert torch.equal(found, torch.cat([short, torch.zeros(1, 2)], dim=1))


def test_the_exact_advantage_is_the_reward_minus_its_expectation() -> None:
    rewards = torch.tensor([[1.0, 3.0, torch.nan], [2.0, 5.0, 7.0]])
    valid = torch.tensor([[True, True, False], [False, False, False]])
    logprobs = torch.tensor([[0.25, 0.75, 1.0], [1.0, 1.0, 1.0]]).log()
    found = exact(rewards, logprobs, valid)
    torch.testing.assert_close(found, torch.tensor([[-1.5, 0.5, 0.0], [0.0, 0.0, 0.0]]))
    mean = (found[0, :2] * torch.tensor([0.25, 0.75])).sum()
    assert float(mean) == pytest.approx(0.0, abs=1e-7)


def test_exact_advantages_refuse_a_state_whose_moves_were_not_all_scored() -> None:
    logprobs = torch.tensor([[0.25, 0.5, 0.25]]).log()
    missing = torch.tensor([[True, True, False]])
    with pytest.raises(ValueError, match=r"add up to 0\.750.*all legal moves"):
        exact(torch.zeros(1, 3), logprobs, missing)


def test_normalised_advantages_have_mean_0_and_unbiased_standard_deviation_1() -> None:
    generator = torch.Generator().manual_seed(0)
    advantages = 3 + 5 * torch.randn(40, 2, generator=generator, dtype=torch.float64)
    valid = torch.rand(40, 2, generator=generator) < 0.8
    found = normalized(advantages.masked_fill(~valid, torch.nan), valid)
    assert (found[~valid] == 0).all()
    kept = advantages[valid]  # as SB3 does it
    torch.testing.assert_close(found[valid], (kept - kept.mean()) / (kept.std() + 1e-8))


def test_one_sample_alone_is_not_normalised_and_equal_ones_become_zero() -> None:
    one = torch.tensor([[2.0, 9.0]])
    assert normalized(one, torch.tensor([[True, False]])).tolist() == [[2.0, 0.0]]
    assert not normalized(torch.full((5, 1), 0.3), torch.ones(5, 1, dtype=torch.bool)).any()
