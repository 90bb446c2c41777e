from __future__ import annotations

import math
from typing import Any

import pytest

from algorithms.regularization import Regularizer, RegularizerConfig
from algorithms.regularization.controllers import terms_of


@pytest.mark.parametrize(
    "name", ["ent_coef", "ent_coef_final", "kl_old_coef", "kl_ref_coef", "repo_coef", "kl_cov_coef"]
)
@pytest.mark.parametrize("value", [-0.1, math.nan, math.inf])
def test_coefficients_that_are_no_weights_are_refused_by_name(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=rf"{name} is {value}"):
        RegularizerConfig(**{name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "value", "nearest"),
    [
        ("ent_estimator", "sample", "sampled"),
        ("kl_old_estimator", "k4", "k"),
        ("kl_ref_estimator", "weighted-k3", "weighted_k3"),
        ("kl_ref_placement", "rewards", "reward"),
        ("ent_controller", "recover", "recovery"),
        ("kl_controller", "Ziegler", "ziegler"),
        ("clip_controller", "ADAPO", "adapo"),
    ],
)
def test_an_unknown_switch_is_refused_with_the_nearest_name(
    name: str, value: str, nearest: str
) -> None:
    with pytest.raises(ValueError, match=rf"{name} is '{value}'.*did you mean '{nearest}"):
        RegularizerConfig(**{name: value})  # type: ignore[arg-type]


ADAPTIVE: dict[str, Any] = {"kl_controller": "ziegler", "kl_ref_coef": 0.1}
TARGET: dict[str, Any] = {"ent_controller": "target", "ent_coef": 0.1}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"ent_controller": "xyz!"}, "'xyz!': expected one of 'none', 'target'"),
        ({"kl_ref_placement": "reward"}, 'kl_ref_estimator "exact"'),
        ({"kl_old_placement": "reward", "kl_old_estimator": "weighted_k3"}, "ratio of weighted_k3"),
        ({"kl_old_placement": "reward", "kl_old_estimator": "forward_k1"}, "set kl_old_estimator"),
        ({"kl_ref_estimator": "forward_k1"}, "one of 'exact', 'k1', 'k2', 'k3', 'weighted_k3'"),
        ({"repo_coef": 0.1, "repo_r_coef": 0.1}, "set one of them to 0"),
        ({"ref_refresh_interval": 5}, "no reference to refresh"),
        (TARGET | {"ent_coef_final": 0.0}, "both move ent_coef"),
        (TARGET | {"ent_coef": 0.0}, r"ent_coef is 0\.0.*multiplies it"),
        (TARGET | {"ent_coef": 2.0}, r"ent_coef is 2\.0.*ent_coef_max = 1\.5"),
        (TARGET | {"ent_controller": "adaptive", "ent_coef": 0.0}, r"ent_coef is 0\.0.*adds to it"),
        (
            {"clip_high_min": 0.5, "clip_high_max": 0.4},
            r"clip_high_min is 0\.5 and clip_high_max 0\.4",
        ),
        ({"repo_r_controller": "doubling"}, r"repo_r_coef is 0\.0.*\[0\.0001, 0\.05\]"),
        (
            {"repo_r_controller": "doubling", "repo_r_coef": 0.06},
            r"repo_r_coef is 0\.06: repo_r_controller \"doubling\" multiplies it",
        ),
        ({"clip_step": 0.0}, r"clip_step is 0\.0: set it above 0"),
        ({"ent_coef_step": 0.0}, r"ent_coef_step is 0\.0: set it above 0"),
        ({"ent_controller": "recovery", "ent_coef": 0.1, "ent_stop": 2.0}, "ent_stop <= ent_alert"),
        ({"kl_controller": "doubling"}, "exactly one above 0"),
        (ADAPTIVE | {"kl_old_coef": 0.1}, "exactly one above 0"),
        (ADAPTIVE | {"kl_ref_coef": 0.5}, r"coefficient is 0\.5.*kl_coef_max = 0\.2"),
        ({"kl_target": 0.0}, r"kl_target is 0\.0"),
        ({"kl_horizon": 0.5}, r"kl_horizon is 0\.5"),
        ({"ent_patience": 0}, "ent_patience is 0"),
        ({"ref_refresh_interval": 2.5, "kl_ref_coef": 0.1}, r"ref_refresh_interval is 2\.5"),
        ({"ent_target": 1.5}, r"ent_target is 1\.5"),
        ({"kl_cov_fraction": 0.0}, r"kl_cov_fraction is 0\.0"),
    ],
)
def test_impossible_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RegularizerConfig(**settings)


def test_a_temperature_above_the_highest_that_recovery_may_set_is_refused() -> None:
    config = RegularizerConfig(ent_controller="recovery", ent_coef=0.1)
    with pytest.raises(ValueError, match=r"temperature is 3\.0 and temperature_max 2\.5"):
        Regularizer(config, 3.0)
    assert Regularizer(config, 2.5).state.temperature == 2.5


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"ent_coef": 0.1, "kl_old_coef": 0.1, "kl_ref_coef": 0.1, "repo_coef": 0.1}, False),
        ({"ent_coef": 0.1, "ent_estimator": "sampled"}, True),
        ({"ent_estimator": "sampled"}, False),
        ({"kl_old_coef": 0.1, "kl_old_estimator": "k2"}, True),
        ({"kl_ref_coef": 0.1, "kl_ref_estimator": "k1", "kl_ref_placement": "reward"}, False),
        ({"kl_cov_coef": 0.1}, True),
    ],
)
def test_it_is_known_which_terms_average_over_samples(
    settings: dict[str, Any], expected: bool
) -> None:
    active = [term for term in terms_of(RegularizerConfig(**settings)) if term.coef > 0]
    assert any(term.averages_samples for term in active) is expected
