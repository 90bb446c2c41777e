"""The training loop, in the eight stages of the data flow; it knows no algorithm by name."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import torch
from rich.console import Console

from algorithms.config import files as config_file
from algorithms.config.run import TrainConfig
from algorithms.core.batch import RolloutBatch
from algorithms.core.batch_metrics import policy_metrics, sample_metrics
from algorithms.networks.device import out_of_memory
from algorithms.processes import Alone, Processes
from algorithms.rollouts.dynamic_sampling import Collected
from algorithms.run_folder.console import Display, make_display
from algorithms.run_folder.going_on import newest_checkpoint
from algorithms.run_folder.log import ANEW
from algorithms.run_folder.stopping import Stop, stop_on_signal
from algorithms.training.leader import Leader, Watch
from algorithms.training.preflight import PreflightError, measure_first_rollout, refusals
from algorithms.training.record import count_update, new_run_dir
from algorithms.training.result import TrainResult, describe, result_of
from algorithms.training.session import Session
from algorithms.updates.targets import Targets, make_targets
from algorithms.updates.update import update


def train(
    config: TrainConfig,
    *,
    resume: bool = False,
    display: Display | None = None,
    make_session: Callable[..., Session] = Session,
    watch: Watch | None = None,
    processes: Processes | None = None,
) -> TrainResult:
    """The result of a run, which is trained until the budget is used or the process is asked to stop.

    The first SIGINT, SIGTERM or SIGHUP lets the update finish and writes a checkpoint; a second one ends
    the process at once. A controller that ends the run does it in the same way, and is no error.

    Args:
        config: the run. Where `run_dir` is None, a folder under `runs/` is made.
        resume: continue the run in `config.run_dir` from its newest intact checkpoint; where it was
            killed before its first one, start it again there.
        display: shows the run; None chooses a live table or plain lines.
        make_session: builds the parts of the run, given the configuration and `fresh` (False where a
            checkpoint is loaded into them); an experiment may hand in altered ones.
        watch: is given every row of the record and returns a line on how the run does.
        processes: that carry the run, each with this same call; None for this one alone.

    Raises:
        ValueError: a setting is out of range or does not fit the run that is continued.
        RunFolderError: the folder holds another run, or another process writes it.
        PreflightError: the first rollout shows that the run cannot learn what it is meant to.
        RuntimeError: the memory of the CUDA device does not suffice.
    """
    if config.loop != "native":
        raise ValueError(
            f"loop is {config.loop!r}: this is the project's own; call "
            "algorithms.integrations.sb3.session.train_sb3, or set loop to native"
        )
    processes = processes or Alone()
    leads, config = processes.rank == 0, config.settled()
    run_dir = Path(processes.gather(str(config.run_dir or new_run_dir(config)))[0])
    if display is None:
        console = None if leads else Console(quiet=True)
        display = make_display(config.total_moves, console)
    newest = None
    if resume:
        if config.cause is not None:
            raise ValueError(
                f"{run_dir} was made by `chess-lab causes run {config.cause}` and cannot be "
                "continued, because its fault is in no setting: run that command again"
            )
        recorded = config_file.load_record(run_dir / "config.json", config)
        config_file.check_resumable(recorded, config)
        newest = newest_checkpoint(run_dir, display.say)
    together = {} if processes.count == 1 else {"processes": processes}
    session = make_session(config, fresh=newest is None, **together)
    leader: Leader | None = None
    try:
        session.budget.check()
        if newest is not None:
            session.load(newest.path, newest.weights, newest.state)
        processes.any(False)  # all have read the checkpoint before old ones are removed
        if leads:
            resume_at = session.progress.update if newest else ANEW if resume else None
            leader = Leader(session, run_dir, display, watch, resume_at=resume_at)
            describe(session, display, run_dir, resumed=newest is not None)
        run = _Run(session, leader, display)
        with stop_on_signal() as stop:
            if newest is None:
                run.begin()
            elif leader is not None:
                leader.resume()
            reason = run.loop(stop)
        result: TrainResult | None = None
        if leader is not None:
            stopped_by = run.stopped_by or stop.name or reason
            result = result_of(session, leader.last_regret(), run_dir, stopped_by=stopped_by)
        told = processes.gather(None if result is None else result.to_dict())[0]
        return result or TrainResult.from_dict(told)
    except torch.OutOfMemoryError as error:
        sizes = (config.optimizer.minibatch_size, config.rollout.num_envs)
        raise RuntimeError(
            out_of_memory(session.device, minibatch_size=sizes[0], num_envs=sizes[1])
        ) from error
    finally:
        display.stop()
        if leader is not None:
            leader.close()
        session.close()


class _Run:
    """One process's share of a run. Without a leader it learns, and another process looks and writes."""

    def __init__(self, session: Session, leader: Leader | None, display: Display) -> None:
        self.session, self.leader, self.display = session, leader, display
        self.stopped_by: str | None = None

    def begin(self) -> None:
        """Puts fresh games on the boards and measures the untrained policy."""
        session = self.session
        session.worker.start()
        # Now, so that a run that goes on from the first checkpoint has counted what the first boards cost.
        session.usage.count(session.progress)
        session.gather_boards()
        if self.leader is not None:
            self.leader.begin()

    def loop(self, stop: Stop) -> str | None:
        """Updates until the budget is used or a stop is asked for; a controller's reason for one."""
        session, learner = self.session, self.session.learner
        checked: dict[str, float] = {}
        reason: str | None = None
        last = self._stopping(stop) or not session.budget.left()
        while not last:
            # [1] start positions  [2] boards and moves  [3] scores and rewards
            began = time.monotonic()
            collected = session.rollout()
            rolled = time.monotonic()
            batch, first = collected.batch, not checked
            if first:  # nothing may be wrong before this process's first update
                checked = measure_first_rollout(session, batch)
            looked = time.monotonic()

            seen = policy_metrics(batch)
            if first:
                self._check_start(collected, {**seen, **collected.metrics, **checked})

            # Schedules and controllers move before anything is learned from the batch.
            row, signals = session.control(batch, seen, kl_at_start=checked["step0/kl_old_mean"])
            for warning in signals.warnings:
                self.display.say(f"WARNING: {warning}")

            # [4] advantages
            targets = make_targets(learner.algorithm, learner.regularizer, batch)

            # [5] surrogate  [6] regularisation  [7] update
            learned = self._update(batch, targets)
            updated = time.monotonic()

            # [8] diagnostics and evaluation
            row = {**seen, **sample_metrics(batch, targets.advantages), **row, **learned}
            row.update(learner.regularizer.metrics())
            update_s = updated - looked - learned.get("time/diagnostics_s", 0.0)
            row.update(count_update(session, collected, rolled - began, update_s))
            row.update(checked if first else {})
            reason = signals.stop
            last = self._stopping(stop) or reason is not None or not session.budget.left()
            self._finish_update(row, last=last)
        return reason

    def _check_start(self, collected: Collected, measured: dict[str, float]) -> None:
        """Stops a faulty run before its first update, with the measurements in its record."""
        if not self.session.config.preflight:
            self.display.say(
                "WARNING: the preflight is switched off: no fault of the first rollout stops this run"
            )
            return
        done = self.session.progress
        row = {
            "step": done.update + 1,
            "plies": done.plies + collected.plies,
            "scored_moves": done.scored_moves + collected.scored_moves,
            **measured,
        }
        if failures := refusals(self.session, row):
            if self.leader is not None:
                self.leader.refuse(row)
            raise PreflightError(failures)

    def _stopping(self, stop: Stop) -> bool:
        """Whether a signal came to any process; all of them stop at the same update."""
        stop.asked(self.display.say)
        named = [name for name in self.session.shards.processes.gather(stop.name) if name]
        self.stopped_by = named[0] if named else None
        return bool(named)

    def _update(self, batch: RolloutBatch, targets: Targets) -> dict[str, float]:
        """Metrics of one update and, at their interval, of what it did."""
        session, leader = self.session, self.leader
        metrics = {} if leader is None else leader.before_update(batch, targets)
        keep_bad = None if leader is None else leader.keep_bad
        metrics |= update(session.learner, batch, targets, keep_bad)
        session.last_kl_old = metrics.get("reg/kl_old", session.last_kl_old)
        return metrics if leader is None else metrics | leader.after_update()

    def _finish_update(self, row: dict[str, float], *, last: bool) -> None:
        config, number, leader = self.session.config, self.session.progress.update, self.leader
        evaluated = last or number % config.eval_interval_updates == 0
        keep = number % config.checkpoint_interval_updates == 0
        if evaluated or keep:  # a checkpoint may follow, of all shards
            self.session.gather_boards()
        if leader is None:
            return
        if evaluated:
            row |= leader.evaluate(every_slice=last)
        if last or number % config.match.interval_updates == 0:
            row |= leader.play()
        leader.finish(row, keep=keep, last=last)
