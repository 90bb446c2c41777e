"""Run folders in, statistics, figures and pages out: reads files only, no torch and no chess."""

from algorithms.reports.pairwise import Comparison, claims, compare
from algorithms.reports.statistics import Peak, Scores, judge_peak

__all__ = ["Comparison", "Peak", "Scores", "claims", "compare", "judge_peak"]
