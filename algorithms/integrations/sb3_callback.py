"""A callback for Stable-Baselines3's PPO and A2C and sb3-contrib's MaskablePPO that logs what their log lacks.

One file, to be copied: it imports stable_baselines3, torch and numpy alone. It draws nothing and changes no weight, no
buffer and no mode of a layer. Checked with Stable-Baselines3 2.9.2 and sb3-contrib 2.9.2.

    model.learn(1_000_000, callback=DoctorCallback())

The model's logger, and so progress.csv or TensorBoard, gets means since its last row:

- `doctor/surprise_gap`: mean of -log p of the rollout's actions less the exact entropy, both of the policy before the
  first step on them, nats an action: 0 where the actions come from the policy that learns, above where they are drawn
  hotter or replaced by others, below where they are drawn colder;
- `doctor/inverse_temperature`: b where softmax(b * logits) explains discrete actions best, .05 to 20; left out
  where the policy is so even that any b does (a standard error above 1);
- `doctor/first_ratio_std`: standard deviation of the log-ratio to the buffer's log-probabilities in the learner's own
  first pass on a rollout, nats: 0 where sampler and learner compute the same policy. Layers are in evaluation mode in
  sampling and in training mode in learning: with dropout or batch norm they are two policies;
- `doctor/dropout`: the largest probability of a dropout layer that is on in that pass;
- `doctor/ent_coef` and `doctor/gamma`: the coefficient of the entropy bonus and the discount, which the stock log does
  not have;
- `doctor/end_kl`: KL(before || after) of all steps on a rollout, on its states, nats: exact for discrete actions,
  otherwise k3 at the rollout's actions.

The first two and these two are of the rollout that ends at the row's `time/total_timesteps`. The others are of
the update before, as all of `train/...`: Stable-Baselines3 writes a row between a rollout and the steps on it. Those of
the last update are recorded and never written. A distribution without an exact entropy of independent actions
(squashed, gSDE) has no gap. Of rollouts with fewer than 1,024 actions some are left out, to save time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.distributions import (
    DiagGaussianDistribution,
    SquashedDiagGaussianDistribution,
)
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from torch import Tensor, nn
from torch.distributions import Bernoulli, Categorical

PART, FEWEST, MOST, APART = 8, 64, 512, 1024
"""States of a rollout that are looked at: one in 8, at least 64, at most 512; and once in so many actions at most."""

SURE, HARMFUL_NATS, POOL, ENOUGH = 5.0, 0.05, 2048, 256
"""Standard errors and nats from which a gap is said and, on request, stops the run; over the latest so many actions,
and not over fewer than the last."""

TELLING = 25.0
"""Sum of the variances of log p from which an ordinary temperature shows: b has a standard error of 1 / sqrt(that)."""

DROPOUTS = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.FeatureAlphaDropout)  # fmt: skip


class _Sample(NamedTuple):
    """States of a rollout with the actions taken there, and what the policy made of them. Float64 on the CPU.

    Attributes:
        given: what `get_distribution` takes, as the policy takes it: observations, and action masks where there are.
        actions: `[N, D]`, as the buffer has them.
        factors: log-probabilities `[N, A]` of each discrete part of an action; () of other distributions.
        logprobs: `[N]` of the actions, nats.
    """

    given: tuple[Any, ...]
    actions: Tensor
    factors: tuple[Tensor, ...]
    logprobs: Tensor


class DoctorCallback(BaseCallback):
    """Measures the actions of a rollout before the first step on them, and how far the steps went.

    Args:
        stop: end the run where the actions surely do not come from the policy that learns: at the first step of the
            next rollout, so after the update on this one. Stable-Baselines3 asks nothing before.
        verbose: Stable-Baselines3's.

    Raises:
        TypeError: from `learn`, of an algorithm that is not on-policy or whose policy is recurrent.
    """

    def __init__(self, stop: bool = False, verbose: int = 0) -> None:
        super().__init__(verbose)
        self._stop = stop
        self._is_stopping, self._said = False, -1
        self._rollouts = 0
        # Gaps, and the variances that they have where the policy is the sampler.
        self._pool = torch.zeros(2, 0, dtype=torch.float64)
        self._before: _Sample | None = None
        self._undo: list[Callable[[], None]] = []

    def _init_callback(self) -> None:
        name = type(self.model).__name__
        is_recurrent = hasattr(self.model.policy, "lstm_actor")
        if is_recurrent or not isinstance(self.model, OnPolicyAlgorithm):
            raise TypeError(
                f"DoctorCallback was given to {name}. It compares a rollout with the policy that learns from it, and "
                f"so needs PPO, A2C, MaskablePPO or a subclass of them. Train {name} without it."
            )
        self._is_stopping, self._before = False, None

    def _on_step(self) -> bool:
        return not self._is_stopping

    def _on_rollout_end(self) -> None:
        buffer: Any = self.model.rollout_buffer  # type: ignore[attr-defined,unused-ignore]
        size = buffer.buffer_size * buffer.n_envs
        self._rollouts += 1
        for name in ("ent_coef", "gamma"):
            self.logger.record(f"doctor/{name}", float(getattr(self.model, name)))
        if (self._rollouts - 1) % math.ceil(APART / size):
            return
        count = min(size, MOST, max(FEWEST, size // PART))
        order = np.arange(count)  # evenly over the steps, and the environments in turn
        rows = order * buffer.buffer_size // count, order % buffer.n_envs

        def at(array: Any) -> Any:
            if isinstance(array, dict):
                return {name: at(each) for name, each in array.items()}
            return buffer.to_torch(array[rows])

        masks = [at(buffer.action_masks)] if hasattr(buffer, "action_masks") else []
        given, actions = (at(buffer.observations), *masks), at(buffer.actions).cpu()
        distribution = self._distribution(given)
        self._before = _sample(distribution, given, actions)
        self._judge(distribution, self._before)
        self._replace(buffer, "get", self._batches(buffer))

    def _on_rollout_start(self) -> None:
        self._restore()
        before, self._before = self._before, None
        if before is not None:
            after = _sample(self._distribution(before.given), before.given, before.actions)
            self.logger.record_mean("doctor/end_kl", _kl(before, after))

    def _on_training_end(self) -> None:
        self._on_rollout_start()

    def _judge(self, distribution: Any, sample: _Sample) -> None:
        """Logs how surprising the actions are, and says it at the first rollout and where they are surely others'."""
        found = _surprises(distribution, sample)
        if found is None:
            if self._rollouts == 1:
                print(f"doctor: {type(distribution).__name__} has no exact entropy of independent actions, so whether "
                      "the actions come from the policy that learns is not measured")  # fmt: skip
            return
        self.logger.record_mean("doctor/surprise_gap", float(found[0].mean()))
        if sample.factors and float(found[1].sum()) > 1:
            factor = _inverse_temperature(sample.factors, sample.actions)
            self.logger.record_mean("doctor/inverse_temperature", factor)
        self._pool = torch.cat([self._pool, found], 1)[:, -POOL:]
        number, variance = self._pool.shape[1], float(self._pool[1].sum())
        # The exact error: that of a sample is too small where the policy is peaked and rare actions are missing.
        gap, error = float(self._pool[0].mean()), math.sqrt(variance) / number
        is_off = number >= ENOUGH and abs(gap) > max(SURE * error, HARMFUL_NATS)
        said = 2 if is_off else int(variance > TELLING)
        if said > self._said:
            what = ("may or may not come (too few so far, or nearly uniform) from",
                    "come, as far as can be told, from", "do NOT come from")[said]  # fmt: skip
            print(
                f"doctor: the actions {what} the policy that learns: they are {gap:+.3f} nats an action more "
                f"surprising than its own (standard error {error:.3f}, {number} actions)"
            )
        self._said = max(said, self._said)
        self._is_stopping = self._is_stopping or (is_off and self._stop)

    def _batches(self, buffer: Any) -> Callable[..., Iterator[Any]]:
        """`buffer.get` for one call, in which the pass on the first batch is looked at."""

        def get(*args: Any, **kwargs: Any) -> Iterator[Any]:
            self._restore()
            batches = buffer.get(*args, **kwargs)
            first = next(batches)
            self._replace(self.model.policy, "evaluate_actions", self._first_pass(first))
            yield first
            yield from batches

        return get

    def _first_pass(self, batch: Any) -> Callable[..., Any]:
        """`policy.evaluate_actions` for one call; it hands on what the policy returns."""

        def evaluate_actions(*args: Any, **kwargs: Any) -> Any:
            self._restore()
            policy: Any = self.model.policy
            found = policy.evaluate_actions(*args, **kwargs)
            ratios = found[1].detach() - batch.old_log_prob
            self.logger.record_mean("doctor/first_ratio_std", float(ratios.std(correction=0)))
            on = [m.p for m in policy.modules() if isinstance(m, DROPOUTS) and m.training]
            self.logger.record_mean("doctor/dropout", max(on, default=0.0))
            return found

        return evaluate_actions

    def _replace(self, owner: Any, name: str, method: Callable[..., Any]) -> None:
        own = vars(owner).get(name)
        setattr(owner, name, method)
        self._undo.append(lambda: setattr(owner, name, own) if own else delattr(owner, name))

    def _restore(self) -> None:
        while self._undo:
            self._undo.pop()()

    @torch.no_grad()
    def _distribution(self, given: tuple[Any, ...]) -> Any:
        """The policy's, with all layers in evaluation mode: no dropout is drawn, no average of batch norm moves."""
        policy: Any = self.model.policy
        modes = [(module, module.training) for module in policy.modules()]
        for module, _ in modes:
            module.training = False
        try:
            return policy.get_distribution(*given)
        finally:
            for module, mode in modes:
                module.training = mode


