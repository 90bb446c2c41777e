"""Makes the run that must be continued for ever: `python -m tests.training.store_run` writes `stored_run` anew.

Only to be made again where a format changes before a release: from then on a change of the format that this run
does not survive is a fault.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from pathlib import Path

from algorithms.config.run import EnvConfig, OptimizerConfig, RolloutConfig, TrainConfig
from algorithms.grpo import GRPO
from algorithms.networks.settings import NetworkConfig
from algorithms.regularization import RegularizerConfig
from algorithms.training.trainer import train
from tests.training.runs import Watcher

STORED = Path(__file__).with_name("stored_run")
UPDATES, MOVES_PER_UPDATE = 2, 4 * 2 * 4


def config(run_dir: Path, updates: int = UPDATES) -> TrainConfig:
    """A run whose state has every part that a run may have: two shards, a reference, a sampler of its own."""
    return TrainConfig(
        algorithm=GRPO(group_size=4),
        regularizer=RegularizerConfig(
            ent_coef=0.1, kl_ref_coef=0.1, ent_controller="target", ent_target=0.9
        ),
        policy=NetworkConfig(network="resnet", channels=4, blocks=1, head_dim=4),
        rollout=RolloutConfig(num_envs=4, num_plies=2, sync_interval_updates=2),
        env=EnvConfig(evaluator="builtin", max_plies=6),
        optimizer=OptimizerConfig(minibatch_size=8, lr_final=None, warmup_updates=0),
        total_moves=updates * MOVES_PER_UPDATE,
        num_shards=2,
        checkpoint_interval_updates=UPDATES,
        eval_interval_updates=UPDATES,
        diagnostics_interval_updates=100,
        device="cpu",
        run_dir=run_dir,
    )


def main() -> None:
    """Writes the folder; what a clock or this machine says is left out of it."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        run = Path("run")
        train(config(run), display=Watcher())
        for path in [*run.glob("checkpoints/*")]:
            if path.is_symlink():
                path.unlink()
            elif path.name != f"update-{UPDATES:08d}":
                shutil.rmtree(path)
        shutil.rmtree(STORED, ignore_errors=True)
        for name in ("config.json", "metrics.jsonl", "checkpoints"):
            target = STORED / name
            target.parent.mkdir(exist_ok=True)
            (shutil.copytree if (run / name).is_dir() else shutil.copy)(run / name, target)


if __name__ == "__main__":
    main()
