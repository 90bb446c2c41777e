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
from algorithms.core.batch import RolloutBatch
from algorithms.core.metrics import policy_metrics
from algorithms.doctor.findings import Finding
from algorithms.grpo import GRPO
from algorithms.networks.settings import NetworkConfig, PrecisionConfig
from algorithms.training import session as session_module
from algorithms.training.preflight import measure_first_rollout, refusals
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
        session_module.make_evaluator = lambda *_, **__: evaluator()  # type: ignore[assignment]
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


def judged(session: Session, batch: RolloutBatch) -> tuple[Finding, ...]:
    """The findings of the preflight on a first rollout."""
    measured = measure_first_rollout(session, batch)
    return refusals(session, {"step": 1.0, **policy_metrics(batch), **measured})


# --- faults: session -> the batch of a first rollout ---------------------------------------------


def at_temperature(sampled: float, recorded: float) -> Callable[[Session], RolloutBatch]:
    def fault(session: Session) -> RolloutBatch:
        session.worker.temperature = sampled
        return dataclasses.replace(rolled(session), temperature=recorded)

    return fault


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


@dataclasses.dataclass(frozen=True)
class Fault:
    """What is done, and what must be found: `cause`, in words that match `says`."""

    make: Callable[[Session], RolloutBatch]
    cause: str
    says: str
    settings: dict[str, Any] = dataclasses.field(default_factory=dict)


_DROPS = {"policy": dataclasses.replace(SMALL, dropout=0.1)}
_SYNCED = dataclasses.replace(ROLLOUT, sync_interval_updates=4)
FAULTS = {
    "sampled hotter": Fault(at_temperature(1.3, 1.0), "temperature_mismatch", r"1\.3000 times"),
    "sampled colder": Fault(at_temperature(1.0, 1.3), "temperature_mismatch", r"0\.7692 times"),
    "dropout": Fault(dropout_everywhere, "forward_mismatch", "drawn at random", _DROPS),
    "dropout in rollout": Fault(dropout_in_the_rollout, "forward_mismatch", "scatter around", _DROPS),
    "bfloat16 head": Fault(sampler_with(head_dtype="bfloat16"), "forward_mismatch", "scatter around"),
    "bfloat16 log-probs": Fault(
        sampler_with(logprob_dtype="bfloat16"), "forward_mismatch", "that of rounding"),
    "stale behaviour": Fault(
        stale_behaviour, "forward_mismatch", "scatter around", {"rollout": _SYNCED}),
    "step before the update": Fault(step_before_the_update, "forward_mismatch", "scatter around"),
    "impure evaluator": Fault(
        rolled, "impure_evaluator", "asked before", {"evaluator": OrderDependent}),
}  # fmt: skip
