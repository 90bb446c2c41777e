"""Faults that no setting can make: changes of a session's parts. Nothing else in the project makes them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch

from algorithms.core.batch import RolloutBatch
from algorithms.networks.policy_net import PolicyNet
from algorithms.training.session import Session, copy_of

Fault = Callable[[Session], None]
"""Alters a session that has not started."""


def learner_temperature(temperature: float) -> Fault:
    """The learner's softmax runs at a temperature of its own, not at the one that sampled."""

    def change(batch: RolloutBatch) -> RolloutBatch:
        return dataclasses.replace(batch, temperature=temperature)

    return lambda session: session.worker.transforms.append(change)


def _separate_sampler(session: Session, **changes: Any) -> PolicyNet:
    """A copy of the policy in another precision, which samples from now on with the learner's newest weights."""
    sampler = copy_of(session.policy)
    sampler.precision = dataclasses.replace(sampler.precision, **changes)
    session.learner.behaviour = sampler
    return sampler


def sampler_precision(**dtypes: str) -> Fault:
    """Moves are drawn by a forward pass in another precision, and its log-probabilities are kept."""

    def fault(session: Session) -> None:
        _separate_sampler(session, **dtypes)

    return fault


def sampler_drops_features(session: Session) -> None:
    """The sampler is left in training mode, so that dropout acts in every rollout."""
    _separate_sampler(session).train()


def sampler_keeps_noise(std: float) -> Fault:
    """The sampler's head is off the learner's by fixed noise, as another inference engine's would be."""

    def fault(session: Session) -> None:
        shape = _separate_sampler(session).logit_factors().action_bias.shape
        generator = torch.Generator().manual_seed(session.config.seed)
        noise = std * torch.randn(shape, generator=generator).to(session.device)

        @torch.no_grad()
        def disturb(sampler: PolicyNet) -> None:
            sampler.logit_factors().action_bias.add_(noise)

        session.worker.after_sync.append(disturb)

    return fault


def squashed_reward(scale_cp: float) -> Fault:
    """The reward is the change of tanh(score / scale): nearly flat away from equality."""

    def squash(batch: RolloutBatch) -> RolloutBatch:
        assert batch.score_cp is not None and batch.before_cp is not None  # an evaluator scores
        before = batch.before_cp
        before = before.unsqueeze(-1) if batch.form == "positions" else before
        rewards = torch.tanh(batch.score_cp / scale_cp) - torch.tanh(before / scale_cp)
        return dataclasses.replace(batch, rewards=rewards.to(batch.rewards.dtype))

    return lambda session: session.worker.transforms.append(squash)
