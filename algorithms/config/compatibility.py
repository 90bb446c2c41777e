"""Settings that cannot go together, found before an engine starts."""

from __future__ import annotations

import warnings

import numpy as np
import torch

from algorithms.config.custom import cannot_be_resumed
from algorithms.config.run import RolloutConfig, TrainConfig
from algorithms.core.algorithm import Algorithm
from algorithms.core.batch import RolloutBatch
from chess_env.rewards.rewards import make_reward
from chess_env.rules.rules import ONGOING


def check_settings(config: TrainConfig) -> None:
    """None; looks at what the algorithm needs, and lets it and the reward try what is made up.

    Raises:
        ValueError: a combination that cannot run; the message says what to change.
    """
    algorithm: Algorithm = config.algorithm
    needs, rollout = algorithm.needs(), config.rollout
    name = config.label
    if needs.all_moves and rollout.form != "positions":
        raise ValueError(
            f"{name} scores every legal move of a position, rollout.form is {rollout.form!r}: set "
            "rollout.form to positions"
        )
    if needs.live_groups and needs.all_moves:
        raise ValueError(
            f"{name} asks for live groups and for all legal moves: where every move is scored there "
            "is nothing to sample again; switch one of the two off"
        )
    if needs.live_groups and needs.critic is not None:
        raise ValueError(
            f"{name} asks for live groups and for a critic: replaced groups break the order of the "
            "plies that values are propagated along; switch one of the two off"
        )
    if needs.critic is not None and rollout.greedy_fraction > 0:
        raise ValueError(
            f"{name} has a critic and rollout.greedy_fraction is {rollout.greedy_fraction}: values are "
            "propagated along the moves that were sampled, and others would be played on; set it to 0"
        )
    if needs.single_step and algorithm.update_epochs > 1:
        raise ValueError(
            f"{name} takes a single on-policy step for each batch and update_epochs is "
            f"{algorithm.update_epochs}: set update_epochs to 1"
        )
    if needs.single_step and rollout.sync_interval_updates > 1:
        raise ValueError(
            f"{name} is strictly on-policy and rollout.sync_interval_updates is "
            f"{rollout.sync_interval_updates}: set it to 1"
        )
    if needs.all_moves and config.regularizer.averages_samples:
        raise ValueError(
            f"{name} scores every legal move of a position, where an estimate from sampled moves "
            "means nothing: set the regularizer's estimators to exact, and set kl_cov_coef to 0"
        )
    if config.env.opponent is not None:
        _check_opponent(config)
    _try_reward(config.env.reward)
    _warn_of_terms_without_effect(config)
    if sentence := cannot_be_resumed(config):
        warnings.warn(sentence, stacklevel=2)
    batch = _made_up(algorithm, rollout)
    algorithm.advantages(batch)
    algorithm.weights(batch)


def _try_reward(reward: str | None) -> None:
    """Raises ValueError where the reward cannot be paid for three made-up moves."""
    before, after = np.array([0, 30, -200], np.int32), np.array([-50, 10_000, 9_998], np.int32)
    make_reward(reward, has_evaluator=True)(
        np.array([ONGOING] * 3, np.int8), True, before, after, (after, after)
    )


def _check_opponent(config: TrainConfig) -> None:
    """Raises ValueError where more than one move a position would have to be answered."""
    needs, form, size = config.algorithm.needs(), config.rollout.form, config.algorithm.group_size
    if needs.all_moves or form != "positions" or size != 1:
        samples = "all legal moves" if needs.all_moves else f"group_size {size}"
        raise ValueError(
            f"env.opponent is {config.env.opponent!r} with {samples} and rollout.form {form!r}: an "
            "opponent answers the one move that is played; set group_size to 1 and rollout.form to "
            "positions (algorithm ppo or reinforce), or env.opponent to None"
        )


def _warn_of_terms_without_effect(config: TrainConfig) -> None:
    """Warns of KL terms that stay 0 because learner and sampler are never apart where they act."""
    regularizer, needs = config.regularizer, config.algorithm.needs()
    if regularizer.kl_old_placement == "reward":
        if regularizer.kl_old_coef > 0 and config.rollout.sync_interval_updates == 1:
            warnings.warn(
                "kl_old in the reward is always 0: the learner itself samples at "
                "rollout.sync_interval_updates 1; raise it, or set kl_old_placement to loss",
                stacklevel=3,
            )
    elif regularizer.kl_old_coef > 0 and needs.single_step:
        warnings.warn(
            f"kl_old has no effect in {config.label}: its one step starts at the policy that "
            "sampled; leave kl_old_coef at 0, or train an algorithm that takes several steps",
            stacklevel=3,
        )
    if regularizer.kl_cov_coef > 0 and needs.single_step:
        warnings.warn(
            f"KL-Cov has no effect in {config.label}: its one step starts at the policy that "
            "sampled; leave kl_cov_coef at 0, or train an algorithm that takes several steps",
            stacklevel=3,
        )


def _made_up(algorithm: Algorithm, rollout: RolloutConfig) -> RolloutBatch:
    """A rollout of the run's form with one start, at most 2 plies, and 2 legal moves everywhere."""
    needs, plies = algorithm.needs(), min(2, rollout.num_plies)
    members = 2 if needs.all_moves else algorithm.group_size
    states = (1, plies) if rollout.form == "positions" else (1, members, plies)
    samples = (*states, members) if rollout.form == "positions" else states
    slots = torch.arange(samples[-1]).expand(samples) % 2
    values = torch.zeros(states) if needs.critic is not None else None
    return RolloutBatch(
        form=rollout.form,
        obs=torch.zeros(*states, 19, 8, 8, dtype=torch.uint8),
        legal_ids=torch.arange(2, dtype=torch.int16).expand(*states, 2),
        slots=slots,
        actions=slots,
        old_logprobs=torch.full(samples, 0.5).log(),
        old_legal_logprobs=torch.full((*states, 2), 0.5).log(),
        rewards=torch.zeros(samples),
        terminated=torch.zeros(samples, dtype=torch.bool),
        truncated=torch.zeros(states, dtype=torch.bool),
        valid=torch.ones(samples, dtype=torch.bool),
        ply=torch.arange(plies, dtype=torch.int32).expand(states),
        side=(1 - torch.arange(plies) % 2).to(torch.int8).expand(states),
        phase=torch.zeros(states, dtype=torch.int8),
        temperature=rollout.temperature,
        policy_version=0,
        score_cp=torch.zeros(samples, dtype=torch.int32),
        before_cp=torch.zeros(states, dtype=torch.int32),
        position_hash=torch.zeros(states, dtype=torch.int64),
        values=values,
        next_values=values,
    )
