"""The object that adds entropy and KL to any algorithm: four hooks and a state for the checkpoint."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from torch import Tensor

from algorithms.core.algorithm import Controls
from algorithms.core.batch import FlatBatch, RolloutBatch
from algorithms.core.distribution import MaskedCategorical
from algorithms.regularization import alarms, controllers, estimators, shaping
from algorithms.regularization.config import RegularizerConfig
from algorithms.regularization.controllers import Measurements, Signals, State
from algorithms.regularization.kl_cov import kl_cov


class Regularizer:
    """Entropy and KL in reward, advantage and loss, with coefficients that controllers may move.

    Args:
        config: the terms and controllers.
        temperature: the rollout's softmax temperature at the start of the run.

    Raises:
        ValueError: recovery could not raise this temperature.
    """

    def __init__(self, config: RegularizerConfig, temperature: float) -> None:
        if config.ent_controller == "recovery" and temperature > config.temperature_max:
            raise ValueError(
                f"the rollout's temperature is {temperature} and temperature_max "
                f"{config.temperature_max}: recovery could only lower it; raise temperature_max"
            )
        self.config = config
        self.state = State(
            ent_coef=config.ent_coef,
            kl_old_coef=config.kl_old_coef,
            kl_ref_coef=config.kl_ref_coef,
            temperature=temperature,
        )
        self._in_reward: dict[str, Tensor] = {}

    @property
    def needs_reference(self) -> bool:
        """True if a term reads the reference policy's distribution."""
        return self.config.kl_ref_coef > 0

    @property
    def needs_learner(self) -> bool:
        """True if a term reads `RolloutBatch.learner_legal_logprobs`."""
        return self.config.kl_old_coef > 0 and self.config.kl_old_placement == "reward"

    def shape_reward(self, batch: RolloutBatch) -> Tensor:
        """Rewards minus the KL terms placed in the reward, same shape; `batch.rewards` itself without any.

        r - coef * k(d) at each valid sample, without gradient; reward units. The unweighted mean
        over the valid samples is logged by `metrics`.
        """
        config, rewards = self.config, batch.rewards
        self._in_reward = {}
        if config.kl_old_coef > 0 and config.kl_old_placement == "reward":
            kl = shaping.kl_old_per_sample(batch, config.kl_old_estimator)
            rewards = rewards - self.state.kl_old_coef * kl
            self._in_reward[f"reg/kl_old_{config.kl_old_estimator}_reward"] = kl[batch.valid]
        if config.kl_ref_coef > 0 and config.kl_ref_placement == "reward":
            kl = shaping.kl_ref_per_sample(batch, config.kl_ref_estimator)
            rewards = rewards - self.state.kl_ref_coef * kl
            self._in_reward[f"reg/kl_ref_{config.kl_ref_estimator}_reward"] = kl[batch.valid]
        return rewards

    def shape_advantage(self, advantages: Tensor, batch: RolloutBatch | FlatBatch) -> Tensor:
        """Advantages after REPO or REPO-R, same shape; the tensor itself without either.

        Args:
            advantages: shaped like `batch.old_logprobs`, in the unit in which they enter the loss.
            batch: the rollout, or a minibatch of it.
        """
        if self.config.repo_coef > 0:
            return shaping.repo(advantages, batch, self.config.repo_coef)
        if self.config.repo_r_coef > 0:
            return shaping.repo_r(advantages, batch, self.config.repo_r_coef)
        return advantages

    def loss(
        self, dist: MaskedCategorical, batch: FlatBatch, advantages: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """`[N]` weighted loss to minimise, and its detached parts `[N]` under their metric names.

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
        terms, parts = self.penalties(dist, batch, advantages)
        return sum(terms.values(), torch.zeros_like(parts["reg/entropy"])), parts

    def penalties(
        self, dist: MaskedCategorical, batch: FlatBatch, advantages: Tensor
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """(`terms`, the parts of `loss`), both by name, `[N]`.

        Raises:
            ValueError: as of `loss`.
        """
        estimates, terms = self._evaluate(dist, batch, advantages)
        raw = {name: value.detach() for name, value in estimates.items()}
        exact = _exact(dist, batch, raw)
        nothing = torch.zeros_like(exact["entropy"])
        parts = {f"reg/{name}": value for name, value in (exact | raw).items()}
        for name in dict.fromkeys((*exact, *terms)):
            parts[f"reg/{name}_weighted"] = terms[name].detach() if name in terms else nothing
        return terms, parts

    def terms(
        self, dist: MaskedCategorical, batch: FlatBatch, advantages: Tensor
    ) -> dict[str, Tensor]:
        """Name -> `[N]` weighted and differentiable term, one for each that is on in the loss.

        Names: `entropy`, `kl_old`, `kl_ref`, `kl_cov`; `loss` is their sum.
        """
        return self._evaluate(dist, batch, advantages)[1]

    def _evaluate(
        self, dist: MaskedCategorical, batch: FlatBatch, advantages: Tensor
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """(raw estimates by metric name, weighted terms by term name), both `[N]`."""
        config, state = self.config, self.state
        estimates: dict[str, Tensor] = {}
        terms: dict[str, Tensor] = {}
        if state.ent_coef != 0:
            value = estimators.ENTROPY[config.ent_estimator](dist, batch)
            estimates[_metric("entropy", config.ent_estimator)] = value
            terms["entropy"] = -state.ent_coef * value
        if state.kl_old_coef != 0 and config.kl_old_placement == "loss":
            value = estimators.KL[config.kl_old_estimator](dist, batch, batch.old_legal_logprobs)
            estimates[_metric("kl_old", config.kl_old_estimator)] = value
            terms["kl_old"] = state.kl_old_coef * value
        if self.needs_reference and batch.ref_legal_logprobs is None:
            raise ValueError(
                f"kl_ref_coef is {state.kl_ref_coef} but the batch has no reference distribution: "
                "compute it with rollouts.worker.reference_logprobs and RolloutBatch.with_reference, or "
                "set kl_ref_coef to 0"
            )
        ref = batch.ref_legal_logprobs
        if ref is not None and state.kl_ref_coef != 0 and config.kl_ref_placement == "loss":
            value = estimators.KL[config.kl_ref_estimator](dist, batch, ref)
            estimates[_metric("kl_ref", config.kl_ref_estimator)] = value
            terms["kl_ref"] = state.kl_ref_coef * value
        if config.kl_cov_coef != 0:
            value = kl_cov(dist, batch, advantages, config.kl_cov_fraction)
            estimates["kl_cov"] = value
            terms["kl_cov"] = config.kl_cov_coef * value
        return estimates, terms

    def update(self, reading: Measurements, controls: Controls) -> Signals:
        """Moves the coefficients once per update, before the optimizer steps; says what to do.

        Args:
            reading: measured on the fresh rollout.
            controls: the algorithm's clip bounds; handed on as they are, no controller moves them so far.

        Raises:
            ValueError: the progress is outside [0, 1], or what a controller follows is not finite.
        """
        if not 0 <= reading.progress <= 1:
            raise ValueError(
                f"progress is {reading.progress}: expected the spent share of the budget in [0, 1]"
            )
        config, state = self.config, self.state
        found = {} if state.started else alarms.first_reading(reading, config)
        state = controllers.ENTROPY[config.ent_controller](state, reading, config)
        state = controllers.adapt_kl(state, reading, config)
        found |= alarms.at_bounds(state, config)
        new = {key: text for key, text in found.items() if key not in state.said}
        self.state = dataclasses.replace(state, started=True, said=(*state.said, *new))
        interval = config.ref_refresh_interval
        return Signals(
            temperature=self.state.temperature,
            controls=controls,
            warnings=tuple(new.values()),
            refresh_reference=bool(interval and reading.update and reading.update % interval == 0),
            stop=controllers.stop_reason(reading, config),
        )

    def metrics(self) -> dict[str, float]:
        """The current coefficients, and 1 in `reg/controller_saturated` while one is at its bound.

        Where a KL is in the reward, also its unweighted mean over the samples of the last rollout
        that was shaped (`reg/kl_ref_k1_reward`, ...), nats.
        """
        return {
            "reg/ent_coef": self.state.ent_coef,
            "reg/kl_old_coef": self.state.kl_old_coef,
            "reg/kl_ref_coef": self.state.kl_ref_coef,
            "reg/controller_saturated": float(bool(alarms.at_bounds(self.state, self.config))),
        } | {name: float(value.mean()) for name, value in self._in_reward.items()}

    def state_dict(self) -> dict[str, Any]:
        """All that changes during a run, for a checkpoint; plain numbers and strings."""
        return dataclasses.asdict(self.state) | {"said": list(self.state.said)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continues from `state_dict()`.

        Raises:
            ValueError: the entries are not those of this version.
        """
        expected = {field.name for field in dataclasses.fields(State)}
        if set(state) != expected:
            raise ValueError(
                f"the regulariser's state has {sorted(state)}, expected {sorted(expected)}: the "
                "checkpoint is of another version; start a new run"
            )
        self.state = State(**state | {"said": tuple(state["said"])})


def _metric(term: str, estimator: str) -> str:
    """Name of an estimate: the term's own where it is exact."""
    return term if estimator == "exact" else f"{term}_{estimator}"


@torch.no_grad()
def _exact(dist: MaskedCategorical, batch: FlatBatch, raw: dict[str, Tensor]) -> dict[str, Tensor]:
    """`[N]` exact entropy and divergences, nats, by term; taken from `raw` where it has them."""
    exact = {"entropy": raw["entropy"] if "entropy" in raw else dist.entropy()}
    others = {"kl_old": batch.old_legal_logprobs, "kl_ref": batch.ref_legal_logprobs}
    for name, other in others.items():
        if other is not None:
            exact[name] = raw[name] if name in raw else dist.kl(other)
    return exact
