"""Evaluators: scores of positions, by real Stockfish processes (here or on a Ray cluster) or by the built-in search.

`make_evaluator("stockfish:depth=4")` is the usual way in. See `protocol.py` for units and signs.
"""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

from chess_env.custom_objects import is_spec, make_object, meant, protocol_members, shown
from chess_env.evaluators.cache import CachedEvaluator
from chess_env.evaluators.protocol import (
    Evaluator,
    Positions,
    RuleAwareEvaluator,
    Scores,
    pack_positions,
)
from chess_env.evaluators.stockfish import StockfishEvaluator
from chess_env.evaluators.uci import MATE_SCORE, MAX_CP, EngineError, find_stockfish

__all__ = [
    "MATE_SCORE",
    "MAX_CP",
    "CachedEvaluator",
    "EngineError",
    "Evaluator",
    "Positions",
    "RuleAwareEvaluator",
    "Scores",
    "StockfishEvaluator",
    "find_stockfish",
    "is_evaluator_name",
    "is_foreign_evaluator",
    "make_evaluator",
    "pack_positions",
]

_NAMES = (
    '"auto", "builtin", "stockfish", "stockfish:depth=4", "stockfish:nodes=1000,pure=False,path=/x/stockfish", '
    'module:Name of your own, or "ray:" and one of these (but "auto") for the engines of a Ray cluster'
)
_KINDS = {
    "depth": int,
    "nodes": int,
    "hash_mb": int,
    "deadline_s": float,
    "pure": bool,
    "path": str,
}
_KNOWN = ("auto", "stockfish", "builtin", "ray")
_said: set[str] = set()


# A comma ends a value only before another setting, so that a path may hold both; quotes hold any value together.
_SETTING = re.compile(
    rf"""\s*(?P<key>\w+)\s*=\s*(?:"(?P<double>[^"]*)"|'(?P<single>[^']*)'|(?P<bare>.*?))\s*"""
    rf"""(?:,(?=\s*(?:{"|".join(_KINDS)})\s*=)|$)""",
    re.DOTALL,
)


def _parse_settings(name: str, text: str) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    at = 0
    while at < len(text):
        found = _SETTING.match(text, at)
        if found is None or found["key"] not in _KINDS:
            raise _unknown(name, text[at:])
        at = found.end()
        key, value = found["key"], found["double"] or found["single"] or found["bare"] or ""
        if key in settings:
            raise ValueError(f"evaluator {shown(name)}: {key} is given twice")
        kind = _KINDS[key]
        try:
            settings[key] = (
                {"true": True, "false": False}[value.lower()] if kind is bool else kind(value)
            )
        except (ValueError, KeyError):
            if re.search(r",\s*\w+\s*=", value):
                raise _unknown(name, value.partition(",")[2]) from None
            wanted = "True or False" if kind is bool else "a number"
            raise ValueError(
                f"evaluator {shown(name)}: {key} is {shown(value)}, expected {wanted}"
            ) from None
    return settings


def _unknown(name: str, setting: str) -> ValueError:
    return ValueError(
        f"evaluator {shown(name)}: unknown setting {shown(setting.strip())}; expected {', '.join(_KINDS)}, as in "
        f'{_NAMES}; a value with commas stands in quotes: path="/a, b=c/stockfish", or in STOCKFISH_PATH'
    )


def _make_builtin(num_threads: int) -> Evaluator:
    from chess_env.evaluators.builtin import BuiltinEvaluator

    evaluator: Evaluator = BuiltinEvaluator(num_threads)
    return evaluator


def is_evaluator_name(name: str) -> bool:
    """Whether the text names an evaluator, with any settings: "stockfish:depth=4", "module:Name"."""
    name = name.removeprefix("ray:")
    return name.partition(":")[0] in _KNOWN or is_spec(name)


def is_foreign_evaluator(name: str) -> bool:
    """Whether this evaluator runs code from outside the project: a module:Name, or a program given by its path."""
    name = name.removeprefix("ray:")
    kind, _, settings = name.partition(":")
    return "path" in settings if kind in _KNOWN else is_spec(name)


def make_evaluator(name: str, num_engines: int = 2, cache: str | Path | None = None) -> Evaluator:
    """The evaluator of that name.

    Args:
        name: "auto" (Stockfish where it is found, otherwise the built-in one, which is said once), "builtin",
            "stockfish", or "stockfish:" followed by settings: depth, nodes, pure, path, hash_mb, deadline_s (in quotes
            where a value has commas); or
            "module:Name" of an `Evaluator` of your own: a class or function that makes one without arguments. "ray:"
            before any but "auto" spreads the positions over a Ray cluster (`chess_env.evaluators.cluster`).
        num_engines: Stockfish processes, or threads of the built-in evaluator; with "ray:" on the whole cluster.
        cache: None, "memory", or the path of an SQLite file that keeps scores between runs.

    Raises:
        ValueError: an unknown name or setting, or a value outside its range.
        EngineError: Stockfish was asked for and does not work, or the path given for it is wrong; there is no Ray
            cluster, or its nodes do not fit together.
    """
    on_cluster = name.startswith("ray:")
    inner = name.removeprefix("ray:")
    kind, _, text = inner.partition(":")
    own = kind not in _KNOWN and is_spec(inner)
    if (
        not (own or kind in ("auto", "stockfish", "builtin"))
        or (text and kind == "builtin")
        or (on_cluster and kind == "auto")
    ):
        near = meant(kind, ("builtin", "stockfish"))
        raise ValueError(f"evaluator {shown(name)} is unknown; expected one of {_NAMES}{near}")
    settings = {} if own else _parse_settings(name, text)
    evaluator: Evaluator
    if on_cluster:
        from chess_env.evaluators.cluster import ClusterEvaluator

        return _cached(ClusterEvaluator(inner, num_engines), cache)
    if own:
        return _cached(make_object(name, "evaluator", protocol_members(Evaluator)), cache)
    if kind == "auto" and find_stockfish(settings.get("path")) is None:
        if "auto" not in _said:
            _said.add("auto")
            warnings.warn(
                "No Stockfish found: the built-in evaluator scores (see chess-lab check)",
                stacklevel=2,
            )
        evaluator = _make_builtin(num_engines)
    elif kind == "builtin":
        evaluator = _make_builtin(num_engines)
    else:
        evaluator = StockfishEvaluator(num_engines=num_engines, **settings)
    return _cached(evaluator, cache)


def _cached(evaluator: Evaluator, cache: str | Path | None) -> Evaluator:
    if cache is None:
        return evaluator
    try:
        return CachedEvaluator(evaluator, path=None if str(cache) == "memory" else cache)
    except BaseException:
        evaluator.close()
        raise
