from __future__ import annotations

import dataclasses
import math

import pytest
import torch

from algorithms.core.batch import RolloutBatch, blank_batch
from algorithms.core.distribution import MaskedCategorical
from algorithms.core.metrics import batch_metrics
from tests.core.conftest import all_moves, make_batch


def with_fields(batch: RolloutBatch, **changed: torch.Tensor) -> RolloutBatch:
    """The batch with some fields replaced."""
    return dataclasses.replace(batch, **changed)  # type: ignore[arg-type]


def metrics_of(batch: RolloutBatch, **changed: torch.Tensor) -> dict[str, float]:
    """The metrics of the batch with some fields replaced and advantages of 0."""
    return batch_metrics(with_fields(batch, **changed), torch.zeros_like(batch.rewards))


def test_four_equal_moves_are_four_effective_moves_in_their_phase_and_bucket() -> None:
    batch = make_batch("positions")
    legal = torch.arange(6).expand(3, 2, 6) < 4
    metrics = metrics_of(
        batch,
        legal_ids=torch.arange(6).expand(3, 2, 6).masked_fill(~legal, -1).to(torch.int16),
        old_legal_logprobs=torch.zeros(3, 2, 6).masked_fill(~legal, -math.inf).log_softmax(-1),
        slots=batch.slots % 4,
        phase=torch.full((3, 2), 2, dtype=torch.int8),
    )
    assert metrics["policy/effective_moves"] == pytest.approx(4.0)
    assert metrics["policy/entropy_bound"] == pytest.approx(math.log(4), abs=1e-15)
    assert metrics["policy/entropy_endgame"] == pytest.approx(math.log(4))
    assert metrics["policy/entropy_legal_2_10"] == pytest.approx(math.log(4))
    names = {name for name in metrics if name.startswith("policy/entropy_")}
    kinds = ("bound", "normalized", "endgame", "legal_2_10")
    assert names == {f"policy/entropy_{kind}" for kind in kinds}


def test_entropy_splits_by_phase_and_number_of_moves_average_to_the_whole() -> None:
    generator = torch.Generator().manual_seed(3)
    num_legal = torch.tensor([[1, 2, 10, 11], [25, 26, 40, 41], [60, 218, 5, 30]])
    phase = torch.tensor([[0, 0, 1, 1], [2, 2, 2, 0], [0, 1, 2, 1]], dtype=torch.int8)
    legal = torch.arange(218) < num_legal[..., None]
    dist = MaskedCategorical(torch.randn(3, 4, 218, generator=generator), legal, 1.0)
    slots = dist.sample(2, generator)
    batch = with_fields(
        blank_batch("positions", (3, 4), samples=2, num_legal=218),
        legal_ids=torch.arange(218).expand(3, 4, 218).masked_fill(~legal, -1).to(torch.int16),
        slots=slots,
        actions=slots,
        old_logprobs=dist.gather(slots),
        old_legal_logprobs=dist.logprobs,
        phase=phase,
    )
    metrics = batch_metrics(batch, batch.rewards)
    counts = {"2_10": 3, "11_25": 2, "26_40": 3, "41_plus": 3}
    total = sum(metrics[f"policy/entropy_legal_{name}"] * n for name, n in counts.items())
    assert total / 11 == pytest.approx(metrics["policy/entropy"])
    phases = {"opening": 3, "middlegame": 4, "endgame": 4}  # the forced state is an opening
    total = sum(metrics[f"policy/entropy_{name}"] * n for name, n in phases.items())
    assert total / 11 == pytest.approx(metrics["policy/entropy"])
    assert metrics["rollout/reward_zero_std_fraction"] == 1.0


