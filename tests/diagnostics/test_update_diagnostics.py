from __future__ import annotations

import copy
import dataclasses
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from algorithms import PRESETS
from algorithms.core.batch import RolloutBatch
from algorithms.diagnostics.update_diagnostics import (
    PolicyProbe,
    UpdateDiagnostics,
    chosen_states,
    term_metrics,
)
from algorithms.networks.build import build_policy
from algorithms.networks.policy_net import PolicyNet
from algorithms.networks.settings import NetworkConfig
from algorithms.regularization import Regularizer, RegularizerConfig
from algorithms.rollouts.collect import start_rollout
from algorithms.updates.learner import Learner
from algorithms.updates.training_batch import Targets, make_targets
from algorithms.updates.update import update
from tests.rollouts.play import play_positions
from tests.small import CPU, VecOf, make_batch
from tests.updates.learners import learner_of

TEMPERATURE = 1.3


def policy_for(name: str) -> PolicyNet:
    critic = PRESETS[name][0].needs().critic is not None
    config = NetworkConfig(network="resnet", channels=16, blocks=1, head_dim=8)
    policy = build_policy(config, seed=0, device=CPU, critic=critic)
    with torch.no_grad():
        policy.action_bias.normal_(0.0, 1.0, generator=torch.Generator().manual_seed(0))
        if policy.value_head is not None:  # a critic that says something
            for parameter in policy.value_head.parameters():
                parameter.normal_(0.0, 0.2, generator=torch.Generator().manual_seed(1))
    return policy


def rollout(vec_of: VecOf, name: str, policy: PolicyNet) -> RolloutBatch:
    algorithm = PRESETS[name][0]
    vec, group_size = vec_of(4), None if algorithm.needs().all_moves else algorithm.group_size
    return play_positions(vec, policy, start_rollout(vec, 0), group_size=group_size)[0]


@dataclasses.dataclass
class Run:
    """One update of a preset, with the diagnostics around it."""

    metrics: dict[str, float]
    before: dict[str, float]
    after: dict[str, float]


def given(
    vec_of: VecOf,
    name: str,
    config: RegularizerConfig,
    change: Callable[[RolloutBatch], RolloutBatch] = lambda batch: batch,
    **settings: Any,
) -> tuple[Learner, RolloutBatch, Targets]:
    """What a preset's diagnostics are given: a learner, its own rollout, changed, and the targets."""
    algorithm, policy = PRESETS[name][0], policy_for(name)
    batch = change(rollout(vec_of, name, policy))
    regularizer = Regularizer(config, TEMPERATURE)
    targets = make_targets(algorithm, regularizer, batch)
    return learner_of(policy, algorithm, regularizer, **settings), batch, targets


def fresh() -> UpdateDiagnostics:
    return UpdateDiagnostics(PolicyProbe(None, TEMPERATURE, CPU), size=16)


def one_update(
    vec_of: VecOf, name: str, config: RegularizerConfig | None = None, rate: float = 1e-4
) -> Run:
    def with_any_reference(batch: RolloutBatch) -> RolloutBatch:
        reference = torch.randn(batch.old_legal_logprobs.shape)
        reference = reference.masked_fill(batch.legal_ids < 0, -math.inf)
        return batch.with_reference(reference.log_softmax(-1))

    config, settings = config or PRESETS[name][1], {"rate": rate, "minibatch_size": 64}
    arguments = given(vec_of, name, config, with_any_reference, **settings)
    diagnostics = fresh()
    before = diagnostics.before(*arguments)
    metrics = update(*arguments)
    return Run(metrics, before, diagnostics.after(arguments[0].policy, rate))


def test_shares_and_cosines_of_two_perpendicular_terms_are_those_of_a_right_triangle() -> None:
    x, y = torch.tensor([1.0], requires_grad=True), torch.tensor([-2.0], requires_grad=True)
    unused = torch.zeros(3, requires_grad=True)
    metrics = term_metrics({"policy": 3 * x.sum(), "entropy": 4 * y.sum()}, [x, y, unused])
    expected = {
        "grad_share/policy_norm": 3.0,
        "grad_share/entropy_norm": 4.0,
        "grad_share/policy": 3 / 7,
        "grad_share/entropy": 4 / 7,
        "grad_cosine/policy": 0.6,
        "grad_cosine/entropy": 0.8,
        "loss_share/policy": 3 / 11,
        "loss_share/entropy": 8 / 11,
    }
    assert metrics == pytest.approx(expected)
    assert x.grad is None


