"""Faults of the doctor's matrix: the stage at which each loses the learning signal, and how it is made.

`OPEN` may be looked at, and the bounds of `algorithms/doctor/signal_chain.py` were chosen on it. `SEALED` holds other
kinds, is judged at a commit and not used to choose anything.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from algorithms.collapse import faults
from algorithms.collapse.faults import Fault
from algorithms.core.batch import RolloutBatch
from algorithms.training.session import Session


class Kind(NamedTuple):
    """A kind of fault.

    Attributes:
        stage: of the signal chain that loses the signal; "" where none does.
        settings: dotted settings that make it; `ent_coef` and `learning_rate` count in those of the run without it.
        fault: a change of the session that no setting can make.
        cause: the doctor's name, where it is a listed cause.
    """

    stage: str
    settings: Mapping[str, Any] = {}
    fault: Fault | None = None
    cause: str = ""


Change = Callable[[Tensor, RolloutBatch, torch.Generator], Tensor]


def _generator(session: Session) -> torch.Generator:
    return torch.Generator().manual_seed(session.config.seed + 17)


def on_rewards(change: Change, begin: int = 0) -> Fault:
    """Rewards are changed from an update on."""

    def fault(session: Session) -> None:
        generator = _generator(session)

        def transform(batch: RolloutBatch) -> RolloutBatch:
            if session.progress.update < begin:
                return batch
            rewards = change(batch.rewards, batch, generator).to(batch.rewards.dtype)
            return dataclasses.replace(batch, rewards=rewards)

        session.worker.transforms.append(transform)

    return fault


def on_advantages(change: Change) -> Fault:
    """Advantages are changed."""

    def fault(session: Session) -> None:
        own, generator = session.learner.algorithm, _generator(session)

        class Changed(type(own)):  # type: ignore[misc]
            name = own.name

            def advantages(self, batch: RolloutBatch) -> Tensor:
                return change(super().advantages(batch), batch, generator)

        settings = {field.name: getattr(own, field.name) for field in dataclasses.fields(own)}  # type: ignore[arg-type]
        session.learner.algorithm = Changed(**settings)

    return fault


def on_old_logprobs(change: Change) -> Fault:
    """The recorded log-probabilities are changed."""

    def fault(session: Session) -> None:
        generator = _generator(session)
        session.worker.transforms.append(
            lambda batch: dataclasses.replace(
                batch, old_logprobs=change(batch.old_logprobs, batch, generator)
            )
        )

    return fault


def on_optimizer(make: Callable[[list[Any], float], Any]) -> Fault:
    """Another optimizer, made of the parameters and the step size."""

    def fault(session: Session) -> None:
        learner = session.learner
        learner.optimizer = make(learner.trained, learner.settings.full_learning_rate)

    return fault


def on_gradients(change: Callable[[Tensor, torch.Generator], Tensor], share: float = 1.0) -> Fault:
    """The gradients of a share of the parameters are changed on their way."""

    def fault(session: Session) -> None:
        generator = _generator(session)
        for parameter in session.learner.trained:
            if float(torch.rand((), generator=generator)) < share:
                parameter.register_hook(lambda gradient: change(gradient, generator))

    return fault


def on_step(after: Callable[[Session, Callable[[], Any], list[Tensor]], None]) -> Fault:
    """Something else happens in place of a step: it is given the session, the step, and the first weights."""

    def fault(session: Session) -> None:
        step = session.learner.optimizer.step
        first = [parameter.detach().clone() for parameter in session.learner.trained]
        session.learner.optimizer.step = lambda: after(session, step, first)  # type: ignore[method-assign]

    return fault


def frozen_from(begin: int) -> Fault:
    """Weights no longer move from an update on."""

    def after(session: Session, step: Callable[[], Any], first: list[Tensor]) -> None:
        if session.progress.update < begin:
            step()

    return on_step(after)


def rate_times(factor: float, begin: int) -> Fault:
    """The step size is another one than the schedule's from an update on."""

    def after(session: Session, step: Callable[[], Any], first: list[Tensor]) -> None:
        rate = session.learner.learning_rate
        session.learner.learning_rate = rate * (factor if session.progress.update >= begin else 1.0)
        step()
        session.learner.learning_rate = rate

    return on_step(after)


@torch.no_grad()
def _pull_back(session: Session, step: Callable[[], Any], first: list[Tensor]) -> None:
    step()
    for parameter, weights in zip(session.learner.trained, first, strict=True):
        parameter.lerp_(weights, 0.05)


