"""docs/findings.md and docs/open_questions.md, from the comparison of four algorithms and the questions."""

from __future__ import annotations

import collections
import statistics
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from benchmarks.records.four_algorithms import (
    BONUSES,
    CLAIMS,
    Claim,
    Judgement,
    judge,
    stands_on,
)
from benchmarks.records.questions import LEVELS
from docs.pages import result
from docs.pages.writing.figures import phases, prices
from docs.pages.writing.markdown import filled, table

COMPARISONS = {"resnet": "four_algorithms", "move_net": "four_algorithms_move_net"}
"""Network -> result of the comparison of four algorithms on it, and file of its figure."""

TITLES = {f"regularization {treatment}": title for treatment, title in BONUSES.items()}
"""Family of the comparison -> what it is called."""

IN_FINDINGS = ("amplification", "delight_gate")
"""Questions that the findings answer; all others are open questions."""


class OnNetworks(NamedTuple):
    """A claim, network -> what the comparison on it shows of it, and on which of them it holds."""

    claim: Claim
    shown: dict[str, Judgement]
    where: str


def pages() -> dict[str, str]:
    """{path: text} of both pages."""
    asked = result("questions")["questions"]
    compared = {network: result(name) for network, name in COMPARISONS.items()}
    return {
        "docs/findings.md": findings(compared, asked, result("four_one_step_size")),
        "docs/open_questions.md": open_questions(asked),
    }


def figures() -> dict[str, str]:
    """{path: SVG} of the phase plot of each network and the prices of further passes."""
    amplified = result("questions")["questions"]["amplification"]
    columns = amplified["columns"]
    plots = {f"docs/figures/findings/{n}.svg": phase_plot(result(n)) for n in COMPARISONS.values()}
    return plots | {
        "docs/figures/findings/amplification.svg": prices(columns, price_level(columns))
    }


def phase_plot(four: Mapping[str, Any]) -> str:
    """SVG of entropy against regret of every run of a comparison, a panel for each way to regularise."""
    families = {
        TITLES[name]: {
            _algorithm(column): [c for c in four["cells"] if c["column"] == column["name"]]
            for column in family["columns"]
        }
        for name, family in four["families"].items()
    }
    return phases(families)


def findings(
    compared: Mapping[str, Mapping[str, Any]], asked: Mapping[str, Any], one_rate: Mapping[str, Any]
) -> str:
    """The page of findings.

    Args:
        compared: network -> the comparison of four algorithms on it.
        asked: the questions.
        one_rate: the comparison on `move_net` with one step size for all.
    """
    claims = judged(compared)
    return filled(
        "findings",
        compared=compared,
        drawn=COMPARISONS,
        claims=claims,
        counts=counts(claims),
        both_table=both_table,
        asked=asked,
        one_rate=one_rate,
        titles=TITLES,
        tuning_table=tuning_table,
        rate_level=rate_level,
        rate_table=rate_table,
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


def judged(compared: Mapping[str, Mapping[str, Any]]) -> list[OnNetworks]:
    """Every claim on every network, first what holds on all of them.

    Args:
        compared: network -> the comparison of four algorithms on it.
    """
    found = []
    for claim in CLAIMS:
        shown = {network: judge(claim, values) for network, values in compared.items()}
        found.append(OnNetworks(claim, shown, stands_on(shown)))
    order = ["both", *(f"only on {network}" for network in compared), "neither"]
    return sorted(found, key=lambda each: order.index(each.where))


def counts(claims: Sequence[OnNetworks]) -> list[str]:
    """How many hold where and how many are reversed somewhere, as parts of a sentence."""
    numbers = collections.Counter(each.where for each in claims)
    turned = sum(
        any(found.verdict == "reversed" for found in each.shown.values()) for each in claims
    )
    return [
        *(
            f"{n} hold {where if where.startswith('only') else f'on {where}'}"
            for where, n in numbers.items()
        ),
        f"and {turned or 'none'} {'is' if turned < 2 else 'are'} reversed on one of them",
    ]


def both_table(claims: Sequence[OnNetworks]) -> str:
    """A row for each claim: its difference on each network, and where it holds."""
    rows = []
    for claim, shown, where in claims:
        digits = 1 if claim.quantity == "regret_end" else 2
        margins = [margin(each, digits) for each in shown.values()]
        rows.append([claim.says, claim.bonus, *margins, where])
    networks = [f"`{network}`" for network in claims[0].shown]
    return table(["claim", "bonus", *networks, "holds"], rows)


def margin(found: Judgement, digits: int) -> str:
    """By how much a claim holds, with its interval; bold where it does."""
    if found.margin is None:
        return "not compared"
    text = f"{found.margin:+.{digits}f} ({found.low:+.{digits}f} to {found.high:+.{digits}f})"
    text = f"**{text}**" if found.verdict == "holds" else text
    text += " reversed" if found.verdict == "reversed" else ""
    return text if found.level is None else f"{text} at {found.level} %"


def tuning_table(four: Mapping[str, Any]) -> str:
    """A row for each algorithm: the step size that was chosen, and the regret that each one ended at."""
    rates = list(
        dict.fromkeys(r for each in four["tuning"].values() for r in each["percent_of_start"])
    )
    rows = [
        [name, f"{found['learning_rate']:g}",
         *(_percent(found["percent_of_start"].get(rate)) for rate in rates)]
        for name, found in four["tuning"].items()
    ]  # fmt: skip
    return table(["algorithm", "chosen", *rates], rows)


def rate_level(four: Mapping[str, Any]) -> int:
    """The deepest percentage of the starting regret at which a pair without a bonus is compared."""
    levels = four["families"]["regularization none"]["quantities"][0]["level_percent"].values()
    return min(level for level in levels if level is not None)


def rate_table(four: Mapping[str, Any]) -> str:
    """A row for each algorithm: entropy at `rate_level` with each step size, bold where it was chosen."""
    level, rows = str(rate_level(four)), []
    for name, by_rate in four["tuning_runs"].items():
        cells = []
        for rate, runs in by_rate.items():
            entropies = [run["entropy_at_percent"][level] for run in runs]
            reached = bool(runs) and None not in entropies
            text = f"{statistics.mean(entropies):.2f}" if reached else "not reached"
            chosen = f"{four['tuning'][name]['learning_rate']:g}" == rate
            cells.append(f"**{text}**" if chosen else text)
        rows.append([name, *cells])
    rates = next(iter(four["tuning_runs"].values()))
    return table([f"entropy at {level} %, nats", *rates], rows)


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


def _percent(value: float | None) -> str:
    return "broken" if value is None else f"{value:.1f}"


def _algorithm(column: Mapping[str, Any]) -> str:
    return str(column["name"].partition("+")[0])
