"""How much a run learned beside its twin, or beside runs of the same settings (`such_runs.json`)."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from algorithms.doctor.metric_rows import MetricRows, is_finite
from algorithms.reports.run_files import Rows

HARM = 0.05
"""A run is slower where it ends by more than this share of its first regret above the others."""

SPREAD = 3.0
"""And by more than so many standard deviations of the others at that point."""

SUCH_RUNS = Path(__file__).with_name("such_runs.json")

FREE = frozenset(
    {
        "seed", "run_dir", "device", "compile", "num_threads", "preflight", "track", "preset", "cause", "match",
        "total_moves", "eval_interval_updates", "diagnostics_interval_updates", "signal_chain",
        "checkpoint_interval_updates", "checkpoint_keep", "sha256", "precision", "env.num_engines",
        "env.num_threads", "env.cache",
    }
)  # fmt: skip
"""Settings in which such runs may differ: they change no more than a seed does, or what is looked at."""

SINCE: dict[str, Any] = {
    "algorithm.dual_clip": None, "algorithm.forward_kl_temperature": None, "algorithm.gate_scale": "std",
    "algorithm.top_entropy_fraction": 1.0,
    "init_logit_scale": 1.0, "optimizer.sampler_correction": "none", "policy.facts": [],
    "regularizer.clip_controller": "none", "regularizer.repo_r_controller": "none",
}  # fmt: skip
"""Switches that are younger than some of the curves, with what those runs did."""

JUDGES = ("auto-v2", "stockfish-v2", "builtin-v2")
"""Evaluators under which runs of these settings end at regrets that differ by a few centipawns (61 and 62, GRPO)."""

Curve = tuple[NDArray[np.float64], NDArray[np.float64]]
"""(scored moves, held-out regret in centipawns) at the evaluations."""


@dataclasses.dataclass(frozen=True)
class Pace:
    """A run beside others at as many scored moves.

    Attributes:
        share: what it learned, as a share of what they did on average; NaN where they learned nothing.
        is_slow: whether it is behind them by more than is usual.
        beside: what it was compared with.
    """

    share: float
    is_slow: bool
    beside: str

    def to_dict(self) -> dict[str, object]:
        """JSON values; null where they learned nothing."""
        share = round(self.share, 3) if math.isfinite(self.share) else None
        return {"share": share, "is_slow": self.is_slow, "beside": self.beside}

    def __str__(self) -> str:
        """In words."""
        if not self.share > 0:
            return f"it learned nothing by as many moves as {self.beside}"
        return f"it learned {self.share:.0%} of what {self.beside} did by as many moves"


def curve_of(rows: Rows) -> Curve:
    """The evaluations of a record."""
    points = [
        (float(row["scored_moves"] or 0.0), float(row["eval/regret_cp"] or 0.0))
        for row in rows
        if is_finite(row, "eval/regret_cp") and is_finite(row, "scored_moves")
    ]
    moves, regret_cp = zip(*points, strict=True) if points else ((), ())
    return np.array(moves), np.array(regret_cp)


def pace(record: MetricRows, others: Sequence[Curve], beside: str) -> Pace | None:
    """The run's pace; None where it has no two evaluations, or the others end before half of it."""
    moves, regret_cp = curve_of(record.rows)
    known = [curve for curve in others if len(curve[0]) >= 2]
    if len(moves) < 2 or not known:
        return None
    end = min(moves[-1], *(curve[0][-1] for curve in known))
    if end < moves[-1] / 2:
        return None
    mine = float(np.interp(end, moves, regret_cp))
    theirs = np.array([np.interp(end, *curve) for curve in known])
    start = float(np.mean([curve[1][0] for curve in known]))
    spread = float(theirs.std(ddof=1)) if len(theirs) > 1 else 0.0
    behind, learned = mine - float(theirs.mean()), start - float(theirs.mean())
    share = (regret_cp[0] - mine) / learned if learned > 0 else float("nan")
    return Pace(float(share), behind > max(HARM * start, SPREAD * spread), beside)


def such_runs(config: Mapping[str, Any], moves: float) -> tuple[list[Curve], dict[str, Any]]:
    """(curves, what else was set) of runs with these settings and about as many moves, or the next larger budget.

    Where there are none with these settings of the regulariser, those that differ in the fewest of them are taken,
    and in nothing else. ([], {}) where there are none.

    Args:
        config: of config.json.
        moves: scored moves of the run.
    """
    given = dict(settings_of(config))
    if given.get("env.evaluator") in JUDGES:
        given["env.evaluator"] = "builtin-v2"
    found = []
    for entry in json.loads(SUCH_RUNS.read_text("utf-8")):
        settings = entry["settings"]
        others = {name: value for name, value in settings.items()
                  if name not in given or given[name] != value}  # fmt: skip
        others |= {name: value for name, value in SINCE.items()
                   if name not in settings and given.get(name, value) != value}  # fmt: skip
        enough = entry["total_moves"] >= 0.9 * moves
        if enough and all(name.startswith("regularizer.") for name in others):
            found.append((len(others), entry["total_moves"], others, entry))
    if not found or not given:
        return [], {}
    _, _, others, nearest = min(found, key=lambda each: each[:2])
    return [(np.array(nearest["moves"]), np.array(each)) for each in nearest["regret_cp"]], others


def settings_of(
    config: Mapping[str, Any], free: frozenset[str] = FREE, before: str = ""
) -> list[tuple[str, Any]]:
    """Dotted names and values of the settings that are not free.

    Args:
        config: of config.json.
        free: names that are left out.
        before: of the names.
    """
    found: list[tuple[str, Any]] = []
    for name, value in config.items():
        dotted = f"{before}{name}"
        if dotted in free:
            continue
        if isinstance(value, Mapping):
            found += settings_of(value, free, f"{dotted}.")
        else:
            found.append((dotted, value))
    return found
