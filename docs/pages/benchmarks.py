"""docs/benchmarks.md, and the tables between two marks in the README."""

from __future__ import annotations

import re

from docs.pages import ROOT, result
from docs.pages.figures import entropy_against_regret, learning_curve
from docs.pages.markdown import filled, tables


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
        return f"<!-- table {match[1]} -->\n{tables(result(match[1])['rows'])}\n<!-- end table -->"

    return re.sub(r"<!-- table (\w+) -->\n.*?<!-- end table -->", fill, text, flags=re.DOTALL)