@torch.no_grad()
def _sample(distribution: Any, given: tuple[Any, ...], actions: Tensor) -> _Sample:
    """The actions under a distribution of Stable-Baselines3 or sb3-contrib."""
    inner = getattr(distribution, "distributions", None) or distribution.distribution
    parts = inner if isinstance(inner, list) else [inner]
    if all(isinstance(part, Categorical) for part in parts):
        factors = tuple(part.logits.cpu().double().log_softmax(-1) for part in parts)
    elif isinstance(inner, Bernoulli):
        logits = inner.logits.cpu().double()
        both = torch.stack([-logits, logits], -1)
        factors = torch.nn.functional.logsigmoid(both).unbind(1)
    else:
        return _Sample(
            given, actions, (), distribution.log_prob(actions.to(inner.mean)).cpu().double()
        )
    return _Sample(given, actions, factors, _chosen(factors, actions))


def _chosen(factors: tuple[Tensor, ...], actions: Tensor) -> Tensor:
    """`[N]` log-probabilities of the actions."""
    pairs = zip(factors, actions.long().unbind(1), strict=True)
    return torch.stack([each.gather(1, k[:, None]).squeeze(1) for each, k in pairs]).sum(0)


def _surprises(distribution: Any, sample: _Sample) -> Tensor | None:
    """`[2, N]`: -log p of the actions less the entropy, and the variance of that; None without an exact entropy."""
    if sample.factors:
        entropy = -torch.stack([_mean(each, each) for each in sample.factors]).sum(0)
        squares = [
            _mean(each, each.square()) - _mean(each, each).square() for each in sample.factors
        ]
        return torch.stack([-sample.logprobs - entropy, torch.stack(squares).sum(0)])
    if isinstance(distribution, SquashedDiagGaussianDistribution) or not isinstance(
        distribution, DiagGaussianDistribution
    ):
        return None
    entropy = distribution.distribution.entropy().cpu().double().sum(1)
    variance = torch.full_like(
        entropy, sample.actions.shape[1] / 2
    )  # -log p of a normal one is z^2 / 2 + constant
    return torch.stack([-sample.logprobs - entropy, variance])


