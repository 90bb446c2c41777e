from __future__ import annotations

import copy
from functools import partial

import numpy as np
import pytest
import torch

from algorithms.diagnostics.entropy_prediction import (
    EntropyPrediction,
    ProbeStates,
    exact_pull,
    exact_rewards,
    float64_copy,
    probe_states,
    sampled_pull,
)
from algorithms.diagnostics.probe_set import load_probe_set
from algorithms.networks.policy_net import PolicyNet
from chess_env.rewards import value
from tests.small import CPU, make_policy


@pytest.fixture(scope="module")
def states() -> ProbeStates:
    probes = load_probe_set()
    return probe_states(
        probes, exact_rewards(probes.legal_ids, probes.child_score_cp, "win_prob_delta"), CPU
    )


def moved(policy: PolicyNet, size: float, seed: int = 1) -> PolicyNet:
    """The policy a step of about `size` away, the same direction for every size."""
    other = copy.deepcopy(policy)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter += size * torch.randn(parameter.shape, generator=generator)
    return other


def probe(
    before: PolicyNet, after: PolicyNet, states: ProbeStates, temperature: float = 1.3
) -> dict[str, float]:
    earlier = EntropyPrediction(float64_copy(before), states, temperature)
    return earlier.after(float64_copy(after), 0.01)[0]


def covariance(probs: np.ndarray, first: np.ndarray, second: np.ndarray) -> float:
    mean = (probs * first).sum(), (probs * second).sum()
    return float((probs * (first - mean[0]) * (second - mean[1])).sum())


def test_the_probe_equals_a_loop_over_positions(states: ProbeStates) -> None:
    before = float64_copy(make_policy())
    after = moved(before, 3e-3)
    result = probe(before, after, states)
    measured, realised, tabular = [], [], []
    for index, ids in enumerate(states.legal_ids):
        legal = ids[ids >= 0][None]
        if legal.numel() == 1:  # a forced move has no part in the means
            continue
        obs = states.obs[index : index + 1]
        old, new = (p(obs, legal).detach()[0].double().numpy() / 1.3 for p in (before, after))
        probs = np.exp(old - old.max()) / np.exp(old - old.max()).sum()
        later = np.exp(new - new.max()) / np.exp(new - new.max()).sum()
        measured.append(-(later * np.log(later)).sum() + (probs * np.log(probs)).sum())
        realised.append(-covariance(probs, np.log(probs), new - old))
        padded = torch.zeros(states.legal_ids.shape, dtype=torch.float64)
        padded[index, : len(probs)] = torch.from_numpy(probs)
        pull = states.pull(padded)[index, : len(probs)].numpy()
        tabular.append(-0.01 / 1.3**2 * covariance(probs, np.log(probs), pull))
    assert len(measured) == 25
    # The loop's forward pass rounds to float32 where the network casts, the probe's does not.
    assert result["measured"] == pytest.approx(np.mean(measured), abs=1e-6)
    assert result["dh_realised"] == pytest.approx(np.mean(realised), abs=1e-6)
    assert result["dh_tabular"] == pytest.approx(np.mean(tabular), rel=1e-5)


def test_the_first_order_errors_fall_a_hundredfold_for_a_tenth_of_the_step(
    states: ProbeStates,
) -> None:
    policy = float64_copy(make_policy())
    errors = {}
    for size in (1e-4, 1e-5):
        # In this direction the second order is not by chance near 0, and no ReLU switches.
        result = probe(policy, moved(policy, size, seed=2), states)
        errors[size] = [result[n] - result["measured"] for n in ("dh_realised", "dh_gradient")]
        assert abs(result["measured"]) > 10 * abs(errors[size][0])
    for large, small in zip(errors[1e-4], errors[1e-5], strict=True):
        assert large / small == pytest.approx(100, rel=0.2)


def test_an_update_that_changes_nothing_changes_no_entropy(states: ProbeStates) -> None:
    policy = make_policy()
    result = probe(policy, policy, states)
    assert (result["measured"], result["dh_realised"], result["dh_gradient"]) == (0.0, 0.0, 0.0)
    assert result["dh_tabular"] != 0.0


def test_shifting_all_logits_of_a_state_changes_no_predictor(states: ProbeStates) -> None:
    policy = float64_copy(make_policy())
    shifted = copy.deepcopy(policy)
    with torch.no_grad():
        shifted.action_bias += 0.5
    result = probe(policy, shifted, states)
    assert result["measured"] == pytest.approx(0.0, abs=1e-12)
    assert result["dh_realised"] == pytest.approx(0.0, abs=1e-12)
    assert result["dh_gradient"] == pytest.approx(0.0, abs=1e-12)


