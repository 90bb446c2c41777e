"""What a run prints at its start, and its result, with intervals over positions."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from algorithms.config import files as config_file
from algorithms.config.custom import custom_names
from algorithms.core.checks import message_lines
from algorithms.evaluation.regret import MAIN_SLICE, Regret
from algorithms.reports.judges import judge_in_words
from algorithms.reports.statistics import bootstrap_interval, percent_interval
from algorithms.run_folder import environment
from algorithms.run_folder.console import Display, duration, policy_fact
from algorithms.training.session import Session


@dataclass(frozen=True)
class TrainResult:
    """The result of a run. Intervals are 95 % bootstrap intervals over the held-out positions.

    Attributes:
        run_dir: the run folder.
        algorithm: the preset that was run, or the algorithm's name.
        evaluator: id of the evaluator that rewarded the moves.
        evaluations: positions that the evaluator was asked for.
        engine_queries: those that it really scored (neither repeated, cached nor over by the rules).
        updates, plies, scored_moves: amounts done.
        regret_cp_start, regret_cp_end: eval/regret_cp before the first and after the last update.
        regret_cp_start_interval, regret_cp_end_interval: their intervals.
        percent_of_start, percent_of_start_interval: 100 x end / start; positions are resampled
            in pairs.
        regret_cp_best: lowest eval/regret_cp (the checkpoint `best`).
        entropy_min: lowest eval/entropy of the run, nats.
        wall_s, cpu_s: seconds; CPU time is that of trainer and engines.
        stopped_by: what ended the run early: the name of a signal, or a controller's reason; None
            at the end of the budget.
    """

    run_dir: Path
    algorithm: str
    evaluator: str
    evaluations: int
    engine_queries: int
    updates: int
    plies: int
    scored_moves: int
    regret_cp_start: float
    regret_cp_start_interval: tuple[float, float]
    regret_cp_end: float
    regret_cp_end_interval: tuple[float, float]
    percent_of_start: float
    percent_of_start_interval: tuple[float, float]
    regret_cp_best: float
    entropy_min: float
    wall_s: float
    cpu_s: float
    stopped_by: str | None

    def to_dict(self) -> dict[str, Any]:
        """JSON values of every field."""
        return {**dataclasses.asdict(self), "run_dir": str(self.run_dir)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> TrainResult:
        """The result of which these are the `to_dict()`."""
        return cls(**{**values, "run_dir": Path(values["run_dir"])})

    def lines(self) -> list[str]:
        """The end of a run in a few lines for people."""
        start, end, share = (
            f"{value:.1f} [{low:.1f}, {high:.1f}]"
            for value, (low, high) in (
                (self.regret_cp_start, self.regret_cp_start_interval),
                (self.regret_cp_end, self.regret_cp_end_interval),
                (self.percent_of_start, self.percent_of_start_interval),
            )
        )
        low, high = self.percent_of_start_interval
        return [
            *learned(self.regret_cp_start, self.regret_cp_end, told_apart=not low <= 100 <= high),
            f"eval/regret_cp on {MAIN_SLICE}, with 95 % intervals over the positions:",
            f"  {start} cp -> {end} cp",
            f"  {share} % of the start",
            f"  best {self.regret_cp_best:.1f} cp, lowest held-out entropy "
            f"{self.entropy_min:.2f} nats",
            f"{self.scored_moves:,} scored moves in {self.updates:,} updates, "
            f"CPU time {duration(self.cpu_s)}, clock {duration(self.wall_s)}",
            f"rewards: {self.engine_queries:,} positions scored by",
            f"  {judge_in_words(self.evaluator)}",
            f"run folder: {self.run_dir}",
        ]


HARDLY = 0.97
"""A run whose regret stays above this share of its start has hardly learned anything, even if that is certain."""


def learned(start_cp: float, end_cp: float, *, told_apart: bool) -> list[str]:
    """One sentence, in lines of at most 80 columns, on what the policy has learned.

    Args:
        start_cp: eval/regret_cp before the first update.
        end_cp: eval/regret_cp after the last update.
        told_apart: whether the difference is more than chance among the held-out positions.
    """
    now, before = f"{end_cp:.1f} centipawns", f"{start_cp:.1f}"
    where = "on positions kept out of training a move costs"
    if not told_apart:
        text = f"Nothing can be said to be learned: {where} {now}, and {before} before."
    elif HARDLY * start_cp < end_cp < start_cp:
        text = f"Hardly anything learned yet: {where} {now} on average, and {before} before."
    elif end_cp < start_cp:
        text = f"Learned: {where} {now} on average, down from {before}."
    else:
        text = f"Got worse: {where} {now} on average, up from {before}."
    return message_lines(text)


def describe(
    session: Session,
    display: Display,
    run_dir: Path,
    *,
    resumed: bool,
) -> None:
    """Writes config.json and environment.json, and shows what is about to run.

    Args:
        session: before its first update.
        display: shows it.
        run_dir: the run folder.
        resumed: whether the run goes on.
    """
    config = session.config
    threads = torch.get_num_threads()
    edited = environment.write_record(
        run_dir / "environment.json",
        environment.record(
            evaluator=session.evaluator.id,
            device=str(session.device),
            num_threads=threads,
            own=tuple(name.value for name in custom_names(config)),
        ),
        resumed=resumed,
    )
    config_file.save(dataclasses.replace(config, run_dir=run_dir), run_dir / "config.json")
    display.start(
        f"{config.label} on chess self-play, seed {config.seed}"
        + (f", resumed at update {session.progress.update}" if resumed else ""),
        {
            "rewards": judge_in_words(session.evaluator.id),
            "policy": policy_fact(
                config.policy.label,
                session.policy.num_parameters,
                device=str(session.device),
                num_threads=threads,
            ),
            "run folder": str(run_dir),
        },
    )
    for file in edited:
        display.say(
            f"WARNING: {file} was edited since this run was last trained: what follows comes from other code than "
            "the rows before. If that is not meant, put the file back as it was and resume once more"
        )
    if config.policy.dropout > 0:
        display.say(
            f"WARNING: policy.dropout is {config.policy.dropout} and has no effect here: "
            "reinforcement learning runs the policy in evaluation mode"
        )


def say_stretched(before: int, session: Session, run_dir: Path, say: Callable[[str], None]) -> None:
    """Says how a changed budget moves the schedules of a run that goes on, and how to keep the values.

    Args:
        before: `total_moves` of the run so far.
        session: at its checkpoint.
        run_dir: the run folder.
        say: shows it.
    """
    config, done = session.config, session.progress
    at = [min(1.0, done.scored_moves / moves) for moves in (before, config.total_moves)]
    rate, coef = config.optimizer, config.regularizer
    moved = {
        "optimizer.learning_rate": (
            "lr_final",
            [rate.learning_rate_at(done.update, x) for x in at],
        ),
        "regularizer.ent_coef": ("ent_coef_final", [coef.ent_coef_at(x) for x in at]),
    }
    moved = {name: each for name, each in moved.items() if each[1][0] != each[1][1]}
    if not moved:
        return
    listed = ", ".join(f"{name} {was:.3g} -> {now:.3g}" for name, (_, (was, now)) in moved.items())
    kept = " ".join(
        f"--{name} {was:.3g} --{name.partition('.')[0]}.{final} None".replace("_", "-")
        for name, (final, (was, _)) in moved.items()
    )
    folder = shlex.quote(str(run_dir))
    left = max(0, config.total_moves - done.scored_moves)
    say(
        f"WARNING: total_moves was {before:,} and is {config.total_moves:,}: schedules run over all of it, so here "
        f"{listed}. To keep these values, begin a run with the weights of this one: chess-lab train --like {folder} "
        f"--init-from {folder}/checkpoints/latest --total-moves {left} {kept}"
    )


def result_of(
    session: Session, regret: Regret, run_dir: Path, *, stopped_by: str | None
) -> TrainResult:
    """The result of the run.

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
