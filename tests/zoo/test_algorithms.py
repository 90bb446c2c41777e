"""What every preset must hold, whatever its algorithm does."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import algorithms
from algorithms.core.algorithm import Algorithm
from algorithms.core.metrics import ratio_metrics, ratio_sums
from algorithms.exact import Exact
from algorithms.regularization import Regularizer, RegularizerConfig
from algorithms.reinforce import Reinforce
from algorithms.testing.cases import forms_of, random_case
from tests.regularization.penalty import penalty_of
from tests.zoo.by_state import gate_of
from tests.zoo.case_loss import batch_gradient, batch_loss

PRESETS = {name: algorithm for name, (algorithm, _) in algorithms.PRESETS.items()}
CASES = [(name, form) for name, algorithm in PRESETS.items() for form in forms_of(algorithm)]
every_preset_and_form = pytest.mark.parametrize(("name", "form"), CASES)
every_preset = pytest.mark.parametrize("name", PRESETS)
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
def test_step_0_has_ratio_1_no_clipping_and_a_finite_loss_and_gradient(
    name: str, form: str
) -> None:
    for seed in range(3):
        case = random_case(PRESETS[name], form, seed=seed, temperature=TEMPERATURE)
        flat, controls = case.flat, case.algorithm.controls()
        logprobs = case.dist(case.logits).gather(flat.slots)
        bounds = controls.clip_low, controls.clip_high
        sums = ratio_sums(logprobs, flat.old_logprobs, case.advantages(), flat.valid, *bounds)
        metrics = {key: float(value) for key, value in ratio_metrics(sums).items()}
        assert torch.equal(logprobs[flat.valid], flat.old_logprobs[flat.valid])
        assert metrics["ratio/max"] == 1
        assert metrics["ratio/ess"] == 1
        assert metrics["ratio/std"] == 0
        for clipped in ("clip_fraction_low", "clip_fraction_high", "ratio_out_of_range"):
            assert metrics[f"policy/{clipped}"] == 0
        assert torch.isfinite(batch_loss(case, case.logits))
        gradient = batch_gradient(case)
        assert torch.isfinite(gradient).all()
        assert gradient.any()


@every_preset_and_form
def test_illegal_logits_get_exactly_no_gradient_and_do_not_matter(name: str, form: str) -> None:
    case = random_case(PRESETS[name], form, temperature=TEMPERATURE)
    gradient = batch_gradient(case)
    assert not case.flat.legal.all()
    assert (gradient[~case.flat.legal] == 0).all()
    other = dataclasses.replace(case, logits=case.logits + 5.0 * ~case.flat.legal)
    assert torch.equal(batch_gradient(other), gradient)


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


@pytest.mark.parametrize("temperature", [0.5, 1.3])
@pytest.mark.parametrize("name", sorted(PRESETS.keys() - {"top_entropy", "kondo"}))
def test_the_first_step_raises_the_probability_of_the_best_move(
    name: str, temperature: float
) -> None:
    case = random_case(PRESETS[name], seed=1, temperature=temperature, dtype=torch.float64)
    flat, algorithm = case.flat, case.algorithm
    best = flat.slots[:, :1]
    advantages = torch.where(flat.slots == best, 3.0, -1.0).double().masked_fill(~flat.valid, 0.0)
    free = flat.legal.sum(-1) > 1
    if (flat.slots == best)[flat.valid].all():  # one sample per position: half good, half bad
        free = free & (torch.arange(flat.num_states) % 2 == 0)
        advantages = torch.where(torch.arange(flat.num_states) % 2 == 0, 3.0, -1.0)[:, None]
        advantages = advantages.double()
    if algorithm.needs().reference:
        # No pull away from the policy that sampled; and Z takes away what all samples of a state share.
        free = free & (flat.slots != best).any(-1)
        flat = dataclasses.replace(flat, ref_legal_logprobs=flat.old_legal_logprobs)
        case = dataclasses.replace(case, flat=flat)
    if algorithm.needs().uniforms:  # nothing qualifies for being left out
        algorithm = dataclasses.replace(algorithm, cov_low=5.0)  # type: ignore[type-var]
        case = dataclasses.replace(case, algorithm=algorithm)
    logits = case.logits.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(batch_loss(case, logits, advantages=advantages), logits)
    before = case.dist(case.logits).probs.gather(-1, best)
    after = case.dist(case.logits - 0.1 * gradient).probs.gather(-1, best)
    assert (after > before)[free].all()


@every_preset
def test_the_regulariser_adds_the_same_value_to_every_algorithm(name: str) -> None:
    config = RegularizerConfig(ent_coef=0.1, kl_old_coef=0.2, kl_cov_coef=0.3)
    case = random_case(PRESETS["grpo"], temperature=1.1)
    dist, advantages = case.dist(case.logits + 0.3), case.advantages()
    fresh = penalty_of(Regularizer(config, temperature=1.1), dist, case.flat, advantages)[0]
    regularizer = Regularizer(config, temperature=1.1)
    own = random_case(PRESETS[name], forms_of(PRESETS[name])[0], temperature=1.1)
    regularizer.shape_advantage(own.algorithm.advantages(own.batch), own.batch)
    batch_loss(own, own.logits)
    assert torch.equal(penalty_of(regularizer, dist, case.flat, advantages)[0], fresh)


GROUP = ("grpo", "dr_grpo", "dapo", "cispo", "rloo", "delightful_pg", "clip_cov", "kl_cov", "repo")
GROUP_CASES = [(name, form) for name in GROUP for form in ("positions", "games")]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("name", "form"), GROUP_CASES)
def test_constant_rewards_give_exactly_no_policy_gradient(
    name: str, form: str, dtype: torch.dtype
) -> None:
    for size, reward in ((2, 0.3), (3, -0.7), (7, 0.1), (8, 1 / 3)):
        algorithm = dataclasses.replace(PRESETS[name], group_size=size)  # type: ignore[type-var]
        case = random_case(algorithm, form, seed=2, dtype=dtype)
        constant = torch.full_like(case.batch.rewards, reward)
        case = dataclasses.replace(case, batch=dataclasses.replace(case.batch, rewards=constant))
        assert not case.advantages().any()
        assert not batch_gradient(case).any()


def test_reinforce_s_baselines_leave_exactly_nothing_of_constant_rewards() -> None:
    for baseline in ("batch", "group"):
        case = random_case(Reinforce(baseline=baseline), "games", dtype=torch.float64)  # type: ignore[arg-type]
        constant = torch.full_like(case.batch.rewards, 0.1)
        batch = dataclasses.replace(case.batch, rewards=constant)
        assert not case.algorithm.advantages(batch).any()


@pytest.mark.parametrize(("name", "form"), GROUP_CASES)
@given(seed=st.integers(0, 2**31))
@settings(max_examples=8, deadline=None)
def test_shifting_a_group_s_rewards_changes_nothing_and_permuting_them_permutes(
    name: str, form: str, seed: int
) -> None:
    case = random_case(PRESETS[name], form, seed=seed, dtype=torch.float64)
    batch, algorithm = case.batch, case.algorithm
    axis = batch.group_axis % batch.rewards.ndim
    generator = torch.Generator().manual_seed(seed)
    advantages = algorithm.advantages(batch)
    one = [1 if i == axis else n for i, n in enumerate(batch.rewards.shape)]
    shift = torch.randn(one, generator=generator, dtype=torch.float64)
    shifted = dataclasses.replace(batch, rewards=batch.rewards + shift)
    torch.testing.assert_close(algorithm.advantages(shifted), advantages)
    order = torch.randperm(batch.rewards.shape[axis], generator=generator)
    permuted = dataclasses.replace(
        batch,
        rewards=batch.rewards.index_select(axis, order),
        valid=batch.valid.index_select(axis, order),
    )
    torch.testing.assert_close(algorithm.advantages(permuted), advantages.index_select(axis, order))


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


def test_a_single_scored_move_in_a_group_teaches_nothing() -> None:
    for name in GROUP:
        case = random_case(PRESETS[name], seed=3)
        valid = torch.zeros_like(case.batch.valid)
        valid[..., 0] = True
        batch = dataclasses.replace(case.batch, valid=valid)
        assert not case.algorithm.advantages(batch).any(), name


@pytest.mark.parametrize("name", [name for name in PRESETS if name != "exact"])
def test_the_algorithm_s_fields_are_settings_that_can_be_replaced(name: str) -> None:
    replaced = dataclasses.replace(PRESETS[name], group_size=6)  # type: ignore[type-var]
    assert replaced.group_size == 6
    if PRESETS[name].update_epochs:
        assert dataclasses.replace(replaced, update_epochs=1).update_epochs == 1


def test_exact_has_no_group_size_to_set() -> None:
    assert Exact().group_size == 1
    with pytest.raises(TypeError, match="group_size"):
        Exact(group_size=8)  # type: ignore[call-arg]
