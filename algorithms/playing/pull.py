"""What the entropy bonus and the KL of a run pull its policy towards, position by position."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import numpy as np
import torch

from algorithms.config import files as config_file
from algorithms.config.custom import custom_terms
from algorithms.config.foreign import NO_TRUST, Trust
from algorithms.config.run import TrainConfig
from algorithms.diagnostics.entropy_prediction import exact_rewards, float64_copy
from algorithms.diagnostics.probe_metrics import (
    Floats,
    optimum_logprobs,
    probabilities,
    pulls_to_optimum,
)
from algorithms.evaluation.load_policy import config_of_run
from algorithms.evaluation.regret import HeldoutSlice
from algorithms.networks.build import make_policy
from algorithms.networks.policy_net import PolicyNet
from algorithms.playing.policy_moves import seen_by
from algorithms.playing.position import GamePosition
from algorithms.regularization import Regularizer
from algorithms.run_folder import checkpoint
from algorithms.run_folder.atomic_files import UntrustedError, cut


class NoOptimumError(ValueError):
    """A policy is pulled to no optimum that is known; the message is a sentence that says why."""


@dataclasses.dataclass(frozen=True, eq=False)
class Pull:
    """The regularised optimum of a run: its reward, its coefficients and its reference.

    Attributes:
        ent_coef: of the entropy bonus in force, reward units per nat.
        kl_ref_coef: of the KL to the reference in force, reward units per nat.
        reward: the run's reward setting.
        temperature: at which the run samples and learns.
        reference: in float64; None where there is no KL to one.
    """

    ent_coef: float
    kl_ref_coef: float
    reward: str | None
    temperature: float
    reference: PolicyNet | None

    def optimum(self, position: GamePosition, scored: HeldoutSlice) -> Floats:
        """float64 `[L]`: probability of each legal move under `probe_metrics.optimum_logprobs`.

        The rewards are those of the next ply alone, as in `probe/optimum_entropy`.

        Args:
            position: for the reference policy.
            scored: the same position alone, with the scores after each move.
        """
        legal = scored.legal_ids >= 0
        ref_logprobs = np.zeros(legal.shape)
        if self.reference is not None:
            ref_logprobs = seen_by(self.reference, position, self.temperature).dist.logprobs.numpy()
        logprobs = optimum_logprobs(
            ref_logprobs,
            exact_rewards(scored.legal_ids, scored.child_score_cp, self.reward),
            legal,
            kl_ref_coef=self.kl_ref_coef,
            ent_coef=self.ent_coef,
        )
        return probabilities(logprobs, legal)[0]


def load_pull(source: str, trust: Trust = NO_TRUST) -> Pull:
    """The regularised optimum of the run in `source`, with the coefficients of its checkpoint.

    Args:
        source: a run folder (its newest intact checkpoint) or a checkpoint folder.
        trust: the names from outside the project that the run's settings may use.

    Raises:
        NoOptimumError: there is none, or it cannot be known from these files; the message says why.
    """
    path = Path(source)
    file = config_of_run(path)
    if file is None:
        raise NoOptimumError("No run is known of these weights, so no bonus and no KL.")
    try:
        config = config_file.load(file, trust)
        regularizer = _regularizer(config)
        saved = (
            checkpoint.load(path)
            if (path / "manifest.json").exists()
            else checkpoint.load_newest(path / "checkpoints")
        )
        regularizer.load_state_dict(saved.state["regularizer"])
        weights = saved.state["reference"]
        reference = None if weights is None else _reference(config, weights)
    except NoOptimumError:
        raise
    except UntrustedError as error:
        raise NoOptimumError(
            "The run's settings name parts from outside the project, so its bonus and KL are not read: "
            "look at its config.json first, then add --trust."
        ) from error
    except (KeyError, TypeError, ValueError, RuntimeError, OSError, ImportError) as error:
        said = "it holds no such state" if isinstance(error, KeyError) else cut(error)
        raise NoOptimumError(f"The run's bonus and KL cannot be read: {said}.") from error
    coefs = regularizer.state.coefs
    found = Pull(
        ent_coef=coefs["ent_coef"],
        kl_ref_coef=coefs["kl_ref_coef"],
        reward=config.env.reward,
        temperature=config.rollout.temperature,
        reference=reference,
    )
    total = found.ent_coef + found.kl_ref_coef
    if not (math.isfinite(total) and total > 0 and min(found.ent_coef, found.kl_ref_coef) >= 0):
        raise NoOptimumError("The bonus and the KL of this run are 0 by now: nothing is pulled.")
    if found.kl_ref_coef > 0 and reference is None:
        raise NoOptimumError("The checkpoint does not hold the reference policy of the KL.")
    return found


def _regularizer(config: TrainConfig) -> Regularizer:
    """The run's.

    Raises:
        NoOptimumError: it pulls to no known optimum.
    """
    found = Regularizer(
        config.regularizer, config.rollout.temperature, custom_terms(config.regularizer)
    )
    if not any(term.coef > 0 for term in found.all_terms):
        raise NoOptimumError("This run has neither an entropy bonus nor a KL.")
    if not pulls_to_optimum(found.all_terms):
        raise NoOptimumError("The optimum of this run's terms of entropy and KL is not known.")
    if not config.algorithm.needs().reward_units:
        raise NoOptimumError(
            f"{config.label} divides its advantages by their spread, so the optimum moves with the policy."
        )
    return found


def _reference(config: TrainConfig, weights: dict[str, torch.Tensor]) -> PolicyNet:
    """The reference policy, in float64."""
    critic = config.algorithm.needs().critic is not None
    policy = make_policy(config.policy, critic=critic, precision=config.precision)
    policy.load_state_dict(weights)
    return float64_copy(policy.eval())