def _mean(logprobs: Tensor, values: Tensor) -> Tensor:
    """`[N]` expectations of values `[N, A]`; what has no probability counts as 0, infinite or not."""
    weights = logprobs.exp()
    return torch.where(weights > 0, weights * values, 0.0).sum(-1)


def _kl(before: _Sample, after: _Sample) -> float:
    """KL(before || after), mean over the states: exact for discrete actions, otherwise k3."""
    if before.factors:
        pairs = zip(before.factors, after.factors, strict=True)
        return sum(float(_mean(old, old - new).mean()) for old, new in pairs)
    ratios = after.logprobs - before.logprobs
    return float((ratios.expm1() - ratios).mean())


def _inverse_temperature(factors: tuple[Tensor, ...], actions: Tensor) -> float:
    """b of the largest likelihood of the actions under softmax(b * logits), by Newton's method; .05 to 20."""
    factor, seen = 1.0, float(_chosen(factors, actions).mean())
    for _ in range(30):
        mean, spread = 0.0, 1e-12
        for logprobs in factors:
            scaled = (factor * logprobs).log_softmax(-1)
            expected = _mean(scaled, logprobs)
            mean += float(expected.mean())
            spread += float((_mean(scaled, logprobs.square()) - expected.square()).mean())
        last, step = factor, (seen - mean) / spread
        factor = min(max(factor + step, factor / 2, 0.05), factor * 2, 20.0)
        if abs(factor - last) < 1e-3 * factor:
            break
    return factor
