"""What holds of every surrogate: of samples that are not valid, a policy that has not moved, and moved bounds."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest
import torch

import algorithms
from algorithms.core.algorithm import Controls
from algorithms.core.losses import score_function
from algorithms.grpo import GRPO
from tests.zoo.by_formula import off_policy
from tests.zoo.by_state import gate_of

OTHERS = {"exact", "gspo"}  # score all moves, or whole games

CASES: list[Any] = [
    pytest.param(name, settings, id=f"{name} {settings}")
    for name, settings in [
        *((name, {}) for name in algorithms.ALGORITHMS),
        ("grpo", {"dual_clip": 2.0}),
        ("grpo", {"advantage_scale": "none", "top_entropy_fraction": 0.2}),
        ("dppo", {"divergence": "kl"}),
        ("sapo", {"tau_positive": 0.2, "tau_negative": 7.0}),
        ("kondo", {"mode": "top"}),
    ]
    if name not in OTHERS
]


@pytest.mark.parametrize(("name", "settings"), CASES)
def test_what_is_not_valid_does_not_matter_and_has_no_share(name: str, settings: Any) -> None:
    algorithm = algorithms.ALGORITHMS[name](**settings)
    batch = off_policy(algorithm)
    assert torch.equal(batch.losses(algorithm)[1], batch.with_junk().losses(algorithm)[1])
    dist, valid = batch.case.dist(batch.logits), batch.flat.valid
    gate = gate_of(algorithm, dist, batch.flat, batch.advantages)
    if gate is not None:
        unread = torch.where(valid, batch.advantages, math.nan)
        flat = batch.with_junk().flat
        assert torch.equal(gate_of(algorithm, dist, flat, unread)[valid], gate[valid])
        # That of SAPO is a share of each ratio's gradient, and the loop asks for none that is not valid.
        assert name == "sapo" or not gate[~valid].any()
        nothing = dataclasses.replace(flat, valid=torch.zeros_like(valid))
        assert name == "sapo" or not gate_of(algorithm, dist, nothing, unread).any()


@pytest.mark.parametrize(
    ("name", "settings"), [case for case in CASES if case.values[0] != "flowrl"]
)
def test_where_the_policy_has_not_moved_it_has_the_score_function_s_gradient(
    name: str, settings: Any
) -> None:
    algorithm = algorithms.ALGORITHMS[name](**settings)
    batch = off_policy(algorithm, moved=0.0)
    logits = batch.logits.clone().requires_grad_()
    dist = batch.case.dist(logits)
    gate = gate_of(algorithm, dist, batch.flat, batch.advantages)
    loss = score_function(dist.gather(batch.flat.slots), batch.advantages)
    loss = loss if gate is None else gate * loss
    (expected,) = torch.autograd.grad((batch.weights * loss).sum(), logits)
    torch.testing.assert_close(batch.losses(algorithm)[1], expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", ["grpo", "cispo", "aspo", "ce_gppo", "erc", "steer", "ppo"])
def test_a_controller_moves_each_bound(name: str) -> None:
    make: Any = algorithms.ALGORITHMS[name]
    batch = off_policy(make(), seed=11)  # some samples are beyond either bound
    for low, high in ((0.5, 0.2), (0.2, 1.0)):
        moved = batch.losses(make(), Controls(clip_low=low, clip_high=high))[1]
        assert torch.equal(moved, batch.losses(make(clip_range=low, clip_range_high=high))[1])
        assert not torch.equal(moved, batch.losses(make())[1])


@pytest.mark.parametrize("name", ["aepo", "maxrl", "pass_at_k", "w_reinforce"])
def test_of_given_advantages_the_loss_is_grpo_s_to_the_bit(name: str) -> None:
    algorithm, grpo = algorithms.ALGORITHMS[name](), GRPO(reduction="sample_mean")
    batch = off_policy(algorithm)
    assert torch.equal(algorithm.weights(batch.case.batch), grpo.weights(batch.case.batch))
    for one, other in zip(batch.losses(algorithm), batch.losses(grpo), strict=True):
        assert torch.equal(one, other)
