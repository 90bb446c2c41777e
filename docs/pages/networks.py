"""docs/networks.md: what the policy sees, what a size costs, and what each network learns in the same CPU time."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from algorithms.networks.settings import LEARNING_RATES
from docs.pages import result
from docs.pages.markdown import filled, table, tables

Rows = Sequence[Mapping[str, Any]]


def pages() -> dict[str, str]:
    """{path: text} of the page."""
    networks, facts = result("networks"), result("move_facts")
    supervised = result("supervised_networks")
    text = filled(
        "networks",
        sizes=tables(result("network_sizes")["rows"]),
        supervised=supervised_table(supervised["rows"]),
        supervised_settings=supervised["settings"],
        supervised_commit=supervised["machine"]["commit"],
        by_time=time_table(networks["rows"]),
        seeds=sorted({row["seed"] for row in networks["rows"]}),
        networks_commit=networks["machine"]["commit"],
        rates=table(
            ["network", "step size"], [(f"`{n}`", f"{r:g}") for n, r in LEARNING_RATES.items()]
        ),
        us=next(r["us_per_position"] for r in facts["rows"] if r["contestant"] == "all facts"),
    )
    return {"docs/networks.md": text}


def supervised_table(rows: Rows) -> str:
    """A line for each network, its seeds side by side."""
    names = list(dict.fromkeys(row["network"] for row in rows))
    by_name = {name: [row for row in rows if row["network"] == name] for name in names}
    return table(
        ["network", "positions/s in training", "greedy regret, random_2_40", "four slices"],
        [
            (
                f"`{name}`",
                " / ".join(f"{row['positions_per_s']:,}" for row in own),
                " / ".join(f"{row['random_2_40']:g}" for row in own),
                " / ".join(f"{row['four_slices']:g}" for row in own),
            )
            for name, own in by_name.items()
        ],
    )


def time_table(rows: Rows) -> str:
    """A line for each network and budget: medians over the seeds, and lowest to highest sampled regret."""
    keys = list(dict.fromkeys((row["minutes"], row["network"]) for row in rows))
    lines = []
    for minutes, network in sorted(keys, key=lambda key: key[0]):
        own = [r for r in rows if (r["minutes"], r["network"]) == (minutes, network)]
        regrets = [row["regret_cp"] for row in own]
        middle = {
            name: statistics.median(row[name] for row in own)
            for name in ("scored_moves", "regret_cp", "regret_cp_greedy", "entropy")
        }
        lines.append(
            (
                f"{minutes:g}",
                f"`{network}`",
                round(middle["scored_moves"]),
                f"{middle['regret_cp']:.0f} ({min(regrets):.0f} to {max(regrets):.0f})",
                f"{middle['regret_cp_greedy']:.0f}",
                f"{middle['entropy']:.2f}",
            )
        )
    header = [
        "CPU-minutes",
        "network",
        "scored moves",
        "sampled regret, cp",
        "greedy, cp",
        "entropy, nats",
    ]
    return table(header, lines)
