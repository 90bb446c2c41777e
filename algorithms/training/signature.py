"""The signature of a run: one integer of what a preset does in a tiny run, the same on every processor.

What sums of floating-point numbers come to depends on their order, which differs between processors, libraries and
numbers of threads. So no such number is part of a signature. It is made of whole numbers alone:

- positions, legal moves in their order, sampled moves, scores, ends of games, numbers of moves, plies and steps;
- more moves, drawn from every distribution that was sampled from, which says what the policy has become;
- between which two of a few fixed bounds every advantage and every weight lies: its rank among the bounds;
- the next number of the generators of samples and of minibatches, which says how much was drawn from them.

Each of these is still decided by floating-point numbers: a move is drawn where a uniform number falls into an interval
of the cumulated probabilities. A last bit turns such a decision only if it is that close. The network, the update and
the batch are float64 here, where rounding is about 1e-16 of a number. A run makes some ten thousand decisions, and none
of them is that near. The bounds are no values that an advantage or a weight has by construction, such as 0, 1 or 1/2.

The first weights are drawn anew, uniformly and in float64: those of a fresh network come from logarithms and cosines,
which differ between processors by 1e-7. How a network is initialised has no part in a signature.

The tests move every weight by 1e-9 of itself, which is a million times as much as rounding does, and compute on two
threads and with the instructions of other processors; the signatures stay. (1e-7 changed that of one run of 25.)
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import math
from collections.abc import Iterator
from typing import Any, Literal

import torch
from torch import Tensor

from algorithms.config.names import named_run
from algorithms.config.run import EnvConfig, OptimizerConfig, TrainConfig
from algorithms.core.batch import RolloutBatch
from algorithms.core.batch_metrics import policy_metrics
from algorithms.core.distribution import MaskedCategorical
from algorithms.networks.settings import tiny
from algorithms.presets import PRESETS
from algorithms.rollouts.dynamic_sampling import Collected
from algorithms.training.record import count_update
from algorithms.training.session import Session
from algorithms.updates.targets import Targets, make_targets
from algorithms.updates.update import update

UPDATES = 2
DRAWN = 32
"""Moves that are drawn from the policy in every state, beside those of the rollout."""

WHOLE = ("legal_ids", "slots", "actions", "valid", "terminated", "truncated", "ply", "side", "phase", "position_hash",
         "score_cp", "before_cp")  # fmt: skip
"""The fields of a rollout that are no floating-point numbers."""

ADVANTAGE_BOUNDS = tuple(0.0937 + 0.17 * step for step in range(-12, 12))
WEIGHT_BOUNDS = tuple(0.0613 + 0.19 * step for step in range(16))
"""Of an advantage, and of a weight times the number of samples."""


def signatures() -> dict[str, int]:
    """The signature of every preset, below 2**32."""
    return {name: combined([run_signature(config) for config in runs(name)]) for name in PRESETS}


def combined(numbers: list[int]) -> int:
    """One integer below 2**32 of several, in their order."""
    return _short(hashlib.sha256(",".join(map(str, numbers)).encode()))


def runs(name: str) -> list[TrainConfig]:
    """The tiny runs of a preset with its own settings of what it learns by, one in each form of rollout."""
    config = named_run(name)
    forms: dict[Literal["positions", "games"], int] = {"positions": 3, "games": 2}
    if config.algorithm.needs().all_moves:
        del forms["games"]
    return [
        dataclasses.replace(
            config,
            policy=tiny(config.policy),
            rollout=dataclasses.replace(config.rollout, form=form, num_envs=boards, num_plies=3),
            env=EnvConfig(evaluator="builtin", num_engines=1),
            # Large, so that the moves after the first update show what it did; constant, whatever the budget.
            optimizer=OptimizerConfig(learning_rate=0.03, lr_final=None, minibatch_size=7),
            device="cpu",
            seed=11,
        )
        for form, boards in forms.items()
    ]


def run_signature(config: TrainConfig) -> int:
    """The signature of one run, below 2**32.

    Args:
        config: of the run; what stands there of evaluations, checkpoints and folders has no part in it.
    """
    with contextlib.closing(exact_session(config)) as session:
        return session_signature(session)


def exact_session(config: TrainConfig) -> Session:
    """A session in float64 whose first weights are the same on every processor."""
    session = Session(config)
    generator = torch.Generator().manual_seed(config.seed)
    policy = session.policy.double()
    with torch.no_grad():
        for weights in policy.parameters():
            if weights.dim() > 1 and weights.count_nonzero():
                # As large as they were, up to a power of two.
                size = 2.0 ** round(math.log2(float(weights.std())))
                drawn = torch.rand(weights.shape, generator=generator, dtype=torch.float64)
                weights.copy_(size * (4 * drawn - 2))
    for other in (session.learner.behaviour, session.worker.reference):
        if other is not None and other is not policy:
            other.double().load_state_dict(policy.state_dict())
    session.worker.transforms.append(_doubled)
    return session


def session_signature(session: Session) -> int:
    """The signature of a session that has not begun, below 2**32.

    Args:
        session: whose run is made, from the weights that it has.
    """
    found = hashlib.sha256()
    for facts in _facts(session):
        found.update(f"{tuple(facts.shape)}".encode())
        found.update(facts.to(torch.int64).contiguous().numpy().astype("<i8").tobytes())
    return _short(found)


def _short(found: hashlib._Hash) -> int:
    return int.from_bytes(found.digest()[:4], "big")


def _facts(session: Session) -> Iterator[Tensor]:
    """Whole numbers of a run of `UPDATES` updates and one more rollout."""
    learner, worker = session.learner, session.worker
    drawing = torch.Generator().manual_seed(session.config.seed)
    worker.start()
    for _ in range(UPDATES):
        collected = session.rollout()
        yield from _of_rollout(collected, drawing)
        session.control(collected.batch, policy_metrics(collected.batch), kl_at_start=0.0)
        targets = make_targets(learner.algorithm, learner.regularizer, collected.batch)
        yield from _of_targets(collected.batch, targets)
        done = update(learner, collected.batch, targets)
        count_update(session, collected, 1.0, 1.0)
        counted = [done[f"train/{name}"] for name in ("steps", "skipped_steps", "passes")]
        yield torch.tensor(counted)
        yield _next_of(learner.shuffling)
    yield from _of_rollout(session.rollout(), drawing)
    for part in worker.parts:
        yield _next_of(part.sampling)


def _doubled(batch: RolloutBatch) -> RolloutBatch:
    floats: dict[str, Any] = {
        field.name: value.double()
        for field in dataclasses.fields(batch)
        if isinstance(value := getattr(batch, field.name), Tensor) and value.is_floating_point()
    }
    return dataclasses.replace(batch, **floats)


def _of_rollout(collected: Collected, drawing: torch.Generator) -> Iterator[Tensor]:
    batch = collected.batch
    yield torch.tensor([collected.scored_moves, collected.plies])
    for name in WHOLE:
        yield getattr(batch, name)
    legal = batch.legal_ids >= 0
    logits = batch.old_legal_logprobs.masked_fill(~legal, 0.0)
    yield MaskedCategorical(logits, legal, 1.0).sample(DRAWN, drawing)


def _of_targets(batch: RolloutBatch, targets: Targets) -> Iterator[Tensor]:
    number = batch.valid.sum()
    for values, bounds in (
        (targets.advantages, ADVANTAGE_BOUNDS),
        (targets.weights * number, WEIGHT_BOUNDS),
    ):
        ranks = torch.bucketize(values, torch.tensor(bounds, dtype=values.dtype))
        yield ranks.masked_fill(~batch.valid, -1)


def _next_of(generator: torch.Generator) -> Tensor:
    """The number that a generator would give next; it does not move on."""
    return torch.randint(2**62, (1,), generator=generator.clone_state())
