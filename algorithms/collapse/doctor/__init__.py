"""The doctor: what a run's record says of collapse and its causes, without looking at a setting."""

from algorithms.collapse.doctor.diagnosis import Diagnosis, diagnose, diagnose_run
from algorithms.collapse.doctor.rules import RULES
from algorithms.collapse.doctor.watch import Watch

__all__ = ["RULES", "Diagnosis", "Watch", "diagnose", "diagnose_run"]
