"""The entropy bonus."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from algorithms.core.batch import FlatBatch
from algorithms.core.distribution import MaskedCategorical
from algorithms.regularization import estimators
from algorithms.regularization.term import Term, Weight

EntropyEstimator = Literal["exact", "sampled"]


@dataclass(frozen=True)
class EntropySettings:
    """The bonus.

    Attributes:
        ent_coef: weight of the entropy bonus, >= 0; larger keeps the policy broader.
        ent_coef_final: value reached at the end of training, linearly in the progress; None keeps
            it constant.
        ent_estimator: "exact" over all legal moves; "sampled" repeats the post-mortems' bonus,
            which rewards no entropy (see estimators.py): an experiment switch.
    """

    ent_coef: Weight = 0.0
    ent_coef_final: Weight | None = None
    ent_estimator: EntropyEstimator = "exact"


def entropy(settings: EntropySettings) -> Term:
    """The term that these settings mean."""
    estimate = estimators.ENTROPY[settings.ent_estimator]

    def value(dist: MaskedCategorical, batch: FlatBatch, advantages: Tensor) -> Tensor:
        return estimate(dist, batch)

    sampled = settings.ent_estimator != "exact"
    return Term(
        name="entropy",
        coef=settings.ent_coef,
        sign=-1,
        estimate=value,
        estimator=settings.ent_estimator,
        exact=estimators.exact_entropy,
        coef_name="ent_coef",
        setting="ent_coef",
        averages_samples=sampled,
        keeps_optimum=not sampled,
    )
