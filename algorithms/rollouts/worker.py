"""The worker that collects the rollouts of a run, and keeps the sampling policy up to date."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from algorithms.config.run import TrainConfig
from algorithms.core.batch import RolloutBatch
from algorithms.networks.logprobs import legal_logprobs
from algorithms.networks.policy_net import PolicyNet
from algorithms.processes import Shards
from algorithms.rollouts.dynamic_sampling import Collected
from algorithms.rollouts.joining import joined
from algorithms.rollouts.sampler import Sampler
from algorithms.rollouts.shard import MakeSampler, Shard


class Policies(Protocol):
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
        policies: Policies,
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
            collected = part.collect(self._sampler(update), lambda moves: affordable(count * moves))
            batch = self._completed(collected.batch)
            return dataclasses.replace(collected, batch=batch.to(self._between))

        parts = self._shards.gather([of_shard(part).to_dict() for part in self.parts])
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

    def _sampler(self, update: int) -> MakeSampler:
        settings = self._config.rollout
        interval = settings.sync_interval_updates

        def make(sampling: torch.Generator) -> Sampler:
            return Sampler(
                self._policies.behaviour,
                self.temperature,
                sampling,
                self._device,
                settings.greedy_fraction,
                policy_version=update // interval * interval,
            )

        return make

    def _logprobs(self, policy: PolicyNet, batch: RolloutBatch) -> Tensor:
        size = self._config.optimizer.minibatch_size
        return reference_logprobs(policy, batch, minibatch_size=size)


def reference_logprobs(policy: PolicyNet, batch: RolloutBatch, *, minibatch_size: int) -> Tensor:
    """Log-probabilities float32 `[*S, L]` of `policy` at the batch's states and temperature."""
    found = legal_logprobs(policy, batch.flat(), minibatch_size)
    return found.reshape(batch.old_legal_logprobs.shape)