def test_action_agreement_is_the_share_of_equal_pairs() -> None:
    batch = make_batch("positions")
    actions = torch.tensor([[[1, 1, 2, 3], [1, 1, 1, 1]]]).expand(3, 2, 4).clone()
    valid = torch.ones(3, 2, 4, dtype=torch.bool)
    valid[2, 0] = torch.tensor([True, True, False, False])  # 1 1: agree
    valid[2, 1, 1:] = False  # a single member: no pair
    metrics = metrics_of(batch, actions=actions, valid=valid)
    # Ordered pairs: 2 of 12 in the first kind of state, 12 of 12 in the second.
    assert metrics["policy/action_agreement"] == pytest.approx((2 * 2 / 12 + 2 + 1) / 5)


def test_games_agree_at_their_first_ply_only() -> None:
    batch = make_batch("games")
    actions = torch.zeros(3, 4, 2, dtype=torch.int64)
    actions[..., 0] = torch.tensor([[5, 5, 7, 7], [1, 2, 3, 4], [9, 9, 9, 9]])
    metrics = metrics_of(batch, actions=actions)
    assert metrics["policy/action_agreement"] == pytest.approx((4 / 12 + 0 + 1) / 3)
    permuted = metrics_of(batch, actions=actions[:, [3, 0, 2, 1]])["policy/action_agreement"]
    assert permuted == pytest.approx(metrics["policy/action_agreement"])


def test_centipawn_steps_are_after_minus_before_of_the_mover() -> None:
    batch = make_batch("positions")
    before = torch.tensor([[100, -50]] * 3, dtype=torch.int32)
    score = torch.zeros(3, 2, 4, dtype=torch.int32)
    score[0, 0] = torch.tensor([150, 100, -100, 10_000])
    valid = torch.zeros(3, 2, 4, dtype=torch.bool)
    valid[0, 0] = True
    metrics = metrics_of(batch, before_cp=before, score_cp=score, valid=valid)
    steps = torch.tensor([50.0, 0.0, -200.0, 9_900.0])
    assert metrics["rollout/step_cp_mean"] == pytest.approx(steps.mean().item())
    assert metrics["rollout/step_cp_std"] == pytest.approx(steps.std(correction=0).item())
    assert metrics["rollout/step_cp_abs_mean"] == pytest.approx(steps.abs().mean().item())
    without = metrics_of(batch)
    assert not any(name.startswith("rollout/step_cp") for name in without)


def test_best_median_and_ninetieth_percentile_look_at_valid_samples_only() -> None:
    batch = make_batch("positions")
    rewards = torch.arange(24.0).reshape(3, 2, 4)
    valid = rewards < 20
    rewards[~valid] = math.nan
    metrics = batch_metrics(with_fields(batch, rewards=rewards, valid=valid), rewards)
    assert metrics["rollout/reward_best"] == 19.0
    assert metrics["rollout/reward_median"] == 9.0  # 10 of 20 samples are at most 9
    assert metrics["rollout/reward_p90"] == 17.0  # 18 of 20 samples are at most 17
    assert all(math.isfinite(value) for value in metrics.values())


def test_the_entropy_bound_is_of_the_states_that_the_entropy_is_of() -> None:
    batch = make_batch("positions")
    num_legal = torch.tensor([[1, 3], [6, 2], [5, 5]])
    legal = torch.arange(6) < num_legal.unsqueeze(-1)
    valid = torch.ones(3, 2, 4, dtype=torch.bool)
    valid[2, 0] = False
    even = torch.zeros(3, 2, 6).masked_fill(~legal, -math.inf).log_softmax(-1)
    metrics = metrics_of(
        batch,
        legal_ids=torch.arange(6).expand(3, 2, 6).masked_fill(~legal, -1).to(torch.int16),
        old_legal_logprobs=even,
        slots=torch.zeros_like(batch.slots),
        valid=valid,
    )
    bound = (math.log(3) + math.log(6) + math.log(2) + math.log(5)) / 4
    assert metrics["policy/entropy_bound"] == pytest.approx(bound, abs=1e-15)
    assert metrics["policy/entropy"] == pytest.approx(bound)


