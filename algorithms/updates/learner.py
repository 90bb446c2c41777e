"""The learner: a policy and all that it needs for a step, passes and a guard against bad steps among it."""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import torch
from safetensors.torch import save
from torch import Tensor

from algorithms.config.run import OptimizerConfig
from algorithms.core.algorithm import Algorithm, Controls
from algorithms.core.batch import FlatBatch
from algorithms.networks.policy_net import Outputs, PolicyNet, outputs_at
from algorithms.processes import Shards
from algorithms.regularization import Regularizer
from algorithms.updates.adam import Adam


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
        # As a sum: to give torch the weights of outputs makes it import sympy, for half a second.
        along = [
            (output * leaf.grad[rows]).sum()
            for output, leaf in zip(own, self._leaves, strict=True)
            if output is not None and leaf is not None and leaf.grad is not None
        ]
        gradients = torch.autograd.grad(torch.stack(along).sum(), parameters, allow_unused=True)
        return torch.cat(
            [
                (torch.zeros_like(parameter) if gradient is None else gradient).reshape(-1)
                for parameter, gradient in zip(parameters, gradients, strict=True)
            ]
        )


class NonFiniteError(RuntimeError):
    """Several steps in a row had a loss or gradient that is not finite."""


@dataclasses.dataclass
class NonFiniteGuard:
    """Counts skipped steps across updates and stops a run that no longer learns.

    Attributes:
        max_in_row: this many non-finite steps in a row raise.
        in_row: non-finite steps since the last good one.
        total: non-finite steps of the whole run.
    """

    max_in_row: int = 3
    in_row: int = 0
    total: int = 0

    def record(self, finite: bool, description: str) -> None:
        """Counts one step.

        Raises:
            NonFiniteError: it was the `max_in_row`-th non-finite step in a row.
        """
        self.in_row = 0 if finite else self.in_row + 1
        self.total += not finite
        if self.in_row >= self.max_in_row:
            raise NonFiniteError(
                f"{self.in_row} updates in a row were not finite ({description}); the weights are "
                "still the last finite ones"
            )

    def state_dict(self) -> dict[str, int]:
        """The counters, for a checkpoint."""
        return dataclasses.asdict(self)


@dataclasses.dataclass(frozen=True)
class NonFiniteDump:
    """Writes the first minibatch of a run whose loss or gradient is not finite.

    Later ones are only counted: one is enough to find the cause, and a run that fails for hours must
    not fill the disk.

    Attributes:
        folder: `<run folder>/bad_batches`.
        say: shows a message to the user.
    """

    folder: Path
    say: Callable[[str], None]

    def keep(self, update: int, batch: FlatBatch, tensors: dict[str, Tensor], reason: str) -> None:
        """Writes `update-N.safetensors` and `update-N.json`, unless the run has one already.

        Args:
            update: updates done before this one.
            batch: the minibatch, as the losses saw it.
            tensors: what came with it (advantages, weights).
            reason: the numbers that were not finite.
        """
        if self.folder.exists():
            return
        path = self.folder / f"update-{update}.safetensors"
        values = {name: value for name, value in vars(batch).items() if isinstance(value, Tensor)}
        content = {
            name: value.detach().cpu().contiguous().clone()
            for name, value in (values | tensors).items()
        }
        note = {
            "update": update,
            "reason": reason,
            "temperature": batch.temperature,
            "states": batch.num_states,
            "read with": "safetensors.torch.load_file; fields as in core/batch.py, FlatBatch",
        }
        try:
            self.folder.mkdir(parents=True)
            path.write_bytes(save(content))  # `save_file` hides the system's error
            path.with_suffix(".json").write_text(json.dumps(note, indent=2) + "\n", "utf-8")
        except OSError as error:
            self.say(f"WARNING: {path} could not be written ({error.strerror}); {reason}")
            return
        self.say(
            f"WARNING: a step was left out, it is not finite ({reason}); its minibatch is in {path}"
        )


Optimizer = Adam | torch.optim.Adam


def make_optimizer(trained: Sequence[torch.nn.Parameter], rate: float) -> Optimizer:
    """Adam over the parameters; on CUDA one kernel takes the whole step, elsewhere one call for each operation."""
    if trained[0].is_cuda:
        return torch.optim.Adam(trained, lr=rate, fused=True)
    return Adam(trained, rate)


@dataclasses.dataclass
class Learner:
    """A policy, and everything that decides how it learns from a batch.

    Attributes:
        policy: trained in place.
        optimizer: Adam over the policy's trained parameters.
        algorithm: gives the policy loss and the number of passes.
        regularizer: gives the entropy and KL terms.
        controls: current clip bounds and target KL.
        settings: minibatch size, largest gradient norm, schedule of the step size.
        behaviour: the policy that samples: `policy` itself, or a copy that is synchronised at intervals.
        shuffling: CPU generator of the order of the states.
        guard: counter of non-finite steps, across updates.
        passes: how outputs and gradients of a minibatch are computed.
    """

    policy: PolicyNet
    optimizer: Optimizer
    algorithm: Algorithm
    regularizer: Regularizer
    controls: Controls
    settings: OptimizerConfig
    behaviour: PolicyNet
    shuffling: torch.Generator
    guard: NonFiniteGuard = dataclasses.field(default_factory=NonFiniteGuard)
    passes: Passes = dataclasses.field(default_factory=WholePasses)

    @property
    def learning_rate(self) -> float:
        """Step size of the next update."""
        return float(self.optimizer.param_groups[0]["lr"])

    @learning_rate.setter
    def learning_rate(self, rate: float) -> None:
        for group in self.optimizer.param_groups:
            group["lr"] = rate

    @property
    def trained(self) -> list[torch.nn.Parameter]:
        """The parameters that are trained, in the order of the optimizer's state."""
        return [p for group in self.optimizer.param_groups for p in group["params"]]

    def state_dict(self) -> dict[str, Any]:
        """Everything beside the weights that the next steps depend on, for a checkpoint."""
        return {
            "optimizer": self.optimizer.state_dict(),
            "controls": dataclasses.asdict(self.controls),
            "regularizer": self.regularizer.state_dict(),
            "guard": self.guard.state_dict(),
            "shuffling": self.shuffling.get_state(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continues from `state_dict()`; other entries are not looked at.

        The optimizer keeps its own settings: they follow from the configuration.
        """
        groups = self.optimizer.state_dict()["param_groups"]
        self.optimizer.load_state_dict({**state["optimizer"], "param_groups": groups})
        self.controls = Controls(**state["controls"])
        self.regularizer.load_state_dict(state["regularizer"])
        self.guard = NonFiniteGuard(**state["guard"])
        self.shuffling.set_state(state["shuffling"])
