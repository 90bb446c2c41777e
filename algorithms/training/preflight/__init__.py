"""Checks before the first update: can this run learn what it should learn?"""

from algorithms.training.preflight.findings import Finding, PreflightError, Report
from algorithms.training.preflight.first_look import look, preflight

__all__ = ["Finding", "PreflightError", "Report", "look", "preflight"]
