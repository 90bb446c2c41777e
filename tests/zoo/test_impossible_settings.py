"""Settings of the algorithms that are impossible are refused, by name and with the remedy."""

from __future__ import annotations

import dataclasses
import math
import re
from typing import Any

import pytest

import algorithms
from algorithms.ppo import PPO
from algorithms.reinforce import Reinforce
from algorithms.rloo import RLOO

SINGLE = {"reinforce", "ppo", "w_reinforce", "exact"}  # that take one sample, or none

# Fields that several algorithms have: a value, and what is said of it.
SHARED: list[tuple[str, Any, str]] = [
    *(("group_size", size, f"group_size is {size}") for size in (0, -3)),
    *(("update_epochs", epochs, f"update_epochs is {epochs}") for epochs in (0, -1, 1.5)),
    *(("gamma", gamma, f"gamma is {gamma}") for gamma in (-0.1, 1.01, math.nan)),
    ("clip_range", 0.0, r"clip_range is 0\.0: .*set it in \(0, 1\]"),
    ("clip_range", 1.5, r"clip_range is 1\.5: .*set it in \(0, 1\]"),
    ("clip_range_high", 0.0, r"clip_range_high is 0\.0: set it above 0"),
    ("clip_range_high", math.nan, "clip_range_high is nan: set it above 0"),
    *(("dual_clip", bound, f"dual_clip is {bound}: .*finite number above 1, or to None")
      for bound in (1.0, 0.2, -3.0, math.inf, math.nan)),
    ("advantage_scale", "grup", "advantage_scale is 'grup'"),
    ("credit", "outcomes", "credit is 'outcomes'.*did you mean 'outcome'"),
    ("credit", "returns_to_go", "credit is 'returns_to_go'.*did you mean 'return_to_go'"),
]  # fmt: skip