def shuffled(share: float) -> Change:
    """A share of the rewards change places."""

    def change(rewards: Tensor, batch: RolloutBatch, generator: torch.Generator) -> Tensor:
        flat = rewards.reshape(-1).clone()
        taken = (torch.rand(flat.numel(), generator=generator) < share).nonzero().squeeze(-1)
        flat[taken] = flat[taken[torch.randperm(len(taken), generator=generator)]]
        return flat.reshape(rewards.shape)

    return change


def noisy(sigmas: float) -> Change:
    """Noise of so many standard deviations within the groups."""

    def change(values: Tensor, batch: RolloutBatch, generator: torch.Generator) -> Tensor:
        spread = (values - values.mean(-1, keepdim=True)).std()
        return values + sigmas * spread * torch.randn(values.shape, generator=generator)

    return change


def flat_groups(share: float) -> Change:
    """A share of the groups have one reward for all moves."""

    def change(rewards: Tensor, batch: RolloutBatch, generator: torch.Generator) -> Tensor:
        dead = torch.rand(rewards.shape[:-1], generator=generator) < share
        return torch.where(dead.unsqueeze(-1), rewards.mean(-1, keepdim=True), rewards)

    return change


def half_constant(rewards: Tensor, batch: RolloutBatch, generator: torch.Generator) -> Tensor:
    """Every second reward is the mean of all."""
    return torch.where(
        torch.rand(rewards.shape, generator=generator) < 0.5, rewards, rewards.mean()
    )


def wrong_for_black(rewards: Tensor, batch: RolloutBatch, generator: torch.Generator) -> Tensor:
    """Black's rewards have the wrong sign."""
    return torch.where(batch.side.unsqueeze(-1) == 1, rewards, -rewards)


def delayed() -> Change:
    """Every rollout is paid with the rewards of the one before it."""
    kept: list[Tensor] = []

    def change(rewards: Tensor, batch: RolloutBatch, generator: torch.Generator) -> Tensor:
        kept.append(rewards)
        old = kept.pop(0) if len(kept) > 1 else rewards
        return old if old.shape == rewards.shape else rewards

    return change


def mixed(values: Tensor, batch: RolloutBatch, generator: torch.Generator) -> Tensor:
    """All change places."""
    order = torch.randperm(values.numel(), generator=generator)
    return values.reshape(-1)[order].reshape(values.shape)


def some_negated(values: Tensor, batch: RolloutBatch, generator: torch.Generator) -> Tensor:
    """Two fifths have the wrong sign."""
    return torch.where(torch.rand(values.shape, generator=generator) < 0.4, -values, values)


def scaled_by_state(values: Tensor, batch: RolloutBatch, generator: torch.Generator) -> Tensor:
    """Each position has a random weight."""
    weights = torch.exp(2 * torch.randn(values.shape[:-1], generator=generator))
    return values * weights.unsqueeze(-1)


def uniform(logprobs: Tensor, batch: RolloutBatch, generator: torch.Generator) -> Tensor:
    """As if all legal moves had been as likely."""
    counts = (batch.legal_ids >= 0).sum(-1, keepdim=True)
    return (-counts.float().log()).expand(logprobs.shape).clone()


def _temperature(sigma: float) -> Fault:
    """The learner's temperature is another one at every update."""

    def fault(session: Session) -> None:
        generator = _generator(session)
        session.worker.transforms.append(
            lambda batch: dataclasses.replace(
                batch,
                temperature=batch.temperature
                * float(torch.exp(sigma * torch.randn((), generator=generator))),
            )
        )

    return fault


def _adam(**settings: Any) -> Fault:
    return on_optimizer(lambda trained, rate: torch.optim.Adam(trained, lr=rate, **settings))


def _decay(weight_decay: float) -> Fault:
    return on_optimizer(
        lambda trained, rate: torch.optim.AdamW(trained, lr=rate, weight_decay=weight_decay)
    )


HOT = {"rollout.temperature": 1.3}
SOUND = "sound"

