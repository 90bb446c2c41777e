"""Expected gradients of the entropy and KL terms, by enumeration over all moves, in float64.

Every move becomes a state with that one sample; weighted by the behaviour policy's probability their
sum is the expectation.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from algorithms.core.batch import FlatBatch, RolloutBatch, blank_batch
from algorithms.core.distribution import MaskedCategorical
from algorithms.core.losses import score_function
from algorithms.regularization import Regularizer, RegularizerConfig, entropy_and_kl
from tests.regularization.penalty import penalty_of
from tests.regularization.regularizer_cases import TEMPERATURE, flat_batch

NUM_LEGAL, SLOTS = 12, 14
MOVES = torch.arange(NUM_LEGAL)[:, None]
LEGAL = (torch.arange(SLOTS) < NUM_LEGAL).expand(NUM_LEGAL, SLOTS)

Loss = Callable[[MaskedCategorical, FlatBatch], Tensor]


def policies(seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Logits `[L]` of learner, a behaviour policy elsewhere, and a reference."""
    generator = torch.Generator().manual_seed(seed)
    learner, old, ref = torch.randn(3, SLOTS, generator=generator, dtype=torch.float64)
    return learner, old, ref


def expected_gradient(loss: Loss, learner: Tensor, old: Tensor, ref: Tensor) -> Tensor:
    """`[L]` E over the behaviour policy's moves of the gradient of a per-state loss `[N]`."""
    z = learner.clone().requires_grad_()
    dist = MaskedCategorical(z.expand(NUM_LEGAL, SLOTS), LEGAL, TEMPERATURE)
    batch = flat_batch(old.expand_as(LEGAL), LEGAL, MOVES, ref_logits=ref.expand_as(LEGAL))
    weights = batch.old_logprobs[:, 0].exp()
    torch.testing.assert_close(weights.sum(), torch.ones((), dtype=torch.float64))
    (gradient,) = torch.autograd.grad((weights * loss(dist, batch)).sum(), z)
    assert (gradient[NUM_LEGAL:] == 0).all()
    return gradient


def to_reference(batch: FlatBatch) -> Tensor:
    assert batch.ref_legal_logprobs is not None
    return batch.ref_legal_logprobs


def in_loss(name: str) -> Loss:
    return lambda dist, batch: entropy_and_kl.KL[name](dist, batch, to_reference(batch))


def weighted(name: str, stop: bool) -> Loss:
    """w k(d), or sg(w) k(d) with `stop`."""

    def loss(dist: MaskedCategorical, batch: FlatBatch) -> Tensor:
        weight = entropy_and_kl.importance_weight(dist, batch)
        gap = entropy_and_kl.log_gap(dist, batch, to_reference(batch))
        terms = (weight.detach() if stop else weight) * entropy_and_kl.PER_SAMPLE[name](gap)
        return entropy_and_kl.mean_over_samples(terms, batch.valid)

    return loss


def in_reward(name: str) -> Loss:
    """The score function with reward -k(d), weighted by sg(w)."""

    def loss(dist: MaskedCategorical, batch: FlatBatch) -> Tensor:
        gap = entropy_and_kl.log_gap(dist, batch, to_reference(batch)).detach()
        weight = entropy_and_kl.importance_weight(dist, batch).detach()
        reward = -entropy_and_kl.PER_SAMPLE[name](gap)
        return (weight * score_function(dist.gather(batch.slots), reward)).squeeze(-1)

    return loss


LOSSES: dict[str, Loss] = {
    **{name: in_loss(name) for name in ("exact", "k1", "k2", "k3", "weighted_k3")},
    "w k1": weighted("k1", stop=False),
    "sg(w) k2": weighted("k2", stop=True),
    "w k3": weighted("k3", stop=False),
    "sg(w) k3": weighted("k3", stop=True),
    "k1 in reward": in_reward("k1"),
    "k3 in reward": in_reward("k3"),
}
ON_POLICY = {
    "zero": {"k1"},
    "exact": {"exact", "k2", "weighted_k3", "w k1", "sg(w) k2", "w k3", "k1 in reward"},
    "forward": {"k3", "sg(w) k3"},
}
OFF_POLICY = {
    "zero": set[str](),
    "exact": {"exact", "weighted_k3", "w k1", "sg(w) k2", "w k3", "k1 in reward"},
    "forward": {"sg(w) k3"},
}


