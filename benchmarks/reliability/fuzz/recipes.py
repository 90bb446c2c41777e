"""Inputs from recipes: bytes whose meaning is how a valid input is damaged.

Both engines invent recipes, so they know nothing of a target but that. The same recipe gives the same input.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Sequence
from typing import Any

MOST_BYTES = 2**17
"""Of an input; longer ones are cut."""

NUMBERS = (
    "0", "-1", "1", "-0", "0.5", "1e999", "-1e999", "1e100", "NaN", "Infinity", "32767", "32768", "2147483648",
    "9007199254740993", "9223372036854775808", "18446744073709551616", "9" * 30, "7" * 400, "3" * 5000,
    "1_0", "+5", "٣", "²", "0x10", "1e5", "99999999999999999999e-5",
)  # fmt: skip
TEXTS = (
    "", " ", "\t", "\n", "\r", "\r\n", "\0", "\x1b[2J", "\x85", "\u2028", "\u202e", "\ufeff", "é", "♔", "\U0001f4a3",
    '"', "'", "\\", "/", "../", "{", "}", "[", "]", "(", ")", ":", ";", ",", "=", "%s", "{0}", "$", "null", "true",
    "x" * 250, "ab " * 2000,
)  # fmt: skip
TOKENS = (*(text.encode() for text in NUMBERS + TEXTS), b"\xff", b"\xc3", b"\xed\xa0\x80")


class Choices:
    """A recipe, read from its beginning; behind its end every choice is the first."""

    def __init__(self, recipe: bytes) -> None:
        self._recipe, self._at = recipe, 0

    def below(self, number: int) -> int:
        """One of 0 to `number` - 1."""
        size = 1 if number <= 256 else 2 if number <= 65536 else 3
        taken = self._recipe[self._at : self._at + size]
        self._at += size
        return int.from_bytes(taken, "big") % number

    def of(self, options: Sequence[Any]) -> Any:
        """One of the options."""
        return options[self.below(len(options))]

    @property
    def left(self) -> bool:
        """Whether the recipe goes on."""
        return self._at < len(self._recipe)

    def rest(self) -> bytes:
        """What is left of the recipe."""
        taken, self._at = self._recipe[self._at :], len(self._recipe)
        return taken


def damaged(seeds: Sequence[bytes], choices: Choices, tokens: Sequence[bytes] = ()) -> bytes:
    """One of the seeds as it is, with some places changed, or the rest of the recipe as it is.

    Args:
        seeds: valid inputs.
        choices: of the seed, the places and the changes.
        tokens: words of the format, put in beside those of every format.
    """
    kind, data = choices.below(16), choices.of(seeds)
    if kind == 0:
        return data
    if kind == 1:
        return choices.rest()
    words = (*tokens, *tokens, *TOKENS) if tokens else TOKENS
    while choices.left:
        change = choices.of(CHANGES)
        data = change(data, choices, words, seeds)[:MOST_BYTES]
    return data


def _flip(data: bytes, choices: Choices, words: Any, seeds: Any) -> bytes:
    at = choices.below(8 * len(data) or 1)
    byte = data[at // 8 : at // 8 + 1]
    return data[: at // 8] + bytes(each ^ 1 << at % 8 for each in byte) + data[at // 8 + 1 :]


def _span(data: bytes, choices: Choices) -> tuple[int, int]:
    start = choices.below(len(data) + 1)
    return start, start + choices.below(min(64, len(data) + 1 - start) or 1)


def _delete(data: bytes, choices: Choices, words: Any, seeds: Any) -> bytes:
    start, end = _span(data, choices)
    return data[:start] + data[end:]


def _repeat(data: bytes, choices: Choices, words: Any, seeds: Any) -> bytes:
    start, end = _span(data, choices)
    times = choices.of((1, 1, 1, 2, 3, 8, 70, 1100, 20_000))
    return data[:end] + data[start:end] * min(times, MOST_BYTES) + data[end:]


def _insert(data: bytes, choices: Choices, words: Sequence[bytes], seeds: Any) -> bytes:
    at = choices.below(len(data) + 1)
    return data[:at] + choices.of(words) + data[at:]


def _replace(data: bytes, choices: Choices, words: Sequence[bytes], seeds: Any) -> bytes:
    """With another word in place of a word or a number: most faults of a reader need just that."""
    at = choices.below(len(data) + 1)
    start, end = at, at
    while start > 0 and data[start - 1 : start].isalnum():
        start -= 1
    while end < len(data) and data[end : end + 1].isalnum():
        end += 1
    return data[:start] + choices.of(words) + data[end:]


def _move(data: bytes, choices: Choices, words: Any, seeds: Any) -> bytes:
    start, end = _span(data, choices)
    piece, rest = data[start:end], data[:start] + data[end:]
    at = choices.below(len(rest) + 1)
    return rest[:at] + piece + rest[at:]


def _splice(data: bytes, choices: Choices, words: Any, seeds: Sequence[bytes]) -> bytes:
    other = choices.of(seeds)
    return data[: choices.below(len(data) + 1)] + other[choices.below(len(other) + 1) :]


def _cut(data: bytes, choices: Choices, words: Any, seeds: Any) -> bytes:
    return data[: choices.below(len(data) + 1)]


def _byte(data: bytes, choices: Choices, words: Any, seeds: Any) -> bytes:
    at = choices.below(len(data) + 1)
    return data[:at] + bytes([choices.below(256)]) + data[at + 1 :]


CHANGES: tuple[Callable[[bytes, Choices, Any, Any], bytes], ...] = (
    _replace, _replace, _insert, _flip, _byte, _delete, _repeat, _move, _splice, _cut,
)  # fmt: skip

ODD_VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 0.5, -0.0, 1e-320, 1e100, 1e308, 10**20, 2**53, 2**63, -(2**63), 10**400, float("nan"),
    float("inf"), -float("inf"), "", "0", "null", "a:b", "module:Name", "x" * 250, "y" * 1100, "é\u2028\0", "\ud800",
    [], {}, [[]], [None], [1, 2, 3], {"": 0}, {"name": 1}, {"k" * 250: 1},
)  # fmt: skip


def damaged_json(seeds: Sequence[Any], choices: Choices, values: Sequence[Any] = ()) -> Any:
    """JSON values like one of the seeds, with some of them taken out, replaced, renamed, copied or repeated.

    Args:
        seeds: valid values; they stay as they are.
        choices: of the seed, the places and the changes.
        values: of the format, put in beside those of every format.
    """
    whole = {"": copy.deepcopy(choices.of(seeds))}
    options = (*values, *values, *ODD_VALUES) if values else ODD_VALUES
    while choices.left:
        home, key = _place(whole, choices)
        kind = choices.below(8)
        if kind <= 3:
            home[key] = copy.deepcopy(choices.of(options))
        elif kind == 4 and home is not whole:
            del home[key]
        elif kind == 5 and isinstance(home, dict) and home is not whole:
            home[choices.of(("", "name", "sha256", "x" * 250, key + "_", *list(home)[:8]))] = (
                home.pop(key)
            )
        elif kind == 6:
            other, at = _place(whole, choices)
            other[at] = copy.deepcopy(home[key])
        elif isinstance(home[key], list):
            home[key] = (home[key] * choices.of((2, 3, 40, 300)))[:300]
        else:
            home[key] = (
                {"a": home[key]} if choices.below(2) else [home[key]] * choices.of((1, 2, 20))
            )
    return whole[""]


def _place(whole: dict[str, Any], choices: Choices) -> tuple[Any, Any]:
    """(object or list, key or index) somewhere within."""
    home, key = whole, ""
    while isinstance(home[key], dict | list) and home[key] and choices.below(6):
        inner = home[key]
        home, key = (
            inner,
            choices.of(list(inner)) if isinstance(inner, dict) else choices.below(len(inner)),
        )  # type: ignore[assignment]
    return home, key


def dumped(values: Any) -> bytes:
    """JSON text; characters outside ASCII, surrogates that stand alone among them, are escaped."""
    return json.dumps(values).encode()
