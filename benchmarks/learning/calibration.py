"""How often the intervals and tests of algorithms.reports are right: simulated and exact.

python -m benchmarks.learning.calibration --json benchmarks/results/calibration.json
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from algorithms.reports import (
    difference_interval,
    holm,
    interquartile_mean,
    judge_peak,
    judge_peak_count,
    probability_of_improvement,
    sign_flip_p,
)
from algorithms.reports.scores import Floats
from algorithms.reports.student_t import student_t_quantile
from benchmarks.records.report import print_table, save

Draw = Callable[[np.random.Generator, tuple[int, ...]], Floats]
SEEDS = (3, 5, 8, 10, 16, 20)
ALPHA = 0.05
PAIRS = ((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3))
GAMES, RATE, EVALUATIONS = 64, 0.03, 21
STRATA, SHARED = 4, 0.5


def with_outliers(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """Normal, but a fifth of the runs end somewhere else, as collapsed ones do."""
    return rng.normal(size=shape) + 4.0 * (rng.random(shape) < 0.2)


DISTRIBUTIONS: dict[str, Draw] = {
    "normal": lambda rng, shape: rng.normal(size=shape),
    "t, 3 degrees": lambda rng, shape: rng.standard_t(3, size=shape),
    "gamma, shape 4": lambda rng, shape: rng.gamma(4.0, size=shape),
    "exponential": lambda rng, shape: rng.exponential(size=shape),
    "a fifth 4 sd off": with_outliers,
}


def truth(draw: Draw) -> tuple[float, float, float]:
    """(mean, interquartile mean, standard deviation) of a distribution, from 4 million values."""
    values = draw(np.random.default_rng(99), (4_000_000,))
    return float(values.mean()), float(interquartile_mean(values)), float(values.std())


def percent(hits: float) -> float:
    return round(100.0 * float(hits), 1)


def percentile_interval(values: Floats, rng: np.random.Generator) -> tuple[float, float]:
    """What rliable does: quantiles of the resampled interquartile means."""
    drawn = rng.integers(0, len(values), (1000, len(values)))
    low, high = np.quantile(interquartile_mean(values[drawn]), [0.025, 0.975])
    return float(low), float(high)


def interval_rows(truths: int, rng: np.random.Generator) -> list[dict[str, Any]]:
    """Coverage of the interquartile mean, and of two other intervals for comparison."""
    rows = []
    for name, draw in DISTRIBUTIONS.items():
        mean, iqm, _ = truth(draw)
        for seeds in SEEDS:
            samples = draw(rng, (truths, seeds))
            intervals = [difference_interval(sample) for sample in samples]
            percentile = [percentile_interval(sample, rng) for sample in samples]
            half = student_t_quantile(0.975, seeds - 1) * samples.std(1, ddof=1) / seeds**0.5
            rows.append(
                {
                    "differences": name,
                    "seeds": seeds,
                    "interval": intervals[0].method,
                    "covers_iqm_%": percent(
                        np.mean([each.low <= iqm <= each.high for each in intervals])
                    ),
                    "percentile_bootstrap_covers_iqm_%": percent(
                        np.mean([low <= iqm <= high for low, high in percentile])
                    ),
                    "student_t_covers_mean_%": percent(
                        np.mean(np.abs(samples.mean(1) - mean) <= half)
                    ),
                }
            )
        print_table(rows[-len(SEEDS) :])
    return rows


def strata_rows(truths: int, rng: np.random.Generator) -> list[dict[str, Any]]:
    """Coverage when strata share a part of their seed's noise: seeds drawn whole, or stratum by stratum."""
    rows = []
    for seeds in SEEDS:
        shared = math.sqrt(SHARED) * rng.normal(size=(truths, seeds, 1))
        cells = shared + math.sqrt(1 - SHARED) * rng.normal(size=(truths, seeds, STRATA))
        whole = [difference_interval(sample.mean(1)) for sample in cells]
        # Student t of the mean over independent strata: what ignoring the common seeds comes to.
        error = np.sqrt(cells.var(1, ddof=1).sum(1) / seeds) / STRATA
        half = student_t_quantile(0.975, STRATA * (seeds - 1)) * error
        rows.append(
            {
                "strata": STRATA,
                "seeds": seeds,
                "seeds_drawn_whole_cover_%": percent(
                    np.mean([each.low <= 0.0 <= each.high for each in whole])
                ),
                "strata_drawn_apart_cover_%": percent(np.mean(np.abs(cells.mean((1, 2))) <= half)),
            }
        )
    print_table(rows)
    return rows


def claimed(differences: Floats) -> tuple[Floats, Floats]:
    """bool `[truths, 6]` twice: Holm's rejections, and those whose interval excludes 0 too."""
    rejected = holm(sign_flip_p(differences)) <= ALPHA
    held = rejected.copy()
    for place in np.argwhere(rejected):
        held[tuple(place)] = difference_interval(differences[tuple(place)]).excludes(0.0)
    return rejected, held


