"""How well three predictors foresee the entropy change of an update, on the real network.

    python -m benchmarks.learning.entropy_prediction --json benchmarks/results/entropy_prediction.json

Trains a warm start itself (`resnet` and the default settings, GRPO, built-in evaluator, learning rate 2e-3),
then measures `entropy/...` around every further update at each learning rate, always from that same
warm start, its Adam state included. Figures: identity-line R^2 = 1 - sum (measured - predicted)^2 /
sum (measured - mean)^2, the share of updates whose sign is foretold, and the correlation.
"""

from __future__ import annotations

import argparse
import copy
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

from algorithms import PRESETS
from algorithms.config.run import EnvConfig, RolloutConfig, TrainConfig
from algorithms.core.batch import RolloutBatch
from algorithms.core.batch_metrics import batch_metrics
from algorithms.diagnostics.probe_policy import PolicyProbe
from algorithms.diagnostics.update_diagnostics import UpdateDiagnostics
from algorithms.networks.settings import NetworkConfig
from algorithms.training.session import Session
from algorithms.updates.targets import make_targets
from algorithms.updates.update import update
from benchmarks.records.report import print_table, save

CPU = torch.device("cpu")
PREDICTORS = ("dh_realised", "dh_gradient", "dh_tabular")
TRAINED_STATES = 32
STATES = {"held out": "entropy/", "trained batch": "entropy/batch_"}


class Loop:
    """Rollout and update of one preset on `resnet`, without logging or evaluation.

    Args:
        preset: its name.
        num_envs: boards.
        seed: of weights, boards and samples.
    """

    def __init__(self, preset: str, num_envs: int, seed: int) -> None:
        rollout = RolloutConfig(num_envs=num_envs)
        env = EnvConfig(evaluator="builtin", start_positions="random_plies:2-40")
        config = TrainConfig(
            *PRESETS[preset],
            policy=NetworkConfig(network="resnet"),
            rollout=rollout,
            env=env,
            seed=seed,
            device="cpu",
        )
        self.session = Session(config)
        self.learner = self.session.learner
        self.session.worker.start()

    def rollout(self) -> RolloutBatch:
        """The next batch."""
        return self.session.rollout().batch

    def update(
        self, batch: RolloutBatch, rate: float, diagnostics: UpdateDiagnostics | None = None
    ) -> dict[str, float]:
        """Trains on the batch; what the diagnostics saw around it."""
        learner = self.learner
        learner.learning_rate = rate
        targets = make_targets(learner.algorithm, learner.regularizer, batch)
        seen: dict[str, float] = {}
        if diagnostics is not None:
            seen = diagnostics.before(learner, batch, targets)
        update(learner, batch, targets)
        return seen | (diagnostics.after(learner.policy, rate) if diagnostics is not None else {})


def agreement(measured: np.ndarray, predicted: np.ndarray) -> dict[str, float]:
    """Identity-line R^2, share of equal signs, and correlation of a predictor."""
    residual = ((measured - predicted) ** 2).sum() / ((measured - measured.mean()) ** 2).sum()
    return {
        "identity_r2": float(1 - residual),
        "sign_agreement": float((np.sign(measured) == np.sign(predicted)).mean()),
        "correlation": float(np.corrcoef(measured, predicted)[0, 1]),
    }


def rows_of(rate: float, seen: list[dict[str, float]]) -> list[dict[str, Any]]:
    """A row for each kind of states and each predictor."""
    rows = []
    for states, prefix in STATES.items():
        measured = np.array([row[f"{prefix}measured"] for row in seen])
        for name in PREDICTORS:
            figures = agreement(measured, np.array([row[prefix + name] for row in seen]))
            rows.append(
                {
                    "learning_rate": rate,
                    "states": states,
                    "predictor": name,
                    **{key: float(f"{value:.3g}") for key, value in figures.items()},
                    "measured_mean": float(f"{measured.mean():.3g}"),
                    "measured_std": float(f"{measured.std():.3g}"),
                }
            )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--preset", default="grpo")
    parser.add_argument("--warmup", type=int, default=60, help="updates before the measurement")
    parser.add_argument("--updates", type=int, default=200, help="measured at each learning rate")
    parser.add_argument("--rates", type=float, nargs="+", default=[1e-4, 5e-4, 2e-3])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--smoke", action="store_true", help="a few tiny updates, to see it works")
    parser.add_argument("--json", type=Path, default=None, help="write the figures here too")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    warmup, updates, num_envs = arguments.warmup, arguments.updates, RolloutConfig().num_envs
    if arguments.smoke:
        warmup, updates, num_envs = 1, 3, 8
    start = Loop(arguments.preset, num_envs, arguments.seed)
    for _ in range(warmup):
        start.update(start.rollout(), start.learner.settings.full_learning_rate)
    batch = start.rollout()
    entropy = batch_metrics(batch, torch.zeros_like(batch.rewards))["policy/entropy"]
    print(f"warm start: {warmup} updates, policy/entropy {entropy:.2f} nats", flush=True)

    facts = start.session.policy.reads_move_facts
    probe = PolicyProbe(None, start.session.config.rollout.temperature, CPU, move_facts=facts)
    diagnostics = UpdateDiagnostics(probe, size=TRAINED_STATES)
    rows: list[dict[str, Any]] = []
    for rate in arguments.rates:
        loop = Loop(arguments.preset, num_envs, arguments.seed + 1)
        loop.learner.policy.load_state_dict(start.learner.policy.state_dict())
        moments = copy.deepcopy(start.learner.optimizer.state_dict())
        loop.learner.optimizer.load_state_dict(moments)
        seen = [loop.update(loop.rollout(), rate, diagnostics) for _ in range(updates)]
        loop.session.close()
        rows += rows_of(rate, seen)
        print_table(rows[-len(STATES) * len(PREDICTORS) :])
        sys.stdout.flush()
        save(
            arguments.json,
            "entropy_prediction",
            rows,
            preset=arguments.preset,
            warmup=warmup,
            updates=updates,
            num_envs=num_envs,
            seed=arguments.seed,
            warm_start_entropy=round(entropy, 3),
        )
    start.session.close()


if __name__ == "__main__":
    main()
