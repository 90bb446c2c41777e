"""The contract of every algorithm; see `algorithms.core.algorithm.Algorithm`."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from torch import Tensor

from algorithms.config.custom import MEMBERS
from algorithms.core.algorithm import Algorithm, Controls, Needs, PolicyLoss
from algorithms.core.batch import RolloutBatch
from algorithms.core.losses import weighted_sum
from algorithms.testing.bandit import check_learning
from algorithms.testing.cases import Case, forms_of, noise_like, random_case
from chess_env.custom_objects import missing_members
from chess_env.testing import rule


def check_algorithm(algorithm: Algorithm, *, seed: int = 0) -> None:
    """Checks that the algorithm keeps the contract of `Algorithm`.

    It is tried on made-up rollouts of both forms (of `positions` alone where it scores all moves or asks for tempered
    samples; of those that its advantages accept), and learns a bandit of 16 states. Takes about half a second.

    Args:
        algorithm: an instance, such as MyAlgorithm().
        seed: of the rollouts.

    Raises:
        ContractError: what broke: frozen dataclass and members, advantages, weights, loss, gradient, gate, order
            of states and group members, learning.
    """
    _check_record(algorithm)
    forms = forms_of(algorithm)
    rule(bool(forms), "advantages must accept rollouts of form positions or games, it refuses both")
    for form in forms:
        case = _case(algorithm, form, seed)
        advantages = _check_advantages(case)
        _check_weights(case)
        _check_loss(case, advantages)
        _check_gate(case, advantages)
        _check_order_of_states(case, advantages)
        _check_order_of_starts(case)
        _check_order_of_members(case)
    check_learning(algorithm, seed=seed)


def _check_record(algorithm: Any) -> None:
    kind = type(algorithm)
    rule(
        dataclasses.is_dataclass(algorithm) and not isinstance(algorithm, type),
        f"an algorithm is an instance of a dataclass, not {algorithm!r}",
    )
    rule(
        kind.__dataclass_params__.frozen,
        f"{kind.__name__} must be frozen (dataclasses.dataclass(frozen=True)): its fields are the run's settings",
    )
    missing = missing_members(algorithm, MEMBERS)
    rule(not missing, f"an algorithm has {', '.join(missing)}; {kind.__name__} has not")
    fields = {field.name for field in dataclasses.fields(algorithm)}
    rule(
        isinstance(algorithm.name, str) and algorithm.name != "" and "name" not in fields,
        "name must be a text of the class (name: ClassVar[str]), and no field",
    )
    for name in ("group_size", "update_epochs"):
        value = getattr(algorithm, name)
        rule(
            isinstance(value, int) and value >= 1,
            f"{name} must be a whole number above 0, not {value!r}",
        )
    rule(isinstance(algorithm.needs(), Needs), "needs() must give a Needs record")
    one, other = algorithm.controls(), algorithm.controls()
    rule(
        isinstance(one, Controls) and one == other and one is not other,
        "controls() must give a fresh Controls record with the same values at every call",
    )


def _case(algorithm: Algorithm, form: str, seed: int) -> Case:
    """A rollout with early endings and, in `positions`, samples that are not valid."""
    case = random_case(algorithm, form, seed=seed)
    if form == "positions" and not algorithm.needs().all_moves:
        valid = case.batch.valid.clone()
        valid[0, 0], valid[1, 1, 0] = False, False
        case = with_batch(case, dataclasses.replace(case.batch, valid=valid))
    return case


def with_batch(case: Case, batch: RolloutBatch) -> Case:
    """The case with another rollout of the same states and the same random numbers."""
    flat = dataclasses.replace(batch.flat(), uniforms=case.flat.uniforms)
    return dataclasses.replace(case, batch=batch, flat=flat)


def _check_advantages(case: Case) -> Tensor:
    """`[N, K]` advantages, once they are right."""
    algorithm, batch = case.algorithm, case.batch
    kept = batch.rewards.clone()
    advantages = algorithm.advantages(batch)
    form = f"in form {batch.form}"
    rule(
        advantages.shape == batch.rewards.shape,
        f"advantages must be shaped like batch.rewards {tuple(batch.rewards.shape)} {form}, "
        f"not {tuple(advantages.shape)}",
    )
    rule(torch.equal(batch.rewards, kept), "advantages must leave the rewards as they were")
    rule(bool(advantages.isfinite().all()), f"advantages must be finite {form}")
    rule(not advantages.requires_grad, "advantages must carry no gradient")
    rule(
        not advantages[~batch.valid].any(),
        f"advantages must be 0 where batch.valid is False {form}",
    )
    rule(
        torch.equal(algorithm.advantages(batch), advantages),
        "advantages must be a function of the batch: two calls gave different ones",
    )
    if algorithm.needs().critic is None or batch.form == "games":
        # A critic's stream is another thing: its rewards matter to the plies before, trained on or not.
        dirty = dataclasses.replace(batch, rewards=kept.masked_fill(~batch.valid, torch.nan))
        rule(
            torch.equal(algorithm.advantages(dirty), advantages),
            f"advantages must not look at rewards where batch.valid is False {form}",
        )
    nothing = dataclasses.replace(batch, valid=torch.zeros_like(batch.valid))
    rule(
        not algorithm.advantages(nothing).any() and not algorithm.weights(nothing).any(),
        f"without any valid sample advantages and weights must be 0 {form}, and no error",
    )
    return batch.flatten(advantages)


def _check_weights(case: Case) -> None:
    weights, batch = case.algorithm.weights(case.batch), case.batch
    rule(
        weights.shape == batch.rewards.shape,
        f"weights must be shaped like batch.rewards {tuple(batch.rewards.shape)} in form {batch.form}, "
        f"not {tuple(weights.shape)}",
    )
    rule(
        bool(weights.isfinite().all())
        and not weights[~batch.valid].any()
        and bool((weights[batch.valid] > 0).all()),
        "weights must be above 0 where batch.valid is True and 0 elsewhere",
    )
    doubled = case.algorithm.weights(dataclasses.replace(batch, rewards=batch.rewards.double()))
    rule(
        doubled.dtype == torch.float64,
        "weights must have the dtype of the rewards: float32 ones blur a float64 loss",
    )


def _loss(case: Case, logits: Tensor, advantages: Tensor) -> Tensor:
    """`[N, K]` the policy loss, as the update asks for it."""
    return _asked(case, logits, advantages).loss


def _asked(case: Case, logits: Tensor, advantages: Tensor) -> PolicyLoss:
    algorithm = case.algorithm
    asked = algorithm.policy_loss(case.dist(logits), case.flat, advantages, algorithm.controls())
    rule(
        isinstance(asked, PolicyLoss),
        f"policy_loss must give PolicyLoss(loss) or PolicyLoss(loss, gate), not {type(asked).__name__}: "
        "from algorithms.core.algorithm import PolicyLoss",
    )
    return asked


def _gradient(case: Case, logits: Tensor, advantages: Tensor) -> Tensor:
    """d (weighted loss) / d logits; 0 where the loss does not depend on them."""
    logits = logits.clone().requires_grad_()
    loss = _loss(case, logits, advantages)
    rule(
        loss.requires_grad,
        "policy_loss must depend on the distribution, or nothing is learned",
    )
    weights = case.batch.flatten(case.algorithm.weights(case.batch))
    (gradient,) = torch.autograd.grad(weighted_sum(loss, weights, case.flat.valid), logits)
    return gradient


def _check_loss(case: Case, advantages: Tensor) -> None:
    # What of illegal moves: dist alone is seen here, and gives them no gradient.
    logits, flat = case.logits, case.flat
    loss = _loss(case, logits, advantages)
    rule(
        loss.shape == flat.valid.shape,
        f"policy_loss must give a loss for each sample, {tuple(flat.valid.shape)}, not {tuple(loss.shape)}: "
        "the loop takes the mean",
    )
    rule(bool(loss[flat.valid].isfinite().all()), "policy_loss must be finite")
    gradient = _gradient(case, logits, advantages)
    rule(
        bool(gradient.isfinite().all()) and bool(gradient.any()),
        "the gradient of policy_loss must be finite and not 0 everywhere",
    )
    rule(
        case.algorithm.needs().reference
        or not _gradient(case, logits, torch.zeros_like(advantages)).any(),
        "advantages of 0 must give no gradient: an entropy or KL term belongs to the regulariser (unless needs() "
        "asks for the reference policy, towards which the loss itself pulls)",
    )
    far = _gradient(case, logits + 3 * noise_like(logits), advantages)
    rule(
        bool(far.isfinite().all()),
        "the gradient must be finite for a policy far from the one that sampled, too",
    )


def _check_gate(case: Case, advantages: Tensor) -> None:
    gate = _asked(case, case.logits, advantages).gate
    rule(
        gate is None
        or (
            gate.shape == case.flat.valid.shape
            and bool(gate.isfinite().all())
            and not gate.requires_grad
        ),
        "the gate of PolicyLoss must be None, or a finite share for each sample that carries no gradient",
    )


def _check_order_of_states(case: Case, advantages: Tensor) -> None:
    order = torch.randperm(case.flat.num_states, generator=torch.Generator().manual_seed(1))
    if case.algorithm.needs().whole_games:
        return  # the loop keeps a game's plies together and in order
    shuffled = dataclasses.replace(case, flat=case.flat.select(order), logits=case.logits[order])
    one = _loss(case, case.logits, advantages)[order]
    other = _loss(shuffled, shuffled.logits, advantages[order])
    rule(
        torch.allclose(one, other, rtol=1e-5, atol=1e-6),
        "policy_loss must not depend on the order of the states: minibatches are drawn at random",
    )


def _check_order_of_starts(case: Case) -> None:
    order = torch.tensor([2, 0, 1])
    moved: dict[str, Any] = {
        field.name: value[order]
        for field in dataclasses.fields(case.batch)
        if isinstance(value := getattr(case.batch, field.name), Tensor)
    }
    before = case.algorithm.advantages(case.batch)[order]
    after = case.algorithm.advantages(dataclasses.replace(case.batch, **moved))
    rule(
        torch.allclose(before, after, rtol=1e-5, atol=1e-6),
        "advantages must not depend on the order of the boards",
    )


def _check_order_of_members(case: Case) -> None:
    needs, batch = case.algorithm.needs(), case.batch
    axis = batch.group_axis % batch.rewards.ndim
    if needs.critic is not None or needs.all_moves or batch.rewards.shape[axis] == 1:
        return  # a critic follows the member that is played on; legal moves have an order
    size = batch.rewards.shape[axis]
    order = torch.arange(size).roll(1)
    names = ["rewards", "valid", "terminated", "slots", "actions", "old_logprobs"]
    if batch.form == "games":
        names += ["truncated", "legal_ids", "old_legal_logprobs", "obs", "ply", "side", "phase"]
    moved: dict[str, Any] = {name: getattr(batch, name).index_select(axis, order) for name in names}
    before = case.algorithm.advantages(batch).index_select(axis, order)
    after = case.algorithm.advantages(dataclasses.replace(batch, **moved))
    rule(
        torch.allclose(before, after, rtol=1e-5, atol=1e-6),
        "advantages must follow their samples when the members of a group change places",
    )
