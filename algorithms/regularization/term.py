"""An entropy or KL term: where it enters, and what is logged of it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Annotated

from torch import Tensor

from algorithms.core.batch import FlatBatch, RolloutBatch
from algorithms.core.checks import Rule
from algorithms.core.distribution import MaskedCategorical

NOT_NEGATIVE = Rule(
    lambda value: 0 <= value < math.inf,
    "the sign is fixed (entropy is rewarded, KL is punished); set it to a finite number >= 0",
)
Weight = Annotated[float, NOT_NEGATIVE]
"""A setting of a term or a controller."""

Estimate = Callable[[MaskedCategorical, FlatBatch, Tensor], Tensor]
"""(learner, minibatch, advantages `[N, K]`) -> `[N]` nats, differentiable in the learner."""


Reshape = Callable[[MaskedCategorical, FlatBatch, Tensor, float], Tensor]
"""(learner, minibatch, advantages `[N, K]`, weight) -> `[N, K]` advantages, no gradient."""


@dataclasses.dataclass(frozen=True)
class Term:
    """One entropy or KL term, in the loss, the reward or the advantage.

    Attributes:
        name: of its metrics: `reg/NAME`, `reg/NAME_weighted`, `grad_share/NAME`.
        coef: its weight at the start of the run, >= 0; 0 switches it off.
        estimate: what enters the loss; None if nothing does.
        sign: 1 if it is a penalty, -1 if it is a bonus.
        estimator: "exact", or what stands behind the name in the metric of the estimate: `reg/NAME_k3`.
        exact: (learner, minibatch) -> `[N]` nats, logged as `reg/NAME` whatever drives the loss; its
            answer None means that the minibatch has nothing to measure it by. None: nothing is logged.
        in_reward: rollout -> values shaped like its rewards, which are subtracted there; the term is
            then not in the loss. None: it is in the loss.
        in_advantage: (advantages, rollout or minibatch) -> the advantages reshaped, no gradient; None:
            they stay as they are.
        by_learner: reshapes the advantages of each minibatch by the learner's own distribution, before the
            policy loss reads them; with the weight in force, which a controller may have moved, below 0
            too. None: they stay as they are.
        coef_name: of the coefficient where controllers may move it; it is then logged as `reg/COEF_NAME`.
        setting: of the coefficient, for messages.
        needs_reference: it reads `FlatBatch.ref_legal_logprobs`.
        needs_learner: it reads `RolloutBatch.learner_legal_logprobs`.
        needs_drift: its gradient is 0 where the learner is the policy that sampled.
        averages_samples: its estimate is a mean over sampled moves, which means nothing where a
            state's samples are all its legal moves.
        keeps_optimum: `diagnostics.probe_metrics` stays an optimum when this term is added.
    """

    name: str
    coef: float
    estimate: Estimate | None = None
    sign: int = 1
    estimator: str = "exact"
    exact: Callable[[MaskedCategorical, FlatBatch], Tensor | None] | None = None
    in_reward: Callable[[RolloutBatch], Tensor] | None = None
    in_advantage: Callable[[Tensor, RolloutBatch | FlatBatch], Tensor] | None = None
    by_learner: Reshape | None = None
    coef_name: str | None = None
    setting: str = ""
    needs_reference: bool = False
    needs_learner: bool = False
    needs_drift: bool = False
    averages_samples: bool = False
    keeps_optimum: bool = False

    @property
    def metric(self) -> str:
        """Name of the estimate: the term's own where it is exact."""
        return self.name if self.estimator == "exact" else f"{self.name}_{self.estimator}"
