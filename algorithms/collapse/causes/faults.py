"""Faults that no setting can make: what is done to a session's parts. Nothing else in the project does."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from typing import Any

import torch

from algorithms.core.batch import RolloutBatch
from algorithms.networks.residual import ResidualPolicy
from algorithms.rollouts.dynamic_sampling import Collected
from algorithms.training.session import Session

Fault = Callable[[Session], None]
"""Alters a session that has not started."""


def _altered(session: Session, change: Callable[[RolloutBatch], RolloutBatch]) -> None:
    """None; every rollout of the session goes through `change`."""
    collect = session.rollout

    def rollout() -> Collected:
        collected = collect()
        return dataclasses.replace(collected, batch=change(collected.batch))

    session.rollout = rollout  # type: ignore[method-assign]


def learner_temperature(temperature: float) -> Fault:
    """The learner's softmax runs at a temperature of its own, not at the one that sampled."""

    def fault(session: Session) -> None:
        _altered(session, lambda batch: dataclasses.replace(batch, temperature=temperature))

    return fault


def _separate_sampler(session: Session, **changes: Any) -> None:
    """None; a copy of the policy with other settings samples, with the learner's newest weights."""
    sampler = copy.deepcopy(session.policy).requires_grad_(False)
    sampler.config = dataclasses.replace(sampler.config, **changes)
    session.behaviour = sampler
    collect = session.rollout

    def rollout() -> Collected:
        sampler.load_state_dict(session.policy.state_dict())
        return collect()

    session.rollout = rollout  # type: ignore[method-assign]


def sampler_precision(**dtypes: str) -> Fault:
    """Moves are drawn by a forward pass in another precision, and its log-probabilities are kept."""

    def fault(session: Session) -> None:
        _separate_sampler(session, **dtypes)

    return fault


def sampler_drops_features(session: Session) -> None:
    """None; the sampler is left in training mode, so that dropout acts in every rollout."""
    _separate_sampler(session)
    session.behaviour.train()


def sampler_keeps_noise(std: float) -> Fault:
    """The sampler's head is off the learner's by fixed noise, as another inference engine's would be."""

    def fault(session: Session) -> None:
        _separate_sampler(session)
        sampler, collect = session.behaviour, session.rollout
        assert isinstance(sampler, ResidualPolicy)  # a cause decides the network
        generator = torch.Generator().manual_seed(session.config.seed)
        shape = sampler.action_bias.shape
        noise = std * torch.randn(shape, generator=generator).to(session.device)
        load = sampler.load_state_dict

        def load_and_disturb(state: dict[str, Any]) -> Any:
            result = load(state)
            with torch.no_grad():
                sampler.action_bias.add_(noise)
            return result

        sampler.load_state_dict = load_and_disturb  # type: ignore[method-assign, assignment]
        session.rollout = collect  # type: ignore[method-assign]

    return fault


def squashed_reward(scale_cp: float) -> Fault:
    """The reward is the change of tanh(score / scale): nearly flat away from equality."""

    def squash(batch: RolloutBatch) -> RolloutBatch:
        assert batch.score_cp is not None and batch.before_cp is not None  # an evaluator scores
        before = batch.before_cp
        before = before.unsqueeze(-1) if batch.form == "positions" else before
        rewards = torch.tanh(batch.score_cp / scale_cp) - torch.tanh(before / scale_cp)
        return dataclasses.replace(batch, rewards=rewards.to(batch.rewards.dtype))

    def fault(session: Session) -> None:
        _altered(session, squash)

    return fault


def sharpened_start(factor: float) -> Fault:
    """The policy starts with its logits multiplied: sure of itself, and no wiser."""

    def fault(session: Session) -> None:
        policy = session.policy
        assert isinstance(policy, ResidualPolicy)  # a cause decides the network
        with torch.no_grad():
            for parameter in (
                *policy.to_vector.parameters(),
                policy.action_bias,
                policy.promotion_bias,
            ):
                parameter.mul_(factor)

    return fault
