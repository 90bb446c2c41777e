"""DAPO's dynamic sampling: groups without any signal are replaced by groups that have one."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from algorithms.core.batch import RolloutBatch
from algorithms.rollouts.ply import pad_axis, padding_of

MAX_EXTRA_ROLLOUTS = 3


@dataclasses.dataclass(frozen=True)
class Collected:
    """The batch that one update learns from, and what it cost.

    Attributes:
        batch: the states and samples.
        scored_moves: valid samples of all rollouts, those that were thrown away included.
        plies: states of all rollouts with at least one valid sample.
        metrics: amounts of dynamic sampling; empty without it.
    """

    batch: RolloutBatch
    scored_moves: int
    plies: int
    metrics: dict[str, float] = dataclasses.field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Tensors and JSON values of every field, for other processes."""
        return {**vars(self), "batch": vars(self.batch)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Collected:
        """The batch and its cost of which these are the `to_dict()`."""
        return cls(**{**values, "batch": RolloutBatch(**values["batch"])})


def live_groups(batch: RolloutBatch) -> Tensor:
    """True where a group's valid rewards differ: bool `[P, T]`, or `[P]` in the form `games`.

    In `games` a group is all games from one start, and it is live if at some ply its valid rewards
    differ.
    """
    axis = batch.group_axis
    high = batch.rewards.masked_fill(~batch.valid, -torch.inf).amax(axis)
    low = batch.rewards.masked_fill(~batch.valid, torch.inf).amin(axis)
    live = high > low
    return live if batch.form == "positions" else live.any(-1)


def collect_live(
    first: RolloutBatch, roll: Callable[[int], RolloutBatch], affordable: Callable[[int], bool]
) -> Collected:
    """The first rollout with its dead groups replaced by live ones of at most three further ones.

    arXiv:2503.14476, section 3.2: prompts whose samples all have the same reward are filtered out and
    sampling goes on until the batch is full. Here the number of further rollouts is bounded, and dead
    groups for which none came stay, with advantage 0. Every scored move counts towards the budget,
    those of groups that are thrown away too.

    Args:
        first: a rollout.
        roll: makes a further one of the same form, with the same policy, given how many groups are
            wanted; it may hold more groups or fewer.
        affordable: whether the budget allows one more rollout after so many scored moves.

    Raises:
        ValueError: a reward is not finite; its group must not pass for a dead one.
    """
    first.require_finite_rewards()
    batch, moves, plies = first, first.scored_moves, first.plies
    replaced = extra = 0
    while extra < MAX_EXTRA_ROLLOUTS and affordable(moves):
        dead = (~live_groups(batch)).reshape(-1).nonzero().squeeze(-1)
        if dead.numel() == 0:
            break
        further = roll(dead.numel())
        further.require_finite_rewards()
        extra, moves, plies = extra + 1, moves + further.scored_moves, plies + further.plies
        live = live_groups(further).reshape(-1).nonzero().squeeze(-1)
        count = min(dead.numel(), live.numel())
        batch = replace_groups(batch, further, dead[:count], live[:count])
        replaced += count
    metrics = {
        "rollout/groups_replaced": float(replaced),
        "rollout/extra_rollouts": float(extra),
    }
    return Collected(batch, moves, plies, metrics)


def replace_groups(
    batch: RolloutBatch, source: RolloutBatch, into: Tensor, taken: Tensor
) -> RolloutBatch:
    """`batch` with its groups `into` replaced by the groups `taken` of `source`.

    Args:
        batch: a rollout.
        source: another of the same form.
        into: int64 `[n]` numbers of groups, row-major over `[P, T]`, or over `[P]` in `games`.
        taken: int64 `[n]` likewise, of `source`.
    """
    axes = 2 if batch.form == "positions" else 1
    changed: dict[str, Tensor] = {}
    for field in dataclasses.fields(batch):
        target, other = getattr(batch, field.name), getattr(source, field.name)
        if not isinstance(target, Tensor):
            continue
        target, other = alike(field.name, batch, [target, other])
        lead, rest = target.shape[:axes], target.shape[axes:]
        flat = target.reshape(-1, *rest).clone()
        flat[into] = other.reshape(-1, *rest)[taken]
        changed[field.name] = flat.reshape(*lead, *rest)
    return dataclasses.replace(batch, **changed)  # type: ignore[arg-type]


def alike(name: str, batch: RolloutBatch, tensors: Sequence[Tensor]) -> list[Tensor]:
    """The column `name` of several rollouts, `[*S, ...]` each, padded to the longest legal list and game.

    Args:
        name: a field that holds tensors.
        batch: one of the rollouts.
        tensors: the field of each of them.
    """
    padding = padding_of(all_moves=batch.samples == "all_legal")
    axes = [-2 if name == "move_facts" else -1] if name in padding else []
    # A ply that a rollout did not reach has no legal move and no valid sample.
    axes += [2] if batch.form == "games" else []
    found = list(tensors)
    for axis in axes:
        size = max(tensor.shape[axis] for tensor in found)
        found = [pad_axis(tensor, axis, size, padding.get(name, 0)) for tensor in found]
    return found
