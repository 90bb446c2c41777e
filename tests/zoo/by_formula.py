"""Off-policy batches, and a surrogate's loss and gradient over them in plain Python: no code of the losses is used."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from algorithms.core.algorithm import Algorithm, Controls
from algorithms.core.batch import FlatBatch
from algorithms.core.losses import weighted_sum
from algorithms.testing.algorithm_contract import with_batch
from algorithms.testing.cases import Case, noise_like, random_case

Array = NDArray[np.float64]

Surrogate = Callable[[float, float, float], tuple[float, float]]
"""(log pi, log pi_old, A) -> (loss, d loss / d log pi) of one sample."""


@dataclasses.dataclass(frozen=True)
class OffPolicy:
    """A float64 rollout with samples that are not valid, and the logits of a learner that has moved on.

    Attributes:
        case: the rollout.
        logits: `[N, L]` the learner's.
        advantages: `[N, K]`; 0 where not valid.
        weights: `[N, K]` the algorithm's.
    """

    case: Case
    logits: Tensor
    advantages: Tensor
    weights: Tensor

    @property
    def flat(self) -> FlatBatch:
        """The states."""
        return self.case.flat

    def losses(
        self, algorithm: Algorithm, controls: Controls | None = None
    ) -> tuple[Tensor, Tensor]:
        """(`[N, K]` losses, `[N, L]` d (sum of weights * losses) / d logits)."""
        logits = self.logits.clone().requires_grad_()
        losses = algorithm.policy_loss(
            self.case.dist(logits), self.flat, self.advantages, controls or algorithm.controls()
        ).loss
        total = weighted_sum(losses, self.weights, self.flat.valid)
        (gradient,) = torch.autograd.grad(total, logits)
        return losses.detach(), gradient

    def ratios(self) -> Tensor:
        """`[N, K]` pi / pi_old of the samples."""
        return (self.case.dist(self.logits).gather(self.flat.slots) - self.flat.old_logprobs).exp()

    def by_formula(self, surrogate: Surrogate) -> tuple[Array, Array]:
        """What `losses` gives, sample by sample; losses of samples that are not valid are 0."""
        flat, temperature = self.flat, self.flat.temperature
        logits, legal = self.logits.numpy(), flat.legal.numpy()
        losses, gradient = np.zeros(flat.valid.shape), np.zeros(logits.shape)
        for n, k in zip(*np.nonzero(flat.valid.numpy()), strict=True):
            moves = [int(move) for move in np.flatnonzero(legal[n])]
            scaled = [math.exp(logits[n, move] / temperature) for move in moves]
            shares = [each / math.fsum(scaled) for each in scaled]
            probs = dict(zip(moves, shares, strict=True))
            chosen = int(flat.slots[n, k])
            old, advantage = float(flat.old_logprobs[n, k]), float(self.advantages[n, k])
            losses[n, k], slope = surrogate(math.log(probs[chosen]), old, advantage)
            for move in moves:
                score = ((move == chosen) - probs[move]) / temperature
                gradient[n, move] += float(self.weights[n, k]) * slope * score
        return losses, gradient

    def agrees(self, algorithm: Algorithm, surrogate: Surrogate) -> None:
        """Fails unless losses and gradient are those of the formula, to 1e-10."""
        losses, gradient = self.losses(algorithm)
        expected_losses, expected_gradient = self.by_formula(surrogate)
        found = torch.where(self.flat.valid, losses, 0.0).numpy()
        np.testing.assert_allclose(found, expected_losses, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(gradient.numpy(), expected_gradient, rtol=1e-10, atol=1e-12)

    def with_junk(self) -> OffPolicy:
        """The same with other numbers in the samples that are not valid."""
        valid = self.flat.valid
        flat = dataclasses.replace(
            self.flat, old_logprobs=torch.where(valid, self.flat.old_logprobs, -7.0)
        )
        advantages = torch.where(valid, self.advantages, 1e3)
        return dataclasses.replace(
            self, case=dataclasses.replace(self.case, flat=flat), advantages=advantages
        )


def off_policy(
    algorithm: Algorithm, form: str = "positions", *, seed: int = 0, moved: float = 1.5
) -> OffPolicy:
    """A learner whose logits have left the sampler's by `moved` times standard normal noise."""
    case = random_case(algorithm, form, seed=seed, dtype=torch.float64)
    valid = case.batch.valid.clone()
    if form == "positions":
        valid[0, 0], valid[1, 1, 0] = False, False
    else:
        valid[1, 0] = False
    case = with_batch(case, dataclasses.replace(case.batch, valid=valid))
    weights = case.batch.flatten(algorithm.weights(case.batch))
    logits = case.logits + moved * noise_like(case.logits, seed + 1)
    return OffPolicy(case, logits, case.advantages(), weights)


def one_sample(
    algorithm: Algorithm, ratio: float, advantage: float, prob: float = 0.2
) -> tuple[float, float]:
    """(loss, d loss / d log pi) of a sample with pi = `prob` and this ratio, under the algorithm's own bounds."""
    logprobs = torch.tensor([[math.log(prob)]], dtype=torch.float64, requires_grad=True)
    flat: Any = _Sample(logprobs.detach() - math.log(ratio))
    advantages = torch.tensor([[advantage]], dtype=torch.float64)
    dist: Any = _Chosen(logprobs)
    loss = algorithm.policy_loss(dist, flat, advantages, algorithm.controls()).loss
    (gradient,) = torch.autograd.grad(loss.sum(), logprobs)
    return loss.item(), gradient.item()


@dataclasses.dataclass(frozen=True)
class _Chosen:
    """Stands for a distribution of which the log-probability of the chosen move alone is asked."""

    logprobs: Tensor

    def gather(self, slots: Tensor) -> Tensor:
        return self.logprobs


@dataclasses.dataclass(frozen=True)
class _Sample:
    """Stands for a batch of one valid sample."""

    old_logprobs: Tensor
    slots: Tensor = dataclasses.field(default_factory=lambda: torch.zeros(1, 1, dtype=torch.int64))
    valid: Tensor = dataclasses.field(default_factory=lambda: torch.ones(1, 1, dtype=torch.bool))