def family_rows(truths: int, rng: np.random.Generator) -> list[dict[str, Any]]:
    """Error rates over the six pairs of four algorithms on common seeds, and what is found."""
    rows = []
    mixed = list(DISTRIBUTIONS.values())[:4]
    columns: dict[str, list[Draw]] = {name: [draw] * 4 for name, draw in DISTRIBUTIONS.items()}
    columns["four different shapes"] = mixed
    null = [index for index, pair in enumerate(PAIRS) if 3 not in pair]
    moved = [index for index, pair in enumerate(PAIRS) if 3 in pair]
    for name, draws in columns.items():
        figures = [truth(draw) for draw in draws]
        for seeds in SEEDS:
            scores = np.stack(
                [
                    (draw(rng, (truths, seeds)) - iqm) / deviation
                    for draw, (_, iqm, deviation) in zip(draws, figures, strict=True)
                ]
            )
            scores += rng.normal(size=(truths, seeds))  # what common random numbers share
            row: dict[str, Any] = {"scores": name, "seeds": seeds}
            for shift in (0.0, 2.0):
                scores[3] += shift
                differences = np.stack([scores[a] - scores[b] for a, b in PAIRS], axis=1)
                rejected, held = claimed(differences)
                if not shift:
                    row["holm_error_%"] = percent(rejected.any(1).mean())
                    row["claim_error_%"] = percent(held.any(1).mean())
                else:
                    row["claim_error_one_2_sd_better_%"] = percent(held[:, null].any(1).mean())
                    row["claims_of_2_sd_%"] = percent(held[:, moved].mean())
            rows.append(row)
        print_table(rows[-len(SEEDS) :])
    return rows


def improvement_rows() -> list[dict[str, Any]]:
    """Exact coverage of the probability of improvement, over true probabilities 0.5 to 0.99."""
    rows = []
    truths = np.linspace(0.5, 0.99, 491)
    for seeds in SEEDS:
        wins = np.arange(seeds + 1)
        ends = []
        for won in wins:
            signs = np.where(np.arange(seeds) < won, 1.0, -1.0)
            interval = probability_of_improvement(signs, higher_is_better=True)[1]
            ends.append((interval.low, interval.high))
        low, high = np.array(ends).T
        chances = np.array([math.comb(seeds, int(won)) for won in wins])
        chances = chances * truths[:, None] ** wins * (1 - truths[:, None]) ** (seeds - wins)
        inside = (low <= truths[:, None]) & (truths[:, None] <= high)
        covered = (chances * inside).sum(1)
        rows.append(
            {
                "seeds": seeds,
                "improvement_covered_on_average_%": percent(covered.mean()),
                "at_the_worst_truth_%": percent(covered.min()),
            }
        )
    print_table(rows)
    return rows


def peak_rows(truths: int, rng: np.random.Generator) -> list[dict[str, Any]]:
    """False alarms of the peak check on runs whose level never moved, or rose on a line."""
    noise = rng.normal(size=(truths, EVALUATIONS))
    heavy = rng.standard_t(5, size=(truths, EVALUATIONS))
    line = 0.3 * np.arange(EVALUATIONS)
    counts = rng.binomial(GAMES, RATE, size=(truths, EVALUATIONS))
    judged = {
        "normal, noise known": [
            judge_peak(row, higher_is_better=True, standard_error=1.0) for row in noise
        ],
        "normal": [judge_peak(row, higher_is_better=True) for row in noise],
        "normal on a line": [
            judge_peak(row, higher_is_better=True, trend=True) for row in noise + line
        ],
        "t, 5 degrees": [judge_peak(row, higher_is_better=True) for row in heavy],
        f"wins of {GAMES} games at {RATE:.0%}": [judge_peak_count(row, GAMES) for row in counts],
    }
    rows = [
        {
            "evaluations": EVALUATIONS,
            "scores": name,
            "flat_run_s_peak_called_real_%": percent(np.mean([not p.is_noise for p in peaks])),
        }
        for name, peaks in judged.items()
    ]
    print_table(rows)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--truths", type=int, default=2000, help="simulated for each figure")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, default=None, help="write the figures here too")
    arguments = parser.parse_args()
    rng = np.random.default_rng(arguments.seed)
    rows = interval_rows(arguments.truths, rng)
    rows += strata_rows(arguments.truths, rng)
    rows += family_rows(arguments.truths, rng)
    rows += improvement_rows()
    rows += peak_rows(arguments.truths, rng)
    save(
        arguments.json,
        "calibration",
        rows,
        truths=arguments.truths,
        seed=arguments.seed,
        level=0.95,
        alpha=ALPHA,
    )


if __name__ == "__main__":
    main()
