"""docs/benchmarks.md, and the tables between two marks in the README."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from docs.pages import ROOT, result
from docs.pages.figures import entropy_against_regret, learning_curve
from docs.pages.markdown import filled, tables

SHOWN = {
    "strong": (
        "run", "scored_moves", "cpu_minutes", "greedy_regret_cp", "random_score", "random_losses",
        "random_conversion", "material_score",
    ),
}  # fmt: skip
"""Columns of a table in the README, where it does not show all of them."""


def pages() -> dict[str, str]:
    """{path: text} of the page and the README."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    return {
        "docs/benchmarks.md": filled("benchmarks", measured=measured),
        "README.md": with_tables(readme),
    }


def figures() -> dict[str, str]:
    """{path: SVG} of the two figures."""
    return {
        "docs/figures/entropy_against_regret.svg": entropy_against_regret(result("algorithms")),
        "docs/figures/learning_curve.svg": learning_curve(result("learning")),
    }


def measured(name: str, command: str) -> str:
    """Tables of a benchmark's result, and the command and the machine that made it.

    Args:
        name: of the result.
        command: module below `benchmarks`, and its options.
    """
    record = result(name)
    machine = record["machine"]
    return (
        f"{tables(record['rows'])}\n\n"
        f"`python -m benchmarks.{command} --json benchmarks/results/{name}.json` at commit "
        f"`{machine['commit']}` on {machine['processor']}, {machine['cores']} cores, Python {machine['python']}."
    )


def with_tables(text: str) -> str:
    """The README with the table of each `<!-- table NAME -->` marker filled in."""

    def fill(match: re.Match[str]) -> str:
        record = result(match[1])
        rows = column_rows(record) if "families" in record else record["rows"]
        if match[1] in SHOWN:
            rows = [{name: row[name] for name in SHOWN[match[1]]} for row in rows]
        return f"<!-- table {match[1]} -->\n{tables(rows)}\n<!-- end table -->"

    return re.sub(r"<!-- table (\w+) -->\n.*?<!-- end table -->", fill, text, flags=re.DOTALL)


def column_rows(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A row for each algorithm of a comparison, without a bonus: interquartile means, 95 % intervals."""

    def spread(values: Mapping[str, Any], digits: int) -> str:
        mean, low, high = (f"{values[name]:.{digits}f}" for name in ("iqm", "low", "high"))
        return f"{mean} ({low} to {high})"

    return [
        {
            "algorithm": column["name"].partition("+")[0],
            "regret_percent_of_start": spread(column["percent_of_start"], 1),
            "entropy_at_the_end": spread(column["entropy"], 2),
            "entropy_at_half_the_regret": spread(column["entropy_at_percent"]["50"], 2),
            "seeds": column["percent_of_start"]["seeds"],
        }
        for column in record["families"]["regularization none"]["columns"]
    ]
