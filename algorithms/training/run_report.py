"""What is said of a run at its beginning and at its end."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import torch

from algorithms.training import config_file, machine
from algorithms.training.console import Display
from algorithms.training.evaluation import Regret, bootstrap_interval
from algorithms.training.result import TrainResult, percent_interval
from algorithms.training.session import Session


def describe(session: Session, display: Display, run_dir: Path, *, resumed: bool) -> None:
    """None; writes config.json and environment.json, and says what is about to run."""
    config = session.config
    threads = torch.get_num_threads()
    machine.write_record(
        run_dir / "environment.json",
        machine.record(
            evaluator=session.evaluator.id, device=str(session.device), num_threads=threads
        ),
        resumed=resumed,
    )
    config_file.save(dataclasses.replace(config, run_dir=run_dir), run_dir / "config.json")
    display.start(
        f"{config.label} on chess self-play, seed {config.seed}"
        + (f", resumed at update {session.progress.update}" if resumed else ""),
        {
            "rewards": session.evaluator.id,
            "policy": f"{session.policy.num_parameters:,} parameters on {session.device}"
            f" ({threads} thread{'s' if threads > 1 else ''})",
            "run folder": str(run_dir),
        },
    )
    if config.policy.dropout > 0:
        display.say(
            f"WARNING: policy.dropout is {config.policy.dropout} and has no effect here: "
            "reinforcement learning runs the policy in evaluation mode"
        )


def result_of(
    session: Session, regret: Regret, run_dir: Path, *, stopped_by: str | None
) -> TrainResult:
    """What the run came to.

    Args:
        session: after its last update.
        regret: of the last evaluation.
        run_dir: the run folder.
        stopped_by: a signal's name or a controller's reason; None at the end of the budget.
    """
    done = session.progress
    start, end = done.start_regret_cp, regret.per_position_cp
    return TrainResult(
        run_dir=run_dir,
        algorithm=session.config.label,
        evaluator=session.evaluator.id,
        evaluations=done.evaluations,
        engine_queries=done.engine_queries,
        updates=done.update,
        plies=done.plies,
        scored_moves=done.scored_moves,
        regret_cp_start=float(start.mean()),
        regret_cp_start_interval=bootstrap_interval(start),
        regret_cp_end=float(end.mean()),
        regret_cp_end_interval=bootstrap_interval(end),
        percent_of_start=float(100 * end.mean() / start.mean()),
        percent_of_start_interval=percent_interval(start, end),
        regret_cp_best=done.best_regret_cp,
        entropy_min=done.entropy_min,
        wall_s=done.wall_s,
        cpu_s=done.cpu_s,
        stopped_by=stopped_by,
    )