def relative(gradient: Tensor, true: Tensor) -> float:
    return float((gradient - true).norm() / true.norm())


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("table", "on_policy"), [(ON_POLICY, True), (OFF_POLICY, False)])
def test_the_table_of_the_estimators_gradients(
    table: dict[str, set[str]], on_policy: bool, seed: int
) -> None:
    learner, elsewhere, ref = policies(seed)
    old = learner if on_policy else elsewhere
    gradients = {name: expected_gradient(f, learner, old, ref) for name, f in LOSSES.items()}
    z = learner.clone().requires_grad_()
    dist = MaskedCategorical(z, LEGAL[0], TEMPERATURE)
    other = MaskedCategorical(ref, LEGAL[0], TEMPERATURE)
    (true,) = torch.autograd.grad(dist.kl(other.logprobs), z, retain_graph=True)
    (forward,) = torch.autograd.grad(other.kl(dist.logprobs), z)
    found = {
        "zero": {name for name, g in gradients.items() if g.norm() < 1e-6 * true.norm()},
        "exact": {name for name, g in gradients.items() if relative(g, true) < 1e-6},
        "forward": {name for name, g in gradients.items() if relative(g, forward) < 1e-6},
    }
    assert found == table
    named = set().union(*table.values())
    assert all(relative(g, true) > 0.05 for name, g in gradients.items() if name not in named)
    assert relative(forward, true) > 0.05


@pytest.mark.parametrize("name", ["k1", "k3", "weighted_k3"])
def test_the_estimators_values_are_unbiased_on_policy(name: str) -> None:
    learner, _, ref = policies()
    dist = MaskedCategorical(learner.expand_as(LEGAL), LEGAL, TEMPERATURE)
    batch = flat_batch(learner.expand_as(LEGAL), LEGAL, MOVES, ref_logits=ref.expand_as(LEGAL))
    weights = batch.old_logprobs[:, 0].exp()
    value = (weights * entropy_and_kl.KL[name](dist, batch, to_reference(batch))).sum()
    torch.testing.assert_close(value, dist.kl(to_reference(batch))[0], rtol=1e-10, atol=0)


def regularizer_loss(**settings: object) -> Loss:
    regularizer = Regularizer(RegularizerConfig(**settings), TEMPERATURE)  # type: ignore[arg-type]
    zeros = torch.zeros(NUM_LEGAL, 1, dtype=torch.float64)
    return lambda dist, batch: penalty_of(regularizer, dist, batch, zeros)[0]


def test_the_sampled_bonus_has_no_expected_gradient_on_policy() -> None:
    learner, _, ref = policies()
    sampled = regularizer_loss(ent_coef=0.1, ent_estimator="sampled")
    exact = regularizer_loss(ent_coef=0.1)
    assert expected_gradient(sampled, learner, learner, ref).norm() < 1e-15
    assert expected_gradient(exact, learner, learner, ref).norm() > 1e-3


def test_the_sampled_bonus_is_minus_the_post_mortems_kl_penalty_and_equal_weights_cancel() -> None:
    learner, old, ref = policies()
    bonus = regularizer_loss(ent_coef=0.1, ent_estimator="sampled")
    penalty = regularizer_loss(kl_old_coef=0.1, kl_old_estimator="forward_k1")
    both = regularizer_loss(
        ent_coef=0.1, ent_estimator="sampled", kl_old_coef=0.1, kl_old_estimator="forward_k1"
    )
    repelled = expected_gradient(bonus, learner, old, ref)
    held = expected_gradient(penalty, learner, old, ref)
    assert held.norm() > 1e-3
    torch.testing.assert_close(repelled, -held, rtol=1e-12, atol=1e-17)
    assert expected_gradient(both, learner, old, ref).norm() < 1e-15
    # k1 of KL(pi || old) has the other sign: in the loss it repels just as the bonus does.
    k1 = regularizer_loss(kl_old_coef=0.1, kl_old_estimator="k1")
    torch.testing.assert_close(expected_gradient(k1, learner, old, ref), repelled)


