"""Choices on tuning seeds before a comparison: learning rates, and bonuses of equal strength."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from algorithms.comparison.grid_runs import GridResult, GridRun
from algorithms.comparison.jobs import variant_runs
from algorithms.comparison.plan import TUNING_SEEDS
from algorithms.comparison.readings import UnreadableError, gradient_norms, read_run
from algorithms.comparison.variants import (
    Variant,
    moves_per_update,
    with_intervals,
)
from algorithms.reports.run_files import read_metrics

CALIBRATION_UPDATES = 40
CALIBRATION_INTERVAL = 2

RunAll = Callable[[Sequence[GridRun], Path], GridResult]


class TuningError(RuntimeError):
    """Nothing could be chosen; the message says for what, and where to look."""


def tune(
    variants: Sequence[Variant], rates: Sequence[float], out: Path, run_all: RunAll
) -> dict[str, dict[str, Any]]:
    """{base: {"learning_rate": chosen, "percent_of_start": {rate: mean over the tuning seeds}}}.

    The chosen rate has the lowest last held-out regret. A rate whose run breaks on a seed is not chosen.

    Args:
        variants: one for each base, without an entropy bonus.
        rates: the step sizes that are tried.
        out: folder of these runs.
        run_all: runs a grid.

    Raises:
        TuningError: every rate of a variant broke.
    """
    candidates = {
        (variant.base, rate): dataclasses.replace(
            variant, name=f"{variant.base}+learning_rate={rate:g}"
        ).with_settings({"optimizer.learning_rate": rate})
        for variant in variants
        for rate in rates
    }
    grid_runs = {key: variant_runs(each, TUNING_SEEDS, out) for key, each in candidates.items()}
    run_all([grid_run for row in grid_runs.values() for grid_run in row], out)
    chosen: dict[str, dict[str, Any]] = {}
    for variant in variants:
        found: dict[float, float] = {}
        for rate in rates:
            key = variant.base, rate
            config = candidates[key].config
            pairs = zip(grid_runs[key], TUNING_SEEDS, strict=True)
            try:
                ends = [read_run(c, variant.base, s, config).percent_of_start for c, s in pairs]
            except UnreadableError:
                continue  # run_all has named the broken run
            found[rate] = statistics.mean(ends)
        if not found:
            raise TuningError(f"{variant.base}: no learning rate of {tuple(rates)} ran; see {out}")
        chosen[variant.base] = {
            "learning_rate": min(found, key=lambda rate: (found[rate], rate)),
            "percent_of_start": {f"{rate:g}": value for rate, value in found.items()},
        }
    return chosen


def calibrate(
    variants: Sequence[Variant], grad_share: float, out: Path, run_all: RunAll
) -> dict[str, dict[str, float]]:
    """{base: {"ent_coef": ..., ...}}: coefficients that give the bonus the same share everywhere.

    A gradient norm is linear in its coefficient. With the ratio q of bonus to policy gradient norm at
    the coefficient c, c s / ((1 - s) q) gives the bonus the share s of the two. q is the median over
    the looks of short runs at c; later in a run it drifts, which each run's own `grad_share` tells.

    Args:
        variants: those of the treatment, each with the coefficient c.
        grad_share: s, inside (0, 1).
        out: folder of these runs.
        run_all: runs a grid.

    Raises:
        TuningError: a variant has no run with both gradients.
    """
    short = [_calibration_column(variant) for variant in variants]
    grid_runs = {each.base: variant_runs(each, TUNING_SEEDS, out) for each in short}
    run_all([grid_run for row in grid_runs.values() for grid_run in row], out)
    found = {}
    for variant in short:
        norms = [
            pair
            for grid_run in grid_runs[variant.base]
            if grid_run.result() is not None
            for pair in gradient_norms(read_metrics(grid_run.folder))
        ]
        if not norms:
            raise TuningError(
                f"{variant.base}: its calibration runs show no gradient of both bonus and policy; see {out}"
            )
        found[variant.base] = coefficient(norms, variant.config.regularizer.ent_coef, grad_share)
    return found


def coefficient(
    norms: Sequence[tuple[float, float]], probe: float, grad_share: float
) -> dict[str, float]:
    """The coefficient for `grad_share` from (bonus, policy) gradient norms at the coefficient `probe`."""
    ratio = statistics.median(bonus / policy for bonus, policy in norms)
    return {
        "ent_coef": probe * grad_share / ((1 - grad_share) * ratio),
        "probe_ent_coef": probe,
        "probe_norm_ratio": ratio,
        "looks": len(norms),
    }


def with_choices(
    variants: Sequence[Variant],
    rates: Mapping[str, Mapping[str, Any]],
    coefficients: Mapping[str, Mapping[str, float]],
) -> tuple[Variant, ...]:
    """The variants with the learning rates of their bases, and `share` with its coefficients."""
    done = []
    for variant in variants:
        settings: dict[str, Any] = {}
        if variant.base in rates:
            settings["optimizer.learning_rate"] = rates[variant.base]["learning_rate"]
        if variant.family == "share" and variant.base in coefficients:
            settings["regularizer.ent_coef"] = coefficients[variant.base]["ent_coef"]
        done.append(variant.with_settings(settings))
    return tuple(done)


def _calibration_column(variant: Variant) -> Variant:
    """The first updates of a variant's run, looked at often, at the step size of its start."""
    config = variant.config
    moves = min(config.total_moves, CALIBRATION_UPDATES * moves_per_update(config))
    short = with_intervals(dataclasses.replace(config, total_moves=moves))
    short = dataclasses.replace(
        short,
        diagnostics_interval_updates=min(CALIBRATION_INTERVAL, short.diagnostics_interval_updates),
        eval_interval_updates=CALIBRATION_UPDATES,
    )
    return dataclasses.replace(variant, config=short).with_settings({"optimizer.lr_final": None})
