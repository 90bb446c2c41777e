"""The pretraining loop: labels first, then minibatches until a plateau or the end of the budget."""

from __future__ import annotations

import dataclasses
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import torch

from algorithms.evaluation.regret import MAIN_SLICE, Regret
from algorithms.networks.build import usual_torch
from algorithms.pretraining import config as configuration
from algorithms.pretraining.config import TEMPERATURE, PretrainConfig
from algorithms.pretraining.display import PretrainDisplay
from algorithms.pretraining.labels import Labels, opened, prepare, sizes_of
from algorithms.pretraining.supervised import Pretraining, StepMeans, Stream
from algorithms.reports.statistics import bootstrap_interval
from algorithms.run_folder import checkpoint, environment
from algorithms.run_folder.atomic_files import new_folder
from algorithms.run_folder.checkpoint import newest_checkpoint
from algorithms.run_folder.console import duration, policy_fact
from algorithms.run_folder.run_log import ANEW, RunLog
from algorithms.run_folder.stopping import Stop, stop_on_signal
from algorithms.training.failures import settings_named
from algorithms.training.observer import RunObserver
from algorithms.training.result import learned


@dataclass(frozen=True)
class PretrainResult:
    """The result of a pretraining run. Intervals are 95 % bootstrap intervals over the held-out positions.

    Attributes:
        run_dir: the run folder.
        labels: id of the evaluator that labelled the moves, or the file of games.
        labelled_positions: positions in the shards.
        games: counts of a file of games (`GameCounts`); all 0 without one.
        shards_made, shards_remade, shards_kept: by this process; remade ones were damaged.
        label_s: seconds that this process spent on labels.
        steps, positions: optimizer steps done, and positions learned from (repeated ones too).
        regret_cp_start, regret_cp_end: eval/regret_cp before the first and after the last step.
        regret_cp_end_interval: its interval.
        regret_cp_greedy_end: eval/regret_cp_greedy after the last step.
        regret_cp_greedy_end_interval: its interval.
        regret_cp_best: lowest eval/regret_cp (the checkpoint `best`).
        wall_s, cpu_s: seconds of all processes of the run.
        stopped_by: the name of a signal, or why the run ended early; None at the end of the budget.
    """

    run_dir: Path
    labels: str
    labelled_positions: int
    games: dict[str, int]
    shards_made: int
    shards_remade: int
    shards_kept: int
    label_s: float
    steps: int
    positions: int
    regret_cp_start: float
    regret_cp_end: float
    regret_cp_end_interval: tuple[float, float]
    regret_cp_greedy_end: float
    regret_cp_greedy_end_interval: tuple[float, float]
    regret_cp_best: float
    wall_s: float
    cpu_s: float
    stopped_by: str | None

    def to_dict(self) -> dict[str, Any]:
        """JSON values of every field."""
        return {**dataclasses.asdict(self), "run_dir": str(self.run_dir)}

    def lines(self) -> list[str]:
        """The end of a run in a few lines for people."""
        low, high = self.regret_cp_end_interval
        greedy_low, greedy_high = self.regret_cp_greedy_end_interval
        told_apart = not low <= self.regret_cp_start <= high
        return [
            *learned(self.regret_cp_start, self.regret_cp_end, told_apart=told_apart),
            f"eval/regret_cp on {MAIN_SLICE}, with 95 % intervals over the positions:",
            f"  {self.regret_cp_start:.1f} cp -> {self.regret_cp_end:.1f} [{low:.1f}, {high:.1f}] cp",
            f"  greedy {self.regret_cp_greedy_end:.1f} [{greedy_low:.1f}, {greedy_high:.1f}] cp",
            f"  best {self.regret_cp_best:.1f} cp",
            f"{self.positions:,} positions in {self.steps:,} steps, "
            f"CPU time {duration(self.cpu_s)}, clock {duration(self.wall_s)}",
            f"labels: {self.labelled_positions:,} positions by",
            f"  {self.labels}",
            f"  shards made {self.shards_made}, made anew {self.shards_remade}, kept {self.shards_kept}",
            f"run folder: {self.run_dir}",
            f"best checkpoint: {self.run_dir / 'checkpoints' / 'best'}",
        ]


