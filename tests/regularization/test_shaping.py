from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import Tensor

from algorithms.core.batch import RolloutBatch
from algorithms.core.distribution import MaskedCategorical
from algorithms.regularization import Regularizer, RegularizerConfig
from tests.regularization.penalty import penalty_of
from tests.regularization.regularizer_cases import TEMPERATURE, rollout

FORMS = ("positions", "games")
FORMULAS = {"k1": lambda d: d, "k2": lambda d: d * d / 2, "k3": lambda d: (-d).exp() - 1 + d}
REF_K1 = {"kl_ref_coef": 0.3, "kl_ref_estimator": "k1", "kl_ref_placement": "reward"}


def regularizer(**settings: object) -> Regularizer:
    return Regularizer(RegularizerConfig(**settings), TEMPERATURE)  # type: ignore[arg-type]


def at(batch: RolloutBatch, legal_logprobs: Tensor, index: tuple[int, int, int]) -> Tensor:
    """The log-probability of one sample's move, looked up by hand."""
    state = index[:2] if batch.form == "positions" else index
    return legal_logprobs[state][batch.slots[index]]


@pytest.mark.parametrize("form", FORMS)
def test_rewards_are_left_alone_without_a_term_in_the_reward(form: str) -> None:
    batch = rollout(form)
    reg = regularizer(ent_coef=0.1, kl_old_coef=0.1, kl_ref_coef=0.1, repo_coef=0.1)
    assert reg.shape_reward(batch) is batch.rewards
    assert not reg.needs_learner
    assert regularizer().shape_advantage(batch.rewards, batch) is batch.rewards


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("estimator", ["k1", "k2", "k3"])
def test_a_kl_in_the_reward_is_taken_from_each_valid_sample(form: str, estimator: str) -> None:
    batch = rollout(form)
    assert batch.ref_legal_logprobs is not None
    assert batch.learner_legal_logprobs is not None
    formula = FORMULAS[estimator]
    to_ref = regularizer(kl_ref_coef=0.3, kl_ref_estimator=estimator, kl_ref_placement="reward")
    to_old = regularizer(kl_old_coef=0.3, kl_old_estimator=estimator, kl_old_placement="reward")
    assert to_ref.needs_reference
    assert to_old.needs_learner
    shaped_ref, shaped_old = to_ref.shape_reward(batch), to_old.shape_reward(batch)
    assert shaped_ref.shape == batch.rewards.shape
    kls = []
    for index in map(tuple, batch.valid.nonzero().tolist()):
        old = batch.old_logprobs[index]
        kl_ref = formula(old - at(batch, batch.ref_legal_logprobs, index))
        kl_old = formula(at(batch, batch.learner_legal_logprobs, index) - old)
        torch.testing.assert_close(shaped_ref[index], batch.rewards[index] - 0.3 * kl_ref)
        torch.testing.assert_close(shaped_old[index], batch.rewards[index] - 0.3 * kl_old)
        kls.append(float(kl_ref))
    assert shaped_ref[batch.valid].isfinite().all()
    assert to_ref.metrics()[f"reg/kl_ref_{estimator}_reward"] == pytest.approx(sum(kls) / len(kls))
    assert to_ref.metrics()["reg/kl_ref_coef"] == 0.3


def test_a_kl_in_the_reward_is_not_in_the_loss_but_its_exact_value_is_logged() -> None:
    batch = rollout("positions")
    reg = regularizer(kl_old_coef=0.2, kl_old_estimator="k2", kl_old_placement="reward", **REF_K1)
    flat = batch.flat()
    dist = MaskedCategorical(torch.zeros(6, 6, dtype=torch.float64), flat.legal, flat.temperature)
    advantages = torch.zeros(6, 4, dtype=torch.float64)
    loss, parts = penalty_of(reg, dist, flat, advantages)
    assert (loss == 0).all()
    assert flat.ref_legal_logprobs is not None
    torch.testing.assert_close(parts["reg/kl_ref"], dist.kl(flat.ref_legal_logprobs))
    torch.testing.assert_close(parts["reg/kl_old"], dist.kl(flat.old_legal_logprobs))
    assert (parts["reg/kl_ref_weighted"] == 0).all()
    assert (parts["reg/kl_old_weighted"] == 0).all()
    assert reg.penalties(dist, flat, advantages)[0] == {}


def test_a_coefficient_that_a_controller_moved_holds_in_the_reward() -> None:
    batch = rollout("games")
    reg = regularizer(**REF_K1)
    taken = (batch.rewards - reg.shape_reward(batch))[batch.valid]
    reg.state = reg.state.moved(kl_ref_coef=2 * REF_K1["kl_ref_coef"])
    torch.testing.assert_close((batch.rewards - reg.shape_reward(batch))[batch.valid], 2 * taken)
    assert taken.abs().max() > 0.01


def test_a_kl_in_the_reward_without_its_distribution_is_refused() -> None:
    without = {"ref_legal_logprobs": None, "learner_legal_logprobs": None}
    bare = dataclasses.replace(rollout("games"), **without)
    with pytest.raises(ValueError, match="no reference distribution.*with_reference"):
        regularizer(**REF_K1).shape_reward(bare)
    to_old = {name.replace("ref", "old"): value for name, value in REF_K1.items()}
    with pytest.raises(ValueError, match="learner_legal_logprobs.*needs_learner"):
        regularizer(**to_old).shape_reward(bare)


@pytest.mark.parametrize("form", FORMS)
def test_repo_takes_the_centred_log_probability_from_each_advantage(form: str) -> None:
    batch = rollout(form)
    advantages = torch.where(batch.valid, batch.rewards, 0.0)
    shaped = regularizer(repo_coef=0.2).shape_advantage(advantages, batch)
    probs = batch.old_legal_logprobs.exp()
    entropy = -torch.where(probs > 0, probs * batch.old_legal_logprobs, 0.0).sum(-1)
    for index in map(tuple, batch.valid.nonzero().tolist()):
        state = index[:2] if form == "positions" else index
        expected = advantages[index] - 0.2 * (batch.old_logprobs[index] + entropy[state])
        torch.testing.assert_close(shaped[index], expected)
    assert (shaped[~batch.valid] == 0).all()


@pytest.mark.parametrize("form", FORMS)
def test_repo_leaves_a_forced_move_alone(form: str) -> None:
    batch = rollout(form)
    forced = (batch.legal_ids >= 0).sum(-1) == 1
    forced = (forced.unsqueeze(-1) if form == "positions" else forced) & batch.valid
    assert forced.any()
    advantages = torch.where(batch.valid, batch.rewards, 0.0)
    shaped = regularizer(repo_coef=0.2).shape_advantage(advantages, batch)
    assert torch.equal(shaped[forced], advantages[forced])
