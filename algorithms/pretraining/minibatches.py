"""The minibatches of a pretraining run: step -> positions and their targets, a pure function of the settings."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from algorithms.core.distribution import MaskedCategorical
from algorithms.pretraining.config import PretrainConfig
from algorithms.pretraining.shards import LabelledPositions, ShardFolder
from chess_env.move_facts import move_facts_batch
from chess_env.observation import encode_batch
from chess_env.rewards.rewards import value
from chess_env.rules.rules import legal_actions_batch

_SHARDS, _POSITIONS = 0, 1  # what an order is drawn for


def padded_scores(
    shard: LabelledPositions, rows: NDArray[np.int64], num_legal: NDArray[np.int16]
) -> NDArray[np.int64]:
    """int64 `[N, L]` scores of the rows' legal moves, centipawns, mover's view; 0 on padding.

    Raises:
        ValueError: a position has another number of scores than of legal moves.
    """
    starts, ends = shard.offsets[rows], shard.offsets[rows + 1]
    wrong = np.flatnonzero(ends - starts != num_legal)
    if wrong.size:
        row = int(wrong[0])
        raise ValueError(
            f"position {int(rows[row])} of a shard has {int(ends[row] - starts[row])} scores and "
            f"{int(num_legal[row])} legal moves: it was labelled by other rules; label anew in "
            "another --labels-dir"
        )
    columns = np.arange(int(num_legal.max()))
    scores = np.zeros((len(rows), len(columns)), np.int64)
    legal = columns < num_legal[:, None]
    scores[legal] = shard.child_score_cp[(starts[:, None] + columns)[legal]]
    return scores


def soft_targets(
    scores_cp: NDArray[np.int64], legal: Tensor, *, clip_cp: int, temperature: float
) -> Tensor:
    """float32 `[N, L]`: softmax over the legal moves of (2 Win% - 1) / temperature.

    Args:
        scores_cp: `[N, L]` centipawns, mover's view.
        legal: bool `[N, L]`, True where the slot holds a legal move.
        clip_cp: scores are clipped to +-clip_cp first.
        temperature: > 0; lower is nearer to the best move alone.
    """
    utility = value(np.clip(scores_cp, -clip_cp, clip_cp), "win_prob")
    logits = torch.from_numpy(utility.astype(np.float64))
    return MaskedCategorical(logits, legal, temperature).probs.float()


def best_targets(scores_cp: NDArray[np.int64], legal: Tensor) -> Tensor:
    """float32 `[N, L]`: 1 on the best move by the unclipped score; equally good moves share it."""
    scores = torch.from_numpy(scores_cp).masked_fill(~legal, torch.iinfo(torch.int64).min)
    best = (scores == scores.max(-1, keepdim=True).values) & legal
    return best.float() / best.sum(-1, keepdim=True)


def played_targets(legal_ids: NDArray[np.int16], played: NDArray[np.int16]) -> Tensor:
    """float32 `[N, L]`: 1 on the move played.

    Raises:
        ValueError: a move that is not legal in its position.
    """
    chosen = legal_ids == played[:, None]
    if not chosen.any(axis=1).all():
        raise ValueError(
            "a shard holds a move that is not legal in its position: it was written by other rules; "
            "read the games anew in another --labels-dir"
        )
    return torch.from_numpy(chosen.astype(np.float32))


def make_targets(
    shard: LabelledPositions,
    rows: NDArray[np.int64],
    *,
    kind: Literal["soft", "best", "played"],
    clip_cp: int,
    temperature: float,
) -> tuple[NDArray[np.int16], Tensor]:
    """(int16 `[N, L]` legal action ids padded with -1, float32 `[N, L]` targets that sum to 1).

    Args:
        shard: labelled positions.
        rows: which of them, N.
        kind: "soft", "best" or "played".
        clip_cp: of the soft targets, centipawns.
        temperature: of the soft targets.

    Raises:
        ValueError: labels that do not fit the legal moves, or are of another kind.
    """
    legal_ids, num_legal = legal_actions_batch(shard.positions[rows])
    legal_ids = np.ascontiguousarray(legal_ids[:, : int(num_legal.max())])
    if kind == "played":
        return legal_ids, played_targets(legal_ids, shard.played[rows])
    scores = padded_scores(shard, rows, num_legal)
    legal = torch.from_numpy(legal_ids >= 0)
    if kind == "best":
        return legal_ids, best_targets(scores, legal)
    return legal_ids, soft_targets(scores, legal, clip_cp=clip_cp, temperature=temperature)


@dataclasses.dataclass(frozen=True)
class Minibatch:
    """The data of one optimizer step.

    Attributes:
        obs: uint8 `[N, C, 8, 8]` planes, mover's view.
        legal_ids: int16 `[N, L]` action ids padded with -1.
        targets: float32 `[N, L]`, sum to 1.
        num_labels: moves that had a label of their own.
        move_facts: uint8 `[N, L, F]` of each legal move, no position having occurred before; None where the
            policy reads none.
    """

    obs: Tensor
    legal_ids: Tensor
    targets: Tensor
    num_labels: int
    move_facts: Tensor | None = None


class Stream:
    """Goes through the shards again and again, each time in another seeded order.

    A step's minibatch lies in one shard, in the shard's own shuffled order, in equal parts of at most
    `minibatch_size`. No state is needed to go on in the middle.

    Args:
        config: minibatch size, seed and targets.
        folder: of the shards.
        sizes: positions in each shard that is used.
        device: where minibatches go.
        move_facts: whether the policy reads the facts of each move.
    """

    def __init__(
        self,
        config: PretrainConfig,
        folder: ShardFolder,
        sizes: Sequence[int],
        device: torch.device,
        *,
        move_facts: bool = False,
    ) -> None:
        self._move_facts = move_facts
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
        """The minibatch of step `step` (from 0).

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
        played, positions = config.target == "played", shard.positions[rows]
        facts = move_facts_batch(positions, legal_ids) if self._move_facts else None
        return Minibatch(
            torch.from_numpy(encode_batch(positions)).to(self._device),
            torch.from_numpy(legal_ids).to(self._device),
            targets.to(self._device),
            len(rows) if played else int((legal_ids >= 0).sum()),
            None if facts is None else torch.from_numpy(facts).to(self._device),
        )

    def _rng(self, *key: int) -> np.random.Generator:
        return np.random.default_rng([self._config.seed, *key])
