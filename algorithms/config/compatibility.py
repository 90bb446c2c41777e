"""Settings that cannot go together; they are found before an engine starts."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable

import numpy as np
import torch

from algorithms.config.custom import cannot_be_resumed, custom_terms
from algorithms.config.run import RolloutConfig, TrainConfig
from algorithms.core.algorithm import Algorithm, Needs
from algorithms.core.batch import RolloutBatch, blank_batch
from algorithms.core.checks import require
from algorithms.regularization.controllers import check_clip, terms_of
from algorithms.regularization.term import Term
from chess_env.rewards import SUCCESS, can_be_success, make_reward
from chess_env.rules.rules import ONGOING


@dataclasses.dataclass(frozen=True)
class Conflict:
    """Settings that cannot go together.

    Attributes:
        found: whether a configuration has them.
        says: the error; {c} stands for the configuration.
    """

    found: Callable[[TrainConfig], bool]
    says: str


CONFLICTS = (
    Conflict(
        lambda c: c.rollout.num_envs % c.num_shards > 0,
        "num_shards is {c.num_shards} and rollout.num_envs {c.rollout.num_envs}: each shard has the same number "
        "of boards; set num_envs to a multiple of num_shards",
    ),
    Conflict(
        lambda c: c.optimizer.minibatch_size < c.num_shards,
        "num_shards is {c.num_shards} and optimizer.minibatch_size {c.optimizer.minibatch_size}: each shard takes "
        "a part of every minibatch; set minibatch_size to num_shards at least",
    ),
    Conflict(
        lambda c: _needs(c).all_moves and c.rollout.form != "positions",
        "{c.label} scores every legal move of a position, rollout.form is {c.rollout.form!r}: set "
        "rollout.form to positions",
    ),
    Conflict(
        lambda c: _needs(c).live_groups and _needs(c).all_moves,
        "{c.label} asks for live groups and for all legal moves: where every move is scored there "
        "is nothing to sample again; switch one of the two off",
    ),
    Conflict(
        lambda c: _needs(c).live_groups and _needs(c).critic is not None,
        "{c.label} asks for live groups and for a critic: replaced groups break the order of the "
        "plies that values are propagated along; switch one of the two off",
    ),
    Conflict(
        lambda c: _needs(c).tempered is not None and c.rollout.form != "positions",
        "{c.label} replaces a slice of the batch by successes and rollout.form is {c.rollout.form!r}: the moves of a "
        "game succeed and fail one by one, so that no game is a success; set rollout.form to positions",
    ),
    Conflict(
        lambda c: (
            _needs(c).tempered is not None
            and (_needs(c).live_groups or _needs(c).all_moves or _needs(c).critic is not None)
        ),
        "{c.label} asks for successes at another temperature, and for live groups, all legal moves or a critic: live "
        "groups replace the same groups, where every move is scored nothing is drawn, and a critic's values follow "
        "the order of the plies; switch one of the two off",
    ),
    Conflict(
        lambda c: _needs(c).critic is not None and c.rollout.greedy_fraction > 0,
        "{c.label} has a critic and rollout.greedy_fraction is {c.rollout.greedy_fraction}: values are "
        "propagated along the moves that were sampled, and others would be played on; set it to 0",
    ),
    Conflict(
        lambda c: _needs(c).single_step and c.algorithm.update_epochs > 1,
        "{c.label} takes a single on-policy step for each batch and update_epochs is "
        "{c.algorithm.update_epochs}: set update_epochs to 1",
    ),
    Conflict(
        lambda c: _needs(c).single_step and c.rollout.sync_interval_updates > 1,
        "{c.label} is strictly on-policy and rollout.sync_interval_updates is "
        "{c.rollout.sync_interval_updates}: set it to 1",
    ),
    Conflict(
        lambda c: _needs(c).all_moves and any(term.averages_samples for term in active_terms(c)),
        "{c.label} scores every legal move of a position, where an estimate from sampled moves "
        "means nothing: set the regularizer's estimators to exact, and set kl_cov_coef to 0",
    ),
    Conflict(
        lambda c: c.optimizer.sampler_correction != "none" and _needs(c).all_moves,
        "{c.label} scores every legal move of a position and optimizer.sampler_correction is "
        "{c.optimizer.sampler_correction!r}: nothing was drawn that could be corrected; set it to none",
    ),
    Conflict(
        lambda c: c.optimizer.sampler_correction != "none" and _needs(c).corrects_sampler,
        "{c.label} divides by the sampler's probabilities itself and optimizer.sampler_correction is "
        "{c.optimizer.sampler_correction!r}: the same gap would be corrected twice; set it to none",
    ),
    Conflict(
        lambda c: _needs(c).success_rewards and not can_be_success(c.env.reward or ""),
        "{c.label} learns from success or failure, and env.reward {c.env.reward!r:.200} pays other amounts: set "
        f"--env.reward {SUCCESS}, or name a term of your own that pays 0 or 1",
    ),
    Conflict(
        lambda c: (
            _needs(c).success_rewards
            and any(term.in_reward is not None for term in active_terms(c))
        ),
        "{c.label} learns from success or failure, and a term of the regulariser would change its rewards: set "
        "the term's placement to loss",
    ),
    Conflict(
        lambda c: c.env.opponent is not None and _needs(c).all_moves,
        "env.opponent is {c.env.opponent!r:.200} with all legal moves: an opponent answers the one move that "
        "is played; train an algorithm that samples (ppo or reinforce), or set env.opponent to None",
    ),
    Conflict(
        lambda c: (
            c.env.opponent is not None
            and (c.rollout.form, c.algorithm.group_size) != ("positions", 1)
        ),
        "env.opponent is {c.env.opponent!r:.200} with group_size {c.algorithm.group_size} and rollout.form "
        "{c.rollout.form!r}: an opponent answers the one move that is played; set group_size to 1 and "
        "rollout.form to positions (algorithm ppo or reinforce), or env.opponent to None",
    ),
)
"""They are checked in this order; the first that is found is the error."""


def check_settings(config: TrainConfig) -> None:
    """Checks the settings for conflicts, and tries the algorithm and the reward on made-up data.

    Raises:
        ValueError: a combination that cannot run; the message says what to change.
    """
    for conflict in CONFLICTS:
        require(not conflict.found(config), conflict.says.format(c=config))
    check_clip(config.algorithm.controls(), config.regularizer)
    _try_reward(config.env.reward)
    _warn_of_terms_without_effect(config)
    if sentence := cannot_be_resumed(config):
        warnings.warn(sentence, stacklevel=2)
    batch = _made_up(config.algorithm, config.rollout)
    config.algorithm.advantages(batch)
    config.algorithm.weights(batch)


def active_terms(config: TrainConfig) -> list[Term]:
    """The regulariser's terms that are on from the start, custom ones among them."""
    terms = (*terms_of(config.regularizer), *custom_terms(config.regularizer))
    return [term for term in terms if term.coef > 0]


