"""The training loop, in the eight stages of the data flow; it knows no algorithm by name."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import torch

from algorithms.config import files as config_file
from algorithms.config.run import TrainConfig
from algorithms.core.batch_metrics import batch_metrics
from algorithms.diagnostics.probe_policy import PolicyProbe
from algorithms.diagnostics.probe_record import ProbeRecord
from algorithms.diagnostics.update_diagnostics import UpdateDiagnostics
from algorithms.evaluation.match_play import MatchPlay
from algorithms.networks.device import out_of_memory
from algorithms.rollouts.dynamic_sampling import Collected
from algorithms.run_folder.console import Display, make_display
from algorithms.run_folder.going_on import newest_checkpoint
from algorithms.run_folder.log import ANEW, RunLog
from algorithms.run_folder.stopping import Stop, stop_on_signal
from algorithms.training.preflight import look
from algorithms.training.record import Recorder, count_update, new_run_dir
from algorithms.training.result import TrainResult, describe, result_of
from algorithms.training.session import Session
from algorithms.updates.nonfinite import NonFiniteDump
from algorithms.updates.targets import Targets, make_targets
from algorithms.updates.update import update


def train(
    config: TrainConfig,
    *,
    resume: bool = False,
    display: Display | None = None,
    make_session: Callable[..., Session] = Session,
    watch: Callable[[Mapping[str, float]], str] | None = None,
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
    config = config.settled()
    run_dir = config.run_dir or new_run_dir(config)
    display = display or make_display(config.total_moves)
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
    log: RunLog | None = None
    matches: MatchPlay | None = None
    session = make_session(config, fresh=newest is None)
    try:
        session.check_budget()
        matches = MatchPlay(config.match, config.seed)
        if newest is not None:
            session.load(newest.path, newest.weights, newest.state)
        log = RunLog(
            run_dir,
            track=config.track,
            config=config_file.to_dict(config),
            resume_at=session.progress.update if newest else ANEW if resume else None,
        )
        recorder = Recorder(
            session, run_dir, log, display, temperature=config.rollout.temperature, watch=watch
        )
        run = _Run(session, matches, recorder, run_dir, display)
        describe(session, display, run_dir, resumed=newest is not None)
        with stop_on_signal() as stop:
            if newest is None:
                run.begin()
            else:
                run.resume()
            reason = run.loop(stop)
        stopped_by = stop.name or reason
        return result_of(session, recorder.last_regret(), run_dir, stopped_by=stopped_by)
    except torch.OutOfMemoryError as error:
        sizes = (config.optimizer.minibatch_size, config.rollout.num_envs)
        raise RuntimeError(
            out_of_memory(session.device, minibatch_size=sizes[0], num_envs=sizes[1])
        ) from error
    finally:
        display.stop()
        if log is not None:
            log.close()
        session.close()
        if matches is not None:
            matches.close()


class _Run:
    """One process's share of a run."""

    def __init__(
        self,
        session: Session,
        matches: MatchPlay,
        recorder: Recorder,
        run_dir: Path,
        display: Display,
    ) -> None:
        self.session = session
        self.matches = matches
        self.recorder = recorder
        self.display = display
        config = session.config
        probe = PolicyProbe(
            config.env.reward,
            config.rollout.temperature,
            session.device,
            move_facts=session.policy.reads_move_facts,
        )
        self._diagnostics = UpdateDiagnostics(probe)
        self._probes = ProbeRecord(run_dir, probe, display.say)
        self._bad = NonFiniteDump(run_dir / "bad_batches", display.say)

    def begin(self) -> None:
        """Puts fresh games on the boards and measures the untrained policy."""
        session = self.session
        session.worker.start()
        # Now, so that a run that goes on from the first checkpoint has counted what the first boards cost.
        session.usage.count(session.progress)
        self._probes.begin(session.policy)
        self.recorder.begin()

    def resume(self) -> None:
        """Brings what lies beside the record to where the checkpoint is."""
        self.recorder.resume()
        self._probes.resume(self.session.progress.update)

    def loop(self, stop: Stop) -> str | None:
        """Updates until the budget is used or a stop is asked for; a controller's reason for one."""
        session, learner = self.session, self.session.learner
        checked: dict[str, float] = {}
        reason: str | None = None
        last = stop.asked(self.display.say) or not session.budget_left()
        while not last:
            # [1] start positions  [2] boards and moves  [3] scores and rewards
            began = time.monotonic()
            collected = session.rollout()
            rolled = time.monotonic()
            batch, first = collected.batch, not checked
            if first:  # nothing may be wrong before this process's first update
                checked = look(session, batch, self.display.say)
            looked = time.monotonic()

            # Schedules and controllers move before anything is learned from the batch.
            row, signals = session.control(batch, kl_at_start=checked["step0/kl_old_mean"])
            for warning in signals.warnings:
                self.display.say(f"WARNING: {warning}")

            # [4] advantages
            targets = make_targets(learner.algorithm, learner.regularizer, batch)

            # [5] surrogate  [6] regularisation  [7] update
            learned = self._update(collected, targets)
            updated = time.monotonic()

            # [8] diagnostics and evaluation
            row = {**batch_metrics(batch, targets.advantages), **row, **learned}
            row.update(learner.regularizer.metrics())
            update_s = updated - looked - learned.get("time/diagnostics_s", 0.0)
            row.update(count_update(session, collected, rolled - began, update_s))
            row.update(checked if first else {})
            reason = signals.stop
            stopping = stop.asked(self.display.say)
            last = stopping or reason is not None or not session.budget_left()
            self._finish_update(row, last=last)
        return reason

    def _update(self, collected: Collected, targets: Targets) -> dict[str, float]:
        """Metrics of one update and, at their interval, of what it did."""
        session, config, batch = self.session, self.session.config, collected.batch
        number = session.progress.update
        looked = (number + 1) % config.diagnostics_interval_updates == 0
        metrics: dict[str, float] = {}
        spent = time.monotonic()
        if looked:
            metrics = self._diagnostics.before(
                session.learner, batch, targets, session.worker.reference
            )
        spent = time.monotonic() - spent
        keep_bad = partial(self._bad.keep, number)
        metrics |= update(session.learner, batch, targets, keep_bad)
        session.last_kl_old = metrics.get("reg/kl_old", session.last_kl_old)
        if looked:
            began = time.monotonic()
            metrics |= self._diagnostics.after(session.policy, session.learner.learning_rate)
            assert self._diagnostics.logprobs is not None
            self._probes.write(number + 1, self._diagnostics.logprobs)
            metrics["time/diagnostics_s"] = spent + time.monotonic() - began
        return metrics

    def _finish_update(self, row: dict[str, float], *, last: bool) -> None:
        config, number = self.session.config, self.session.progress.update
        if last or number % config.eval_interval_updates == 0:
            row |= self.recorder.evaluate(every_slice=last)
        if last or number % config.match.interval_updates == 0:
            row |= self.matches.play(self.session.policy)
        keep = number % config.checkpoint_interval_updates == 0
        self.recorder.finish(row, keep=keep, last=last)
