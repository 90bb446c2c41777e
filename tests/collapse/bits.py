"""What of two batches, or of two policies, is equal to the bit."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

from algorithms.core.batch import RolloutBatch
from algorithms.networks.policy_net import PolicyNet


def fields(batch: RolloutBatch) -> dict[str, Any]:
    return {field.name: getattr(batch, field.name) for field in dataclasses.fields(batch)}


def differing(one: RolloutBatch, other: RolloutBatch) -> set[str]:
    """Names of the fields in which two batches differ by a bit at least."""

    def same(a: Any, b: Any) -> bool:
        return torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b

    b = fields(other)
    return {name for name, value in fields(one).items() if not same(value, b[name])}


def weights(policy: PolicyNet) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in policy.state_dict().items()}


def equal(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> set[str]:
    """Names of the parameters that are equal to the bit."""
    return {name for name in a if torch.equal(a[name], b[name])}