OWN: list[tuple[str, dict[str, Any], str]] = [
    ("grpo", {"advantage_scale": "grup"}, "did you mean 'group'"),
    ("grpo", {"reduction": "samples_mean"}, "reduction is 'samples_mean'.*mean 'sample_mean'"),
    ("grpo", {"top_entropy_fraction": 0.0}, r"top_entropy_fraction is 0\.0: .*\(0, 1\]"),
    ("grpo", {"top_entropy_fraction": -0.1}, r"top_entropy_fraction is -0\.1: .*\(0, 1\]"),
    ("grpo", {"top_entropy_fraction": 1.5}, r"top_entropy_fraction is 1\.5: .*\(0, 1\]"),
    ("grpo", {"top_entropy_fraction": math.nan}, r"top_entropy_fraction is nan: .*\(0, 1\]"),
    ("rloo", {"update_epochs": 4}, "update_epochs is 4.*strictly on-policy.*grpo or cispo"),
    ("reinforce", {"baseline": "groups"}, "baseline is 'groups'.*did you mean 'group'"),
    ("reinforce", {"group_size": 1, "baseline": "group"}, "group_size is 1.*>= 2"),
    ("ppo", {"gae_lambda": -0.5}, r"gae_lambda is -0\.5"),
    ("ppo", {"vf_coef": -1.0}, r"vf_coef is -1\.0"),
    ("ppo", {"clip_range_vf": 0.0}, r"clip_range_vf is 0\.0"),
    ("ppo", {"target_kl": 0.0}, r"target_kl is 0\.0"),
    ("clip_cov", {"clip_fraction": 0.0}, r"clip_fraction is 0\.0"),
    ("clip_cov", {"clip_fraction": 1.1}, r"clip_fraction is 1\.1"),
    ("clip_cov", {"cov_low": -1.0}, r"cov_low is -1\.0"),
    ("clip_cov", {"cov_low": 6.0}, r"cov_low is 6\.0 and cov_high 5\.0"),
    ("delightful_pg", {"eta": 0.0}, r"eta is 0\.0"),
    ("delightful_pg", {"eta": -1.0}, r"eta is -1\.0"),
    ("delightful_pg", {"lam": math.nan}, "lam is nan"),
    ("exact", {"advantage_scale": "batch"}, "batch"),
    ("aepo", {"tempered_share": 1.5}, "tempered_share is 1.5"),
    ("aepo", {"ent_target": -1.0}, "ent_target is -1.0"),
    ("aepo", {"temperature_low": 0.0}, "temperature_low is 0.0"),
    ("aepo", {"temperature_low": 1.3}, "temperature_low is 1.3 and temperature_high 1.2: the low"),
    ("bapo", {"clip_range_min": 0.5}, r"range_min 0\.5, .*set clip_range_min <= clip_range"),
    ("bapo", {"clip_range_high": 1.5}, r"high 1\.5 .*clip_range_high <= clip_range_high_max"),
    ("bapo", {"clip_range_min": 0.0}, r"clip_range_min is 0\.0"),
    ("bapo", {"clip_range_high_max": math.inf}, "clip_range_high_max is inf"),
    ("bapo", {"clip_step": 0.0}, r"clip_step is 0\.0"),
    ("bapo", {"clip_step": 1e-5}, r"clip_step is 1e-05 and .*set clip_step to at least 0\.001"),
    ("bapo", {"balance": -1.0}, r"balance is -1\.0"),
    ("bapo", {"balance": math.nan}, "balance is nan"),
    ("ce_gppo", {"beta_low": -0.1}, r"beta_low is -0\.1: set it to a finite number >= 0"),
    ("ce_gppo", {"beta_high": math.inf}, "beta_high is inf: set it to a finite number >= 0"),
    ("dppo", {"divergence": "kld"}, "divergence is 'kld'.*did you mean 'kl'"),
    ("dppo", {"divergence_low": 0.0}, r"divergence_low is 0\.0: set it above 0"),
    ("dppo", {"divergence_high": -0.1}, r"divergence_high is -0\.1: set it above 0"),
    ("dppo", {"ratio_cap": 0.0}, r"ratio_cap is 0\.0: set it above 0"),
    ("erc", {"entropy_ratio_low": 1.0}, r"entropy_ratio_low is 1\.0: .*set it in \[0, 1\)"),
    ("erc", {"entropy_ratio_low": -0.1}, r"entropy_ratio_low is -0\.1"),
    ("erc", {"entropy_ratio_low": math.nan}, "entropy_ratio_low is nan"),
    ("erc", {"entropy_ratio_high": 1.0}, r"entropy_ratio_high is 1\.0: .*set it above 1"),
    ("erc", {"entropy_ratio_high": math.nan}, "entropy_ratio_high is nan"),
    ("flowrl", {"beta": 0.0}, "beta is 0.0: it must be above 0"),
    ("flowrl", {"weight_max": 0.0}, "weight_max is 0.0: set it above 0"),
    ("kondo", {"rate": 0.0}, r"rate is 0\.0: .*set it in \(0, 1\]"),
    ("kondo", {"rate": 1.1}, r"rate is 1\.1"),
    ("kondo", {"rate": math.nan}, "rate is nan"),
    ("kondo", {"eta": 0.0}, r"eta is 0\.0"),
    ("kondo", {"eta": math.inf}, "eta is inf"),
    ("kondo", {"mode": "best"}, "mode is 'best': expected one of 'sampled', 'top'"),
    ("lp_reg", {"min_p": 0.0}, r"min_p is 0\.0: it is a share; set it in \(0, 1\]"),
    ("lp_reg", {"lp_fraction": 1.5}, r"lp_fraction is 1\.5: it is a share"),
    ("lp_reg", {"lp_coef": -1.0}, r"lp_coef is -1\.0: set it to a finite number >= 0"),
    ("pass_at_k", {"k": 0}, "k is 0: it must be a whole number above 0; set k >= 1"),
    ("pass_at_k", {"group_size": 4, "k": 5}, "k is 5 and group_size 4: .*; set k below group_size"),
    ("pass_at_k", {"group_size": 4, "k": 4}, "k is 4 and group_size 4: .*; set k below group_size"),
    ("sapo", {"tau_positive": 0.0}, r"tau_positive is 0\.0: .*set it to a positive number"),
    ("sapo", {"tau_negative": -1.0}, r"tau_negative is -1\.0: .*set it to a positive number"),
    ("sapo", {"tau_negative": math.inf}, "tau_negative is inf: .*set it to a positive number"),
    ("steer", {"weight_min": 1.3}, r"min is 1\.3 and weight_max 1\.2: .*weight_min <= weight_max"),
    ("steer", {"weight_min": -0.1}, r"weight_min is -0\.1"),
    ("steer", {"weight_min": math.nan}, "weight_min is nan"),
    ("steer", {"weight_max": math.inf}, "weight_max inf"),
    ("steer", {"weight_min": 0.0, "weight_max": 0.0}, "weight_max above 0"),
    ("w_reinforce", {"positive_weight": -0.1}, r"weight is -0\.1: set it to a finite number >= 0"),
]


def shared() -> list[Any]:
    """A case for each algorithm and each shared field that it has."""
    return [
        pytest.param(cls, field, value, message, id=f"{name}-{field}-{value}")
        for name, cls in algorithms.ALGORITHMS.items()
        for field, value, message in SHARED
        if field in {each.name for each in dataclasses.fields(cls)}
    ]


@pytest.mark.parametrize(("cls", "field", "value", "message"), shared())
def test_an_impossible_value_of_a_shared_setting_is_refused_by_name(
    cls: Any, field: str, value: Any, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        cls(**{field: value})


@pytest.mark.parametrize(("name", "settings", "message"), OWN)
def test_impossible_settings_are_refused_by_name(
    name: str, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        algorithms.ALGORITHMS[name](**settings)


@pytest.mark.parametrize("name", [name for name in algorithms.ALGORITHMS if name not in SINGLE])
def test_a_group_without_a_baseline_is_refused(name: str) -> None:
    message = "group_size is 1: a baseline within the group needs 2 samples; set group_size >= 2"
    with pytest.raises(ValueError, match=re.escape(message)):
        algorithms.ALGORITHMS[name](group_size=1)  # type: ignore[call-arg]


def test_reinforce_and_ppo_take_single_samples() -> None:
    assert Reinforce(group_size=1).group_size == PPO(group_size=1).group_size == 1


def test_rloo_asks_for_a_single_step() -> None:
    assert RLOO().needs().single_step
