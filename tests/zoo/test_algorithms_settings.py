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
from algorithms.core.advantages import group_relative, return_to_go
from algorithms.core.algorithm import Controls
from algorithms.core.checks import require_between, require_choice
from algorithms.delightful_pg import DelightfulPG
from algorithms.grpo import GRPO
from algorithms.reinforce import Reinforce
from algorithms.rloo import RLOO
from algorithms.testing.cases import random_case

CREDIT_CLASSES = (GRPO, CISPO, RLOO, DelightfulPG, ClipCov, Reinforce)


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


def test_grpo_with_returns_to_go_looks_ahead_with_gamma() -> None:
    batch = random_case(GRPO(group_size=4), "games", seed=1).batch
    for gamma in (0.0, 0.5, 1.0):
        algorithm = GRPO(group_size=4, credit="return_to_go", gamma=gamma)
        expected = group_relative(return_to_go(batch, gamma), batch.valid, 1, "group")
        assert torch.equal(algorithm.advantages(batch), expected)
    step = GRPO(group_size=4).advantages(batch)
    assert torch.equal(GRPO(credit="return_to_go", gamma=0.0).advantages(batch), step)


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


def test_the_unit_of_the_advantages_is_that_of_their_scale() -> None:
    for name in algorithms.ALGORITHMS.keys() - {"exact", "aepo"}:
        make: Any = algorithms.ALGORITHMS[name]
        if "advantage_scale" in make.__dataclass_fields__:
            for scale in ("group", "batch", "none"):
                assert make(advantage_scale=scale).needs().group_scale == scale, name


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
