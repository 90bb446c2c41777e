"""The record of a run, for every loop: the cost of an update, rows, checkpoints."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from algorithms.config.run import TrainConfig
from algorithms.evaluation.heldout import Regret
from algorithms.evaluation.run_evaluation import Evaluated, RunEvaluation
from algorithms.rollouts.dynamic_sampling import Collected
from algorithms.rollouts.seen_positions import SeenPositions
from algorithms.run_folder import checkpoint, environment
from algorithms.run_folder.checkpoint.snapshots import Snapshots
from algorithms.run_folder.console import Display
from algorithms.run_folder.log import RunLog
from algorithms.run_folder.progress import EvaluatorUsage
from chess_env.evaluators import Evaluator

_LONGEST_LABEL = 50  # characters of up to four bytes: a name of a folder has at most 255


class Recorded(Evaluated, Protocol):
    """The parts of a run that are written to disk."""

    def state(self) -> dict[str, Any]:
        """The contents of a checkpoint beside the weights."""
        ...


class TrainingSession(Recorded, Protocol):
    """The parts of a run that evaluation, record and report read, for every loop.

    Attributes:
        config: the settings of the run.
        evaluator: scores the moves.
        usage: counts the evaluator's queries.
        seen: positions that were trained on.
    """

    config: TrainConfig
    evaluator: Evaluator
    usage: EvaluatorUsage
    seen: SeenPositions


def count_update(
    session: TrainingSession, collected: Collected, rollout_s: float, update_s: float
) -> dict[str, float]:
    """Amounts, speeds and evaluator's counters of an update, which is added to the session's progress.

    Args:
        session: after the update.
        collected: the batch that was played.
        rollout_s: wall time of sampling, scoring and moving, s.
        update_s: wall time of advantages and optimizer steps, s.
    """
    done = session.progress
    before = done.evaluations
    counters = session.usage.count(done)
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


class Recorder:
    """Writes a run down: its evaluations, its rows, its checkpoints and its snapshots.

    Args:
        session: the run; it has its progress already.
        run_dir: the run folder.
        log: the record.
        display: is shown each row, and told of a checkpoint that could not be written.
        temperature: of the evaluations.
        snapshots: of the run; None for a run that keeps none.
        watch: is given every row and says in a line how the run does; None says nothing.
        cpu_seconds: CPU seconds that the run's processes have used.
    """

    def __init__(
        self,
        session: Recorded,
        run_dir: Path,
        log: RunLog,
        display: Display,
        *,
        temperature: float,
        snapshots: Snapshots | None = None,
        watch: Callable[[Mapping[str, float]], str] | None = None,
        cpu_seconds: Callable[[], float] = environment.cpu_seconds,
    ) -> None:
        self._session, self._log, self._display, self._watch = session, log, display, watch
        self._evaluation = RunEvaluation(session, temperature=temperature)
        self._checkpoints, self._snapshots = run_dir / "checkpoints", snapshots
        self._scored_moves = session.progress.scored_moves  # at the last row
        self._lowest_regret_cp = session.progress.best_regret_cp
        self._wall = time.monotonic()
        self._cpu_seconds = cpu_seconds
        self._cpu = cpu_seconds()

    def begin(self) -> None:
        """Measures the untrained policy and writes its checkpoint.

        Raises:
            CheckpointError: the first checkpoint could not be written, without which no run goes on.
        """
        row = self.evaluate(every_slice=True)
        self._session.progress.start_regret_cp = self.last_regret().per_position_cp
        self.finish(row, keep=True, first=True)

    def resume(self) -> None:
        """Brings links, old checkpoints and snapshots to where the checkpoint is that the run goes on from."""
        update = self._session.progress.update
        checkpoint.settle(self._checkpoints, update)
        if self._snapshots is not None:
            self._snapshots.resume(update)

    def evaluate(self, *, every_slice: bool) -> dict[str, float]:
        """Metrics of the present policy on every held-out slice, or on the main one."""
        return self._evaluation.all_slices() if every_slice else self._evaluation.main_slice()

    def last_regret(self) -> Regret:
        """The main slice's regret at the last evaluation; measured now where there was none."""
        if self._evaluation.regret is None:  # a finished run was resumed
            self.evaluate(every_slice=True)
        assert self._evaluation.regret is not None
        return self._evaluation.regret

    def finish(
        self, metrics: Mapping[str, float], *, keep: bool, first: bool = False, last: bool = False
    ) -> None:
        """Writes and shows a row, and writes a snapshot and a checkpoint where it is time for one.

        Args:
            metrics: of the update that was made.
            keep: whether the policy is kept even where its regret is not the lowest so far.
            first: whether the run begins here.
            last: whether the run ends here. Only at either end is a checkpoint that fails an error;
                in mid-run it is reported and the run goes on.

        Raises:
            CheckpointError: the first or the last checkpoint could not be written.
        """
        self._write(metrics)
        regret_cp = self._session.progress.best_regret_cp
        best, self._lowest_regret_cp = regret_cp < self._lowest_regret_cp, regret_cp
        due = last or best or keep
        # Before the checkpoint: a run that goes on from there has all snapshots up to it then.
        self._snapshot(at_end=first or last, due=due)
        if due:
            self._checkpoint(best=best, must=first or last)

    def _write(self, metrics: Mapping[str, float]) -> None:
        done = self._session.progress
        wall, cpu = time.monotonic(), self._cpu_seconds()
        done.wall_s += wall - self._wall
        done.cpu_s += max(0.0, cpu - self._cpu)
        self._wall, self._cpu = wall, cpu
        row = {
            "step": done.update,
            "plies": done.plies,
            "scored_moves": done.scored_moves,
            **metrics,
            "time/wall_s": done.wall_s,
            "time/cpu_s": done.cpu_s,
        }
        self._log.write(row)
        self._display.show(row, "" if self._watch is None else self._watch(row))

    def _snapshot(self, *, at_end: bool, due: bool) -> None:
        done, before = self._session.progress, self._scored_moves
        self._scored_moves = done.scored_moves
        if self._snapshots is None or not self._snapshots.due(
            before, done.scored_moves, at_end=at_end, checkpoint=due
        ):
            return
        try:
            self._snapshots.write(done.update, done.scored_moves, self._session.policy.state_dict())
        except checkpoint.CheckpointError as error:  # no run needs it to go on
            self._display.say(f"WARNING: {error}")

    def _checkpoint(self, *, best: bool, must: bool) -> None:
        session = self._session
        try:
            checkpoint.save(
                self._checkpoints,
                session.progress.update,
                weights=session.policy.state_dict(),
                state=session.state(),
                best=best,
            )
        except checkpoint.CheckpointError as error:
            if must:
                raise
            self._display.say(f"WARNING: {error}")


def new_run_dir(config: TrainConfig) -> Path:
    """The run folder of a run that names none: runs/LABEL-DATE-TIME-seedN."""
    stamp = datetime.now().strftime("%Y%m%d-%H%M%S")
    # A label may be module:Name, or what a stranger's folder says: it becomes one name of a folder.
    label = re.sub(r"[^\w.,=+-]", ".", config.label)[:_LONGEST_LABEL]
    return Path("runs") / f"{label}-{stamp}-seed{config.seed}"