def test_a_term_that_pulls_against_the_whole_has_a_negative_cosine() -> None:
    x = torch.tensor([1.0], requires_grad=True)
    metrics = term_metrics({"policy": 3 * x.sum(), "kl_old": -x.sum()}, [x])
    assert metrics["grad_cosine/policy"] == pytest.approx(1.0)
    assert metrics["grad_cosine/kl_old"] == pytest.approx(-1.0)


@pytest.mark.parametrize(
    ("name", "config", "terms"),
    [
        ("grpo", RegularizerConfig(), {"policy"}),
        (
            "grpo",
            RegularizerConfig(ent_coef=0.1, kl_old_coef=0.2, kl_ref_coef=0.3, kl_cov_coef=0.1),
            {"policy", "entropy", "kl_old", "kl_ref", "kl_cov"},
        ),
        ("exact", RegularizerConfig(ent_coef=0.1), {"policy", "entropy"}),
        ("delightful_pg", RegularizerConfig(), {"policy"}),
        ("clip_cov", RegularizerConfig(), {"policy"}),
    ],
)
def test_terms_projected_on_the_total_add_up_to_the_norm_that_the_update_saw(
    vec_of: VecOf, name: str, config: RegularizerConfig, terms: set[str]
) -> None:
    run = one_update(vec_of, name, config)
    assert {key.removeprefix("loss_share/") for key in run.before if "loss_share" in key} == terms
    norms = {term: run.before[f"grad_share/{term}_norm"] for term in terms}
    projected = sum(
        norm * run.before[f"grad_cosine/{term}"] for term, norm in norms.items() if norm > 0
    )
    # At most 16 states are looked at; the batch has 12.
    assert projected == pytest.approx(run.metrics["train/grad_norm"], rel=1e-4)
    for family in ("grad_share", "loss_share"):
        assert sum(run.before[f"{family}/{term}"] for term in terms) == pytest.approx(1.0)


def test_a_critic_s_gradient_has_its_own_share(vec_of: VecOf) -> None:
    algorithm, regularizer = PRESETS["ppo_one_ply"][0], RegularizerConfig(ent_coef=0.1)
    run = one_update(vec_of, "ppo_one_ply", regularizer)
    assert algorithm.needs().critic is not None
    assert run.before["grad_share/value"] > 0
    shares = [run.before[f"grad_share/{term}"] for term in ("policy", "entropy", "value")]
    assert sum(shares) == pytest.approx(1.0)


@pytest.mark.parametrize("name", ["grpo", "exact", "ppo_one_ply"])
def test_first_order_predictors_agree_with_a_small_step_on_the_real_network(
    vec_of: VecOf, name: str
) -> None:
    run = one_update(vec_of, name, rate=1e-4)
    for prefix in ("entropy/", "entropy/batch_"):
        measured = run.after[f"{prefix}measured"]
        assert measured != 0.0
        assert run.after[f"{prefix}dh_realised"] == pytest.approx(measured, rel=0.02)
        assert run.after[f"{prefix}dh_gradient"] == pytest.approx(measured, rel=0.02)
        assert math.isfinite(run.after[f"{prefix}dh_tabular"])
    assert sum(name.startswith("entropy/") for name in run.after) == 8


def test_the_tabular_form_of_a_batch_equals_a_loop_over_its_samples(vec_of: VecOf) -> None:
    def struck_out(batch: RolloutBatch) -> RolloutBatch:
        valid = torch.rand(batch.valid.shape, generator=torch.Generator().manual_seed(2)) < 0.7
        valid[..., 0] = True
        valid[0, 0] = False  # a state without any valid sample is left out
        rewards = batch.rewards.masked_fill(~valid, math.nan)
        return dataclasses.replace(batch, valid=valid, rewards=rewards)

    learner, batch, targets = given(vec_of, "grpo", RegularizerConfig(), struck_out)
    diagnostics = fresh()
    diagnostics.before(learner, batch, targets)
    result = diagnostics.after(learner.policy, 0.5)["entropy/batch_dh_tabular"]

    flat, advantages = batch.flat(), batch.flatten(targets.advantages)
    per_state = []
    for state in range(flat.num_states):
        if not flat.valid[state].any():
            continue
        probs = flat.old_legal_logprobs[state].double().exp()
        pull = torch.zeros_like(probs)
        samples = flat.slots[state][flat.valid[state]].tolist()
        for slot, advantage in zip(samples, advantages[state][flat.valid[state]], strict=True):
            pull -= float(advantage) * probs / len(samples)
            pull[slot] += float(advantage) / len(samples)
        logs = torch.where(probs > 0, probs.log(), 0.0)
        mean = (probs * logs).sum()
        per_state.append(float(-(probs * (logs - mean) * pull).sum()))
    expected = 0.5 / TEMPERATURE**2 * sum(per_state) / len(per_state)
    assert result == pytest.approx(expected, rel=1e-4)


