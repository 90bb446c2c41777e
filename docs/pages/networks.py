"""docs/networks.md: what the policy sees, what a size costs, and what each network learns in the same CPU time."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from algorithms.networks.settings import LEARNING_RATES
from docs.pages import result
from docs.pages.writing.figures import by_cpu_time
from docs.pages.writing.markdown import filled, table, tables

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
        tuned=tuning_table(result("network_tuning")["settings"]["chosen"]),
        seeds=sorted({row["seed"] for row in networks["rows"]}),
        commits=sorted({row["commit"] for row in networks["rows"]}),
        rates=table(
            ["network", "step size"], [(f"`{n}`", f"{r:g}") for n, r in LEARNING_RATES.items()]
        ),
        us=next(r["us_per_position"] for r in facts["rows"] if r["contestant"] == "all facts"),
    )
    return {"docs/networks.md": text}


def figures() -> dict[str, str]:
    """{path: SVG} of the figure."""
    rows = result("networks")["rows"]
    return {"docs/figures/networks/by_cpu_time.svg": by_cpu_time(panels_of(rows))}


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
    """A line for each kind of run and budget, a cell for each network: sampled regret over the seeds, and entropy."""
    networks = list(dict.fromkeys(row["network"] for row in rows))
    cells: dict[tuple[str, str, float], dict[str, list[Mapping[str, Any]]]] = {}
    for row in rows:
        key = (row["evaluator"].partition(":")[0], row["algorithm"], row["minutes"])
        cells.setdefault(key, {}).setdefault(row["network"], []).append(row)
    header = ["rewards", "algorithm", "CPU-minutes", *(f"`{name}`" for name in networks)]
    return table(
        header,
        [(*key[:2], f"{key[2]:g}", *(_cell(own.get(name)) for name in networks))
         for key, own in sorted(cells.items())],
    )  # fmt: skip


def _cell(rows: Rows | None) -> str:
    """Median regret, lowest and highest, and the median of the entropy; empty where nothing was run."""
    if not rows:
        return ""
    regrets = [row["regret_cp"] for row in rows]
    entropy = statistics.median(row["entropy"] for row in rows)
    middle = statistics.median(regrets)
    return f"{middle:.0f} ({min(regrets):.0f} to {max(regrets):.0f}), {entropy:.2f}"


def tuning_table(chosen: Rows) -> str:
    """A line for each algorithm, a cell for each network: step size, and bonus from first to last."""
    networks = list(dict.fromkeys(each["network"] for each in chosen))
    by_pair = {(each["algorithm"], each["network"]): each["settings"] for each in chosen}

    def cell(settings: Mapping[str, float] | None) -> str:
        if settings is None:
            return ""
        first, last = (settings[f"regularizer.{name}"] for name in ("ent_coef", "ent_coef_final"))
        bonus = f"{first:g} to {last:g}" if first else "none"
        return f"{settings['optimizer.learning_rate']:g}; {bonus}"

    algorithms = dict.fromkeys(each["algorithm"] for each in chosen)
    lines = [(f"`{a}`", *(cell(by_pair.get((a, n))) for n in networks)) for a in algorithms]
    return table(["algorithm", *(f"`{name}`" for name in networks)], lines)


def panels_of(rows: Rows) -> dict[str, dict[str, dict[float, list[float]]]]:
    """What `by_cpu_time` draws."""
    panels: dict[str, dict[str, dict[float, list[float]]]] = {}
    for row in sorted(rows, key=lambda row: row["minutes"]):
        title = f"{row['algorithm']}, {row['evaluator'].partition(':')[0]}"
        budgets = panels.setdefault(title, {}).setdefault(row["network"], {})
        budgets.setdefault(row["minutes"], []).append(row["regret_cp"])
    return {title: dict(sorted(networks.items())) for title, networks in sorted(panels.items())}
