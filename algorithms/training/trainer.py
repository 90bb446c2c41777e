"""The training loop, in the eight stages of the data flow; it knows no algorithm by name."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import torch
from rich.console import Console

from algorithms.config import files as config_file
from algorithms.config.run import TrainConfig
from algorithms.core.metrics import policy_metrics, sample_metrics
from algorithms.networks.build import usual_torch
from algorithms.processes import Processes
from algorithms.rollouts.collect import Collected
from algorithms.run_folder.atomic_files import new_folder
from algorithms.run_folder.checkpoint import newest_checkpoint
from algorithms.run_folder.console import Display, make_display
from algorithms.run_folder.run_log import ANEW
from algorithms.run_folder.stopping import Stop, stop_on_signal
from algorithms.training.failures import settings_named
from algorithms.training.observer import (
    RowReader,
    RunObserver,
    count_update,
    new_run_dir,
    observer_of,
)
from algorithms.training.preflight import PreflightError, measure_first_rollout, refusals
from algorithms.training.result import TrainResult, describe, result_of, say_stretched
from algorithms.training.session import Session
from algorithms.updates.training_batch import make_targets
from algorithms.updates.update import update


@settings_named
@usual_torch()
def train(
    config: TrainConfig,
    *,
    resume: bool = False,
    display: Display | None = None,
    make_session: Callable[..., Session] = Session,
    watch: RowReader | None = None,
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
        watch: is given every row of the record and returns a line on how the run does, which is shown. What it
            raises ends the run and passes through; the run can be resumed from its newest checkpoint.
        processes: that carry the run, each with this same call; None for this one alone.

    Raises:
        ValueError: a setting is out of range or does not fit the run that is continued.
        RunFolderError: the folder holds another run, or another process writes it.
        PreflightError: the first rollout shows that the run cannot learn what it is meant to.
        RuntimeError: the memory does not suffice, or steps are not finite.
    """
    processes = processes or Processes()
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
        config = config_file.as_it_began(recorded, config)
        config_file.check_resumable(recorded, config)
        newest = newest_checkpoint(run_dir, config_file.to_dict(config), display.say)
    torch.set_num_threads(config.num_threads)  # the first weights are computed too
    together = {} if processes.count == 1 else {"processes": processes}
    session = make_session(config, fresh=newest is None, **together)
    observer: RunObserver | None = None
    try:
        if newest is not None:
            session.load(newest.path, newest.weights, newest.state, display.say)
            say_stretched(recorded.total_moves, session, run_dir, display.say)
        processes.any(False)  # all have read the checkpoint before old ones are removed
        if leads:
            resume_at = session.progress.update if newest else ANEW if resume else None
            if config.run_dir is None:  # another run may have begun in the same second
                run_dir = new_folder(run_dir)
            observer = observer_of(session, run_dir, display, watch, resume_at=resume_at)
            describe(session, display, run_dir, resumed=newest is not None)
        run = Run(session, observer, display)
        with stop_on_signal() as stop:
            if newest is None:
                run.begin()
            elif observer is not None:
                observer.resume()
            reason = run.loop(stop)
        result: TrainResult | None = None
        if observer is not None:
            stopped_by = run.stopped_by or stop.name or reason
            result = result_of(session, observer.last_regret(), run_dir, stopped_by=stopped_by)
        told = processes.gather(None if result is None else result.to_dict())[0]
        return result or TrainResult.from_dict(told)
    finally:
        display.stop()
        if observer is not None:
            observer.close()
        session.close()


