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
    "VERSIONS",
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
    "of_version",
    "pack_positions",
    "without_version",
]

_NAMES = (
    '"auto", "builtin", "stockfish", "stockfish:depth=4", "stockfish:nodes=1000,pure=False,path=/x/stockfish", the '
    'scores of version 1 by "auto-v1", "builtin-v1" or "stockfish-v1:depth=4", '
    'module:Name of your own, or "ray:" and one of these (but "auto") for the engines of a Ray cluster'
)
_KINDS = {
    "depth": int,
    "nodes": int,
    "hash_mb": int,
    "deadline_s": float,
    "pure": bool,
    "path": str,
    "syzygy": str,
}
VERSIONS = ("v1", "v2")
"""Of the evaluators that come with the project; a name without one is of the last."""

_KNOWN = ("auto", "stockfish", "builtin")
_VERSIONED = re.compile(
    rf"(?P<ray>(ray:)?)(?P<kind>{'|'.join(_KNOWN)})(-(?P<version>{'|'.join(VERSIONS)}))?(?=:|$)"
)
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


def is_evaluator_name(name: str) -> bool:
    """Whether the text names an evaluator, with any settings: "stockfish:depth=4", "module:Name"."""
    return _VERSIONED.match(name) is not None or is_spec(name.removeprefix("ray:"))


def is_foreign_evaluator(name: str) -> bool:
    """Whether this evaluator uses what is outside the project: a module:Name, or a program or files by their path."""
    found = _VERSIONED.match(name)
    if found is None:
        return is_spec(name.removeprefix("ray:"))
    settings = name[found.end() :]
    return "path" in settings or "syzygy" in settings


def without_version(name: str) -> str:
    """The name without the version that it has: "stockfish:depth=4" of "stockfish-v2:depth=4"."""
    found = _VERSIONED.match(name)
    return name if found is None else f"{found['ray']}{found['kind']}{name[found.end() :]}"


def of_version(name: str, version: str = VERSIONS[-1]) -> str:
    """The name with a version where it has none: "stockfish:depth=4" is "stockfish-v2:depth=4".

    Args:
        name: of an evaluator; one of a user's own has no version.
        version: that a name without one stands for.
    """
    found = _VERSIONED.match(name)
    if found is None or found["version"]:
        return name
    return f"{found['ray']}{found['kind']}-{version}{name[found.end() :]}"


def make_evaluator(
    name: str,
    num_engines: int = 2,
    cache: str | Path | None = None,
    *,
    num_threads: int | None = None,
) -> Evaluator:
    """The evaluator of that name.

    Args:
        name: "auto" (Stockfish where it is found, otherwise the built-in one, which is said once), "builtin",
            "stockfish", or "stockfish:" followed by settings: depth, nodes, pure, path, hash_mb, deadline_s (in quotes
            where a value has commas), syzygy=FOLDER of endgame files, as in "builtin:syzygy=/files" too;
            "builtin:depth=2", which searches every move for two plies before captures alone; or
            "module:Name" of an `Evaluator` of your own: a class or function that makes one without arguments.
            "-v1" behind the first word, as in "stockfish-v1:depth=4", gives the scores without the corrections of
            `JudgedEvaluator`. "ray:" before any but "auto" spreads the positions over a Ray cluster
            (`chess_env.evaluators.cluster`).
        num_engines: Stockfish processes, or with "ray:" engines on the whole cluster.
        cache: None, "memory", or the path of an SQLite file that keeps scores between runs.
        num_threads: of the built-in evaluator; None: one for each core that the process may use.

    Raises:
        ValueError: an unknown name or setting, or a value outside its range.
        EngineError: Stockfish was asked for and does not work, or the path given for it is wrong; there is no Ray
            cluster, or its nodes do not fit together.
    """
    on_cluster = name.startswith("ray:")
    inner = name.removeprefix("ray:")
    found = _VERSIONED.match(name)
    own = found is None and is_spec(inner) and not inner.startswith("ray:")
    kind = found["kind"] if found else ""
    text = name[found.end() + 1 :] if found else ""
    if not (own or found) or (on_cluster and kind == "auto"):
        near = meant(inner.partition(":")[0], ("builtin", "stockfish"))
        raise ValueError(f"evaluator {shown(name)} is unknown; expected one of {_NAMES}{near}")
    settings = {} if own else _parse_settings(name, text)
    if kind == "builtin" and (wrong := sorted(settings.keys() - {"depth", "syzygy"})):
        raise ValueError(
            f"evaluator {shown(name)}: unknown setting {wrong[0]}, which is one of Stockfish; expected depth, syzygy "
            "or none"
        )
    version_1 = found is not None and found["version"] == "v1"
    if version_1 and "syzygy" in settings:
        raise ValueError(f"evaluator {shown(name)}: version 1 has no Syzygy files; leave out -v1")
    folder = settings.pop("syzygy", None)
    from chess_env.evaluators.builtin import BuiltinEvaluator, require_depth

    if kind == "builtin":
        require_depth(settings.get("depth", 0))
    if on_cluster:
        from chess_env.evaluators.cluster import ClusterEvaluator

        return _cached(ClusterEvaluator(inner, num_engines), cache)
    if own:
        return _cached(make_object(name, "evaluator", protocol_members(Evaluator)), cache)
    assert found is not None  # neither own nor unknown
    if kind == "auto" and find_stockfish(settings.get("path")) is None:
        if "auto" not in _said:
            _said.add("auto")
            warnings.warn(
                "No Stockfish found: the built-in evaluator scores (see chess-lab check)",
                stacklevel=2,
            )
        kind, settings = "builtin", {}  # those of Stockfish
    from chess_env.evaluators.judge import JudgedEvaluator
    from chess_env.evaluators.syzygy import SyzygyTables

    syzygy = None if folder is None else SyzygyTables(folder)
    search: BuiltinEvaluator | StockfishEvaluator
    if kind == "builtin":
        search = BuiltinEvaluator(num_threads, **settings)
    else:
        search = StockfishEvaluator(num_engines=num_engines, **settings)
    return _cached(search if version_1 else JudgedEvaluator(search, syzygy), cache)


def _cached(evaluator: Evaluator, cache: str | Path | None) -> Evaluator:
    if cache is None:
        return evaluator
    try:
        return CachedEvaluator(evaluator, path=None if str(cache) == "memory" else cache)
    except BaseException:
        evaluator.close()
        raise
