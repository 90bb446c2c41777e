"""What holds of every surrogate: of samples that are not valid, a policy that has not moved, and moved bounds."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest
import torch

import algorithms
from algorithms.aepo import AEPO
from algorithms.bapo import BAPO
from algorithms.ce_gppo import CEGPPO
from algorithms.cispo import CISPO
from algorithms.core.algorithm import Controls
from algorithms.core.losses import score_function
from algorithms.dppo import DPPO
from algorithms.erc import ERC
from algorithms.grpo import GRPO
from algorithms.kondo import Kondo
from algorithms.lp_reg import LpReg
from algorithms.maxrl import MaxRL
from algorithms.pass_at_k import PassAtK
from algorithms.ppo import PPO
from algorithms.reinforce import Reinforce
from algorithms.steer import STEER
from algorithms.testing.cases import forms_of
from algorithms.w_reinforce import WReinforce
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


CLIPPED = GRPO(reduction="sample_mean")
WIDER = GRPO(clip_range_high=0.3, reduction="sample_mean")
UNCLIPPED = GRPO(clip_range=1.0, clip_range_high=math.inf, reduction="sample_mean")
CAPPED = CISPO(clip_range=1.0, clip_range_high=3.0)


@pytest.mark.parametrize(
    ("algorithm", "plain"),
    [
        (AEPO(), CLIPPED),
        (MaxRL(), CLIPPED),
        (PassAtK(), CLIPPED),
        (WReinforce(), CLIPPED),
        (PPO(), CLIPPED),
        (ERC(entropy_ratio_low=0.0, entropy_ratio_high=math.inf), CLIPPED),
        (STEER(weight_min=1.0, weight_max=1.0), CLIPPED),
        (GRPO(dual_clip=1e12, reduction="sample_mean"), CLIPPED),
        (BAPO(clip_range=0.2, clip_range_high=0.3, balance=0.0), WIDER),
        (BAPO(clip_range=0.2, clip_range_high=0.3, clip_range_high_max=0.3, balance=9.0), WIDER),
        (CEGPPO(clip_range=1.0, clip_range_high=math.inf), UNCLIPPED),
        (LpReg(lp_fraction=0.0), GRPO(clip_range=1.0, clip_range_high=9.0, reduction="sample_mean")),
        (DPPO(divergence_low=1.0, ratio_cap=4.0), CAPPED),
        (DPPO(divergence="kl", divergence_low=math.inf, ratio_cap=4.0), CAPPED),
        (Kondo(mode="top", rate=1.0), Reinforce()),
    ],
)  # fmt: skip
def test_of_given_advantages_the_loss_is_another_s_to_the_bit(algorithm: Any, plain: Any) -> None:
    for form in forms_of(algorithm):
        batch = off_policy(algorithm, form, moved=3.0)
        assert torch.equal(algorithm.weights(batch.case.batch), plain.weights(batch.case.batch))
        for one, other in zip(batch.losses(algorithm), batch.losses(plain), strict=True):
            valid = batch.flat.valid if one.shape == batch.flat.valid.shape else slice(None)
            assert torch.equal(one[valid], other[valid])