def result_of(
    session: Pretraining,
    regret: Regret,
    run_dir: Path,
    *,
    labels: dict[str, Any],
    stopped_by: str | None,
) -> PretrainResult:
    """The result of the run.

    Args:
        session: after its last step.
        regret: of the last evaluation.
        run_dir: the run folder.
        labels: the fields of `PretrainResult` that are about labels.
        stopped_by: why it ended early; None at the end of the budget.
    """
    done = session.progress
    greedy = regret.per_position_greedy_cp
    return PretrainResult(
        run_dir=run_dir,
        **labels,
        steps=done.update,
        positions=done.plies,
        regret_cp_start=float(done.start_regret_cp.mean()),
        regret_cp_end=regret.regret_cp,
        regret_cp_end_interval=bootstrap_interval(regret.per_position_cp),
        regret_cp_greedy_end=regret.regret_cp_greedy,
        regret_cp_greedy_end_interval=bootstrap_interval(greedy),
        regret_cp_best=done.best_regret_cp,
        wall_s=done.wall_s,
        cpu_s=done.cpu_s,
        stopped_by=stopped_by,
    )


@settings_named
@usual_torch()
def pretrain(
    config: PretrainConfig, *, resume: bool = False, display: PretrainDisplay | None = None
) -> PretrainResult:
    """The result of a run that labels positions and learns from them.

    The first SIGINT, SIGTERM or SIGHUP lets the step finish and writes a checkpoint; a second one ends the
    process at once. A process that is killed loses the steps since its last evaluation.

    Args:
        config: the run. Where `run_dir` is None, a folder under `runs/` is made.
        resume: continue the run in `config.run_dir` from its newest intact checkpoint; where it was
            killed before its first one, start it again there.
        display: shows the run; None chooses a bar or plain lines.

    Raises:
        ValueError: a setting is out of range or does not fit the run that is continued; or it gives
            no labels, and then the run folder can take a new run.
        RunFolderError: the folder holds another run, or another process writes it.
        ShardError: the folder of labels holds others, or a shard is damaged.
    """
    stamp = datetime.now().strftime("%Y%m%d-%H%M%S")
    run_dir = config.run_dir or Path("runs") / f"pretrain-{stamp}-seed{config.seed}"
    display = display or PretrainDisplay(config.total_steps)
    torch.set_num_threads(config.num_threads)
    newest = None
    if resume:
        configuration.check_resumable(configuration.load_record(run_dir / "config.json"), config)
        newest = newest_checkpoint(run_dir, configuration.to_dict(config), display.say)
    session = Pretraining(config, fresh=newest is None)
    if config.run_dir is None:
        run_dir = new_folder(run_dir)
    if newest is not None:
        session.load(newest.path, newest.weights, newest.state, display.say)
    log: RunLog | None = None
    try:
        with opened(config.labels, run_dir) as labels, stop_on_signal() as stop:
            if newest is not None:
                _check_labels(newest, labels)
            log = RunLog(
                run_dir,
                track=config.track,
                config=configuration.to_dict(config),
                resume_at=session.progress.update if newest else ANEW if resume else None,
            )
            _describe(session, labels, display, run_dir, resumed=newest is not None)
            session.labels = labels.folder.identity
            observer = RunObserver(session, run_dir, log, display, temperature=TEMPERATURE)
            if newest is None:
                observer.begin()
            else:
                observer.resume()
            with _withdrawn_without_labels(session, log, display, run_dir):
                about_labels = prepare(labels, display, stop)
            reason = _Steps(session, labels, observer, display).loop(stop)
            return result_of(
                session,
                observer.last_regret(),
                run_dir,
                labels=about_labels,
                stopped_by=stop.name or reason,
            )
    finally:
        display.stop()
        if log is not None:
            log.close()


def _check_labels(newest: checkpoint.Checkpoint, labels: Labels) -> None:
    """Raises ValueError where the run has learned from other labels."""
    if newest.state["labels"] != labels.folder.identity:
        raise ValueError(
            f"{newest.path} learned from labels of {newest.state['labels']}, these are of "
            f"{labels.folder.identity}: install that evaluator (or set STOCKFISH_PATH), put back "
            "the file, or start a new run"
        )


