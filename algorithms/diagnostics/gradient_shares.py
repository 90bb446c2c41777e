"""The gradient of each term of the loss, beside its value."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import torch
from torch import Tensor

from algorithms.core.ratio_metrics import to_floats
from algorithms.updates.learner import Learner
from algorithms.updates.loss import loss_of
from algorithms.updates.passes import WholePasses
from algorithms.updates.training_batch import TrainingBatch


def gradient_shares(learner: Learner, minibatch: TrainingBatch) -> dict[str, float]:
    """Gradient norm, share and cosine, and share of the loss value, of every active loss term.

    See docs/metrics.md. The terms are `policy`, those of the regulariser, and `value` where there is
    a critic, all with their coefficients. One backward pass for each; the parameters' own gradients
    are left alone.

    Args:
        learner: before the update.
        minibatch: the states that are measured.

    Raises:
        ValueError: the algorithm learns a critic, and policy or batch have no values.
    """
    trained = [p for p in learner.policy.parameters() if p.requires_grad]
    whole = dataclasses.replace(learner, passes=WholePasses())  # one process asks, for all shards
    return term_metrics(loss_of(whole, minibatch).terms(), trained)


def term_metrics(terms: dict[str, Tensor], parameters: Sequence[Tensor]) -> dict[str, float]:
    """The metrics of scalar loss terms, one backward pass each.

    A share or cosine with nothing to divide by (all gradients 0) is NaN.
    """
    gradients = [gradients_of(term, parameters) for term in terms.values()]
    rows = torch.stack([torch.cat([g.reshape(-1) for g in parts]) for parts in gradients]).double()
    total = rows.sum(0)
    norms = rows.norm(dim=-1)
    cosines = (rows @ total) / (norms * total.norm())
    values = torch.stack(list(terms.values())).detach().double().abs()
    metrics: dict[str, Tensor] = {}
    for index, name in enumerate(terms):
        metrics[f"grad_share/{name}_norm"] = norms[index]
        metrics[f"grad_share/{name}"] = norms[index] / norms.sum()
        metrics[f"grad_cosine/{name}"] = cosines[index]
        metrics[f"loss_share/{name}"] = values[index] / values.sum()
    return to_floats(metrics)


def gradients_of(scalar: Tensor, parameters: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Its gradient with respect to each parameter, in its shape; zeros where it does not depend on it.

    With frozen layers a whole term may depend on none: the value loss where only the head of the
    policy is trained.
    """
    if not scalar.requires_grad:
        return tuple(torch.zeros_like(parameter) for parameter in parameters)
    return torch.autograd.grad(scalar, parameters, retain_graph=True, materialize_grads=True)
