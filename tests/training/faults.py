"""Faults of a first rollout, and sessions to have them in. Nothing outside the tests can make one."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from algorithms.config.run import EnvConfig, OptimizerConfig, RolloutConfig, TrainConfig
from algorithms.core.algorithm import Algorithm
from algorithms.core.batch import RolloutBatch
from algorithms.grpo import GRPO
from algorithms.networks.settings import NetworkConfig, PrecisionConfig
from algorithms.regularization import RegularizerConfig
from algorithms.training import session as session_module
from algorithms.training.session import Session
from tests.env.material import MaterialEvaluator

SMALL = NetworkConfig(network="resnet", channels=8, blocks=1, head_dim=8)
FACTS = NetworkConfig(network="move_net", size="tiny")
ROLLOUT = RolloutConfig(num_envs=8, num_plies=2)
BUILTIN = EnvConfig(evaluator="builtin")


class OrderDependent(MaterialEvaluator):
    """Material, and a little of how many positions were asked for before: no function of a position."""

    id = "test-order-dependent"

    def _score_ongoing(self, positions: NDArray[np.uint64]) -> NDArray[np.int32]:
        before = self._unique_queries
        drift = (before + np.arange(len(positions), dtype=np.int32)) % 7
        return super()._score_ongoing(positions) + drift.astype(np.int32)


@contextmanager
def session_of(
    seed: int = 0,
    *,
    spread: float = 0.0,
    evaluator: Callable[[], Any] | None = None,
    **changes: Any,
) -> Iterator[Session]:
    """A started session with a small network.

    Args:
        seed: of everything.
        spread: standard deviation of the biases added to the logits; 0 leaves the network as it is.
        evaluator: makes what scores, in place of the configured one.
        changes: of the configuration.
    """
    defaults: dict[str, Any] = {
        "algorithm": GRPO(group_size=4), "policy": SMALL, "rollout": ROLLOUT, "env": BUILTIN,
        "optimizer": OptimizerConfig(minibatch_size=8), "total_moves": 20_000,
    }  # fmt: skip
    config = TrainConfig(**defaults | changes, device="cpu", seed=seed)
    make = session_module.make_evaluator
    if evaluator is not None:
        session_module.make_evaluator = lambda *_: evaluator()  # type: ignore[assignment]
    try:
        session = Session(config)
    finally:
        session_module.make_evaluator = make
    try:
        with torch.no_grad():
            bias = torch.randn(1858, generator=torch.Generator().manual_seed(seed))
            session.policy.logit_factors().action_bias.add_(spread * bias)
        session.worker.start()
        yield session
    finally:
        session.close()


def rolled(session: Session) -> RolloutBatch:
    """A first rollout without a fault."""
    return session.rollout().batch


# --- faults: session -> the batch of a first rollout ---------------------------------------------


def at_temperature(sampled: float, recorded: float) -> Callable[[Session], RolloutBatch]:
    def fault(session: Session) -> RolloutBatch:
        session.worker.temperature = sampled
        return dataclasses.replace(rolled(session), temperature=recorded)

    return fault


def _masked(session: Session, change: Callable[[list[int], Any], list[int]]) -> RolloutBatch:
    """A rollout in one of whose states the moves were drawn from another list."""
    batch = rolled(session)
    rng = np.random.default_rng(session.config.seed)
    lead, width = batch.legal_ids.shape[:-1], batch.legal_ids.shape[-1] + 1
    flat = batch.flat()
    rows = flat.valid.any(-1).nonzero().squeeze(-1)
    row = int(rng.choice(rows[(flat.legal.sum(-1)[rows] > 1)].numpy()))
    listed = torch.full((flat.num_states, width), -1, dtype=torch.int16)
    listed[:, :-1] = flat.legal_ids
    ids = sorted(change(listed[row][listed[row] >= 0].tolist(), rng))
    listed[row] = torch.tensor(ids + [-1] * (width - len(ids)), dtype=torch.int16)
    legal_ids = listed.reshape(*lead, width)
    slots, legal = torch.empty_like(batch.slots), torch.empty(legal_ids.shape)
    for ply in range(lead[-1]):  # as the rollout does it
        obs, seen = (
            batch.obs[..., ply, :, :, :].flatten(0, -4),
            legal_ids[..., ply, :].flatten(0, -2),
        )
        with torch.no_grad():
            dist = session.policy.outputs(obs, seen, batch.temperature).dist
        legal[..., ply, :] = dist.logprobs.reshape(*lead[:-1], width)
        if batch.form == "positions":
            count = batch.slots.shape[-1]
            slots[:, ply] = dist.sample(count, session.worker.parts[0].sampling)
        else:
            slots[..., ply] = dist.sample(1, session.worker.parts[0].sampling).reshape(lead[:-1])
    index = slots if batch.form == "positions" else slots.unsqueeze(-1)
    return dataclasses.replace(
        batch,
        legal_ids=legal_ids,
        slots=slots,
        actions=legal_ids.long().gather(-1, index).reshape(slots.shape),
        old_legal_logprobs=legal,
        old_logprobs=legal.gather(-1, index).reshape(slots.shape),
    )


def move_removed(session: Session) -> RolloutBatch:
    def change(ids: list[int], rng: Any) -> list[int]:
        gone = int(rng.choice(ids))
        return [action for action in ids if action != gone]

    return _masked(session, change)


def illegal_move_added(session: Session) -> RolloutBatch:
    def change(ids: list[int], rng: Any) -> list[int]:
        return [*ids, int(rng.choice(sorted(set(range(1858)) - set(ids))))]

    return _masked(session, change)


def move_listed_twice(session: Session) -> RolloutBatch:
    return _masked(session, lambda ids, rng: [*ids, int(rng.choice(ids))])


def dropout_everywhere(session: Session) -> RolloutBatch:
    session.policy.train()
    return rolled(session)


def dropout_in_the_rollout(session: Session) -> RolloutBatch:
    session.policy.train()
    batch = rolled(session)
    session.policy.eval()
    return batch


def sampler_with(**precision: Any) -> Callable[[Session], RolloutBatch]:
    def fault(session: Session) -> RolloutBatch:
        session.learner.behaviour = copy.deepcopy(session.policy)
        session.learner.behaviour.precision = PrecisionConfig(**precision)
        batch = rolled(session)
        session.learner.behaviour = session.policy
        return batch

    return fault


def _moved(policy: torch.nn.Module, seed: int, size: float = 1e-2) -> None:
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.add_(size * torch.randn(parameter.shape, generator=generator))


def stale_behaviour(session: Session) -> RolloutBatch:
    _moved(session.learner.behaviour, session.config.seed)
    session.worker.sync = lambda: None  # type: ignore[method-assign]
    return rolled(session)


def step_before_the_update(session: Session) -> RolloutBatch:
    batch = rolled(session)
    _moved(session.policy, session.config.seed, 1e-3)
    return batch


def constant_rewards(session: Session) -> RolloutBatch:
    batch = rolled(session)
    return dataclasses.replace(batch, rewards=torch.full_like(batch.rewards, 0.25))


def dead_groups(session: Session) -> RolloutBatch:
    batch = rolled(session)
    mean = batch.rewards.mean(batch.group_axis, keepdim=True)
    return dataclasses.replace(batch, rewards=mean.expand_as(batch.rewards).clone())


def a_reward_that_is(value: float) -> Callable[[Session], RolloutBatch]:
    def fault(session: Session) -> RolloutBatch:
        batch = rolled(session)
        rewards = batch.rewards.clone()
        rewards[batch.valid.nonzero()[0].tolist()[0]] = value
        return dataclasses.replace(batch, rewards=rewards)

    return fault


def undefined_logprob(session: Session) -> RolloutBatch:
    batch = rolled(session)
    place = (batch.legal_ids >= 0).nonzero()[session.config.seed]
    batch.old_legal_logprobs[tuple(place)] = float("nan")
    return batch


def facts_of_another_move(session: Session) -> RolloutBatch:
    """A rollout in one of whose states two moves have each other's facts."""
    batch = rolled(session)
    assert batch.move_facts is not None
    facts, legal = batch.move_facts.flatten(0, -3), batch.legal_ids.flatten(0, -2) >= 0
    different = legal[:, 1] & (facts[:, 0] != facts[:, 1]).any(-1)
    row = int(different.nonzero()[0])
    facts[row, :2] = facts[row, [1, 0]]
    return dataclasses.replace(batch, move_facts=facts.reshape(batch.move_facts.shape))


