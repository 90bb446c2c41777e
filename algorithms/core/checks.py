"""Checks of settings where they are built: each error names value, expectation and remedy.

A dataclass writes the range of a field into its type, `learning_rate: Positive = 2e-3`, and calls `check_fields`.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import typing
from collections.abc import Callable, Iterable
from typing import Annotated, Any, Literal

from algorithms.core.algorithm import Controls
from algorithms.core.messages import nearest

_SHOWN = 200


@dataclasses.dataclass(frozen=True)
class Rule:
    """What a field's value must satisfy where it is not None.

    Attributes:
        holds: whether a value is right.
        says: the end of the error, behind "NAME is VALUE: "; {name} stands for the field's name.
    """

    holds: Callable[[Any], bool]
    says: str


def shown(value: object) -> str:
    """`repr(value)`, cut behind 200 characters: what a message repeats of an input."""
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def whole_number(least: int, why: str) -> Rule:
    """The rule of an int >= `least`."""

    def holds(value: Any) -> bool:
        return isinstance(value, int) and value >= least

    return Rule(holds, f"{why}; set {{name}} >= {least}")


Positive = Annotated[
    float,
    Rule(
        lambda value: math.isfinite(value) and value > 0,
        "it must be above 0; set it to a positive number",
    ),
]
Count = Annotated[int, whole_number(1, "it must be a whole number above 0")]
Share = Annotated[float, Rule(lambda value: 0 <= value <= 1, "it is a share, in [0, 1]")]


def check_fields(record: Any, section: str = "") -> None:
    """Looks at every field whose type has a `Rule` or named choices.

    Args:
        record: a dataclass.
        section: what stands before the fields' names in messages.

    Raises:
        ValueError: a value breaks its rule, or is none of its choices.
    """
    for field, rules, choices in _rules_of(type(record)):  # type: ignore[arg-type]
        name, value = f"{section}.{field}" if section else field, getattr(record, field)
        if value is None:
            continue
        if choices:
            require_choice(name, value, choices)
        for rule in rules:
            require(rule.holds(value), f"{name} is {shown(value)}: {rule.says.format(name=name)}")


@functools.cache
def _rules_of(cls: Any) -> list[tuple[str, list[Rule], tuple[str, ...]]]:
    """(field, its rules, its choices), in the order of the fields."""
    hints = typing.get_type_hints(cls, include_extras=True)
    found = []
    for field in dataclasses.fields(cls):
        kinds = _kinds(hints[field.name])
        rules = [extra for kind in kinds for extra in getattr(kind, "__metadata__", ())]
        choices = [c for kind in kinds if typing.get_origin(kind) is Literal for c in kind.__args__]
        found.append((field.name, [r for r in rules if isinstance(r, Rule)], tuple(choices)))
    return found


def _kinds(hint: Any) -> list[Any]:
    """The type itself and what it is made of."""
    inside = typing.get_args(hint) if typing.get_origin(hint) is not Literal else ()
    return [hint, *(kind for part in inside for kind in _kinds(part))]


def require(condition: bool, message: str) -> None:
    """Raises ValueError(message) unless the condition holds."""
    if not condition:
        raise ValueError(message)


def require_choice(name: str, value: object, choices: Iterable[str]) -> None:
    """Raises ValueError, suggesting the nearest choice, unless `value` is one of them."""
    known = list(choices)
    if value in known:
        return
    near = nearest(str(value), known, cutoff=0.4)  # of few choices, a guess costs nothing
    meant = f"; did you mean {near!r}?" if near else ""
    listed = ", ".join(repr(choice) for choice in known)
    raise ValueError(f"{name} is {shown(value)}: expected one of {listed}{meant}")


def require_count(name: str, value: int, minimum: int, why: str) -> None:
    """Raises ValueError unless `value` is a whole number >= `minimum`; `why` ends the sentence."""
    if not isinstance(value, int) or value < minimum:
        raise ValueError(f"{name} is {shown(value)}: {why}; set {name} >= {minimum}")


def require_between(name: str, value: float, low: float, high: float) -> None:
    """Raises ValueError unless `value` is in [`low`, `high`] (open at an infinite end)."""
    if not (low <= value <= high and math.isfinite(value)):
        inside = f"in [{low}, {high}]" if math.isfinite(high) else f"to a finite number >= {low}"
        raise ValueError(f"{name} is {shown(value)}: set it {inside}")


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
