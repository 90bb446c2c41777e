"""Optuna chooses settings, and ends early the runs that fall behind: `train(watch=...)` gives it every row.

    pip install optuna
    python examples/prune_with_optuna.py               # 12 runs, some minutes each on two cores
    python examples/prune_with_optuna.py --smoke       # three runs of a few seconds
    python examples/prune_with_optuna.py --out studies/mine

Every run keeps its folder, also one that was ended early; `chess-lab report` reads them. The held-out regret is
compared between runs of one seed only: repeat the best settings with other seeds before you believe them
(`chess-lab compare`).
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # runs from a clone, uninstalled

import argparse
from collections.abc import Mapping

import optuna

from algorithms.config.run import EnvConfig, OptimizerConfig, TrainConfig, smoke
from algorithms.grpo import GRPO
from algorithms.regularization import RegularizerConfig
from algorithms.training.trainer import train

parser = argparse.ArgumentParser(description="settings of GRPO, chosen by Optuna")
parser.add_argument("--smoke", action="store_true", help="three runs of a few seconds")
parser.add_argument("--out", type=Path, default=Path("runs/optuna"), help="folder of the runs")
options = parser.parse_args()


def regret_of_run(trial: optuna.Trial) -> float:
    """Held-out regret in centipawns at the end of one run; lower is better."""
    config = TrainConfig(
        algorithm=GRPO(group_size=8),
        regularizer=RegularizerConfig(
            ent_coef=trial.suggest_float("ent_coef", 1e-3, 0.3, log=True)
        ),
        optimizer=OptimizerConfig(
            learning_rate=trial.suggest_float("learning_rate", 3e-4, 3e-2, log=True)
        ),
        env=EnvConfig(evaluator="builtin"),  # the same scores on every machine
        total_moves=100_000,
        eval_interval_updates=2,
        run_dir=options.out / f"trial-{trial.number}",
    )
    last = float("nan")

    def watch(row: Mapping[str, float]) -> str:
        # The run's display shows the line that is returned. What is raised here ends the run; its folder stays.
        nonlocal last
        if "eval/regret_cp" in row:
            last = row["eval/regret_cp"]
            trial.report(last, int(row["step"]))
            if trial.should_prune():
                raise optuna.TrialPruned(f"regret {last:.0f} cp at update {row['step']:.0f}")
        return f"trial {trial.number}: regret {last:.0f} cp"

    train(smoke(config) if options.smoke else config, watch=watch)
    return last


study = optuna.create_study(
    sampler=optuna.samplers.TPESampler(seed=0),
    # A run that is worse than the median of those before it at the same update ends.
    pruner=optuna.pruners.MedianPruner(
        n_startup_trials=1 if options.smoke else 2, n_warmup_steps=0 if options.smoke else 4
    ),
)
study.optimize(regret_of_run, n_trials=3 if options.smoke else 12)
for trial in study.trials:
    print(f"trial {trial.number}: {trial.state.name.lower()}, {trial.value:.0f} cp, {trial.params}")
print(f"best: {study.best_params}")
