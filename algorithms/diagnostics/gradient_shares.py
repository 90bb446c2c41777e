"""Which term of the loss pulls, and how hard: gradients beside values."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from algorithms.core.algorithm import Algorithm, Controls
from algorithms.core.losses import value_loss
from algorithms.core.ratio_metrics import to_floats
from algorithms.networks.policy_net import PolicyNet
from algorithms.regularization import Regularizer
from algorithms.updates.training_batch import TrainingBatch, learned_advantages


def gradient_shares(
    policy: PolicyNet,
    algorithm: Algorithm,
    regularizer: Regularizer,
    controls: Controls,
    part: TrainingBatch,
) -> dict[str, float]:
    """Gradient norm, share and cosine, and share of the loss value, of every active loss term.

    See docs/metrics.md. The terms are `policy`, those of the regulariser, and `value` where there is
    a critic, all with their coefficients. One backward pass for each; the parameters' own gradients
    are left alone.

    Args:
        policy: before the update.
        algorithm: gives the policy loss.
        regularizer: gives the entropy and KL terms.
        controls: current clip bounds.
        part: the states that are looked at.

    Raises:
        ValueError: the algorithm learns a critic, and policy or batch have no values.
    """
    flat = part.flat
    outputs = policy.outputs(flat.obs, flat.legal_ids, flat.temperature)
    advantages = learned_advantages(algorithm, regularizer, part)
    samples = algorithm.policy_loss(outputs.dist, flat, advantages, controls)
    terms = {"policy": torch.where(flat.valid, part.weights * samples, 0.0).sum()}
    for name, penalty in regularizer.terms(outputs.dist, flat, advantages).items():
        terms[name] = penalty.mean() * part.penalty_scale
    critic = algorithm.needs().critic
    if critic is not None:
        if outputs.values is None or flat.old_values is None or flat.returns is None:
            raise ValueError(
                f"{algorithm.name} learns a critic: build the policy with critic=True, and sample "
                "the batch and make its targets with it"
            )
        each = value_loss(outputs.values, flat.old_values, flat.returns, critic.clip_range_vf)
        terms["value"] = critic.vf_coef * torch.where(flat.valid, part.weights * each, 0.0).sum()
    return term_metrics(terms, [p for p in policy.parameters() if p.requires_grad])


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
