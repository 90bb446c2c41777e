"""The one place where entropy and KL enter a loss. Everything is exact over the legal moves."""

from __future__ import annotations

import dataclasses
import math

import torch
from torch import Tensor

from algorithms.core.distribution import MaskedCategorical


@dataclasses.dataclass(frozen=True)
class RegularizerConfig:
    """Coefficients of the regulariser; 0 switches a term off (its raw value is still logged).

    Attributes:
        ent_coef: weight of the exact entropy bonus, >= 0; larger keeps the policy broader.
        ent_coef_final: value reached at the end of training, linearly in the progress; None keeps
            it constant.
        kl_old_coef: weight of KL(policy || behaviour policy), >= 0: a trust region that vanishes at
            each new batch.
        kl_ref_coef: weight of KL(policy || reference policy), >= 0: an anchor that shapes the
            optimum.
    """

    ent_coef: float = 0.0
    ent_coef_final: float | None = None
    kl_old_coef: float = 0.0
    kl_ref_coef: float = 0.0

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if value is not None and not 0 <= value < math.inf:
                raise ValueError(
                    f"{field.name} is {value}: the sign is fixed (entropy is rewarded, KL is "
                    "punished); set it to a finite number >= 0"
                )


class Regularizer:
    """Adds entropy and KL terms to any algorithm's loss; its state belongs in the checkpoint.

    Attributes:
        ent_coef: the entropy bonus' current weight (moved by `update`).
    """

    def __init__(self, config: RegularizerConfig) -> None:
        self.config = config
        self.ent_coef = config.ent_coef

    @property
    def needs_reference(self) -> bool:
        """True if the loss reads the reference policy's distribution."""
        return self.config.kl_ref_coef > 0

    def loss(
        self,
        dist: MaskedCategorical,
        old_legal_logprobs: Tensor,
        ref_legal_logprobs: Tensor | None,
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """`[N]` weighted loss to minimise, and its detached parts `[N]` under their metric names.

        Raw parts (`reg/entropy`, `reg/kl_old`, `reg/kl_ref`, nats) never contain a coefficient;
        weighted parts (`reg/entropy_weighted`, ...) are signed as they enter the loss and add up to
        it. Forced positions count, with entropy and KL 0.

        Raises:
            ValueError: `kl_ref_coef` is positive and there is no reference distribution.
        """
        raw = {"entropy": dist.entropy()}
        weights = {"entropy": -self.ent_coef, "kl_old": self.config.kl_old_coef}
        with torch.set_grad_enabled(torch.is_grad_enabled() and self.config.kl_old_coef > 0):
            raw["kl_old"] = dist.kl(old_legal_logprobs)
        if ref_legal_logprobs is not None:
            weights["kl_ref"] = self.config.kl_ref_coef
            with torch.set_grad_enabled(torch.is_grad_enabled() and self.needs_reference):
                raw["kl_ref"] = dist.kl(ref_legal_logprobs)
        elif self.needs_reference:
            raise ValueError(
                f"kl_ref_coef is {self.config.kl_ref_coef} but the batch has no reference "
                "distribution: compute it with rollout.reference_logprobs and RolloutBatch.with_reference, or set "
                "kl_ref_coef to 0"
            )
        total = torch.zeros_like(raw["entropy"])
        parts: dict[str, Tensor] = {}
        for name, value in raw.items():
            weighted = weights[name] * value
            total = total + weighted
            parts[f"reg/{name}"] = value.detach()
            parts[f"reg/{name}_weighted"] = weighted.detach()
        return total, parts

    def update(self, progress: float) -> None:
        """Moves the schedules to a point of the training budget.

        Args:
            progress: share of the budget spent, in [0, 1].
        """
        if not 0 <= progress <= 1:
            raise ValueError(
                f"progress is {progress}: expected the spent share of the budget in [0, 1]"
            )
        if self.config.ent_coef_final is not None:
            start, end = self.config.ent_coef, self.config.ent_coef_final
            self.ent_coef = start + (end - start) * progress

    def state_dict(self) -> dict[str, float]:
        """What changes during a run, for a checkpoint."""
        return {"ent_coef": self.ent_coef}

    def load_state_dict(self, state: dict[str, float]) -> None:
        """Continues from `state_dict()`."""
        self.ent_coef = float(state["ent_coef"])
