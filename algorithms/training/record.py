"""The rows of a run's record: what an update cost, and what every row begins and ends with."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Protocol

from algorithms.config.run import TrainConfig
from algorithms.evaluation.run_evaluation import Evaluated
from algorithms.rollouts.dynamic_sampling import Collected
from algorithms.rollouts.seen_positions import SeenPositions
from algorithms.run_folder import environment
from algorithms.run_folder.console import Display
from algorithms.run_folder.log import RunLog
from algorithms.run_folder.progress import EvaluatorUsage, Progress
from chess_env.evaluators import Evaluator


class TrainingSession(Evaluated, Protocol):
    """A run's parts that evaluation, record and report look at, whichever loop trains it.

    Attributes:
        config: what was asked for.
        evaluator: who scores the moves.
        usage: what the evaluator was asked.
        seen: positions that were trained on.
    """

    config: TrainConfig
    evaluator: Evaluator
    usage: EvaluatorUsage
    seen: SeenPositions


def count_update(
    session: TrainingSession, collected: Collected, rollout_s: float, update_s: float
) -> dict[str, float]:
    """Adds an update to the session's progress; its amounts, speeds and the evaluator's counters.

    Args:
        session: after the update.
        collected: what was played.
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


class RowWriter:
    """Writes rows, with the amounts done and the time spent so far.

    Args:
        progress: of the run; its times are counted here.
        log: the record.
        display: is shown each row.
        watch: is given every row and says in a line how the run does; None says nothing.
    """

    def __init__(
        self,
        progress: Progress,
        log: RunLog,
        display: Display,
        watch: Callable[[Mapping[str, float]], str] | None,
    ) -> None:
        self._progress = progress
        self._log = log
        self._display = display
        self._watch = watch
        self._wall = time.monotonic()
        self._cpu = environment.cpu_seconds()

    def write(self, metrics: Mapping[str, float]) -> None:
        """Writes and shows one row."""
        done = self._progress
        self._clock()
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

    def _clock(self) -> None:
        done, wall, cpu = self._progress, time.monotonic(), environment.cpu_seconds()
        done.wall_s += wall - self._wall
        done.cpu_s += max(0.0, cpu - self._cpu)
        self._wall, self._cpu = wall, cpu
