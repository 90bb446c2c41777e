"""Tables of docs/findings: what a comparison found of the columns beside one of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from docs.pages import result
from docs.pages.markdown import table

HEADER = [
    "column", "regret, %", "against the base", "entropy, nats", "against the base", "nats lost per 100 cp",
]  # fmt: skip


def answer(name: str) -> str:
    """A line for each column of a question of `benchmarks/results/questions.json`."""
    asked = result("questions")["questions"][name]
    names, beside = list(asked["columns"]), asked["against_base"]
    algorithms = {each.split(" ")[0] for each in names}
    lines = []
    for each in names:
        figures = asked["columns"][each]
        shown = each.partition(" ")[2] if len(algorithms) == 1 else each
        regret, entropy, price = (
            "base" if each == asked["base"] else _difference(beside[measure].get(each), digits)
            for measure, digits in (
                ("percent_of_start", 1),
                ("entropy_end", 2),
                ("nats_per_100_cp", 2),
            )
        )
        lines.append(
            (
                f"`{shown}`", _spread(figures["percent_of_start"], 1), regret,
                _spread(figures["entropy_end"], 2), entropy, price,
            )
        )  # fmt: skip
    return table(HEADER, lines)


def _spread(of: Mapping[str, float], digits: int) -> str:
    return f"{of['iqm']:.{digits}f} ({of['low']:.{digits}f} to {of['high']:.{digits}f})"


def _difference(found: Mapping[str, Any] | None, digits: int) -> str:
    """With its interval, bold where that excludes 0; a dash where the two cannot be compared."""
    if found is None:
        return "–"
    low, high = found["low"], found["high"]
    text = f"{found['difference']:+.{digits}f} ({low:+.{digits}f} to {high:+.{digits}f})"
    text = f"**{text}**" if low > 0 or high < 0 else text
    level = found["level_percent"]
    return text if level is None else f"{text} at {level} %"