OPEN: dict[str, Kind] = {
    SOUND: Kind(""),
    "temp1.3": Kind("ratio", HOT, faults.learner_temperature(1.0), "temperature_mismatch"),
    "temp1.15": Kind("ratio", HOT, faults.learner_temperature(1.15), "temperature_mismatch"),
    "noise.8": Kind("ratio", {}, faults.sampler_keeps_noise(0.8), "forward_mismatch"),
    "noise.4": Kind("ratio", {}, faults.sampler_keeps_noise(0.4), "forward_mismatch"),
    "stale16": Kind("ratio", {"rollout.sync_interval_updates": 16}, None, "stale_behaviour"),
    "stale4": Kind("ratio", {"rollout.sync_interval_updates": 4}, None, "stale_behaviour"),
    "negate20": Kind("reward", {}, on_rewards(lambda rewards, *_: -rewards, 20)),
    "shuffle.5": Kind("reward", {}, on_rewards(shuffled(0.5))),
    "shuffle1": Kind("reward", {}, on_rewards(shuffled(1.0))),
    "rnoise1": Kind("reward", {}, on_rewards(noisy(1.0))),
    "rnoise3": Kind("reward", {}, on_rewards(noisy(3.0))),
    "tanh20": Kind("reward", {}, faults.squashed_reward(20.0), "no_signal"),
    "zero75": Kind("reward", {}, on_rewards(flat_groups(0.75)), "no_signal"),
    "clip.005": Kind("objective", {"algorithm.clip_range": 0.005}),
    "bonus.5": Kind("objective", {"ent_coef": 2.5}, None, "loss_budget"),
    "bonus1": Kind("objective", {"ent_coef": 5.0}, None, "loss_budget"),
    "bonus3": Kind("objective", {"ent_coef": 15.0}, None, "loss_budget"),
    "frozen10": Kind("step", {}, frozen_from(10)),
    "eps.1": Kind("step", {}, _adam(eps=0.1)),
    "wd100": Kind("step", {}, _decay(100.0)),
    "lrx30@20": Kind("step", {}, rate_times(30.0, 20)),
    "aneg": Kind("credit", {}, on_advantages(lambda advantages, *_: -advantages)),
    "ashuf": Kind("credit", {}, on_advantages(mixed)),
    "anoise3": Kind("credit", {}, on_advantages(noisy(3.0))),
    "fixed16": Kind(
        "", {"env.start_positions": "random_plies:2-40@fixed=16"}, None, "fixed_positions"
    ),
    "group2": Kind("", {"algorithm.group_size": 2}),
    "epochs8": Kind(
        "",
        {
            "algorithm.update_epochs": 8,
            "algorithm.clip_range": 1.0,
            "algorithm.clip_range_high": 100.0,
        },
    ),
    "lr8e-3": Kind("", {"optimizer.learning_rate": 8e-3}),
    "sampled": Kind(
        "",
        {"ent_coef": 3.5, "regularizer.ent_estimator": "sampled"},
        None,
        "sampled_entropy_bonus",
    ),
}

SEALED: dict[str, Kind] = {
    SOUND: Kind(""),
    "temp.7": Kind("ratio", {}, faults.learner_temperature(0.7), "temperature_mismatch"),
    "tempnoise": Kind("ratio", {}, _temperature(0.4)),
    "oldlp.5": Kind(
        "ratio",
        {},
        on_old_logprobs(
            lambda logprobs, _, generator: (
                logprobs + 0.5 * torch.randn(logprobs.shape, generator=generator)
            )
        ),
    ),
    "oldunif": Kind("ratio", {}, on_old_logprobs(uniform)),
    "stale8": Kind("ratio", {"rollout.sync_interval_updates": 8}, None, "stale_behaviour"),
    "noise1.2": Kind("ratio", {}, faults.sampler_keeps_noise(1.2), "forward_mismatch"),
    "black": Kind("reward", {}, on_rewards(wrong_for_black)),
    "chalf": Kind("reward", {}, on_rewards(half_constant)),
    "rclip": Kind(
        "reward", {}, on_rewards(lambda rewards, *_: rewards.clamp(-0.02, 0.02)), "no_signal"
    ),
    "binary": Kind(
        "reward", {}, on_rewards(lambda rewards, *_: (rewards > rewards.mean()).float())
    ),
    "delayed": Kind("reward", {}, on_rewards(delayed())),
    "shuffle.7@15": Kind("reward", {}, on_rewards(shuffled(0.7), 15)),
    "zero90": Kind("reward", {}, on_rewards(flat_groups(0.9)), "no_signal"),
    "awithin": Kind("credit", {}, on_advantages(lambda advantages, *_: advantages.roll(1, -1))),
    "aabs": Kind("credit", {}, on_advantages(lambda advantages, *_: advantages.abs())),
    "asign": Kind("credit", {}, on_advantages(some_negated)),
    "anoise2": Kind("credit", {}, on_advantages(noisy(2.0))),
    "ascale": Kind("credit", {}, on_advantages(scaled_by_state)),
    "bonus.8": Kind("objective", {"ent_coef": 4.0}, None, "loss_budget"),
    "bonus2": Kind("objective", {"ent_coef": 10.0}, None, "loss_budget"),
    "klref": Kind("objective", {"regularizer.kl_ref_coef": 3.0}, None, "loss_budget"),
    "klold": Kind("objective", {"regularizer.kl_old_coef": 30.0}, None, "loss_budget"),
    "cliphigh.005": Kind("objective", {"algorithm.clip_range_high": 0.005}, None, "clip_asymmetry"),
    "eps.01": Kind("step", {}, _adam(eps=0.01)),
    "wd30": Kind("step", {}, _decay(30.0)),
    "sgd": Kind("step", {}, on_optimizer(lambda trained, rate: torch.optim.SGD(trained, lr=rate))),
    "lost.5": Kind("step", {}, on_gradients(lambda gradient, _: torch.zeros_like(gradient), 0.6)),
    "gnoise": Kind(
        "step",
        {},
        on_gradients(
            lambda gradient, generator: (
                gradient
                + 6
                * gradient.norm()
                / gradient.numel() ** 0.5
                * torch.randn(gradient.shape, generator=generator)
            )
        ),
    ),
    "reset": Kind("step", {}, on_step(_pull_back)),
    "frozen3": Kind("step", {}, frozen_from(3)),
    "lrx.05@5": Kind("step", {}, rate_times(0.05, 5)),
    "betas": Kind("step", {}, _adam(betas=(0.0, 0.9))),
}

