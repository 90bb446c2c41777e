"""The worker that collects the rollouts of a run, shard by shard, and keeps the sampling policy up to date."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor

from algorithms.config.run import TrainConfig
from algorithms.core.batch import RolloutBatch
from algorithms.networks.policy_net import PolicyNet, legal_logprobs
from algorithms.processes import Shards
from algorithms.rollouts.collect import (
    Collected,
    collect_games,
    collect_live,
    collect_positions,
    collect_tempered,
    joined,
    start_rollout,
)
from algorithms.rollouts.sampling import Sampler, VecState

if TYPE_CHECKING:
    from chess_env.evaluators import Evaluator
    from chess_env.evaluators.protocol import Positions, Scores
    from chess_env.vector_env import ChessSelfPlayVectorEnv


# The first shard's samples are those of a run that is not divided.
_NEXT_SEED = 0x9E3779B97F4A7C15

AT_ONCE = 2
"""Shards of one process that play side by side: one is in the network while the other is among rules and scores."""


class OneAtATime:
    """An evaluator that several shards ask: one question is answered at a time. All else is the evaluator's own.

    Args:
        evaluator: of the run, which the caller closes.
    """

    def __init__(self, evaluator: Evaluator) -> None:
        self._evaluator, self._lock = evaluator, threading.Lock()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._evaluator, name)

    def evaluate(self, positions: Positions) -> Scores:
        """As of the evaluator."""
        with self._lock:
            return self._evaluator.evaluate(positions)

    def score_moves(self, positions: Positions, **settings: Any) -> list[Scores]:
        """As of the evaluator."""
        with self._lock:
            return self._evaluator.score_moves(positions, **settings)


class Shard:
    """A part of a run's boards.

    Args:
        number: which shard, from 0.
        vec: its boards, which the caller closes.
        config: of the run.
        device: where the networks run.

    Attributes:
        vec: the boards.
        boards: as they stand between two rollouts; None before `start`.
        sampling: generator of the samples, on the device.
    """

    def __init__(
        self, number: int, vec: ChessSelfPlayVectorEnv, config: TrainConfig, device: torch.device
    ) -> None:
        self.vec = vec
        self.boards: VecState | None = None
        seed = (config.seed + number * _NEXT_SEED) % 2**63
        self.sampling = torch.Generator(device).manual_seed(seed)
        self._first_board = number * vec.num_envs
        self._config, self._needs = config, config.algorithm.needs()

    def start(self) -> None:
        """Puts fresh games on the boards: those that they have in a run that is not divided."""
        self.boards = start_rollout(self.vec, self._config.seed + self._first_board)

    def collect(self, sampler: Sampler, affordable: Callable[[int], bool]) -> Collected:
        """Plays on: sampled moves with their rewards.

        Args:
            sampler: the behaviour policy, which draws from this shard's generator.
            affordable: whether the budget allows one more rollout of this shard after so many of its moves.
        """
        first = self.roll(sampler, self._config.rollout.num_plies)
        if self._needs.live_groups:
            return collect_live(first, lambda count: self.roll_groups(sampler, count), affordable)
        if self._needs.tempered is not None:

            def roll(tempering: float, count: int) -> RolloutBatch:
                return self.roll_groups(dataclasses.replace(sampler, tempering=tempering), count)

            return collect_tempered(first, self._needs.tempered, roll, affordable, self.sampling)
        return Collected(first, first.scored_moves, first.plies)

    def roll(self, sampler: Sampler, num_plies: int) -> RolloutBatch:
        """A rollout of up to `num_plies` plies."""
        settings = self._config.rollout
        group_size = self._config.algorithm.group_size
        if settings.form == "games":
            return collect_games(
                self.vec,
                sampler,
                num_plies=num_plies,
                group_size=group_size,
                train_sides=settings.train_sides,
                teacher_fraction=settings.teacher_fraction,
            )
        assert self.boards is not None
        batch, self.boards = collect_positions(
            self.vec,
            sampler,
            self.boards,
            num_plies=num_plies,
            group_size=None if self._needs.all_moves else group_size,
        )
        return batch

    def roll_groups(self, sampler: Sampler, count: int) -> RolloutBatch:
        """A rollout with about `count` groups: in `positions` form a ply gives one on each board."""
        settings = self._config.rollout
        plies = settings.num_plies
        if settings.form == "positions":
            plies = min(plies, -(-count // self.vec.num_envs))
        return self.roll(sampler, plies)

    def state_dict(self) -> dict[str, Any]:
        """Everything that this shard's next rollouts depend on, for a checkpoint."""
        return {"sampling": self.sampling.get_state(), "vec": self.vec.get_state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continues from `state_dict()`.

        Raises:
            RuntimeError: another kind of device sampled.
            ValueError: the boards are in no position of a game.
        """
        self.sampling.set_state(state["sampling"])
        _, info = self.vec.set_state(state["vec"])
        self.boards = VecState.of(self.vec, info)


class LearnerAndSampler(Protocol):
    """The two policies of a run.

    Attributes:
        policy: the learner.
        behaviour: the policy that samples: the learner itself, or a copy that is synchronised at intervals.
    """

    policy: PolicyNet
    behaviour: PolicyNet


class RolloutWorker:
    """Collects the rollouts of a run: of every shard, with the shards that this process carries.

    Args:
        parts: the shards that this process carries.
        policies: learner and behaviour policy, looked up at every rollout.
        config: of the run.
        device: where the networks run and the batches live.
        shards: how many there are, and the processes that carry them.
        reference: the policy that the regulariser measures KL to; None where it measures none.
        needs_learner: whether batches carry the learner's own distribution.

    Attributes:
        parts: the shards that this process carries.
        temperature: of the next rollouts.
        reference: as given.
        transforms: what every rollout goes through, for experiments that alter it.
        after_sync: what is done to a behaviour policy of its own after each synchronisation, likewise.
    """

    def __init__(
        self,
        parts: Sequence[Shard],
        policies: LearnerAndSampler,
        config: TrainConfig,
        device: torch.device,
        *,
        shards: Shards,
        reference: PolicyNet | None,
        needs_learner: bool,
    ) -> None:
        self.parts = parts
        self.reference = reference
        self.temperature = config.rollout.temperature
        self.transforms: list[Callable[[RolloutBatch], RolloutBatch]] = []
        self.after_sync: list[Callable[[PolicyNet], None]] = []
        self._policies, self._config, self._device = policies, config, device
        self._shards, self._needs_learner = shards, needs_learner
        # Other processes have other devices: batches go between them by way of the host.
        self._between = device if shards.processes.count == 1 else torch.device("cpu")

    def start(self) -> None:
        """Puts fresh games on the boards."""
        for part in self.parts:
            part.start()

    def collect(self, update: int, affordable: Callable[[int], bool]) -> Collected:
        """Plays on with the behaviour policy: sampled moves with their rewards, of all shards.

        Args:
            update: updates done so far.
            affordable: whether the budget allows one more rollout after so many scored moves.
        """
        if self.synced(update):
            self.sync()
        count = self._shards.count

        def of_shard(part: Shard) -> Collected:
            sampler = self._sampler(part.sampling, update)
            collected = part.collect(sampler, lambda moves: affordable(count * moves))
            batch = self._completed(collected.batch)
            return dataclasses.replace(collected, batch=batch.to(self._between))

        # What draws from a generator that all share must not take turns by chance, nor may what is being compiled.
        alone = self._config.compile or self._policies.behaviour.training
        with ThreadPoolExecutor(1 if alone else AT_ONCE) as threads:
            each = map if len(self.parts) == 1 else threads.map
            mine = [collected.to_dict() for collected in each(of_shard, self.parts)]
        parts = self._shards.gather(mine)
        collected = joined([Collected.from_dict(part) for part in parts])
        batch = collected.batch.to(self._device)
        for transform in self.transforms:
            batch = transform(batch)
        return dataclasses.replace(collected, batch=batch)

    def _completed(self, batch: RolloutBatch) -> RolloutBatch:
        """The batch with the distributions that the regulariser asks for."""
        if self.reference is not None:
            batch = batch.with_reference(self._logprobs(self.reference, batch))
        if self._needs_learner:
            learner = self._logprobs(self._policies.policy, batch)
            batch = dataclasses.replace(batch, learner_legal_logprobs=learner)
        return batch

    def synced(self, update: int) -> bool:
        """Whether the rollout before this update is sampled with the learner's newest weights."""
        return update % self._config.rollout.sync_interval_updates == 0

    def sync(self) -> None:
        """Gives a behaviour policy of its own the learner's weights; does nothing where the learner samples."""
        policy, behaviour = self._policies.policy, self._policies.behaviour
        if behaviour is policy:
            return
        behaviour.load_state_dict(policy.state_dict())
        for change in self.after_sync:
            change(behaviour)

    def sampling_policy(self, update: int) -> PolicyNet:
        """The policy that must equal the sampler of a new rollout: the learner, where it was synchronised."""
        return self._policies.policy if self.synced(update) else self._policies.behaviour

    def state_dict(self) -> dict[str, Any]:
        """What the next rollouts depend on beside the shards, for a checkpoint."""
        own = self._policies.behaviour is not self._policies.policy
        return {
            "temperature": self.temperature,
            "reference": None if self.reference is None else self.reference.state_dict(),
            "behaviour": self._policies.behaviour.state_dict() if own else None,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continues from `state_dict()`; other entries are not looked at.

        Raises:
            RuntimeError: weights are of other shapes.
        """
        self.temperature = state["temperature"]
        if self.reference is not None:
            self.reference.load_state_dict(state["reference"])
        if self._policies.behaviour is not self._policies.policy:
            self._policies.behaviour.load_state_dict(state["behaviour"])

    def _sampler(self, sampling: torch.Generator, update: int) -> Sampler:
        settings = self._config.rollout
        interval = settings.sync_interval_updates
        return Sampler(
            self._policies.behaviour,
            self.temperature,
            sampling,
            self._device,
            settings.greedy_fraction,
            policy_version=update // interval * interval,
        )

    def _logprobs(self, policy: PolicyNet, batch: RolloutBatch) -> Tensor:
        size = self._config.optimizer.minibatch_size
        return reference_logprobs(policy, batch, minibatch_size=size)


def reference_logprobs(policy: PolicyNet, batch: RolloutBatch, *, minibatch_size: int) -> Tensor:
    """Log-probabilities float32 `[*S, L]` of `policy` at the batch's states and temperature."""
    found = legal_logprobs(policy, batch.flat(), minibatch_size)
    return found.reshape(batch.old_legal_logprobs.shape)
