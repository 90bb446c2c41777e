"""Settings: what they do, and that impossible ones are refused with the remedy."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest
import torch

import algorithms
from algorithms.cispo import CISPO
from algorithms.clip_cov import ClipCov
from algorithms.core.advantages import group_relative, outcome, return_to_go
from algorithms.core.algorithm import Controls
from algorithms.core.checks import require_between, require_choice
from algorithms.delightful_pg import DelightfulPG
from algorithms.grpo import GRPO
from algorithms.reinforce import Reinforce
from algorithms.rloo import RLOO
from algorithms.testing.cases import noise_like, random_case
from tests.small import make_policy
from tests.updates.learners import learner_of
from tests.zoo.by_state import gate_of
from tests.zoo.case_loss import batch_loss

GROUP_CLASSES = (GRPO, CISPO, RLOO, DelightfulPG, ClipCov)
CREDIT_CLASSES = (*GROUP_CLASSES, Reinforce)


@pytest.mark.parametrize("cls", CREDIT_CLASSES)
@pytest.mark.parametrize("credit", ["outcome", "return_to_go"])
def test_credit_beyond_the_step_needs_whole_games(cls: Any, credit: str) -> None:
    algorithm = cls(credit=credit)
    with pytest.raises(ValueError, match=r"set credit to 'step', or rollout\.form to 'games'"):
        algorithm.advantages(random_case(algorithm).batch)
    assert algorithm.advantages(random_case(algorithm, "games").batch).any()


def test_the_checks_name_the_nearest_choice_and_the_range() -> None:
    require_choice("form", "games", ("positions", "games"))
    with pytest.raises(ValueError, match="form is 3: expected one of 'positions', 'games'"):
        require_choice("form", 3, ("positions", "games"))
    require_between("lam", -5.0, -math.inf, math.inf)
    with pytest.raises(ValueError, match="lam is inf"):
        require_between("lam", math.inf, -math.inf, math.inf)


def test_grpo_with_outcome_credit_compares_whole_games_of_one_start() -> None:
    algorithm = GRPO(group_size=4, credit="outcome", advantage_scale="group")
    batch = random_case(algorithm, "games", seed=1).batch
    expected = group_relative(outcome(batch), batch.valid, 1, "group")
    assert torch.equal(algorithm.advantages(batch), expected)


def test_grpo_with_returns_to_go_looks_ahead_with_gamma() -> None:
    batch = random_case(GRPO(group_size=4), "games", seed=1).batch
    for gamma in (0.0, 0.5, 1.0):
        algorithm = GRPO(group_size=4, credit="return_to_go", gamma=gamma)
        expected = group_relative(return_to_go(batch, gamma), batch.valid, 1, "group")
        assert torch.equal(algorithm.advantages(batch), expected)
    step = GRPO(group_size=4).advantages(batch)
    assert torch.equal(GRPO(credit="return_to_go", gamma=0.0).advantages(batch), step)


def test_grpo_s_reductions_weigh_the_games_differently() -> None:
    batch = random_case(GRPO(group_size=4), "games", seed=1).batch
    lengths = batch.valid.sum(-1, keepdim=True)
    assert len(lengths.unique()) > 1
    per_game = GRPO(reduction="game_mean").weights(batch)
    assert torch.allclose((per_game * lengths)[batch.valid], torch.tensor(1 / 12))
    assert len(GRPO(reduction="constant_length").weights(batch)[batch.valid].unique()) == 1


def test_what_the_algorithms_ask_the_loop_for() -> None:
    needs = {name: algorithm.needs() for name, (algorithm, _) in algorithms.PRESETS.items()}
    named = {
        field.name: {name for name, need in needs.items() if getattr(need, field.name)}
        for field in dataclasses.fields(needs["grpo"])
    }
    assert named == {
        "critic": {"ppo", "ppo_one_ply"},
        "all_moves": {"exact"},
        "live_groups": {"dapo", "adapo"},
        "single_step": {"rloo"},
        "whole_games": {"gspo"},
        "uniforms": {"clip_cov", "kondo"},
        "normalize_advantages": {"ppo", "ppo_one_ply"},
        "corrects_sampler": {"dppo"},
        "success_rewards": {"maxrl", "pass_at_k", "w_reinforce", "nsr", "aepo"},
        "tempered": {"aepo"},
        "group_scale": needs.keys()
        - {"exact", "reinforce", "ppo", "ppo_one_ply", "maxrl", "pass_at_k"}
        - {"w_reinforce", "nsr", "aepo"},
        "reference": {"flowrl"},
        "fits_rewards": {"flowrl"},
        "reward_units": needs.keys()
        - {"grpo", "dapo", "adapo", "ppo", "ppo_one_ply", "gspo", "flowrl"}
        - {"maxrl", "pass_at_k", "w_reinforce", "aepo"},
    }


def test_a_larger_upper_bound_in_controls_lets_a_larger_ratio_through() -> None:
    case = random_case(GRPO(), seed=0, dtype=torch.float64, temperature=1.0)
    top = case.flat.slots[:, :1]
    raised = 0.6 * torch.nn.functional.one_hot(top[:, 0], case.logits.shape[-1])
    advantages = (case.flat.slots == top).double()

    def used(controls: Controls) -> int:
        moved = (case.logits + raised).requires_grad_()
        (gradient,) = torch.autograd.grad(batch_loss(case, moved, controls, advantages), moved)
        return int(gradient.any(-1).sum())

    assert used(GRPO().controls()) < used(Controls(clip_low=0.2, clip_high=1.0))


def test_where_ppo_s_clip_cuts_the_gradient_cispo_s_does_not() -> None:
    grpo, cispo = GRPO(clip_range=0.2), CISPO(clip_range=0.2, clip_range_high=0.2)
    for algorithm, cut in ((grpo, True), (cispo, False)):
        case = random_case(algorithm, seed=0, dtype=torch.float64)
        moved = (case.logits + noise_like(case.logits)).requires_grad_()
        ratio = (case.dist(moved).gather(case.flat.slots) - case.flat.old_logprobs).exp()
        advantages = case.advantages()
        loss = algorithm.policy_loss(
            case.dist(moved), case.flat, advantages, algorithm.controls()
        ).loss
        outside = (ratio > 1.2) & (advantages > 0) & (case.flat.legal.sum(-1, keepdim=True) > 1)
        state = int(outside.any(-1).nonzero()[0])
        sample = int(outside[state].nonzero()[0])
        (gradient,) = torch.autograd.grad(loss[state, sample], moved)
        assert gradient.any() != cut


def test_what_clip_cov_leaves_out_gives_no_gradient_and_the_rest_is_grpo_s() -> None:
    algorithm = ClipCov(clip_fraction=0.3, cov_low=0.0, cov_high=100.0)
    case = random_case(algorithm, seed=2, dtype=torch.float64)
    logits = case.logits.clone().requires_grad_()
    dist, advantages = case.dist(logits), case.advantages()
    gate = gate_of(algorithm, dist, case.flat, advantages)
    loss = algorithm.policy_loss(dist, case.flat, advantages, algorithm.controls()).loss
    grpo = GRPO().policy_loss(dist, case.flat, advantages, algorithm.controls()).loss
    assert int((gate == 0).sum()) == round(0.3 * gate.numel())
    assert torch.equal(loss, gate * grpo)
    (gradient,) = torch.autograd.grad(loss[gate == 0].sum(), logits)
    assert not gradient.any()


def test_controls_survive_a_checkpoint() -> None:
    controls = GRPO(clip_range=0.2, clip_range_high=0.28).controls()
    assert dataclasses.astuple(controls) == (0.2, 0.28, math.inf)
    moved = dataclasses.replace(controls, clip_high=0.5)
    saved, restored = (learner_of(make_policy(), GRPO()) for _ in range(2))
    saved.controls = moved
    restored.load_state_dict(saved.state_dict())
    assert restored.controls == moved


def test_the_presets_differ_from_grpo_where_their_names_say() -> None:
    presets = {name: algorithm for name, (algorithm, _) in algorithms.PRESETS.items()}
    paper = GRPO(group_size=8, advantage_scale="group", reduction="game_mean")
    assert presets["grpo"] == paper
    assert presets["dapo"] == dataclasses.replace(
        paper, reduction="sample_mean", clip_range_high=0.28, live_groups=True
    )
    unscaled = dataclasses.replace(paper, advantage_scale="none")
    assert presets["dr_grpo"] == dataclasses.replace(unscaled, reduction="constant_length")
    by_sample = dataclasses.replace(unscaled, reduction="sample_mean")
    assert presets["repo"] == by_sample
    assert presets["kl_cov"].controls() == Controls()
    assert presets["kl_cov"] == dataclasses.replace(
        by_sample, clip_range=1.0, clip_range_high=math.inf
    )


def test_presets_whose_advantages_have_one_scale_share_their_bonus() -> None:
    presets = {name: regularizer for name, (_, regularizer) in algorithms.PRESETS.items()}
    for name in ("reinforce", "cispo", "rloo"):
        assert presets[name] == presets["dr_grpo"], name
    assert presets["ppo_one_ply"] == presets["grpo"]
    # One sample a position: the same scale, but so much noise that the bonus of `grpo` would drown it.
    assert presets["ppo"] == presets["dr_grpo"]
    assert presets["kl_cov"].kl_cov_coef == 1.0
    assert presets["repo"].repo_coef == presets["dr_grpo"].ent_coef
    for name in ("delightful_pg", "clip_cov", "kl_cov", "repo", "dapo", "exact"):
        assert presets[name].ent_coef == 0, name