def test_the_post_mortems_kl_penalty_has_the_gradient_of_the_forward_kl() -> None:
    learner, elsewhere, ref = policies()
    penalty = regularizer_loss(kl_old_coef=1.0, kl_old_estimator="forward_k1")
    for old in (learner, elsewhere):
        z = learner.clone().requires_grad_()
        dist = MaskedCategorical(z, LEGAL[0], TEMPERATURE)
        sampler = MaskedCategorical(old, LEGAL[0], TEMPERATURE)
        (forward,) = torch.autograd.grad(sampler.kl(dist.logprobs), z)
        gradient = expected_gradient(penalty, learner, old, ref)
        torch.testing.assert_close(gradient, forward, rtol=1e-10, atol=1e-15)


def test_the_sampled_bonus_repels_the_policy_from_its_own_samples_without_bound() -> None:
    learner, old, ref = policies()
    bonus = regularizer_loss(ent_coef=1.0, ent_estimator="sampled")
    samples = MaskedCategorical(old, LEGAL[0], TEMPERATURE).probs[:NUM_LEGAL]

    def logged_and_true(z: Tensor) -> tuple[float, float]:
        dist = MaskedCategorical(z, LEGAL[0], TEMPERATURE)
        return float(-(samples * dist.logprobs[:NUM_LEGAL]).sum()), float(dist.entropy())

    z = learner.clone()
    for _ in range(400):
        z = z - 10.0 * expected_gradient(bonus, z, old, ref)
    logged, true = logged_and_true(z)
    assert logged > 10 * torch.tensor(float(NUM_LEGAL)).log()  # no entropy is that large
    assert true < 0.01


@pytest.mark.parametrize("on_policy", [True, False])
def test_repo_is_the_exact_bonus_of_the_same_weight_on_policy_alone(on_policy: bool) -> None:
    learner, elsewhere, _ = policies()
    old = learner if on_policy else elsewhere
    beta = 0.3
    advantages = torch.randn(
        NUM_LEGAL, generator=torch.Generator().manual_seed(5), dtype=torch.float64
    )
    shaped = Regularizer(RegularizerConfig(repo_coef=beta), TEMPERATURE).shape_advantage(
        advantages.reshape(1, 1, NUM_LEGAL), one_position(old)
    )
    bonus = regularizer_loss(ent_coef=beta)

    def surrogate(values: Tensor) -> Loss:
        return lambda dist, batch: score_function(
            dist.gather(batch.slots), values.reshape(-1, 1)
        ).squeeze(-1)

    def sum_of(dist: MaskedCategorical, batch: FlatBatch) -> Tensor:
        return surrogate(advantages)(dist, batch) + bonus(dist, batch)

    repo = expected_gradient(surrogate(shaped), learner, old, learner)
    exact = expected_gradient(sum_of, learner, old, learner)
    assert (relative(repo, exact) < 1e-10) is on_policy


def test_k1_in_the_reward_is_the_exact_penalty_on_policy() -> None:
    learner, _, ref = policies()
    batch = one_position(learner).with_reference(
        MaskedCategorical(ref, LEGAL[0], TEMPERATURE).logprobs.reshape(1, 1, SLOTS)
    )
    config = RegularizerConfig(kl_ref_coef=0.3, kl_ref_estimator="k1", kl_ref_placement="reward")
    shaped = Regularizer(config, TEMPERATURE).shape_reward(batch).reshape(-1, 1)
    reward = expected_gradient(
        lambda dist, flat: score_function(dist.gather(flat.slots), shaped).squeeze(-1),
        learner,
        learner,
        ref,
    )
    loss = expected_gradient(regularizer_loss(kl_ref_coef=0.3), learner, learner, ref)
    assert loss.norm() > 1e-3
    torch.testing.assert_close(reward, loss, rtol=1e-10, atol=1e-15)


def one_position(logits: Tensor) -> RolloutBatch:
    """A rollout of one position with every legal move as a sample and rewards 0."""
    dist = MaskedCategorical(logits.reshape(1, 1, SLOTS), LEGAL[:1, None], TEMPERATURE)
    shape = {"samples": NUM_LEGAL, "num_legal": SLOTS, "temperature": TEMPERATURE}
    blank = blank_batch("positions", (1, 1), **shape)
    return dataclasses.replace(
        blank,
        legal_ids=torch.arange(SLOTS).masked_fill(~LEGAL[0], -1).reshape(1, 1, -1),
        old_logprobs=dist.gather(blank.slots),
        old_legal_logprobs=dist.logprobs,
        rewards=blank.rewards.double(),
    )