class Run:
    """One process's share of a run. Without an observer it learns, and another process looks and writes.

    Args:
        session: the parts of the run.
        observer: looks at it and writes it down.
        display: shows warnings.

    Attributes:
        stopped_by: the name of the signal that came to one of the processes.
    """

    def __init__(self, session: Session, observer: RunObserver | None, display: Display) -> None:
        self.session, self.observer, self.display = session, observer, display
        self.stopped_by: str | None = None

    def begin(self) -> None:
        """Puts fresh games on the boards and measures the untrained policy."""
        session = self.session
        session.worker.start()
        # Now, so that a run that goes on from the first checkpoint has counted what the first boards cost.
        session.usage.count(session.progress)
        session.gather_boards()
        if self.observer is not None:
            self.observer.begin()

    def loop(self, stop: Stop) -> str | None:
        """Updates until the budget is used or a stop is asked for; a controller's reason for one."""
        session, learner, observer = self.session, self.session.learner, self.observer
        first, reason = True, None
        last = self._stopping(stop) or not session.affords()
        while not last:
            # [1] start positions  [2] boards and moves  [3] scores and rewards
            began, temperature = time.monotonic(), session.worker.temperature
            collected = session.rollout()
            batch, rolled = collected.batch, time.monotonic()
            sampler = policy_metrics(batch)
            # Nothing may be wrong before this process's first update.
            start = self._check_start(collected, sampler) if first else {}
            first, checked = False, time.monotonic()

            # Schedules and controllers move before anything is learned from the batch.
            signals = session.control(sampler)
            for warning in signals.warnings:
                self.display.say(f"WARNING: {warning}")

            # [4] advantages
            targets = make_targets(learner.algorithm, learner.regularizer, batch)

            # [5] surrogate  [6] regularisation  [7] update
            looks: dict[str, float] = {}
            if observer is None:
                learned = update(learner, batch, targets)
            else:
                looks = observer.before_update(
                    learner,
                    batch,
                    targets,
                    reference=session.worker.reference,
                    temperature=temperature,
                    rate=session.scheduled_rate,
                )
                learned = update(learner, batch, targets, observer.keep_bad, observer.on_step)
                looks |= observer.after_update(learner.learning_rate)
            session.last_kl_old = learned.get("reg/kl_old", session.last_kl_old)
            update_s = time.monotonic() - checked - looks.get("time/diagnostics_s", 0.0)
            counted = count_update(session, collected, rolled - began, update_s)

            # [8] diagnostics and evaluation
            reason = signals.stop
            last = self._stopping(stop) or reason is not None or not session.affords()
            number, config = session.progress.update, session.config
            evaluates = last or number % config.eval_interval_updates == 0
            keeps = number % config.checkpoint_interval_updates == 0
            if evaluates or keeps:  # a checkpoint may follow, of all shards
                session.gather_boards()
            if observer is not None:
                row = {
                    **start,  # the preflight's measurements, of the first rollout
                    **sampler,  # the policy that sampled: entropy, distance from the reference
                    **sample_metrics(batch, targets.advantages),  # rewards and advantages
                    **collected.metrics,  # dynamic sampling
                    "rollout/temperature": batch.temperature,
                    "train/learning_rate": learner.learning_rate,
                    **learned,  # losses, ratios, clipping, gradient
                    **learner.regularizer.metrics(),  # coefficients in force
                    **looks,  # gradient shares and probes, at their interval
                    **counted,  # speeds, and what the evaluator was asked
                    **(observer.evaluate(every_slice=last) if evaluates else {}),
                    **(
                        observer.play()
                        if last or number % config.match.interval_updates == 0
                        else {}
                    ),
                    **observer.amounts(),  # step, plies, moves, seconds
                }
                observer.finish(row, keep=keeps, last=last)
        return reason

    def _check_start(self, collected: Collected, sampler: dict[str, float]) -> dict[str, float]:
        """The preflight's measurements; a faulty run is stopped here, with them in its record.

        Args:
            collected: the process's first rollout.
            sampler: its `policy_metrics`.

        Raises:
            PreflightError: the run must not start.
        """
        session, done = self.session, self.session.progress
        measured = measure_first_rollout(session, collected.batch)
        if session.last_kl_old is None:
            session.last_kl_old = measured["step0/kl_old_mean"]
        if not session.config.preflight:
            if session.config.cause is None:  # the run of a cause is there to show its fault
                self.display.say(
                    "WARNING: the preflight is switched off: no fault of the first rollout stops this run"
                )
            return measured
        row = {
            "step": done.update + 1,
            "plies": done.plies + collected.plies,
            "scored_moves": done.scored_moves + collected.scored_moves,
            **sampler,
            **measured,
        }
        if failures := refusals(session, row):
            if self.observer is not None:
                self.observer.write(row)
            raise PreflightError(failures)
        return measured

    def _stopping(self, stop: Stop) -> bool:
        """Whether a signal came to any process; all of them stop at the same update."""
        stop.asked(self.display.say)
        named = [name for name in self.session.shards.processes.gather(stop.name) if name]
        self.stopped_by = named[0] if named else None
        return bool(named)