SOUND_OTHERWISE: dict[str, Kind] = {
    SOUND: Kind(""),
    "sound_rate.5": Kind("", {"learning_rate": 0.5}),
    "sound_rate1.4": Kind("", {"learning_rate": 1.4}),
    "sound_bonus.5": Kind("", {"ent_coef": 0.5}),
    "sound_groups4": Kind("", {"algorithm.group_size": 4}),
    "sound_boards32": Kind("", {"rollout.num_envs": 32}),
    "sound_minibatch64": Kind("", {"optimizer.minibatch_size": 64}),
    "sound_schedule": Kind("", {"optimizer.lr_final": 1e-4}),
    "sound_openings": Kind("", {"env.start_positions": "openings"}),
}
"""Runs without a fault whose settings are not the defaults."""

BONUSES: dict[str, Kind] = {SOUND: Kind("")} | {
    f"bonus_times{times:g}": Kind("objective", {"ent_coef": times}, None, "loss_budget")
    for times in (1.5, 2.5, 5.0, 15.0, 40.0)
}
"""A bonus somewhat or much too large; beside a small one in the preset the first sizes do no harm."""

SAMPLER_KLS: dict[str, Kind] = {SOUND: Kind("")} | {
    f"kl_old{coef:g}": Kind("objective", {"regularizer.kl_old_coef": coef}, None, "loss_budget")
    for coef in (0.1, 0.5, 2.0, 6.0, 20.0, 60.0)
}
"""A KL to the sampler, by its coefficient: the first sizes do no harm."""

CREDITS: dict[str, Kind] = (
    {SOUND: Kind(""), "anoise1": Kind("credit", {}, on_advantages(noisy(1.0)))}
    | {name: SEALED[name] for name in ("awithin", "aabs", "asign", "anoise2", "ascale")}
    | {name: OPEN[name] for name in ("aneg", "ashuf", "anoise3")}
)
"""Wrong advantages alone."""

BETWEEN: dict[str, Kind] = {
    SOUND: Kind(""),
    "temp.8": Kind("ratio", {}, faults.learner_temperature(0.8), "temperature_mismatch"),
    "noise.6": Kind("ratio", {}, faults.sampler_keeps_noise(0.6), "forward_mismatch"),
    "stale6": Kind("ratio", {"rollout.sync_interval_updates": 6}, None, "stale_behaviour"),
    "shuffle.8@8": Kind("reward", {}, on_rewards(shuffled(0.8), 8)),
    "negate5": Kind("reward", {}, on_rewards(lambda rewards, *_: -rewards, 5)),
    "zero80": Kind("reward", {}, on_rewards(flat_groups(0.8)), "no_signal"),
    "anoise2.5": Kind("credit", {}, on_advantages(noisy(2.5))),
    "bonus_of_.6": Kind(
        "objective",
        {"regularizer.ent_coef": 0.6, "regularizer.ent_coef_final": None},
        None,
        "loss_budget",
    ),
    "frozen7": Kind("step", {}, frozen_from(7)),
    "lost.75": Kind("step", {}, on_gradients(lambda gradient, _: torch.zeros_like(gradient), 0.75)),
    "lrx30@12": Kind("step", {}, rate_times(30.0, 12)),
}
"""Kinds of every stage at sizes between the others, for algorithms that no other part has faults of."""
