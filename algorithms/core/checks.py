"""Checks of settings where they are built, and messages for people: each error names value, expectation and remedy.

A dataclass writes the range of a field into its type, `learning_rate: Positive = 2e-3`, and calls `check_fields`.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import math
import re
import textwrap
import typing
from collections.abc import Callable, Iterable
from typing import Annotated, Any, Literal

WIDTH = 80
"""Columns that every terminal has."""

_TIED = "\0"  # in place of a blank at which a line may not end


def message_lines(text: str, indent: str = "  ", head: str = "") -> list[str]:
    """The text in lines of at most 80 columns; a word that is longer than that has its own line.

    Lines that begin with blanks stay as they are: they are rows of a table, or commands to be copied. What stands
    between backticks stays on one line.

    Args:
        text: one or more lines.
        indent: in front of the lines in which a line is continued.
        head: in front of every line of the text, such as the first columns of a table.
    """
    lines = []
    for line in text.split("\n"):
        tied = re.sub(r"`[^`]*`", lambda code: code[0].replace(" ", _TIED), line)
        wrapped = textwrap.wrap(
            tied, WIDTH, initial_indent=head, subsequent_indent=indent, break_long_words=False,
            break_on_hyphens=False,
        )  # fmt: skip
        kept = line.startswith(" ") or not wrapped
        lines += [head + line] if kept else [each.replace(_TIED, " ") for each in wrapped]
    return lines


SAME = {
    "bf16": "bfloat16",
    "fp16": "float16",
    "fp32": "float32",
    "gpu": "cuda",
    "off": "none",
    "tb": "tensorboard",
    "w&b": "wandb",
}
"""Names that everybody knows under another one."""


def canonical(name: str, known: Iterable[str]) -> str | None:
    """The known name that is this one but for capitals, dashes, dots and underscores, or that everybody has for it."""
    names = list(known)
    if name in names:
        return name
    name = SAME.get(name.casefold(), name)
    found = [each for each in names if _folded(each) == _folded(name)]
    return found[0] if len(found) == 1 else None


def nearest(name: str, known: Iterable[str], cutoff: float = 0.55) -> str | None:
    """The known name that was probably meant; None where none is as near as `cutoff` (0 to 1)."""
    names = list(known)
    found = canonical(name, names)
    if found is None:
        by_folded = {_folded(each): each for each in names}
        near = difflib.get_close_matches(_folded(name), by_folded, n=1, cutoff=cutoff)
        found = by_folded[near[0]] if near else None
    return found


def _folded(name: str) -> str:
    return re.sub(r"[-_. ]", "", name.casefold())


def times(size: float) -> str:
    """A factor in plain figures: "1.3", "680"."""
    return f"{size:,.0f}" if size >= 10 else f"{size:.2g}"


_SHOWN = 200
LARGEST = 1e18
"""Finite numbers of settings are not above it: a float32 holds 3.4e38."""


def split_list(text: str, at: str) -> list[str]:
    """The parts of a text between the characters `at` that stand outside of brackets and quotes.

    A bracket or quote that nothing closes is a character as others are.
    """
    parts, open_brackets, quote = [""], 0, ""
    for place, letter in enumerate(text):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"" and letter in text[place + 1 :]:
            quote = letter
        elif letter in "([{":
            open_brackets += 1
        elif letter in ")]}":
            open_brackets -= 1
        elif letter == at and open_brackets == 0:
            parts.append("")
            continue
        parts[-1] += letter
    return text.split(at) if open_brackets else parts


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


def at_most(most: int, why: str) -> Rule:
    """The rule of a number <= `most`, of a field where a larger one can only be a slip."""
    return Rule(lambda value: value <= most, f"{why}; set {{name}} to at most {most:,}")


Positive = Annotated[
    float,
    Rule(
        lambda value: math.isfinite(value) and value > 0,
        "it must be above 0; set it to a positive number",
    ),
]
Count = Annotated[int, whole_number(1, "it must be a whole number above 0")]
Share = Annotated[float, Rule(lambda value: 0 <= value <= 1, "it is a share, in [0, 1]")]
OpenShare = Annotated[float, Rule(lambda share: 0 < share <= 1, "it is a share; set it in (0, 1]")]
NotNegative = Annotated[
    float, Rule(lambda value: 0 <= value < math.inf, "set it to a finite number >= 0")
]
AboveZero = Annotated[float, Rule(lambda value: value > 0, "set it above 0")]
"""Infinity among them: it switches a bound off."""
Sample = Annotated[int, whole_number(1, "a position needs a sample")]
Group = Annotated[int, whole_number(2, "a baseline within the group needs 2 samples")]
Epochs = Annotated[
    int,
    whole_number(1, "a batch is passed over at least once"),
    at_most(1_000, "every pass over a batch costs time, and its samples are soon stale"),
]


def check_numbers(record: Any, section: str = "") -> None:
    """Refuses numbers that no array holds, whatever the field: arguments and errors as of `check_fields`."""
    for field in dataclasses.fields(record):
        value = getattr(record, field.name)
        name = f"{section}.{field.name}" if section else field.name
        if isinstance(value, int):
            holds, says = (
                -(2**63) <= value < 2**63,
                "whole numbers have 64 bits; set it below 2**63",
            )
        elif isinstance(value, float):
            holds, says = (
                not LARGEST < abs(value) < math.inf,
                (
                    f"networks and losses compute in float32, and the square of a number has to fit "
                    f"into it; set it to at most {LARGEST:g}"
                ),
            )
        else:
            continue
        require(holds, f"{name} is {shown(value)}: {says}")


def check_fields(record: Any, section: str = "") -> None:
    """Looks at every number, and at every field whose type has a `Rule` or named choices.

    Args:
        record: a dataclass.
        section: what stands before the fields' names in messages.

    Raises:
        ValueError: a value breaks its rule, or is none of its choices.
    """
    check_numbers(record, section)
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