def _needs(config: TrainConfig) -> Needs:
    needs: Needs = config.algorithm.needs()
    return needs


def _try_reward(reward: str | None) -> None:
    """Raises ValueError where the reward cannot be paid for three made-up moves."""
    before, after = np.array([0, 30, -200], np.int32), np.array([-50, 10_000, 9_998], np.int32)
    make_reward(reward, has_evaluator=True)(
        np.array([ONGOING] * 3, np.int8), True, before, after, (after, after)
    )


def _warn_of_terms_without_effect(config: TrainConfig) -> None:
    """Warns of terms that stay 0 because learner and sampler are never apart where they act."""
    for term in active_terms(config):
        if term.needs_learner and config.rollout.sync_interval_updates == 1:
            warnings.warn(
                f"{term.name} in the reward is always 0: the learner itself samples at "
                f"rollout.sync_interval_updates 1; raise it, or set {term.name}_placement to loss",
                stacklevel=3,
            )
        elif term.needs_drift and not term.needs_learner and config.algorithm.needs().single_step:
            warnings.warn(
                f"{term.name} has no effect in {config.label}: its one step starts at the policy that "
                f"sampled; leave {term.setting} at 0, or train an algorithm that takes several steps",
                stacklevel=3,
            )


def _made_up(algorithm: Algorithm, rollout: RolloutConfig) -> RolloutBatch:
    """A rollout of the run's form: one start, at most 2 plies and a million samples, 2 legal moves everywhere."""
    needs, plies = algorithm.needs(), min(2, rollout.num_plies)
    members = 2 if needs.all_moves else min(algorithm.group_size, 1_000_000)
    states = (1, plies) if rollout.form == "positions" else (1, members, plies)
    batch = blank_batch(rollout.form, states, samples=members, temperature=rollout.temperature)
    values = torch.zeros(states) if needs.critic is not None else None
    return dataclasses.replace(
        batch,
        score_cp=torch.zeros(batch.rewards.shape, dtype=torch.int32),
        before_cp=torch.zeros(states, dtype=torch.int32),
        position_hash=torch.zeros(states, dtype=torch.int64),
        values=values,
        next_values=values,
    )
