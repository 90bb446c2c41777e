"""What an update cost and how far the run has come: amounts, speeds, the evaluator's counters."""

from __future__ import annotations

from algorithms.training.dynamic_sampling import Collected
from algorithms.training.learner import Learner


def account(
    session: Learner, collected: Collected, rollout_s: float, update_s: float
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