@dataclasses.dataclass(frozen=True)
class Fault:
    """What is done, and what must be found: `cause` with `severity`, in words that match `says`."""

    make: Callable[[Session], RolloutBatch]
    cause: str
    severity: str
    says: str
    settings: dict[str, Any] = dataclasses.field(default_factory=dict)


_DROPS = {"policy": dataclasses.replace(SMALL, dropout=0.1)}
_SYNCED = dataclasses.replace(ROLLOUT, sync_interval_updates=4)
_LONG: Algorithm = GRPO(group_size=4, update_epochs=4)
FAULTS = {
    "sampled hotter": Fault(at_temperature(1.3, 1.0), "temperature", "fail", r"1\.3000 times"),
    "sampled colder": Fault(at_temperature(1.0, 1.3), "temperature", "fail", r"0\.7692 times"),
    "move removed": Fault(move_removed, "legal_mask", "fail", "1 moves missing, 0 illegal"),
    "illegal move": Fault(illegal_move_added, "legal_mask", "fail", "0 moves missing, 1 illegal"),
    "move twice": Fault(move_listed_twice, "legal_mask", "fail", "1 listed twice"),
    "facts of another move": Fault(
        facts_of_another_move, "move_facts", "fail", "2 of .* have wrong facts", {"policy": FACTS}),
    "dropout": Fault(dropout_everywhere, "dropout", "fail", "dropout is active", _DROPS),
    "dropout in rollout": Fault(
        dropout_in_the_rollout, "dropout", "fail", "while the moves were sampled", _DROPS),
    "bfloat16 head": Fault(
        sampler_with(head_dtype="bfloat16"), "precision", "fail", "head_dtype bfloat16"),
    "bfloat16 log-probs": Fault(
        sampler_with(logprob_dtype="bfloat16"), "precision", "fail", "logprob_dtype bfloat16"),
    "float16 log-probs": Fault(
        sampler_with(logprob_dtype="float16"), "precision", "fail", "logprob_dtype float16"),
    "stale behaviour": Fault(
        stale_behaviour, "weights", "fail", "behaviour policy is stale", {"rollout": _SYNCED}),
    "step before the update": Fault(step_before_the_update, "weights", "fail", "not those that"),
    "undefined log-prob": Fault(undefined_logprob, "not_finite", "fail", "too near 0"),
    "impure evaluator": Fault(
        rolled, "impure_evaluator", "fail", "asked before", {"evaluator": OrderDependent}),
    "not a number": Fault(
        a_reward_that_is(float("nan")), "rewards_not_finite", "fail", "win_prob_delta"),
    "constant rewards": Fault(constant_rewards, "reward_variance", "warn", "all rewards are equal"),
    "dead groups": Fault(dead_groups, "reward_variance", "warn", "groups has two different"),
    "long interval": Fault(
        rolled, "staleness", "warn", "16 updates between synchronisations, 4 passes",
        {"algorithm": _LONG, "rollout": dataclasses.replace(ROLLOUT, sync_interval_updates=16),
         "optimizer": OptimizerConfig(learning_rate=2e-2, minibatch_size=8)}),
    "fixed starts": Fault(
        rolled, "fixed_positions", "warn", "about 1[3-9] different starts",
        {"env": EnvConfig(evaluator="builtin", start_positions="random_plies:2-40@fixed=16")}),
    "controller": Fault(
        rolled, "controller", "warn", "starts out of range",
        {"regularizer": RegularizerConfig(ent_coef=0.1, ent_controller="floor", ent_floor=5.0)}),
}  # fmt: skip
