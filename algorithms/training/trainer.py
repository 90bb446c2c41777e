"""The training loop, in the eight stages of the data flow; it knows no algorithm by name."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from pathlib import Path

from algorithms.core.diagnostics import batch_metrics
from algorithms.training import checkpoint, config_file, machine
from algorithms.training.config import TrainConfig
from algorithms.training.console import Display, make_display
from algorithms.training.dynamic_sampling import Collected
from algorithms.training.evaluation import Regret, prepare_slice, regret_cp
from algorithms.training.preflight import look
from algorithms.training.run_log import RunLog
from algorithms.training.run_report import MAIN_SLICE, TrainResult, describe, result_of
from algorithms.training.session import Session
from algorithms.training.step_guard import BadBatches
from algorithms.training.stopping import Stop, stop_on_signal
from algorithms.training.targets import Targets, make_targets
from algorithms.training.update import update
from algorithms.training.update_diagnostics import UpdateDiagnostics
from chess_env.heldout import load_heldout


def train(
    config: TrainConfig,
    *,
    resume: bool = False,
    display: Display | None = None,
    make_session: Callable[[TrainConfig], Session] = Session,
    watch: Callable[[Mapping[str, float]], str] | None = None,
) -> TrainResult:
    """Trains until the budget is used or the process is asked to stop; returns what came of it.

    The first SIGINT or SIGTERM lets the update finish and writes a checkpoint; a second one ends
    the process at once. A controller that ends the run does it in the same way, and is no error.

    Args:
        config: the run. Where `run_dir` is None, a folder under `runs/` is made.
        resume: continue the run in `config.run_dir` from its newest intact checkpoint.
        display: what to show; None chooses a live table or plain lines.
        make_session: builds the parts of the run; an experiment may hand in altered ones.
        watch: is given every row of the record and says in a line how the run does.

    Raises:
        ValueError: a setting is out of range or does not fit the run that is continued.
        RunFolderError: the folder holds another run, or another process writes it.
        PreflightError: the first rollout shows that the run cannot learn what it is meant to.
    """
    run_dir = config.run_dir or _new_run_dir(config)
    display = display or make_display(config.total_moves)
    newest = None
    if resume:
        if config.cause is not None:
            raise ValueError(
                f"{run_dir} was made by `chess-lab causes run {config.cause}` and cannot be "
                "continued, because its fault is in no setting: run that command again"
            )
        config_file.check_resumable(config_file.load(run_dir / "config.json"), config)
        newest = checkpoint.load_newest(run_dir / "checkpoints")
    log: RunLog | None = None
    session = make_session(config)
    try:
        session.check_budget()
        if newest is not None:
            session.load(newest.path, newest.weights, newest.state)
        log = RunLog(
            run_dir,
            track=config.track,
            config=config_file.to_dict(config),
            resume_at=session.progress.update if newest else None,
        )
        run = _Run(session, log, display, run_dir, watch)
        describe(session, display, run_dir, resumed=newest is not None)
        with stop_on_signal() as stop:
            if newest is None:
                run.begin()
            reason = run.loop(stop)
        assert run.regret is not None
        return result_of(session, run.regret, run_dir, stopped_by=stop.name or reason)
    finally:
        display.stop()
        if log is not None:
            log.close()
        session.close()


class _Run:
    """One process's share of a run."""

    def __init__(
        self,
        session: Session,
        log: RunLog,
        display: Display,
        run_dir: Path,
        watch: Callable[[Mapping[str, float]], str] | None,
    ) -> None:
        self.session = session
        self.log = log
        self.display = display
        self.run_dir = run_dir
        self.watch = watch
        heldout = load_heldout()
        self.slices = {name: prepare_slice(heldout, name) for name in heldout.slice_names}
        self.regret: Regret | None = None
        config = session.config
        self._diagnostics = UpdateDiagnostics(
            heldout, config.env.reward, config.rollout.temperature, session.device
        )
        self._bad = BadBatches(run_dir / "bad_batches", display.say)
        self._wall = time.monotonic()
        self._cpu = machine.cpu_seconds()

    def begin(self) -> None:
        """Puts fresh games on the boards and measures the untrained policy."""
        self.session.start()
        row = self._evaluate(list(self.slices))
        assert self.regret is not None
        self.session.progress.start_regret_cp = self.regret.per_position_cp
        self._write(row)
        self._checkpoint(best=True)

    def loop(self, stop: Stop) -> str | None:
        """Updates until the budget is used or a stop is asked for; a controller's reason for one."""
        session = self.session
        checked: dict[str, float] = {}
        reason: str | None = None
        last = stop.name is not None or not session.budget_left()
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
            targets = make_targets(session.algorithm, session.regularizer, batch)

            # [5] surrogate  [6] regularisation  [7] update
            learned = self._update(collected, targets)
            updated = time.monotonic()

            # [8] diagnostics and evaluation
            row = {**batch_metrics(batch, targets.advantages), **row, **learned}
            row.update(session.regularizer.metrics())
            update_s = updated - looked - learned.get("time/diagnostics_s", 0.0)
            row.update(self._account(collected, rolled - began, update_s))
            row.update(checked if first else {})
            reason = signals.stop
            last = stop.name is not None or reason is not None or not session.budget_left()
            self._finish_update(row, last=last)
        if self.regret is None:  # a finished run was resumed
            self._evaluate(list(self.slices))
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
                session.policy,
                session.algorithm,
                session.regularizer,
                session.controls,
                batch,
                targets,
            )
        spent = time.monotonic() - spent
        metrics |= update(
            session.policy,
            session.optimizer,
            session.algorithm,
            session.regularizer,
            batch,
            targets,
            controls=session.controls,
            guard=session.guard,
            generator=session.shuffling,
            minibatch_size=config.optimizer.minibatch_size,
            max_grad_norm=config.optimizer.max_grad_norm,
            behaviour=session.behaviour,
            keep_bad=partial(self._bad.keep, number),
        )
        session.last_kl_old = metrics.get("reg/kl_old", session.last_kl_old)
        if looked:
            began = time.monotonic()
            rate = session.optimizer.param_groups[0]["lr"]
            metrics |= self._diagnostics.after(session.policy, rate)
            metrics["time/diagnostics_s"] = spent + time.monotonic() - began
        return metrics

    def _finish_update(self, row: dict[str, float], *, last: bool) -> None:
        config, done = self.session.config, self.session.progress
        best = False
        if last or done.update % config.eval_interval_updates == 0:
            lowest = done.best_regret_cp
            row.update(self._evaluate(list(self.slices) if last else [MAIN_SLICE]))
            best = done.best_regret_cp < lowest
        self._write(row)
        if last or best or done.update % config.checkpoint_interval_updates == 0:
            self._checkpoint(best=best, must=last)

    def _account(self, collected: Collected, rollout_s: float, update_s: float) -> dict[str, float]:
        """Adds the update to the progress; returns amounts, speeds and the evaluator's counters."""
        session, done = self.session, self.session.progress
        before = done.evaluations
        counters = session.questions.count(done)
        plies, moves, spent = collected.plies, collected.scored_moves, rollout_s + update_s
        done.update += 1
        done.plies += plies
        done.scored_moves += moves
        done.largest_rollout = max(done.largest_rollout, moves)
        batch = collected.batch
        repeated: dict[str, float] = {}
        if batch.position_hash is not None:
            used = batch.valid.any(-1) if batch.form == "positions" else batch.valid
            fraction = session.seen.fraction(batch.position_hash[used])
            repeated = {"rollout/repeated_fraction": fraction}
        hits = counters.get("cache_hits", 0.0)  # only an evaluator with a cache counts them
        return (
            collected.metrics
            | repeated
            | {
                "time/rollout_s": rollout_s,
                "time/update_s": update_s,
                "time/plies_per_s": plies / spent,
                "time/moves_per_s": moves / spent,
                "time/evaluations_per_s": (done.evaluations - before) / rollout_s,
                "rollout/evaluations": float(done.evaluations),
                "rollout/engine_queries": float(done.engine_queries),
                "rollout/cache_hit_fraction": hits / counters["queries"],
                "rollout/engine_restarts": counters.get("engine_restarts", 0.0),
            }
        )

    def _evaluate(self, names: list[str]) -> dict[str, float]:
        """Exact regret on held-out slices; the main slice's carries no slice in its names.

        At the temperature that the run began with, so that its figures stay comparable where a
        controller moves that of the rollouts.
        """
        began = time.monotonic()
        session, done = self.session, self.session.progress
        metrics: dict[str, float] = {}
        for name in names:
            regret = regret_cp(
                session.policy,
                self.slices[name],
                temperature=session.config.rollout.temperature,
                device=session.device,
            )
            if name == MAIN_SLICE:
                self.regret = regret
                done.best_regret_cp = min(done.best_regret_cp, regret.regret_cp)
                done.entropy_min = min(done.entropy_min, regret.entropy)
                metrics.update(regret.metrics())
            else:
                metrics.update(regret.metrics(prefix=f"eval/{name}"))
        metrics["time/eval_s"] = time.monotonic() - began
        return metrics

    def _write(self, metrics: Mapping[str, float]) -> None:
        done = self.session.progress
        self._clock()
        row = {
            "step": done.update,
            "plies": done.plies,
            "scored_moves": done.scored_moves,
            **metrics,
            "time/wall_s": done.wall_s,
            "time/cpu_s": done.cpu_s,
        }
        self.log.write(row)
        self.display.show(row, "" if self.watch is None else self.watch(row))

    def _clock(self) -> None:
        done, wall, cpu = self.session.progress, time.monotonic(), machine.cpu_seconds()
        done.wall_s += wall - self._wall
        done.cpu_s += max(0.0, cpu - self._cpu)
        self._wall, self._cpu = wall, cpu

    def _checkpoint(self, *, best: bool, must: bool = False) -> None:
        """Writes a checkpoint; one that fails in mid-run is reported and the run goes on."""
        session = self.session
        try:
            checkpoint.save(
                self.run_dir / "checkpoints",
                session.progress.update,
                weights=session.policy.state_dict(),
                state=session.state(),
                best=best,
            )
        except checkpoint.CheckpointError as error:
            if must:
                raise
            self.display.say(f"WARNING: {error}")


def _new_run_dir(config: TrainConfig) -> Path:
    stamp = datetime.now().strftime("%Y%m%d-%H%M%S")
    return Path("runs") / f"{config.label}-{stamp}-seed{config.seed}"