@contextmanager
def _withdrawn_without_labels(
    session: Pretraining, log: RunLog, display: PretrainDisplay, run_dir: Path
) -> Iterator[None]:
    """Takes the run's record back where its settings give no labels and it has learned nothing.

    A run keeps its settings, so this one could never go on; and while its record is there the
    folder takes no run with others.
    """
    try:
        yield
    except ValueError:
        if session.progress.update == 0:
            log.close()
            shutil.rmtree(run_dir / "checkpoints", ignore_errors=True)
            # The record last: as long as it is there no other process begins a run here.
            for name in ("config.json", "environment.json", log.path.name):
                (run_dir / name).unlink(missing_ok=True)
            display.say(f"nothing was learned: {run_dir} can take a new run, with other settings")
        raise


def _describe(
    session: Pretraining, labels: Labels, display: PretrainDisplay, run_dir: Path, *, resumed: bool
) -> None:
    """Writes config.json and environment.json, and says what is about to run."""
    config, threads = session.config, torch.get_num_threads()
    values = environment.record(
        evaluator=labels.name, device=str(session.device), num_threads=threads
    )
    environment.write_record(run_dir / "environment.json", values, resumed=resumed)
    configuration.save(dataclasses.replace(config, run_dir=run_dir), run_dir / "config.json")
    display.start(
        f"supervised pretraining, seed {config.seed}"
        + (f", resumed at step {session.progress.update}" if resumed else ""),
        {
            "labels": labels.name,
            "policy": policy_fact(
                config.policy.label,
                session.policy.num_parameters,
                device=str(session.device),
                num_threads=threads,
            ),
            "run folder": str(run_dir),
        },
    )


class _Steps:
    """One process's share of a run."""

    def __init__(
        self, session: Pretraining, labels: Labels, observer: RunObserver, display: PretrainDisplay
    ) -> None:
        self._session, self._labels, self._observer = session, labels, observer
        self._say = display.say

    def loop(self, stop: Stop) -> str | None:
        """Steps until a plateau, the budget or a signal; the reason where it is a plateau."""
        session, config = self._session, self._session.config
        sizes = sizes_of(self._labels)
        reason = self._plateau()
        if stop.asked(self._say) or reason or session.progress.update >= config.total_steps:
            return reason
        facts = session.policy.reads_move_facts
        stream = Stream(config, self._labels.folder, sizes, session.device, move_facts=facts)
        last = False
        while not last:
            means, began, first = StepMeans(), time.monotonic(), session.progress.plies
            row_ends = False
            while not (row_ends or last):
                session.step(stream.minibatch(session.progress.update), means)
                row_ends = session.progress.update % config.log_interval_steps == 0
                last = stop.asked(self._say) or session.progress.update >= config.total_steps
            row = {
                **means.metrics(),
                "train/learning_rate": session.optimizer.param_groups[0]["lr"],
            }
            row["time/positions_per_s"] = (session.progress.plies - first) / (
                time.monotonic() - began
            )
            reason = self._finish_row(row, last=last)
            last = last or reason is not None
        return reason

    def _finish_row(self, row: dict[str, float], *, last: bool) -> str | None:
        """Writes the row, with an evaluation and a checkpoint where it is time; why to stop."""
        session, config = self._session, self._session.config
        observer, done = self._observer, session.progress
        due = done.update % config.eval_interval_steps == 0
        if due or last:
            row |= observer.evaluate(every_slice=last)
        if due and done.update >= config.lr_decay_steps:
            session.plateau.see(row["eval/regret_cp"], config.min_improvement_cp)
        reason = self._plateau()
        if reason is not None and not last:
            row |= observer.evaluate(every_slice=True)
        row["pretrain/stale_evals"] = float(session.plateau.stale_evals)
        row |= observer.amounts()
        observer.finish(row, keep=due, last=last or reason is not None)
        return reason

    def _plateau(self) -> str | None:
        """The reason to stop, where held-out regret no longer falls and that ends the run."""
        config, stale = self._session.config, self._session.plateau.stale_evals
        if not config.plateau or stale < config.patience_evals:
            return None
        return (
            f"plateau: {stale} evaluations in a row without a fall of eval/regret_cp by "
            f"{config.min_improvement_cp} cp (--no-plateau goes on)"
        )
