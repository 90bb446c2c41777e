"""The rollouts of several shards as one batch, in the order of the shards."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from algorithms.core.batch import RolloutBatch
from algorithms.rollouts.dynamic_sampling import Collected, alike


def joined(parts: Sequence[Collected]) -> Collected:
    """One `Collected` with the start positions of all parts, and their amounts added up."""
    if len(parts) == 1:
        return parts[0]
    metrics: dict[str, float] = {}
    for part in parts:
        metrics = {name: metrics.get(name, 0.0) + value for name, value in part.metrics.items()}
    return Collected(
        joined_batches([part.batch for part in parts]),
        sum(part.scored_moves for part in parts),
        sum(part.plies for part in parts),
        metrics,
    )


def joined_batches(batches: Sequence[RolloutBatch]) -> RolloutBatch:
    """One batch with the start positions of all, `[P1 + P2 + ..., ...]`; lists and games are padded to the longest."""
    first = batches[0]
    columns: dict[str, Any] = {}
    for field in dataclasses.fields(first):
        found = [getattr(batch, field.name) for batch in batches]
        if isinstance(found[0], Tensor):
            columns[field.name] = torch.cat(alike(field.name, first, found))
    return dataclasses.replace(first, **columns)
