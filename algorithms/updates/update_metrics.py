"""Metrics of an update: sums over its minibatches, kept on the device until its end."""

from __future__ import annotations

import dataclasses
import math

import torch
from torch import Tensor

from algorithms.core.algorithm import Algorithm, Controls
from algorithms.core.batch import FlatBatch
from algorithms.core.distribution import MaskedCategorical
from algorithms.core.ratio_metrics import (
    add_sums,
    clip_metrics,
    log_odds_line,
    ratio_metrics,
    ratio_sums,
    to_floats,
)
from algorithms.updates.loss import Loss


@dataclasses.dataclass
class UpdateMetrics:
    """Weighted means over the minibatches of one update; names and formulas: docs/metrics.md."""

    _sums: dict[str, Tensor] = dataclasses.field(default_factory=dict)
    _weights: dict[str, Tensor | float] = dataclasses.field(default_factory=dict)
    _ratio: dict[str, Tensor] = dataclasses.field(default_factory=dict)
    _ratio_first: dict[str, Tensor] = dataclasses.field(default_factory=dict)
    _line_first: dict[str, Tensor] = dataclasses.field(default_factory=dict)

    def add(self, means: dict[str, Tensor], weight: Tensor | float) -> None:
        """Adds means, scalars by name, each weighted with the number of samples or states behind it."""
        for name, value in means.items():
            self._sums[name] = self._sums.get(name, 0.0) + value.detach().double() * weight
            self._weights[name] = self._weights.get(name, 0.0) + weight

    @torch.no_grad()
    def add_loss(self, loss: Loss, algorithm: Algorithm, controls: Controls) -> None:
        """Adds the metrics of one minibatch."""
        minibatch, flat = loss.minibatch, loss.minibatch.flat
        logprobs, states = loss.dist.gather(flat.slots), float(flat.num_states)
        drawn = float(minibatch.num_drawn)
        bounds = controls.clip_low, controls.clip_high
        sums = ratio_sums(logprobs, flat.old_logprobs, minibatch.advantages, flat.valid, *bounds)
        if not self._ratio_first:
            self._ratio_first = sums
            self._line_first = log_odds_line(loss.dist.logprobs, flat.old_legal_logprobs)
        self._ratio = add_sums(self._ratio, sums)
        self.add({"train/policy_loss": loss.policy}, drawn)
        means = {name: value.mean() for name, value in loss.parts.items()}
        self.add(means | {"reg/loss": loss.penalty.mean()}, states)
        samples = flat.valid.sum()
        delight = torch.where(flat.valid, -minibatch.advantages * logprobs, 0.0)
        by_sample = {"policy/delight_mean": delight.sum() / samples}
        gate = algorithm.gate(loss.dist, flat, loss.advantages)
        if gate is not None:
            by_sample["policy/gate_mean"] = torch.where(flat.valid, gate, 0.0).sum() / samples
        self.add(by_sample, samples)
        if loss.value is not None:
            weighted = loss.vf_coef * loss.value
            values = {"train/value_loss": loss.value, "train/value_loss_weighted": weighted}
            self.add(values, drawn)

    def floats(self) -> dict[str, float]:
        """The means by metric name; the ratio's also of the first minibatch alone."""
        values = {name: total / self._weights[name] for name, total in self._sums.items()}
        if self._ratio:
            values |= ratio_metrics(self._ratio)
            first = ratio_metrics(self._ratio_first) | self._line_first
            values |= {f"{name}_first_minibatch": value for name, value in first.items()}
        by_probability = clip_metrics(self._ratio["clip"]) if self._ratio else {}
        return to_floats(values) | by_probability


@torch.no_grad()
def kl_sum(loss: Loss) -> Tensor:
    """Sum over the states of the exact KL(behaviour || learner), a scalar, nats."""
    flat = loss.minibatch.flat
    old = MaskedCategorical(flat.old_legal_logprobs, flat.legal, 1.0)
    return old.kl(loss.dist.logprobs).double().sum()


@torch.no_grad()
def explained_variance(flat: FlatBatch) -> dict[str, float]:
    """1 - Var(R - V) / Var(R) over the valid samples; NaN where all returns are equal, nothing without a critic."""
    if flat.returns is None or flat.old_values is None:
        return {}
    returns = flat.returns[flat.valid].double()
    values = flat.old_values.unsqueeze(-1).expand_as(flat.returns)[flat.valid].double()
    left, whole = (returns - values).var(correction=0), returns.var(correction=0)
    explained = float(1 - left / whole) if whole > 0 else math.nan
    return {"train/explained_variance": explained}
