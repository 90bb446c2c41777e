"""Reward terms of one's own, and sums of terms as text: `win_prob_delta+0.5*mymodule:my_term`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from chess_env.custom_objects import is_spec, load_object, shown

RewardTerm: TypeAlias = Callable[[NDArray[np.int32], NDArray[np.int32]], NDArray[np.float32]]
"""A term of one's own: (after_cp, before_cp), int32 [N] each -> float32 [N], finite.

Both scores are centipawns in the view of the player who moved, after the move and before it; mate in n is
+-(10000 - n), and where the rules end the game after_cp is 10000 for giving mate and 0 for a draw. Row i of the
answer depends on row i alone.
"""

_NUMBER = r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_NAME = r"[^\W\d][\w.]*(?::[^\W\d][\w.]*)?"
_PART = re.compile(rf"\s*(?P<sign>[+-]?)\s*(?:(?P<weight>{_NUMBER})\s*\*\s*)?(?P<name>{_NAME})\s*")


def parse_sum(text: str) -> dict[str, float]:
    """Term name -> weight, in the order of the text; the terms' names are not looked up.

    Args:
        text: terms joined by + and -, each with `NUMBER*` in front where its weight is not 1.

    Raises:
        ValueError: not such a sum, or a term that stands there twice.
    """
    weights: dict[str, float] = {}
    position = 0
    while position < len(text):
        part = _PART.match(text, position)
        if part is None or (position > 0 and not part["sign"]):
            raise ValueError(
                f"reward is {shown(text)}, of which {shown(text[position:])} is no term: expected terms joined by + "
                "and -, each NAME or NUMBER*NAME, as in win_prob_delta+0.5*cp_delta"
            )
        if part["name"] in weights:
            raise ValueError(
                f"reward is {shown(text)}: {part['name']} stands there twice; add its weights up"
            )
        weight = float(part["weight"] or 1)
        weights[part["name"]] = -weight if part["sign"] == "-" else weight
        position = part.end()
    if not weights:
        raise ValueError(f"reward is {shown(text)}: name at least one term, such as win_prob_delta")
    return weights


def sum_text(weights: Mapping[str, float]) -> str:
    """The text that `parse_sum` reads back into these weights, exactly."""
    text = ""
    for name, weight in weights.items():
        sign = "-" if weight < 0 else "+" if text else ""
        size = abs(float(weight))
        text += f"{sign}{name}" if size == 1 else f"{sign}{size!r}*{name}"
    return text


def load_term(term: Any, known: Sequence[str]) -> RewardTerm:
    """The function that a term is, or that `module:name` names.

    Args:
        term: A function or a name.
        known: The project's own terms, for the message.

    Raises:
        ValueError: There is none.
    """
    if isinstance(term, str) and not is_spec(term):
        raise ValueError(
            f"reward term is {shown(term)}: expected one of {', '.join(known)}, or module:name of your own"
        )
    found: RewardTerm = load_object(term, "reward term") if isinstance(term, str) else term
    if not callable(found) or isinstance(found, type):
        raise ValueError(
            f"reward term {shown(term)} is a {type(found).__name__}: expected a function "
            "(after_cp, before_cp) -> float32 [N]"
        )
    return found


def paid_by(
    term: RewardTerm, name: str, after_cp: NDArray[Any], before_cp: NDArray[Any]
) -> NDArray[np.float32]:
    """float32 [N]: what the term pays, after its dtype, shape and values were checked.

    Args:
        term: The function.
        name: Its name, for the message.
        after_cp: int [N], scores after the moves, mover's view.
        before_cp: int [N], scores before them, mover's view.

    Raises:
        ValueError: The term gives another dtype or shape, or a value that is not finite.
    """
    after, before = after_cp.astype(np.int32), before_cp.astype(np.int32)
    paid = term(after, before)
    wanted = f"float32 {list(before.shape)}, a finite value for each move"
    if not isinstance(paid, np.ndarray):
        raise ValueError(
            f"reward term {shown(name)} gave a {type(paid).__name__}: expected {wanted}"
        )
    if paid.dtype != np.float32 or paid.shape != before.shape:
        raise ValueError(
            f"reward term {shown(name)} gave {paid.dtype} {list(paid.shape)}: expected {wanted}"
        )
    if not np.isfinite(paid).all():
        row = int((~np.isfinite(paid)).argmax())
        raise ValueError(
            f"reward term {shown(name)} gave {paid[row]} for after_cp {after[row]} and before_cp {before[row]}: "
            f"expected {wanted}"
        )
    return paid
