"""Run folders in, statistics, figures and pages out: reads files only, no torch and no chess."""

from algorithms.reports.elo import EloDifference, PairScore, count_pairs, elo_of, judge_pairs
from algorithms.reports.pairwise import Comparison, claims, compare
from algorithms.reports.statistics import (
    Interval,
    Peak,
    Scores,
    difference_interval,
    holm,
    interquartile_mean,
    judge_peak,
    minimum_seeds,
    paired_differences,
    probability_of_improvement,
    sign_flip_p,
)

__all__ = [
    "Comparison",
    "EloDifference",
    "Interval",
    "PairScore",
    "Peak",
    "Scores",
    "claims",
    "compare",
    "count_pairs",
    "difference_interval",
    "elo_of",
    "holm",
    "interquartile_mean",
    "judge_pairs",
    "judge_peak",
    "minimum_seeds",
    "paired_differences",
    "probability_of_improvement",
    "sign_flip_p",
]
