"""The doctor: collapse and its causes, diagnosed from a run's record alone, without its settings."""

from algorithms.doctor.diagnosis import RULES, Diagnosis, diagnose, diagnose_run
from algorithms.doctor.watch import Watch

__all__ = ["RULES", "Diagnosis", "Watch", "diagnose", "diagnose_run"]
