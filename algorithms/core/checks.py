"""Checks of settings where they are built: each error names value, expectation and remedy."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable

from algorithms.core.algorithm import Controls


def require(condition: bool, message: str) -> None:
    """Raises ValueError(message) unless the condition holds."""
    if not condition:
        raise ValueError(message)


def require_choice(name: str, value: object, choices: Iterable[str]) -> None:
    """Raises ValueError, suggesting the nearest choice, unless `value` is one of them."""
    known = list(choices)
    if value in known:
        return
    near = difflib.get_close_matches(str(value), known, n=1, cutoff=0.0)[0]
    listed = ", ".join(repr(choice) for choice in known)
    raise ValueError(f"{name} is {value!r}: expected one of {listed}; did you mean {near!r}?")


def require_count(name: str, value: int, minimum: int, why: str) -> None:
    """Raises ValueError unless `value` is a whole number >= `minimum`; `why` ends the sentence."""
    if not isinstance(value, int) or value < minimum:
        raise ValueError(f"{name} is {value!r}: {why}; set {name} >= {minimum}")


def require_between(name: str, value: float, low: float, high: float) -> None:
    """Raises ValueError unless `value` is in [`low`, `high`] (open at an infinite end)."""
    if not (low <= value <= high and math.isfinite(value)):
        inside = f"in [{low}, {high}]" if math.isfinite(high) else f"to a finite number >= {low}"
        raise ValueError(f"{name} is {value!r}: set it {inside}")


def require_shares(**values: float) -> None:
    """Raises ValueError unless every value, given by its field's name, is in [0, 1]."""
    for name, value in values.items():
        require_between(name, value, 0.0, 1.0)


def require_sampling(group_size: int, update_epochs: int, *, least: int = 2) -> None:
    """Raises ValueError unless groups have `least` samples or more and batches one pass or more."""
    why = (
        "a baseline within the group needs 2 samples" if least > 1 else "a position needs a sample"
    )
    require_count("group_size", group_size, least, why)
    require_count("update_epochs", update_epochs, 1, "a batch is passed over at least once")


def clip_controls(
    clip_range: float, clip_range_high: float | None, target_kl: float | None = None
) -> Controls:
    """Controls with these bounds; None repeats the lower distance, or never stops early.

    Raises:
        ValueError: they make no range.
    """
    return Controls(
        clip_low=clip_range,
        clip_high=clip_range if clip_range_high is None else clip_range_high,
        target_kl=math.inf if target_kl is None else target_kl,
    )
