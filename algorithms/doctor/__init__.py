"""The doctor: collapse and its causes, diagnosed from a run's record alone, without its settings."""

from algorithms.doctor.diagnosis import RULES, Diagnosis, Watch, diagnose, diagnose_run

__all__ = ["RULES", "Diagnosis", "Watch", "diagnose", "diagnose_run"]
