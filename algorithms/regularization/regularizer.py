"""The object that adds entropy and KL to any algorithm: five hooks and a state for the checkpoint."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from algorithms.core.algorithm import Controls
from algorithms.core.batch import FlatBatch, RolloutBatch
from algorithms.core.distribution import MaskedCategorical
from algorithms.regularization import controllers
from algorithms.regularization.controllers import (
    Measurements,
    RegularizerConfig,
    Signals,
    State,
    terms_of,
)
from algorithms.regularization.term import Term


class Regularizer:
    """Entropy and KL in reward, advantage and loss, with coefficients that controllers may move.

    Args:
        config: the terms and controllers.
        temperature: the rollout's softmax temperature at the start of the run.
        custom: terms of a user's own (`config.custom.custom_terms`).

    Raises:
        ValueError: recovery could not raise this temperature, or two terms have one name.

    Attributes:
        all_terms: every term, whether it is on or off.
        state: what has changed since the start.
    """

    def __init__(
        self, config: RegularizerConfig, temperature: float, custom: Sequence[Term] = ()
    ) -> None:
        if config.ent_controller == "recovery" and temperature > config.temperature_max:
            raise ValueError(
                f"the rollout's temperature is {temperature} and temperature_max "
                f"{config.temperature_max}: recovery could only lower it; raise temperature_max"
            )
        self.config = config
        self.all_terms = (*terms_of(config), *custom)
        names = [term.name for term in self.all_terms]
        if len(set(names)) < len(names):
            raise ValueError(f"the regulariser's terms are {names}: give each a name of its own")
        coefs = {term.coef_name: term.coef for term in self.all_terms if term.coef_name is not None}
        self.state = State(coefs, temperature)
        self._in_reward: dict[str, Tensor] = {}

    def coef(self, term: Term) -> float:
        """The term's weight at this point of the run."""
        return term.coef if term.coef_name is None else self.state.coefs[term.coef_name]

    @property
    def needs_reference(self) -> bool:
        """True if a term reads the reference policy's distribution."""
        return any(term.needs_reference and term.coef > 0 for term in self.all_terms)

    @property
    def needs_learner(self) -> bool:
        """True if a term reads `RolloutBatch.learner_legal_logprobs`."""
        return any(term.needs_learner and term.coef > 0 for term in self.all_terms)

    @property
    def shapes_targets(self) -> bool:
        """True if a term changes rewards or advantages before the update."""
        shaping = (term for term in self.all_terms if term.in_reward or term.in_advantage)
        return any(term.coef > 0 for term in shaping)

    def shape_reward(self, batch: RolloutBatch) -> Tensor:
        """Rewards minus the KL terms placed in the reward, same shape; `batch.rewards` itself without any.

        r - coef * k(d) at each valid sample, without gradient; reward units. The unweighted mean
        over the valid samples is logged by `metrics`.
        """
        rewards = batch.rewards
        self._in_reward = {}
        for term in self.all_terms:
            if term.in_reward is not None and term.coef > 0:
                values = term.in_reward(batch)
                rewards = rewards - term.sign * self.coef(term) * values
                self._in_reward[f"reg/{term.metric}_reward"] = values[batch.valid]
        return rewards

    def shape_advantage(self, advantages: Tensor, batch: RolloutBatch | FlatBatch) -> Tensor:
        """Advantages after REPO, same shape; the tensor itself without it.

        Args:
            advantages: shaped like `batch.old_logprobs`, in the unit in which they enter the loss.
            batch: the rollout, or a minibatch of it.
        """
        for term in self.all_terms:
            if term.in_advantage is not None and term.coef > 0:
                advantages = term.in_advantage(advantages, batch)
        return advantages

    def shape_by_learner(
        self, dist: MaskedCategorical, batch: FlatBatch, advantages: Tensor
    ) -> Tensor:
        """`[N, K]` advantages after REPO-R, no gradient; the tensor itself without it.

        Args:
            dist: the learner, at this step.
            batch: a minibatch.
            advantages: `[N, K]`, in the unit in which they enter the loss.
        """
        for term in self.all_terms:
            if term.by_learner is not None and term.coef > 0:
                advantages = term.by_learner(dist, batch, advantages, self.coef(term))
        return advantages

    def penalties(
        self, dist: MaskedCategorical, batch: FlatBatch, advantages: Tensor
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """(`[N]` weighted, differentiable terms by name, which the loss adds up; detached parts `[N]` by metric name).

        There is a term for each that is on in the loss: `entropy`, `kl_old`, `kl_ref`, `kl_cov`, or custom.
        Raw parts never contain a coefficient, in nats: the exact `reg/entropy`, `reg/kl_old` and,
        with a reference, `reg/kl_ref` whatever drives the loss; beside them the sampled estimate
        that does, `reg/entropy_sampled`, `reg/kl_old_k1`, ..., and `reg/kl_cov`. Weighted parts
        (`reg/entropy_weighted`, ...) are signed as they enter the loss and add up to it; a KL in
        the reward has 0 there. Forced positions count, with entropy and KL 0.

        Args:
            dist: the learner.
            batch: a minibatch.
            advantages: `[N, K]`, read by KL-Cov alone.

        Raises:
            ValueError: `kl_ref_coef` is positive and there is no reference distribution.
        """
        raw: dict[str, Tensor] = {}
        weighted: dict[str, Tensor] = {}
        for term in self.all_terms:
            coef = self.coef(term)
            if term.estimate is not None and term.in_reward is None and coef != 0:
                value = term.estimate(dist, batch, advantages)
                raw[term.metric] = value.detach()
                weighted[term.name] = term.sign * coef * value
        exact = self._exact(dist, batch, raw)
        nothing = torch.zeros_like(exact["entropy"])
        parts = {f"reg/{name}": value for name, value in (exact | raw).items()}
        for name in dict.fromkeys((*exact, *weighted)):
            parts[f"reg/{name}_weighted"] = weighted[name].detach() if name in weighted else nothing
        return weighted, parts

    @torch.no_grad()
    def _exact(
        self, dist: MaskedCategorical, batch: FlatBatch, raw: dict[str, Tensor]
    ) -> dict[str, Tensor]:
        """`[N]` what each term logs whatever drives the loss, nats, by term; taken from `raw` where it has them."""
        found: dict[str, Tensor] = {}
        for term in self.all_terms:
            if term.exact is not None:
                value = raw[term.name] if term.name in raw else term.exact(dist, batch)
                if value is not None:
                    found[term.name] = value
        return found

    def update(self, measured: Measurements, controls: Controls) -> Signals:
        """Moves coefficients, temperature and the upper clip bound once per update, before the steps; says what to do.

        Args:
            measured: on the fresh rollout.
            controls: the algorithm's clip bounds as they are; `clip_controller` may move the upper one.

        Raises:
            ValueError: what a controller follows is not finite.
        """
        config, state = self.config, self.state
        found = {} if state.started else controllers.first_measurements(measured, config)
        state = controllers.remember_first(state, measured, config)
        state = controllers.ENTROPY[config.ent_controller](state, measured, config)
        state = controllers.adapt_kl(state, measured, config)
        state = controllers.adapt_repo_r(state, measured, config)
        state, controls = controllers.adapt_clip(state, measured, controls, config)
        found |= controllers.at_bounds(state, config)
        new = {key: text for key, text in found.items() if key not in state.said}
        self.state = dataclasses.replace(state, started=True, said=(*state.said, *new))
        interval = config.ref_refresh_interval
        return Signals(
            temperature=self.state.temperature,
            controls=controls,
            warnings=tuple(new.values()),
            refresh_reference=bool(
                interval and measured.update and measured.update % interval == 0
            ),
            stop=controllers.stop_reason(measured, config),
        )

    def metrics(self) -> dict[str, float]:
        """The coefficients in force, and 1 in `reg/controller_saturated` while one is at its bound.

        Of "adaptive", also the weight that it holds while the bonus is off; of a clip controller, the
        upper clip distance. Where a KL is in the reward, also its unweighted mean over the samples of the
        last rollout that was shaped (`reg/kl_ref_k1_reward`, ...), nats.
        """
        saturated = bool(controllers.at_bounds(self.state, self.config))
        moved = {"ent_coef_held": self.state.ent_coef_held, "clip_high": self.state.clip_high}
        return {
            **{f"reg/{name}": coef for name, coef in self.state.coefs.items()},
            **{f"reg/{name}": value for name, value in moved.items() if value is not None},
            "reg/controller_saturated": float(saturated),
            **{name: float(value.mean()) for name, value in self._in_reward.items()},
        }

    def state_dict(self) -> dict[str, Any]:
        """All that changes during a run, for a checkpoint; plain numbers and strings."""
        return self.state.to_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continues from `state_dict()`."""
        self.state = self.state.from_dict(state)
