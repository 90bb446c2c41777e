"""The look before the first update: is this run able to learn what it is meant to learn?"""

from algorithms.training.preflight.findings import Finding, PreflightError, Report
from algorithms.training.preflight.first_look import look, preflight

__all__ = ["Finding", "PreflightError", "Report", "look", "preflight"]