def test_states_are_chosen_evenly_or_by_whole_games() -> None:
    flat = make_batch("games").flat()  # 8 games of 3 plies
    assert chosen_states(flat, 4, whole_games=False).tolist() == [0, 8, 15, 23]
    assert chosen_states(flat, 64, whole_games=False).tolist() == list(range(24))
    assert chosen_states(flat, 8, whole_games=True).tolist() == list(range(6))
    assert chosen_states(flat, 1, whole_games=True).tolist() == [0, 1, 2]


def test_looking_changes_neither_the_policy_nor_any_random_stream(vec_of: VecOf) -> None:
    arguments = given(vec_of, "clip_cov", RegularizerConfig(ent_coef=0.1))
    policy, diagnostics = arguments[0].policy, fresh()
    weights, state = copy.deepcopy(policy.state_dict()), torch.get_rng_state()
    first = diagnostics.before(*arguments)
    diagnostics.after(policy, 1e-3)
    second = diagnostics.before(*arguments)
    assert first == second
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(weights[key], value) for key, value in policy.state_dict().items())
    assert all(parameter.grad is None for parameter in policy.parameters())


def test_frozen_layers_take_no_part(vec_of: VecOf) -> None:
    arguments = given(vec_of, "grpo", RegularizerConfig(ent_coef=0.1))
    policy, diagnostics = arguments[0].policy, fresh()
    policy.stem.requires_grad_(False)
    diagnostics.before(*arguments)
    with torch.no_grad():
        policy.stem.bias += 0.1
    after = diagnostics.after(policy, 1e-3)
    assert after["entropy/dh_gradient"] == 0.0
    assert after["entropy/measured"] != 0.0


def test_a_term_that_moves_no_trained_parameter_has_no_share(vec_of: VecOf) -> None:
    arguments = given(vec_of, "ppo_one_ply", RegularizerConfig(ent_coef=0.1))
    policy = arguments[0].policy
    assert policy.value_head is not None
    head = {f"value_head.{name}" for name, _ in policy.value_head.named_parameters()}
    for critic_alone in (True, False):
        for name, parameter in policy.named_parameters():
            inside = name in head or not name.startswith(("from_", "to_", "action", "promotion"))
            parameter.requires_grad_((name in head) if critic_alone else not inside)
        diagnostics = fresh()
        before = diagnostics.before(*arguments)
        assert before["grad_share/value"] == (1.0 if critic_alone else 0.0)
        assert (before["grad_share/policy"] == 0.0) is critic_alone
        assert diagnostics.after(policy, 1e-3)["entropy/dh_gradient"] == 0.0


def test_a_look_hands_out_the_policy_on_the_probe_and_the_optimum_beside_the_shares(
    vec_of: VecOf,
) -> None:
    arguments = given(vec_of, "rloo", RegularizerConfig(kl_ref_coef=0.1),
                      lambda batch: batch.with_reference(batch.old_legal_logprobs))  # fmt: skip
    policy = arguments[0].policy
    probe = PolicyProbe(None, TEMPERATURE, CPU)
    diagnostics = UpdateDiagnostics(probe, size=16)
    assert diagnostics.logprobs is None
    before = diagnostics.before(*arguments, reference=copy.deepcopy(policy))
    optimum = probe.optimum(arguments[0].algorithm, arguments[0].regularizer, policy)
    assert optimum.items() <= before.items() and optimum["probe/optimum_entropy"] > 0
    with torch.no_grad():
        policy.action_bias += torch.linspace(-0.5, 0.5, len(policy.action_bias))
    after = diagnostics.after(policy, 1e-3)
    assert diagnostics.logprobs is not None
    assert (diagnostics.logprobs == probe.look(policy)).all()
    assert after["probe/kl_step"] > 0 and "probe/kl_start" not in after
    assert "probe/optimum_entropy" not in diagnostics.before(*arguments)