def test_the_tabular_form_predicts_a_step_of_independent_logits() -> None:
    # The action biases of two positions without a common move are independent logits.
    policy = float64_copy(make_policy(spread=2.0))
    probes = load_probe_set()
    first = probes.legal_ids[0]
    for row in range(1, len(probes)):
        if not np.intersect1d(first[first >= 0], probes.legal_ids[row]).size:
            break
    else:
        pytest.fail("no two positions without a common move")
    rows = [0, row]
    whole = probe_states(probes, exact_rewards(probes.legal_ids, probes.child_score_cp, None), CPU)
    legal_ids = whole.legal_ids[rows]
    rewards = torch.from_numpy(exact_rewards(probes.legal_ids, probes.child_score_cp, None)[rows])
    states = ProbeStates(
        whole.obs[rows], legal_ids, partial(exact_pull, rewards), whole.counted[rows]
    )
    temperature, errors = 1.3, []
    for eta in (1e-2, 1e-3):
        after = copy.deepcopy(policy)
        logits = policy(states.obs, legal_ids).detach().double() / temperature
        probs = logits.masked_fill(legal_ids < 0, -torch.inf).softmax(-1)
        step = eta * states.pull(probs) / temperature
        with torch.no_grad():
            for ids, change in zip(legal_ids, step, strict=True):
                after.action_bias[ids[ids >= 0].long()] += change[ids >= 0]
        result, _ = EntropyPrediction(policy, states, temperature).after(after, eta)
        errors.append(result["dh_tabular"] - result["measured"])
        assert abs(errors[-1]) < 0.05 * abs(result["measured"])
    assert errors[0] / errors[1] == pytest.approx(100, rel=0.2)


def test_the_sampled_pull_of_every_move_with_its_probability_is_the_exact_pull() -> None:
    generator = torch.Generator().manual_seed(0)
    probs = torch.randn(5, 7, generator=generator).double().softmax(-1)
    rewards = torch.randn(5, 7, generator=generator).double()
    advantages = rewards - (probs * rewards).sum(-1, keepdim=True)
    slots = torch.arange(7).expand(5, 7)
    torch.testing.assert_close(
        sampled_pull(slots, probs * advantages, probs), exact_pull(rewards, probs)
    )


def test_a_sampled_pull_is_zero_where_nothing_is_valid_and_sums_to_zero() -> None:
    probs = torch.tensor([[0.5, 0.25, 0.25], [0.2, 0.3, 0.5]]).double()
    slots = torch.tensor([[0, 0], [1, 2]])
    credit = torch.tensor([[1.0, 2.0], [0.0, 0.0]]).double()
    pull = sampled_pull(slots, credit, probs)
    assert pull.tolist() == [[1.5, -0.75, -0.75], [0.0, 0.0, 0.0]]


def test_rewards_of_the_probe_are_those_of_the_environment() -> None:
    probes = load_probe_set()
    legal = probes.legal_ids >= 0
    phi = value(probes.child_score_cp.astype(np.int64)).astype(np.float64)
    delta, regret, outcome = (
        exact_rewards(probes.legal_ids, probes.child_score_cp, name)
        for name in ("win_prob_delta", "regret", "outcome")
    )
    np.testing.assert_allclose(delta[legal], phi[legal], atol=1e-6)
    best = np.where(legal, phi, -2.0).max(1, keepdims=True)
    np.testing.assert_allclose(regret[legal], (phi - best)[legal], atol=1e-6)
    assert (outcome == (probes.child_score_cp == 10_000)).all()
    assert outcome.any()
    assert not delta[~legal].any()


def test_success_on_the_probe_is_counted_from_the_best_move() -> None:
    probes = load_probe_set()
    legal = probes.legal_ids >= 0
    phi = value(probes.child_score_cp.astype(np.int64))
    best = np.where(legal, phi, np.float32(-2)).max(1, keepdims=True)
    expected = np.where(legal, phi - best > np.float32(-0.1), 0.0)
    np.testing.assert_array_equal(
        exact_rewards(probes.legal_ids, probes.child_score_cp, "success"), expected
    )
    assert (expected.sum(1) >= 1).all() and (expected[legal] == 0).any()
    # With a score of its own a position says itself what a move gives up.
    lost = exact_rewards(
        probes.legal_ids, probes.child_score_cp, "success", np.full(len(legal), -10_000)
    )
    np.testing.assert_array_equal(lost, legal)


def test_a_state_that_is_not_counted_is_in_no_mean(states: ProbeStates) -> None:
    policy = float64_copy(make_policy())
    after = moved(policy, 3e-3)
    one, two = (
        ProbeStates(
            states.obs[rows],
            states.legal_ids[rows],
            partial(exact_pull, torch.zeros(len(rows), 218, dtype=torch.float64)),
            torch.tensor([True, False])[: len(rows)],
        )
        for rows in ([3], [3, 9])
    )
    alone, logprobs = EntropyPrediction(policy, one, 1.3).after(after, 0.01)
    beside, _ = EntropyPrediction(policy, two, 1.3).after(after, 0.01)
    assert alone == pytest.approx(beside, rel=1e-9)
    assert alone["measured"] != 0.0
    assert logprobs.exp().sum().item() == pytest.approx(1.0)


def test_the_float64_copy_computes_in_float64_and_leaves_the_policy_alone(
    states: ProbeStates,
) -> None:
    policy = make_policy()
    before = copy.deepcopy(policy.state_dict())
    twin = float64_copy(policy)
    tiny = copy.deepcopy(twin)
    with torch.no_grad():
        tiny.stem.bias += 1e-12  # far below what float32 can hold
    result, _ = EntropyPrediction(twin, states, 1.0).after(tiny, 0.0)
    assert 0 < abs(result["measured"]) < 1e-9
    assert all(torch.equal(before[name], v) for name, v in policy.state_dict().items())
    assert all(parameter.grad is None for parameter in policy.parameters())
    assert policy.precision.autocast
