"""What every preset must hold, whatever its algorithm does."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import pytest
import torch

import algorithms
from algorithms.core.algorithm import Algorithm
from algorithms.exact import Exact
from algorithms.reinforce import Reinforce
from algorithms.testing.cases import forms_of, random_case
from tests.zoo.by_state import gate_of
from tests.zoo.case_loss import batch_gradient, batch_loss

PRESETS = {name: algorithm for name, (algorithm, _) in algorithms.PRESETS.items()}
CASES = [(name, form) for name, algorithm in PRESETS.items() for form in forms_of(algorithm)]
every_preset_and_form = pytest.mark.parametrize(("name", "form"), CASES)
TEMPERATURE = 1.3


def test_importing_the_package_loads_no_torch() -> None:
    code = "import sys, algorithms; assert 'torch' not in sys.modules, 'torch was imported'"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_every_algorithm_has_a_preset_and_is_found_by_its_own_name() -> None:
    assert set(algorithms.PRESETS) >= set(algorithms.ALGORITHMS)
    for name, cls in algorithms.ALGORITHMS.items():
        assert cls.name == name
        assert isinstance(algorithms.PRESETS[name][0], cls)
    with pytest.raises(AttributeError, match="NO_SUCH_NAME"):
        algorithms.NO_SUCH_NAME  # noqa: B018


def test_every_preset_is_of_a_known_algorithm() -> None:
    assert all(algorithm.name in algorithms.ALGORITHMS for algorithm in PRESETS.values())


def test_no_two_presets_are_the_same() -> None:
    presets = list(algorithms.PRESETS.values())
    assert all(one != other for i, one in enumerate(presets) for other in presets[:i])


@every_preset_and_form
@pytest.mark.parametrize("num_legal", [1, 218])
def test_everything_is_finite_with_one_legal_move_and_with_218(
    name: str, form: str, num_legal: int
) -> None:
    case = random_case(PRESETS[name], form, num_legal=num_legal, temperature=TEMPERATURE)
    gradient = batch_gradient(case)
    assert torch.isfinite(batch_loss(case, case.logits))
    assert torch.isfinite(gradient).all()
    assert bool(gradient.any()) == (num_legal > 1)
    gate = gate_of(case.algorithm, case.dist(case.logits), case.flat, case.advantages())
    assert gate is None or (torch.isfinite(gate).all() and not gate.requires_grad)


@every_preset_and_form
def test_the_weights_add_up_to_what_their_reduction_says(name: str, form: str) -> None:
    case = random_case(PRESETS[name], form)
    total, valid = float(case.algorithm.weights(case.batch).sum()), case.batch.valid
    if case.algorithm.needs().all_moves:
        expected = float(valid.sum() / valid.any(-1).sum())
    elif name == "dr_grpo":
        expected = float(valid.float().mean())
    else:
        expected = 1.0
    assert total == pytest.approx(expected, rel=1e-6)


def test_reinforce_s_baselines_leave_exactly_nothing_of_constant_rewards() -> None:
    for baseline in ("batch", "group"):
        case = random_case(Reinforce(baseline=baseline), "games", dtype=torch.float64)  # type: ignore[arg-type]
        constant = torch.full_like(case.batch.rewards, 0.1)
        batch = dataclasses.replace(case.batch, rewards=constant)
        assert not case.algorithm.advantages(batch).any()


@pytest.mark.parametrize("form", ["positions", "games"])
@pytest.mark.parametrize("seed", range(3))
def test_rloo_is_dr_grpo_times_g_over_g_minus_1(form: str, seed: int) -> None:
    rloo = random_case(PRESETS["rloo"], form, seed=seed, dtype=torch.float64, endings=False)
    dr_grpo = random_case(PRESETS["dr_grpo"], form, seed=seed, dtype=torch.float64, endings=False)
    factor = rloo.algorithm.group_size / (rloo.algorithm.group_size - 1)
    torch.testing.assert_close(rloo.advantages(), factor * dr_grpo.advantages())
    torch.testing.assert_close(
        batch_gradient(rloo), factor * batch_gradient(dr_grpo), rtol=1e-12, atol=1e-14
    )


@pytest.mark.parametrize("form", ["positions", "games"])
def test_on_policy_ratio_weight_and_score_function_are_the_same_update(form: str) -> None:
    unscaled = dataclasses.replace(
        PRESETS["grpo"],
        advantage_scale="none",  # type: ignore[call-arg]
        reduction="sample_mean",
    )
    same: list[Algorithm] = [unscaled, PRESETS["cispo"], PRESETS["kl_cov"]]
    expected = batch_gradient(random_case(Reinforce(baseline="group"), form, dtype=torch.float64))
    for algorithm in same:
        gradient = batch_gradient(random_case(algorithm, form, dtype=torch.float64))
        torch.testing.assert_close(gradient, expected, rtol=1e-10, atol=1e-14)


def test_exact_has_no_group_size_to_set() -> None:
    assert Exact().group_size == 1
    with pytest.raises(TypeError, match="group_size"):
        Exact(group_size=8)  # type: ignore[call-arg]
