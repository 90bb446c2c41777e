"""Advantages of tomorrow against the enumeration of all groups, and of all subsets of a group."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
import torch
from torch import Tensor

from algorithms.core.algorithm import Algorithm
from algorithms.core.batch import blank_batch
from algorithms.core.distribution import MaskedCategorical
from tests.small import make_batch
from tests.zoo.later_algorithms import MaxAtK, MaxRL, PassAtK

LOGITS = torch.tensor([0.3, -0.9, 1.1, 0.0], dtype=torch.float64)
REWARDS = torch.tensor([0.4, 0.1, -0.2, 0.9], dtype=torch.float64)
SUCCESS = torch.tensor([1, 0, 0, 1])


def expected_gradient(algorithm: Algorithm) -> Tensor:
    """Minus the expected gradient of the loss at `LOGITS`, over all groups that can be drawn."""
    groups = torch.tensor(list(itertools.product(range(4), repeat=algorithm.group_size)))
    count = len(groups)
    logprobs = LOGITS.log_softmax(-1)
    batch = dataclasses.replace(
        blank_batch("positions", (count, 1), samples=algorithm.group_size, num_legal=4),
        slots=groups.unsqueeze(1),
        actions=groups.unsqueeze(1),
        old_logprobs=logprobs[groups].unsqueeze(1),
        old_legal_logprobs=logprobs.expand(count, 1, 4),
        rewards=REWARDS[groups].unsqueeze(1),
        score_cp=(SUCCESS[groups] * 300 - 200).unsqueeze(1).int(),
        before_cp=torch.full((count, 1), 100, dtype=torch.int32),
    )
    logits = LOGITS.clone().requires_grad_()
    flat = batch.flat()
    dist = MaskedCategorical(logits.expand(count, 4), flat.legal, 1.0)
    advantages = batch.flatten(algorithm.advantages(batch))
    loss = algorithm.policy_loss(dist, flat, advantages, algorithm.controls())
    chance = logprobs[groups].sum(-1).exp()
    (gradient,) = torch.autograd.grad((chance * loss.mean(-1)).sum(), logits)
    return -gradient


@pytest.mark.parametrize("group_size", [2, 3, 5])
@pytest.mark.parametrize("keep_failed", [False, True])
def test_maxrl_climbs_the_series_of_the_log_of_success(group_size: int, keep_failed: bool) -> None:
    logits = LOGITS.clone().requires_grad_()
    failure = 1 - (logits.softmax(-1) * SUCCESS).sum()
    # log p = -sum_k (1 - p)^k / k. Groups without a success, at 0 as released, cost one order.
    order = group_size if keep_failed else group_size - 1
    series = -torch.stack([failure**k / k for k in range(1, order + 1)]).sum()
    (wanted,) = torch.autograd.grad(series, logits)
    found = expected_gradient(MaxRL(group_size=group_size, keep_failed=keep_failed))
    torch.testing.assert_close(found, wanted, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("group_size", [2, 3, 5])
def test_max_at_k_climbs_the_expected_best_of_its_group(group_size: int) -> None:
    logits = LOGITS.clone().requires_grad_()
    groups = torch.tensor(list(itertools.product(range(4), repeat=group_size)))
    chance = logits.log_softmax(-1)[groups].sum(-1).exp()
    (wanted,) = torch.autograd.grad((chance * REWARDS[groups].amax(-1)).sum(), logits)
    found = expected_gradient(MaxAtK(group_size=group_size))
    torch.testing.assert_close(found * group_size, wanted, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_pass_at_k_s_advantages_are_those_of_all_subsets(k: int) -> None:
    batch = make_batch()
    patterns = list(itertools.product([0.0, 1.0], repeat=4))[:12]
    rewards = torch.tensor(patterns).reshape(4, 3, 4)
    valid = torch.ones_like(batch.valid)
    valid[0, 0, 0] = valid[3, 2, 1] = valid[2, 1, 2:] = False
    algorithm = PassAtK(k=k, threshold=0.5)
    found = algorithm.advantages(dataclasses.replace(batch, rewards=rewards, valid=valid))
    nonzero = 0
    for place in itertools.product(range(4), range(3)):
        members = [m for m in range(4) if valid[place][m]]
        subsets = list(itertools.combinations(members, k))
        best = {subset: max(float(rewards[place][m]) for m in subset) for subset in subsets}
        for m in range(4):
            mine = [value for subset, value in best.items() if m in subset]
            spread = float(np.std(list(best.values()))) if mine else 0.0
            wanted = (np.mean(mine) - np.mean(list(best.values()))) / spread if spread else 0.0
            nonzero += wanted != 0
            assert float(found[place][m]) == pytest.approx(wanted, abs=1e-6)
    assert nonzero > 0 or k == 4


def test_pass_at_k_refuses_more_samples_than_a_group_has() -> None:
    with pytest.raises(ValueError, match="k is 5 and group_size 4: .* set k <= group_size"):
        PassAtK(k=5)
