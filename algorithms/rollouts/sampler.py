"""The sampler of a rollout's moves, and what it reads of the boards."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from algorithms.networks.policy_net import PolicyNet
from algorithms.rollouts.planes import planes_of
from algorithms.rollouts.state import VecState


class Seen(NamedTuple):
    """The network's inputs for N boards, on its device.

    Attributes:
        obs: uint8 `[N, C, 8, 8]` planes.
        legal_ids: int16 `[N, L]`, padded with -1 to the longest list of legal moves.
        move_facts: uint8 `[N, L, F]`; None where the network reads none.
    """

    obs: Tensor
    legal_ids: Tensor
    move_facts: Tensor | None


@dataclasses.dataclass(frozen=True)
class Sampler:
    """The policy that plays, and how its moves are drawn.

    Attributes:
        policy: the behaviour policy.
        temperature: softmax temperature.
        generator: source of the samples, on `device`.
        device: where the network runs and the batch lives.
        greedy_fraction: share of the boards, drawn anew at every ply, that play on with the most
            probable move in place of a sample.
        policy_version: number of updates that `policy` has had.
    """

    policy: PolicyNet
    temperature: float
    generator: torch.Generator
    device: torch.device
    greedy_fraction: float = 0.0
    policy_version: int = 0

    def see(self, state: VecState) -> Seen:
        """The policy's inputs for the boards."""
        packed = to_device(state.positions.view(np.int64), self.device)
        planes = planes_of(packed, to_device(state.repetitions, self.device))
        return self.with_moves(planes, vars(state), slice(None))

    def with_moves(
        self, obs: Tensor, boards: Mapping[str, Any], rows: NDArray[np.int64] | slice
    ) -> Seen:
        """The planes `[n, C, 8, 8]` of some boards with their legal moves, cut to the longest list.

        Args:
            obs: on the device.
            boards: `legal_ids`, `num_legal` and, where the policy reads them, `move_facts` of N boards,
                as in the environment's `info`.
            rows: which of them, n.
        """
        width = int(boards["num_legal"][rows].max())
        legal_ids = to_device(boards["legal_ids"][rows, :width], self.device)
        facts = boards.get("move_facts") if self.policy.reads_move_facts else None
        if facts is None:
            return Seen(obs, legal_ids, None)
        return Seen(obs, legal_ids, to_device(facts[rows, :width], self.device))


def to_device(array: NDArray[Any], device: torch.device) -> Tensor:
    """The array on `device`, same shape and dtype; on CUDA through pinned memory, without waiting for the copy."""
    tensor = torch.from_numpy(np.ascontiguousarray(array))
    if device.type == "cuda":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)
