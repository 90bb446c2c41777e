from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from algorithms.core.advantages import STD_FLOOR, AdvantageScale, group_relative

SCALES: tuple[AdvantageScale, ...] = ("group", "batch", "none")


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


@pytest.mark.parametrize("scale", SCALES)
def test_equal_rewards_give_zero(scale: AdvantageScale) -> None:
    rewards = torch.full((3, 4), 0.25)
    valid = torch.ones(3, 4, dtype=torch.bool)
    assert (group_relative(rewards, valid, -1, scale) == 0).all()


@given(seed=st.integers(0, 10_000), scale=st.sampled_from(SCALES))
@settings(max_examples=60, deadline=None)
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
    with pytest.raises(ValueError, match=r"'std'.*'group', 'batch' or 'none'"):
        group_relative(rewards, rewards == 0, -1, "std")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"\(2, 3\).*\(3,\)"):
        group_relative(rewards, torch.ones(3, dtype=torch.bool), -1, "none")


@pytest.mark.parametrize("scale", ["none", "group", "batch"])
def test_equal_rewards_have_exactly_no_advantage_whatever_the_group_size(scale: str) -> None:
    generator = torch.Generator().manual_seed(0)
    for group_size in range(2, 17):
        rewards = torch.randn(200, 1, generator=generator).expand(200, group_size)
        advantages = group_relative(rewards, torch.ones_like(rewards, dtype=torch.bool), -1, scale)
        assert not advantages.any()


@pytest.mark.parametrize("scale", ["none", "group", "batch"])
def test_what_an_invalid_member_holds_is_never_looked_at(scale: str) -> None:
    valid = torch.tensor([[True, True, False, True]])
    clean = group_relative(torch.tensor([[1.0, 2.0, 0.0, 4.0]]), valid, -1, scale)
    dirty = group_relative(torch.tensor([[1.0, 2.0, torch.nan, 4.0]]), valid, -1, scale)
    assert torch.equal(clean, dirty)
