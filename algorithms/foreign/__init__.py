"""Runs of other trainers: their logs read, and diagnosed as far as such a log tells."""

from algorithms.foreign.diagnosis import ForeignDiagnosis, diagnose_log
from algorithms.foreign.reading import read_log

__all__ = ["ForeignDiagnosis", "diagnose_log", "read_log"]
