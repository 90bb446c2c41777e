"""The contract of every entropy or KL term; see `algorithms.regularization.term.Term`."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from algorithms.core.batch import FlatBatch
from algorithms.grpo import GRPO
from algorithms.regularization.term import Term
from algorithms.testing.cases import Case, noise_like, random_case
from chess_env.testing import rule


def check_regularizer_term(term: Term) -> None:
    """Checks that a term keeps the contract of `Term` on random states of rollouts of both forms.

    Args:
        term: made by a function of yours.

    Raises:
        ContractError: what broke: its name and weight, the shape and dtype of its estimate, finite numbers and
            gradients, a state apart from the others, a constant added to the logits, forced moves.
    """
    rule(isinstance(term, Term), f"a term is a Term, not a {type(term).__name__}")
    rule(term.name.isidentifier(), f"the name is {term.name!r}: it must be fit for a metric's name")
    rule(
        0 <= term.coef < math.inf and term.sign in (1, -1),
        f"the coefficient is {term.coef} and the sign {term.sign}: a coefficient is a finite number >= 0, "
        "and the sign 1 (punished) or -1 (rewarded)",
    )
    for form in ("positions", "games"):
        case = random_case(GRPO(group_size=4), form, dtype=torch.float64)
        if term.estimate is not None:
            _check_estimate(term, case)
        if term.in_reward is not None:
            values = term.in_reward(case.batch)
            _check_values("in_reward", values, case.batch.rewards, case.batch.valid)
        if term.in_advantage is not None:
            shaped = term.in_advantage(case.advantages(), case.flat)
            _check_values("in_advantage", shaped, case.advantages(), case.flat.valid)
        if term.by_learner is not None:
            moved = (case.logits + 0.3 * noise_like(case.logits)).requires_grad_()
            shaped = term.by_learner(case.dist(moved), case.flat, case.advantages(), term.coef)
            _check_values("by_learner", shaped, case.advantages(), case.flat.valid)


def _value(term: Term, case: Case, logits: Tensor, index: Tensor | None = None) -> Tensor:
    """The estimate of a learner with these logits, on some of the states."""
    flat: FlatBatch = case.flat if index is None else case.flat.select(index)
    advantages = case.advantages() if index is None else case.advantages()[index]
    twin = Case(case.algorithm, case.batch, flat, logits)
    assert term.estimate is not None
    return term.estimate(twin.dist(logits), flat, advantages)


def _check_estimate(term: Term, case: Case) -> None:
    logits = (case.logits + 0.3 * noise_like(case.logits)).requires_grad_()
    value = _value(term, case, logits)
    rule(
        tuple(value.shape) == (case.flat.num_states,) and value.dtype == logits.dtype,
        f"the estimate must be [N] in the logits' dtype, here {logits.dtype} [{case.flat.num_states}], "
        f"not {value.dtype} {list(value.shape)}",
    )
    rule(bool(value.isfinite().all()), "the estimate must be finite")
    rule(value.requires_grad, "the estimate must depend on the learner, or it changes nothing")
    (gradient,) = torch.autograd.grad(value.sum(), logits)
    rule(bool(gradient.isfinite().all()), "the gradient of the estimate must be finite")
    rule(
        not gradient[~case.flat.legal].any(),
        "illegal moves must get no gradient: use dist's logprobs, probs or entropy",
    )
    shifted = _value(term, case, logits.detach() + 3.0)
    rule(
        torch.allclose(shifted, value.detach(), atol=1e-9),
        "a constant added to all logits of a state must change nothing: the policy is the same",
    )
    if (
        not term.averages_samples
    ):  # such a term may compare the samples of a minibatch with each other
        for first in (0, 1):
            half = torch.arange(first, case.flat.num_states, 2)
            alone = _value(term, case, logits.detach()[half], half)
            rule(
                torch.allclose(alone, value.detach()[half], atol=1e-9),
                "a state's estimate must not depend on the other states of the minibatch",
            )


def _check_values(what: str, values: Any, like: Tensor, valid: Tensor) -> None:
    rule(
        isinstance(values, Tensor) and values.shape == like.shape and not values.requires_grad,
        f"{what} must give a number for each sample, {list(like.shape)}, without gradient",
    )
    rule(bool(values[valid].isfinite().all()), f"{what} must be finite")