def test_the_median_of_all_scored_moves_weighs_each_by_its_probability() -> None:
    batch = make_batch("positions")
    probs = torch.tensor([0.4, 0.3, 0.1, 0.1, 0.05, 0.05]).expand(3, 2, 6)
    batch = with_fields(
        batch,
        legal_ids=torch.arange(6).expand(3, 2, 6).to(torch.int16),
        old_legal_logprobs=probs.log(),
    )
    exact = all_moves(batch, torch.arange(6.0).expand(3, 2, 6))
    assert batch_metrics(exact, exact.rewards)["rollout/reward_median"] == 1.0


def test_equal_rewards_of_all_moves_are_a_group_without_spread() -> None:
    exact = all_moves(make_batch("positions"), torch.full((3, 2, 6), 0.1))
    metrics = batch_metrics(exact, torch.zeros_like(exact.rewards))
    assert metrics["rollout/reward_zero_std_fraction"] == 1.0
    assert metrics["rollout/regret_reward"] == pytest.approx(0.0, abs=1e-12)


def test_kl_to_the_reference_is_the_exact_sum_and_ignores_padding() -> None:
    batch = make_batch("games", spread=2.0)
    legal = batch.legal_ids >= 0
    other = MaskedCategorical(
        torch.randn(legal.shape, generator=torch.Generator().manual_seed(5)), legal, 1.0
    )
    metrics = batch_metrics(batch.with_reference(other.logprobs), torch.zeros_like(batch.rewards))
    flat = batch.old_legal_logprobs.reshape(-1, 6)
    expected = [
        torch.distributions.kl_divergence(
            torch.distributions.Categorical(logits=mine[mask].double()),
            torch.distributions.Categorical(logits=theirs[mask].double()),
        ).item()
        for mine, theirs, mask in zip(
            flat, other.logprobs.reshape(-1, 6), legal.reshape(-1, 6), strict=True
        )
    ]
    assert metrics["policy/kl_ref"] == pytest.approx(sum(expected) / len(expected))


@pytest.mark.parametrize("form", ["positions", "games"])
def test_junk_in_invalid_samples_changes_no_metric(form: str) -> None:
    batch = make_batch(form)
    valid = torch.rand(batch.valid.shape, generator=torch.Generator().manual_seed(6)) < 0.6
    states = batch.obs.shape[:-3]
    batch = dataclasses.replace(
        batch,
        valid=valid,
        before_cp=torch.zeros(states, dtype=torch.int32),
        score_cp=torch.ones(batch.rewards.shape, dtype=torch.int32),
    )
    junk = dataclasses.replace(
        batch,
        rewards=batch.rewards.masked_fill(~valid, math.nan),
        actions=batch.actions.masked_fill(~valid, -7),
        old_logprobs=batch.old_logprobs.masked_fill(~valid, math.nan),
        terminated=batch.terminated | ~valid,
        score_cp=torch.where(valid, 1, 9_999).to(torch.int32),
    )
    clean = batch_metrics(batch, batch.rewards)
    assert batch_metrics(junk, junk.rewards) == clean


def test_a_batch_of_forced_moves_has_no_entropy_rather_than_zero() -> None:
    batch = make_batch("positions")
    forced = torch.full((3, 2, 6), -1, dtype=torch.int16)
    forced[..., 0] = 4
    logprobs = torch.full((3, 2, 6), -math.inf)
    logprobs[..., 0] = 0.0
    metrics = metrics_of(
        batch,
        legal_ids=forced,
        old_legal_logprobs=logprobs,
        slots=torch.zeros_like(batch.slots),
        actions=torch.full_like(batch.actions, 4),
    )
    assert math.isnan(metrics["policy/entropy"])
    assert math.isnan(metrics["policy/entropy_normalized"])
    assert metrics["rollout/forced_fraction"] == 1.0
    assert "policy/effective_moves" not in metrics
    assert "policy/entropy_bound" not in metrics
    assert "policy/action_agreement" not in metrics
