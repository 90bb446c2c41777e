"""The doctor: collapse and its causes, diagnosed from a run's record alone, without its settings."""

from algorithms.collapse.doctor.diagnosis import Diagnosis, diagnose, diagnose_run
from algorithms.collapse.doctor.rules import RULES
from algorithms.collapse.doctor.watch import Watch

__all__ = ["RULES", "Diagnosis", "Watch", "diagnose", "diagnose_run"]
