"""The rules of the doctor, in the order of their rank: what corrupts the samples comes first."""

from algorithms.collapse.doctor.finding import Rule
from algorithms.collapse.doctor.regulariser_rules import REGULARISER_RULES
from algorithms.collapse.doctor.sampler_rules import SAMPLER_RULES
from algorithms.collapse.doctor.signal_rules import SIGNAL_RULES
from algorithms.collapse.doctor.step_rules import STEP_RULES

RULES: tuple[Rule, ...] = (*SAMPLER_RULES, *REGULARISER_RULES, *SIGNAL_RULES, *STEP_RULES)
"""Each tests one cause by measurements, and none reads a setting of the run."""
