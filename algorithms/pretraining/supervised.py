"""The parts of a pretraining run, their state, and one optimizer step; and its minibatches.

A minibatch is a pure function of the settings and the step: positions and their targets.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from algorithms.core.distribution import MaskedCategorical
from algorithms.networks.build import build_policy, choose_device, initialise, trained_parameters
from algorithms.networks.policy_net import PolicyNet
from algorithms.pretraining.config import TEMPERATURE, PretrainConfig
from algorithms.pretraining.label_files import LabelledPositions, ShardFolder
from algorithms.run_folder.progress import Progress
from algorithms.run_folder.recorded_state import not_ours, state_of_run
from algorithms.updates.learner import NonFiniteGuard, make_optimizer
from chess_env.move_facts import FactsAsked, move_facts_batch
from chess_env.observation import encode_batch
from chess_env.rewards import value
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
        move_facts: which facts of each move the policy reads.
    """

    def __init__(
        self,
        config: PretrainConfig,
        folder: ShardFolder,
        sizes: Sequence[int],
        device: torch.device,
        *,
        move_facts: FactsAsked = False,
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
        facts = None
        if self._move_facts:
            facts = move_facts_batch(positions, legal_ids, asked=self._move_facts)
        return Minibatch(
            torch.from_numpy(encode_batch(positions)).to(self._device),
            torch.from_numpy(legal_ids).to(self._device),
            targets.to(self._device),
            len(rows) if played else int((legal_ids >= 0).sum()),
            None if facts is None else torch.from_numpy(facts).to(self._device),
        )

    def _rng(self, *key: int) -> np.random.Generator:
        return np.random.default_rng([self._config.seed, *key])


@dataclasses.dataclass
class Plateau:
    """Whether held-out regret still falls.

    Attributes:
        best_cp: the regret that the next improvement is counted from.
        stale_evals: evaluations since that improvement.
    """

    best_cp: float = math.inf
    stale_evals: int = 0

    def see(self, regret_cp: float, min_improvement_cp: float) -> None:
        """Counts one evaluation; slow improvements add up, because the best stays where it is."""
        if regret_cp <= self.best_cp - min_improvement_cp:
            self.best_cp, self.stale_evals = regret_cp, 0
        else:
            self.stale_evals += 1


class StepMeans:
    """Means over the positions of the steps since the last row."""

    def __init__(self) -> None:
        self._sums: dict[str, float] = {}
        self._positions = self._steps = self.skipped = 0
        self._grad_norm = 0.0

    def add(self, values: dict[str, torch.Tensor], positions: int, grad_norm: float) -> None:
        """Adds one step's means over its positions."""
        for name, mean in values.items():
            self._sums[name] = self._sums.get(name, 0.0) + float(mean) * positions
        self._positions += positions
        self._grad_norm += grad_norm
        self._steps += 1

    def metrics(self) -> dict[str, float]:
        """The means, and how many steps were left out; the means are absent where all were."""
        found = {name: total / self._positions for name, total in self._sums.items()}
        if self._steps:
            found["train/grad_norm"] = self._grad_norm / self._steps
        return found | {"train/skipped_steps": float(self.skipped)}


class Pretraining:
    """The parts of one run.

    Args:
        config: what to build.
        fresh: start from the weights of `config.init_from`; a continued run has its own.

    Raises:
        ValueError: settings that cannot go together, or weights of another network.

    Attributes:
        policy: the network that learns.
        optimizer: Adam over the layers that learn.
        guard: leaves out steps that are not finite.
        device: where the network lives.
        progress: amounts done; `plies` counts positions and `scored_moves` labelled moves.
        plateau: whether held-out regret still falls.
        labels: identity of the labels; a continued run must have the same.
    """

    def __init__(self, config: PretrainConfig, *, fresh: bool = True) -> None:
        self.config = config
        self.device = choose_device(config.device)
        self.policy: PolicyNet = build_policy(
            config.policy, seed=config.seed, device=self.device, precision=config.precision
        ).eval()
        if fresh and config.init_from is not None:
            initialise(self.policy, config.init_from)
        self._trained = trained_parameters(self.policy, config.optimizer.frozen_layers)
        self.optimizer = make_optimizer(self._trained, config.optimizer.full_learning_rate)
        self.guard = NonFiniteGuard()
        self.progress = Progress()
        self.plateau = Plateau()
        self.labels: dict[str, Any] = {}

    def learning_rate(self) -> float:
        """Adam's step size of the next step."""
        done = self.progress.update
        share = done / self.config.lr_decay_steps
        return self.config.optimizer.learning_rate_at(done, share)

    def step(self, batch: Minibatch, means: StepMeans) -> None:
        """Makes one step on the cross-entropy of the targets under the policy at temperature 1.

        Raises:
            NonFiniteError: several steps in a row were not finite.
        """
        for group in self.optimizer.param_groups:
            group["lr"] = self.learning_rate()
        dist = self.policy.outputs(batch.obs, batch.legal_ids, TEMPERATURE, batch.move_facts).dist
        slots = torch.arange(batch.targets.shape[1], device=self.device).expand(batch.targets.shape)
        # Through `gather`, because `logprobs` is -inf on padding and 0 x -inf is no number.
        loss = -(batch.targets * dist.gather(slots)).sum(-1).mean()
        self.optimizer.zero_grad()
        loss.backward()
        limit = self.config.optimizer.max_grad_norm
        norm = float(torch.nn.utils.clip_grad_norm_(self._trained, limit))
        loss = loss.detach()
        finite = math.isfinite(norm) and math.isfinite(float(loss))
        self.guard.record(finite, f"loss {float(loss)}, gradient norm {norm}")
        if not finite:
            means.skipped += 1
        else:
            self.optimizer.step()
            with torch.no_grad():
                said = _said(loss, batch, dist.probs, dist.entropy())
            means.add(said, len(batch.obs), norm)
        self.progress.update += 1
        self.progress.plies += len(batch.obs)
        self.progress.scored_moves += batch.num_labels

    def state(self) -> dict[str, Any]:
        """Everything beside the weights that the rest of the run depends on."""
        return {
            "progress": dataclasses.asdict(self.progress),
            "optimizer": self.optimizer.state_dict(),
            "guard": self.guard.state_dict(),
            "plateau": dataclasses.asdict(self.plateau),
            "labels": self.labels,
        }

    def load(
        self,
        path: Path,
        weights: dict[str, torch.Tensor],
        state: dict[str, Any],
        say: Callable[[str], None],
    ) -> None:
        """Continues from a checkpoint's weights and `state()`; says what a state of an older version lacks.

        Raises:
            ValueError: another network, or the checkpoint of another kind of run; names `path`.
        """
        state = state_of_run(
            path, state, self.state(), needed={"labels"}, trained=self._trained, say=say
        )
        try:
            self.policy.load_state_dict(weights)
            groups = self.optimizer.state_dict()["param_groups"]
            self.optimizer.load_state_dict({**state["optimizer"], "param_groups": groups})
        except (ValueError, RuntimeError) as error:
            raise not_ours(path, error) from error
        self.plateau = Plateau(**state["plateau"])
        self.progress = Progress(**state["progress"])
        self.guard = NonFiniteGuard(**state["guard"])


def _said(
    loss: torch.Tensor, batch: Minibatch, probs: torch.Tensor, entropy: torch.Tensor
) -> dict[str, torch.Tensor]:
    """Means over a minibatch of what the policy said before the step."""
    targets = batch.targets
    target_entropy = torch.special.entr(targets).sum(-1).mean()
    chosen = targets.gather(-1, probs.argmax(-1, keepdim=True)).squeeze(-1)
    return {
        "pretrain/loss": loss,
        "pretrain/target_entropy": target_entropy,
        "pretrain/kl": loss - target_entropy,
        "pretrain/entropy": entropy.mean(),
        "pretrain/top1_agreement": (chosen == targets.max(-1).values).float().mean(),
    }
