"""The worker that collects the rollouts of a run, and keeps the sampling policy up to date."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor

from algorithms.config.run import TrainConfig
from algorithms.core.batch import RolloutBatch
from algorithms.networks.logprobs import legal_logprobs
from algorithms.networks.policy_net import PolicyNet
from algorithms.rollouts.dynamic_sampling import Collected, collect_live
from algorithms.rollouts.games import collect_games
from algorithms.rollouts.positions import collect_positions, start_rollout
from algorithms.rollouts.sampler import Sampler
from algorithms.rollouts.state import VecState

if TYPE_CHECKING:
    from chess_env.vector_env import ChessSelfPlayVectorEnv


class Policies(Protocol):
    """The two policies of a run.

    Attributes:
        policy: the learner.
        behaviour: the policy that samples: the learner itself, or a copy that is synchronised at intervals.
    """

    policy: PolicyNet
    behaviour: PolicyNet


class RolloutWorker:
    """Collects the rollouts of a run.

    Args:
        vec: the boards, which the caller closes.
        policies: learner and behaviour policy, looked up at every rollout.
        config: of the run.
        device: where the networks run and the batches live.
        reference: the policy that the regulariser measures KL to; None where it measures none.
        needs_learner: whether batches carry the learner's own distribution.

    Attributes:
        temperature: of the next rollouts.
        boards: as they stand between two rollouts; None before `start`.
        sampling: generator of the samples, on `device`.
        transforms: what every rollout goes through, for experiments that alter it.
        after_sync: what is done to a behaviour policy of its own after each synchronisation, likewise.
    """

    def __init__(
        self,
        vec: ChessSelfPlayVectorEnv,
        policies: Policies,
        config: TrainConfig,
        device: torch.device,
        *,
        reference: PolicyNet | None,
        needs_learner: bool,
    ) -> None:
        self.vec = vec
        self.reference = reference
        self.temperature = config.rollout.temperature
        self.boards: VecState | None = None
        self.sampling = torch.Generator(device).manual_seed(config.seed)
        self.transforms: list[Callable[[RolloutBatch], RolloutBatch]] = []
        self.after_sync: list[Callable[[PolicyNet], None]] = []
        self._policies, self._config, self._device = policies, config, device
        self._needs, self._needs_learner = config.algorithm.needs(), needs_learner

    def start(self) -> None:
        """Puts fresh games on the boards."""
        self.boards = start_rollout(self.vec, self._config.seed)

    def collect(self, update: int, affordable: Callable[[int], bool]) -> Collected:
        """Plays on with the behaviour policy: sampled moves with their rewards.

        Args:
            update: updates done so far.
            affordable: whether the budget allows one more rollout after so many scored moves.
        """
        if self.synced(update):
            self.sync()
        first = self._collect(self._config.rollout.num_plies, update)
        collected = Collected(first, first.scored_moves, first.plies)
        if self._needs.live_groups:
            collected = collect_live(first, lambda n: self._collect_groups(n, update), affordable)
        batch = collected.batch
        if self.reference is not None:
            batch = batch.with_reference(self._logprobs(self.reference, batch))
        if self._needs_learner:
            learner = self._logprobs(self._policies.policy, batch)
            batch = dataclasses.replace(batch, learner_legal_logprobs=learner)
        for transform in self.transforms:
            batch = transform(batch)
        return dataclasses.replace(collected, batch=batch)

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
        """What the next rollouts depend on beside the boards, for a checkpoint."""
        own = self._policies.behaviour is not self._policies.policy
        return {
            "temperature": self.temperature,
            "reference": None if self.reference is None else self.reference.state_dict(),
            "behaviour": self._policies.behaviour.state_dict() if own else None,
            "sampling": self.sampling.get_state(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continues from `state_dict()` and, in `vec`, the boards; other entries are not looked at.

        Raises:
            RuntimeError: weights or generator are of other shapes.
            ValueError: the boards are in no position of a game.
        """
        self.temperature = state["temperature"]
        if self.reference is not None:
            self.reference.load_state_dict(state["reference"])
        if self._policies.behaviour is not self._policies.policy:
            self._policies.behaviour.load_state_dict(state["behaviour"])
        self.sampling.set_state(state["sampling"])
        _, info = self.vec.set_state(state["vec"])
        self.boards = VecState.of(self.vec, info)

    def _collect_groups(self, count: int, update: int) -> RolloutBatch:
        """A rollout with about `count` groups: in `positions` form a ply gives one on each board."""
        settings = self._config.rollout
        if settings.form == "games":
            return self._collect(settings.num_plies, update)
        return self._collect(min(settings.num_plies, -(-count // settings.num_envs)), update)

    def _collect(self, num_plies: int, update: int) -> RolloutBatch:
        settings = self._config.rollout
        interval = settings.sync_interval_updates
        sampler = Sampler(
            self._policies.behaviour,
            self.temperature,
            self.sampling,
            self._device,
            settings.greedy_fraction,
            policy_version=update // interval * interval,
        )
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

    def _logprobs(self, policy: PolicyNet, batch: RolloutBatch) -> Tensor:
        size = self._config.optimizer.minibatch_size
        return reference_logprobs(policy, batch, minibatch_size=size)


def reference_logprobs(policy: PolicyNet, batch: RolloutBatch, *, minibatch_size: int) -> Tensor:
    """Log-probabilities float32 `[*S, L]` of `policy` at the batch's states and temperature."""
    found = legal_logprobs(policy, batch.flat(), minibatch_size)
    return found.reshape(batch.old_legal_logprobs.shape)
