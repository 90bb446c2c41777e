"""docs/findings.md and docs/open_questions.md, from the comparison of four algorithms and the questions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.records.questions import LEVELS
from docs.pages import result
from docs.pages.figures import phases, prices
from docs.pages.markdown import filled, table

TITLES = {
    "regularization none": "no bonus",
    "regularization equal": "one coefficient for all",
    "regularization share": "one share of the gradient for all",
}
"""Family of the comparison -> what it is called."""

IN_FINDINGS = ("amplification", "delight_gate")
"""Questions that the findings answer; all others are open questions."""


def pages() -> dict[str, str]:
    """{path: text} of both pages."""
    four, asked = result("four_algorithms"), result("questions")["questions"]
    return {
        "docs/findings.md": findings(four, asked),
        "docs/open_questions.md": open_questions(asked),
    }


def figures() -> dict[str, str]:
    """{path: SVG} of the phase plot and the prices of further passes."""
    four, amplified = result("four_algorithms"), result("questions")["questions"]["amplification"]
    families = {
        TITLES[name]: {
            _algorithm(column): [c for c in four["cells"] if c["column"] == column["name"]]
            for column in family["columns"]
        }
        for name, family in four["families"].items()
    }
    columns = amplified["columns"]
    return {
        "docs/figures/findings/four_algorithms.svg": phases(families),
        "docs/figures/findings/amplification.svg": prices(columns, price_level(columns)),
    }


def findings(four: Mapping[str, Any], asked: Mapping[str, Any]) -> str:
    """The page of findings."""
    rates = list(next(iter(four["tuning"].values()))["percent_of_start"])
    tuning = [
        [name, f"{found['learning_rate']:g}", *map("{:.1f}".format, found["percent_of_start"].values())]
        for name, found in four["tuning"].items()
    ]  # fmt: skip
    return filled(
        "findings",
        four=four,
        asked=asked,
        titles=TITLES,
        tuning=table(["algorithm", "chosen", *rates], tuning),
        family_table=family_table,
        question_table=question_table,
        price_table=price_table,
    )


def open_questions(asked: Mapping[str, Any]) -> str:
    """The page of open questions.

    Raises:
        ValueError: the template has no answer to one of them.
    """
    left = {name: found for name, found in asked.items() if name not in IN_FINDINGS}
    # The template takes out what it answers.
    text = filled("open_questions", asked=left, question_table=question_table)
    if left:
        raise ValueError(f"open_questions.md.j2 says nothing of {list(left)}: write the answers")
    return text


def interval(spread: Mapping[str, Any], digits: int = 2) -> str:
    """Interquartile mean (low to high); a dash where nothing was measured."""
    if spread["iqm"] is None:
        return "–"
    low, high = spread.get("low"), spread.get("high")
    ends = "" if low is None else f" ({low:.{digits}f} to {high:.{digits}f})"
    return f"{spread['iqm']:.{digits}f}{ends}"


def difference(found: Mapping[str, Any] | None, digits: int = 2) -> str:
    """Difference from the base with its interval, bold where that excludes 0."""
    if found is None:
        return "–"
    text = f"{found['difference']:+.{digits}f} ({found['low']:+.{digits}f} to {found['high']:+.{digits}f})"
    return f"**{text}**" if found["low"] > 0 or found["high"] < 0 else text


def family_table(family: Mapping[str, Any]) -> str:
    """A row for each algorithm of one way to regularise."""
    rows = []
    for column in family["columns"]:
        entropies = column["entropy_at_percent"]
        rows.append([
            _algorithm(column), f"{column['learning_rate']:g}", f"{column['ent_coef']:.3g}",
            "–" if column["grad_share"] is None else f"{column['grad_share']:.2f}",
            interval(column["percent_of_start"], 1), interval(column["entropy"]),
            *(entropy_at(entropies[level], len(family["seeds"])) for level in ("70", "60", "50")),
        ])  # fmt: skip
    head = ["algorithm", "learning rate", "ent_coef", "bonus's share of the gradient",
            "regret at the end, % of the start",
            "entropy at the end, nats", "entropy at 70 %", "at 60 %", "at 50 %"]  # fmt: skip
    return table(head, rows)


def entropy_at(spread: Mapping[str, Any], seeds: int) -> str:
    """Entropy at a level; how many seeds reach it where not all do."""
    return interval(spread) if spread["seeds"] == seeds else f"{spread['seeds']} of {seeds} seeds"


def question_table(found: Mapping[str, Any]) -> str:
    """A row for each column of a question, with its differences from the base."""
    rows = []
    for label, column in found["columns"].items():
        against = {name: each.get(label) for name, each in found["against_base"].items()}
        price = against.get("nats_per_100_cp")
        base = label == found["base"]
        rows.append([
            f"`{label}`",
            interval(column["percent_of_start"], 1),
            "base" if base else difference(against.get("percent_of_start"), 1),
            interval(column["entropy_end"]),
            "base" if base else difference(against.get("entropy_end")),
            "base" if base else difference(price) + (f" at {price['level_percent']} %" if price else ""),
        ])  # fmt: skip
    head = ["column", "regret at the end, % of the start", "against the base", "entropy at the end, nats",
            "against the base", "nats lost per 100 cp, against the base"]  # fmt: skip
    return table(head, rows)


def price_level(columns: Mapping[str, Mapping[str, Any]]) -> int:
    """The deepest level that all columns of one pass reach on every seed.

    Raises:
        ValueError: there is none.
    """
    single = [c["nats_per_100_cp"] for name, c in columns.items() if name.endswith("=1")]
    common = [at for at in LEVELS if all(str(at) in prices for prices in single)]
    if not common:
        raise ValueError(f"no level of {LEVELS} is reached by all columns of one pass")
    return min(common)


def price_table(columns: Mapping[str, Mapping[str, Any]]) -> str:
    """Nats lost per 100 cp of regret gained, algorithms down, passes across."""
    level = str(price_level(columns))
    rows: dict[str, list[str]] = {}
    for label, column in columns.items():
        name, prices = label.partition(" ")[0], column["nats_per_100_cp"]
        cell = interval(prices[level]) if level in prices else "not reached"
        rows.setdefault(name, [name]).append(cell)
    head = [f"at {level} % of the starting regret", "1 pass", *(f"{n} passes" for n in (2, 4, 8))]
    return table(head, rows.values())


def _algorithm(column: Mapping[str, Any]) -> str:
    return str(column["name"].partition("+")[0])
