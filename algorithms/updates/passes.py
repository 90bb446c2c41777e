"""Forward and backward passes through the network: of a whole minibatch, or divided among the shards of a run."""

from __future__ import annotations

import itertools
from typing import Protocol

import torch
from torch import Tensor

from algorithms.core.batch import FlatBatch
from algorithms.networks.logprobs import outputs_at
from algorithms.networks.policy_net import Outputs, PolicyNet
from algorithms.processes import Shards


class Passes(Protocol):
    """How the outputs of a minibatch are computed, and how their gradient reaches the parameters."""

    def outputs(self, policy: PolicyNet, states: FlatBatch) -> Outputs:
        """Distribution and values of the policy at states `[N]`."""
        ...

    def backward(self, policy: PolicyNet, loss: Tensor) -> None:
        """Adds the gradient of a loss (a scalar) of the newest outputs to the policy's parameters."""
        ...


class WholePasses:
    """One pass for a minibatch."""

    def outputs(self, policy: PolicyNet, states: FlatBatch) -> Outputs:
        """Distribution and values of the policy at states `[N]`."""
        return outputs_at(policy, states)

    def backward(self, policy: PolicyNet, loss: Tensor) -> None:
        """Adds the gradient of the loss to the parameters."""
        loss.backward()


class ShardedPasses:
    """A pass for each shard's part of a minibatch; every process then has the outputs of all of it.

    So a loss sees the whole minibatch, whatever it does with it: normalises, ranks, selects. Its
    gradient at the outputs goes back through each shard's own pass, and the shards' gradients are
    added in their order. The result has the same bits for any number of processes.
    """

    def __init__(self, shards: Shards) -> None:
        self._shards = shards
        self._rows: list[slice] = []
        self._own: list[tuple[Tensor, Tensor | None]] = []
        self._leaves: tuple[Tensor, Tensor | None] | None = None

    def outputs(self, policy: PolicyNet, states: FlatBatch) -> Outputs:
        """Distribution and values of the policy at states `[N]`."""
        ends = [states.num_states * k // self._shards.count for k in range(self._shards.count + 1)]
        self._rows = [slice(start, end) for start, end in itertools.pairwise(ends)]
        parts = [states.select(self._rows[shard]) for shard in self._shards.own]
        self._own = [
            policy.logits_and_values(part.obs, part.legal_ids, part.move_facts) for part in parts
        ]
        logits = self._joined([logits for logits, _ in self._own])
        own_values = [values for _, values in self._own if values is not None]
        values = self._joined(own_values) if own_values else None
        self._leaves = logits, values
        return Outputs(policy.dist_of(logits, states.legal, states.temperature), values)

    def backward(self, policy: PolicyNet, loss: Tensor) -> None:
        """Adds the sum of the shards' gradients to the parameters."""
        assert self._leaves is not None
        loss.backward()
        parameters = [each for each in policy.parameters() if each.requires_grad]
        found = [
            self._gradient(parameters, self._own[number], self._rows[shard])
            for number, shard in enumerate(self._shards.own)
        ]
        total, *others = self._shards.gather_tensors(found)
        for other in others:
            total = total + other
        parts = total.split([parameter.numel() for parameter in parameters])
        for parameter, part in zip(parameters, parts, strict=True):
            gradient = part.view_as(parameter)
            parameter.grad = gradient if parameter.grad is None else parameter.grad + gradient
        self._own, self._leaves = [], None

    def _joined(self, own: list[Tensor]) -> Tensor:
        """`[N, ...]`: the outputs of all shards, at which a gradient is kept."""
        longest = max(rows.stop - rows.start for rows in self._rows)
        padded = [
            torch.cat([part.detach(), part.new_zeros(longest - len(part), *part.shape[1:])])
            for part in own
        ]
        found = self._shards.gather_tensors(padded)
        whole = torch.cat(
            [part[: rows.stop - rows.start] for part, rows in zip(found, self._rows, strict=True)]
        )
        return whole.requires_grad_(torch.is_grad_enabled())

    def _gradient(
        self, parameters: list[torch.nn.Parameter], own: tuple[Tensor, Tensor | None], rows: slice
    ) -> Tensor:
        """`[parameters in one axis]`: the gradient of one shard's part."""
        assert self._leaves is not None
        used = [
            (output, leaf.grad[rows])
            for output, leaf in zip(own, self._leaves, strict=True)
            if output is not None and leaf is not None and leaf.grad is not None
        ]
        gradients = torch.autograd.grad(
            [output for output, _ in used],
            parameters,
            [grad for _, grad in used],
            allow_unused=True,
        )
        return torch.cat(
            [
                (torch.zeros_like(parameter) if gradient is None else gradient).reshape(-1)
                for parameter, gradient in zip(parameters, gradients, strict=True)
            ]
        )
