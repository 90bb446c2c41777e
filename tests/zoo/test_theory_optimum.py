"""The optimum of E[R] - beta KL(pi || uniform) on real positions: pi* = softmax(R / beta)."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from algorithms.core.distribution import MaskedCategorical
from algorithms.regularization import Regularizer, RegularizerConfig
from chess_env.positions.heldout import load_heldout
from chess_env.rewards import make_reward
from tests.regularization.penalty import penalty_of
from tests.regularization.regularizer_cases import flat_batch

POSITIONS = 20


def heldout_rewards(positions: int | None = None) -> tuple[Tensor, Tensor]:
    """(rewards, legal) `[N, L]`: win_prob_delta of every legal move of held-out positions (or all)."""
    table, reward = load_heldout(), make_reward("win_prob_delta", has_evaluator=True)
    indices = np.linspace(0, len(table) - 1, positions or len(table)).astype(int)
    rows = []
    for index in indices:
        child_cp = table.scores_cp(int(index)).astype(np.int64)  # the mover's view
        before_cp = np.full_like(child_cp, child_cp.max())
        going_on = np.zeros(len(child_cp), dtype=np.int8)
        # In self-play the score after the move is seen from the other side.
        rows.append(reward(going_on, False, before_cp, -child_cp)[0])
    width = max(map(len, rows))
    rewards = torch.zeros(len(rows), width, dtype=torch.float64)
    legal = torch.zeros(len(rows), width, dtype=torch.bool)
    for i, row in enumerate(rows):
        rewards[i, : len(row)] = torch.from_numpy(row).double()
        legal[i, : len(row)] = True
    return rewards, legal


def maximise(rewards: Tensor, legal: Tensor, beta: float, steps: int = 60) -> MaskedCategorical:
    """The policy after natural-gradient ascent on E[R] - beta KL(pi || uniform), from random logits.

    The gradient is that of the regulariser's own loss; divided by the probabilities it is the
    natural gradient of a tabular softmax, and a step of 0.5 / beta halves the distance to the fixed point.
    """
    uniform = torch.zeros_like(rewards)
    batch = flat_batch(
        uniform,
        legal,
        torch.zeros(len(legal), 1, dtype=torch.int64),
        ref_logits=uniform,
        temperature=1.0,
    )
    regularizer = Regularizer(RegularizerConfig(kl_ref_coef=beta), 1.0)
    advantages = torch.zeros(len(legal), 1, dtype=torch.float64)
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(rewards.shape, generator=generator, dtype=torch.float64)
    for _ in range(steps):
        z = logits.clone().requires_grad_()
        dist = MaskedCategorical(z, legal, 1.0)
        penalty, _ = penalty_of(regularizer, dist, batch, advantages)
        loss = penalty.sum() - (dist.probs * rewards).sum()
        (gradient,) = torch.autograd.grad(loss, z)
        natural = torch.where(legal, gradient / dist.probs.detach().clamp(min=1e-300), 0.0)
        logits = logits - 0.5 / beta * natural
    return MaskedCategorical(logits, legal, 1.0)


@pytest.mark.parametrize("beta", [0.3, 0.1, 0.03])
def test_the_optimums_entropy_is_that_of_the_closed_form_on_real_positions(beta: float) -> None:
    rewards, legal = heldout_rewards(POSITIONS)
    best = MaskedCategorical(rewards / beta, legal, 1.0)  # softmax(R / beta)
    found = maximise(rewards, legal, beta)
    assert legal.sum(-1).max() > 20
    torch.testing.assert_close(found.entropy(), best.entropy(), rtol=1e-6, atol=1e-8)
    torch.testing.assert_close(found.probs, best.probs, rtol=0, atol=1e-8)


def test_a_weaker_anchor_means_a_sharper_optimum() -> None:
    """The figures of docs/algorithms/regularization.md."""
    rewards, legal = heldout_rewards()
    assert len(rewards) == 1472
    entropies = [
        float(MaskedCategorical(rewards / beta, legal, 1.0).entropy().mean())
        for beta in (0.3, 0.1, 0.03, 0.01, 0.003, 0.001)
    ]
    # ln(legal moves) is 3.10 on average: at 0.03 about four moves are left.
    assert entropies == pytest.approx([2.73, 2.10, 1.34, 0.70, 0.32, 0.17], abs=0.006)
