"""An evaluator's id in words: who judges, for people."""

from __future__ import annotations

import re

_STOCKFISH = re.compile(
    r"stockfish-(?P<version>[^;]+);net=[^;]*;(?:.*;)?(?P<limit>depth|nodes)=(?P<amount>\d+);"
    r"(?P<mode>pure|fast);(?P<averaged>builtin=[\d.]+;)?v\d+(?P<more>;.*)?"
)
_BUILTIN = re.compile(r"builtin(;depth=(?P<depth>\d+);|-)v(?P<version>\d+)(?P<more>;.*)?")


def judge_in_words(evaluator_id: str) -> str:
    """Such as "Stockfish 15.1, depth 8" or "the built-in evaluator (v1)"; an id of another form as it is.

    A purpose of words is to be short: they leave out network, options and protocol, which the id has.
    """
    found = _STOCKFISH.fullmatch(evaluator_id)
    if found:
        amount = int(found["amount"])
        limit = f"depth {amount}" if found["limit"] == "depth" else f"{amount:,} nodes"
        if limit == "1 nodes":
            limit = "1 node"
        fast = ", not cleared between positions" if found["mode"] == "fast" else ""
        second = " and the built-in evaluator" if found["averaged"] else ""
        return f"Stockfish {found['version']}, {limit}{fast}{second}"
    found = _BUILTIN.fullmatch(evaluator_id)
    if found:
        depth = f", depth {found['depth']}" if found["depth"] else ""
        return f"the built-in evaluator (v{found['version']}{depth})"
    return evaluator_id
