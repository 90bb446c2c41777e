"""The minibatches of a pretraining run: step -> positions, a pure function of the settings."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from algorithms.pretraining.config import PretrainConfig
from algorithms.pretraining.shards import LabelledPositions, ShardFolder
from algorithms.pretraining.targets import make_targets
from chess_env.observation import encode_batch

_SHARDS, _POSITIONS = 0, 1  # what an order is drawn for


@dataclasses.dataclass(frozen=True)
class Minibatch:
    """What one optimizer step learns from.

    Attributes:
        obs: uint8 `[N, 19, 8, 8]` planes, mover's view.
        legal_ids: int16 `[N, L]` action ids padded with -1.
        targets: float32 `[N, L]`, sum to 1.
        num_labels: moves that had a label of their own.
    """

    obs: Tensor
    legal_ids: Tensor
    targets: Tensor
    num_labels: int


class Stream:
    """Goes through the shards again and again, each time in another seeded order.

    A step's minibatch lies in one shard, in the shard's own shuffled order, in equal parts of at most
    `minibatch_size`. Nothing has to be kept to go on in the middle.

    Args:
        config: minibatch size, seed and targets.
        folder: of the shards.
        sizes: positions in each shard that is used.
        device: where minibatches go.
    """

    def __init__(
        self,
        config: PretrainConfig,
        folder: ShardFolder,
        sizes: Sequence[int],
        device: torch.device,
    ) -> None:
        self._config, self._folder, self._device = config, folder, device
        size = config.optimizer.minibatch_size
        self._parts = np.array([-(-count // size) for count in sizes])
        self._open: tuple[tuple[int, int], LabelledPositions, list[NDArray[np.int64]]] | None = None

    @property
    def steps_per_epoch(self) -> int:
        """Minibatches in one pass over all shards."""
        return int(self._parts.sum())

    def place(self, step: int) -> tuple[int, int, int]:
        """(epoch, shard, part of the shard) of step `step`, from 0."""
        epoch, within = divmod(step, self.steps_per_epoch)
        order = self._rng(_SHARDS, epoch).permutation(len(self._parts))
        ends = np.cumsum(self._parts[order])
        at = int(np.searchsorted(ends, within, side="right"))
        shard = int(order[at])
        return epoch, shard, within - int(ends[at] - self._parts[shard])

    def minibatch(self, step: int) -> Minibatch:
        """What step `step` (from 0) learns from.

        Raises:
            ShardError: its shard is damaged.
        """
        epoch, index, part = self.place(step)
        if self._open is None or self._open[0] != (epoch, index):
            shard = self._folder.read(index)
            order = self._rng(_POSITIONS, epoch, index).permutation(len(shard))
            self._open = (epoch, index), shard, np.array_split(order, self._parts[index])
        _, shard, parts = self._open
        config, rows = self._config, parts[part]
        legal_ids, targets = make_targets(
            shard,
            rows,
            kind=config.target,
            clip_cp=config.target_clip_cp,
            temperature=config.target_temperature,
        )
        played = config.target == "played"
        return Minibatch(
            torch.from_numpy(encode_batch(shard.positions[rows])).to(self._device),
            torch.from_numpy(legal_ids).to(self._device),
            targets.to(self._device),
            len(rows) if played else int((legal_ids >= 0).sum()),
        )

    def _rng(self, *key: int) -> np.random.Generator:
        return np.random.default_rng([self._config.seed, *key])
