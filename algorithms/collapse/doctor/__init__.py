"""The doctor: what a run's record says of collapse and its causes, without looking at a setting."""

from algorithms.collapse.doctor.diagnosis import RULES, Diagnosis, Watch, diagnose, diagnose_run

__all__ = ["RULES", "Diagnosis", "Watch", "diagnose", "diagnose_run"]
