"""10 updates of a preset (of a budget of 20) on a stored rollout, in float64 on the CPU; where the curves are kept.

Everything from rewards to weights is covered; what happens while a rollout is sampled (DAPO's
replacement of dead groups, a controller's temperature) is not.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import torch

from algorithms import PRESETS
from algorithms.core.algorithm import Algorithm
from algorithms.core.batch import RolloutBatch
from algorithms.core.metrics import batch_metrics
from algorithms.regularization import Measurements, Regularizer, RegularizerConfig
from algorithms.rollouts.worker import reference_logprobs
from algorithms.testing.cases import forms_of
from algorithms.updates.training_batch import make_targets
from algorithms.updates.update import update
from tests.golden import batches
from tests.updates.learners import learner_of

FOLDER = Path(__file__).parent
UPDATES, BUDGET = 10, 20
MINIBATCH_SIZE = 13  # the games make two minibatches, the positions one
LEARNING_RATE = 3e-3

# Recorded where an update reports them. A metric that is added later changes no curve.
METRICS = (
    *("train/loss", "train/policy_loss", "train/value_loss", "train/grad_norm"),
    *("reg/loss", "reg/entropy", "reg/kl_old", "policy/approx_kl"),
    *("policy/clip_fraction_low", "policy/clip_fraction_high", "policy/gate_mean"),
)

BY_MEMBER = ("slots", "actions", "old_logprobs", "rewards", "score_cp", "terminated", "valid")

SMALLER = {"pass_at_k": {"k": 2}}
"""Settings that fit the stored groups, which have four samples."""

Curves = dict[str, dict[str, list[float]]]


def stored() -> set[str]:
    """Names of the presets that have curves."""
    return {path.stem for path in FOLDER.glob("*.json")}


def path_of(preset: str) -> Path:
    """File of a preset's curves."""
    return FOLDER / f"{preset}.json"


def suited(algorithm: Algorithm, stored: dict[str, RolloutBatch]) -> dict[str, RolloutBatch]:
    """The stored rollouts of the kind that this algorithm asks for, by form."""
    if algorithm.needs().all_moves:
        return {"all_moves": stored["all_moves"]}
    positions = stored["positions"]
    members = {name: getattr(positions, name)[..., : algorithm.group_size] for name in BY_MEMBER}
    found = {"positions": dataclasses.replace(positions, **members), "games": stored["games"]}
    if algorithm.needs().success_rewards:
        found = {
            form: dataclasses.replace(batch, rewards=successes(batch))
            for form, batch in found.items()
        }
    return {form: found[form] for form in forms_of(algorithm)}


def successes(batch: RolloutBatch) -> torch.Tensor:
    """Rewards of 1 for the better half of the samples and 0 for the others."""
    middle = batch.rewards[batch.valid].median()
    return (batch.rewards > middle).to(batch.rewards.dtype)


def run(
    algorithm: Algorithm, config: RegularizerConfig, batch: RolloutBatch
) -> dict[str, list[float]]:
    """Curve of each metric over the updates; nothing is sampled but the order of minibatches."""
    policy = batches.load_policy(critic=algorithm.needs().critic is not None).to(batch.obs.device)
    optimizer = torch.optim.Adam(policy.parameters(), lr=LEARNING_RATE)
    regularizer = Regularizer(config, batch.temperature)
    generator = torch.Generator().manual_seed(batches.SEED)
    settings = {"minibatch_size": MINIBATCH_SIZE, "max_grad_norm": 1.0, "generator": generator}
    learner = learner_of(policy, algorithm, regularizer, optimizer=optimizer, **settings)
    if regularizer.needs_reference or algorithm.needs().reference:
        reference = batches.new_policy(critic=False).double().to(batch.obs.device)
        batch = batch.with_reference(reference_logprobs(reference, batch, minibatch_size=64))
    if regularizer.needs_learner:
        batch = dataclasses.replace(batch, learner_legal_logprobs=batch.old_legal_logprobs)
    seen = batch_metrics(batch, torch.zeros_like(batch.rewards))
    curves: dict[str, list[float]] = {}
    metrics: dict[str, float] = {}
    for done in range(UPDATES):
        measured = Measurements(
            progress=done / BUDGET,
            update=done,
            entropy=seen["policy/entropy"],
            entropy_normalized=seen["policy/entropy_normalized"],
            kl_old=metrics.get("reg/kl_old", 0.0),
            kl_ref=metrics.get("reg/kl_ref"),
        )
        learner.controls = regularizer.update(measured, learner.controls).controls
        metrics = update(learner, batch, make_targets(algorithm, regularizer, batch))
        for name in METRICS:
            if name in metrics:
                curves.setdefault(name, []).append(metrics[name])
    return curves


def compute(preset: str, device: torch.device = batches.CPU) -> Curves:
    """The preset's curves by form of rollout and metric."""
    algorithm, config = PRESETS[preset]
    algorithm = dataclasses.replace(algorithm, **SMALLER.get(preset, {}))  # type: ignore[type-var]
    return {
        form: run(algorithm, config, batch)
        for form, batch in suited(algorithm, batches.load_batches(device)).items()
    }


def save(preset: str, curves: Curves) -> None:
    """Writes the curves, one line for each, with 9 digits."""
    forms = [
        f'"{form}": {{\n'
        + ",\n".join(
            f"  {json.dumps(name)}: {json.dumps([float(f'{value:.9g}') for value in values])}"
            for name, values in by_metric.items()
        )
        + "\n}"
        for form, by_metric in curves.items()
    ]
    path_of(preset).write_text("{\n" + ",\n".join(forms) + "\n}\n")


def load(preset: str) -> Curves:
    """The stored curves."""
    return json.loads(path_of(preset).read_text())
