"""Collapse on purpose: causes that can be switched on, each with its cured twin and its predicates.

The predicates were written down before the runs that judge them (docs/causes.md has the results).
Figures of others are from the post-mortems of an earlier chess project and from a blog post on
entropy collapse; which is which stands at each figure.
"""

from algorithms.collapse.catalogue import REGULARISERS, REPLAYS, SAMPLES, SIGNALS, STEPS
from algorithms.collapse.cause import Cause

_ALL = (*SAMPLES, *STEPS, *REGULARISERS, *SIGNALS)

CAUSES: dict[str, Cause] = {cause.name: cause for cause in _ALL}
"""Name -> cause, each with its twin."""

COMPOSITES: dict[str, Cause] = {cause.name: cause for cause in REPLAYS}
"""Name -> a run with several causes at once."""

DOCTOR_CLASSES: tuple[str, ...] = tuple(dict.fromkeys(cause.doctor_class for cause in _ALL))
"""The classes that the doctor can tell apart: at most 12."""
