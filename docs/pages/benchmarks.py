"""docs/benchmarks.md, and the tables between two marks in the README."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from docs.pages import ROOT, result
from docs.pages.writing import bars
from docs.pages.writing.figures import entropy_against_regret, learning_curve, precision_curves
from docs.pages.writing.markdown import filled, table, tables

STAGES = ("environment", "evaluator", "forward", "update", "rest")
"""Of `benchmarks.gpu`."""


def pages() -> dict[str, str]:
    """{path: text} of the page and the README."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    return {
        "docs/benchmarks.md": filled(
            "benchmarks",
            measured=measured,
            made_by=made_by,
            peers=by_table("peers", ("games", "rewards")) | by_table("peers_ppo", ("ppo",)),
            gpu=gpu(result("gpu")),
            before=result("train_speed")["settings"]["before"][:7],
            moves=f"{result('precision')['settings']['moves']:,}",
        ),
        "README.md": with_tables(readme),
    }


def figures() -> dict[str, str]:
    """{path: SVG} of the figures."""
    return {
        "docs/figures/entropy_against_regret.svg": entropy_against_regret(result("algorithms")),
        "docs/figures/learning_curve.svg": learning_curve(result("learning")),
        "docs/figures/precision.svg": precision_curves(result("precision")["settings"]["runs"]),
        "docs/figures/processes.svg": bars.moves_by_processes(result("processes")["rows"]),
        "docs/figures/train_stages.svg": bars.stages(result("train_speed")["settings"]["stages_s"]),
    }


def measured(name: str, command: str) -> str:
    """Tables of a benchmark's result, and the command and the machine that made it; or that it was not measured.

    Args:
        name: of the result.
        command: module below `benchmarks`, and its options.
    """
    if not is_measured(name):
        return made_by(name, command)
    return f"{tables(result(name)['rows'])}\n\n{made_by(name, command)}"


def by_table(name: str, names: Sequence[str]) -> dict[str, str]:
    """The tables of a result whose rows have a column `table`, by that name; empty where it was not measured."""
    if not is_measured(name):
        return dict.fromkeys(names, "")
    rows = result(name)["rows"]
    return {
        table: tables(
            {column: value for column, value in row.items() if column != "table"}
            for row in rows
            if row["table"] == table
        )
        for table in names
    }


def made_by(name: str, command: str) -> str:
    """A sentence on the command, commit and machine of a result, or that there is none; arguments as of `measured`."""
    if not is_measured(name):
        return f"**Not measured yet**: `python -m benchmarks.{command} --json benchmarks/results/{name}.json`"
    record = result(name)
    machine, settings = record["machine"], record["settings"]
    on_card = f" with an {settings['card']}, {settings['date']}" if "card" in settings else ""
    return (
        f"`python -m benchmarks.{command} --json benchmarks/results/{name}.json` at commit "
        f"`{machine['commit']}` on {machine['processor']}, {machine['cores']} cores, Python {machine['python']}"
        f"{on_card}."
    )


def is_measured(name: str) -> bool:
    """Whether a benchmark's result is there."""
    return (ROOT / "benchmarks" / "results" / f"{name}.json").exists()


def gpu(record: Mapping[str, Any]) -> Mapping[str, str]:
    """Two tables of `benchmarks.gpu`, `stages` and `arithmetic`, and the rate of the matrix product, `rate`."""
    stages, arithmetic = [], []
    for row in record["rows"]:
        case = [row[name] for name in ("network", "device", "precision", "boards", "minibatch")]
        shares = [f"{row[f'{stage}_percent']} %" for stage in STAGES]
        on_card = row["device"] == "cuda"
        idle = f"{row['device_idle_percent']} %" if on_card else ""
        stages.append([*case, f"{row['plies_per_s']:,}", *shares, idle])
        share = f"{row['percent_of_matrix_product']:.0f} %"
        done = [f"{row['update_tflop_per_s']:.3g}", share, row["memory_gb"], row["warm_up_s"]]
        arithmetic += [[*case, *done]] if on_card else []
    case = ["network", "device", "trunk", "boards", "minibatch"]
    done = ["TFLOP/s of an update", "of the matrix product", "memory, GB", "first two updates, s"]
    return {
        "stages": table([*case, "plies/s", *STAGES, "device idle"], stages),
        "arithmetic": table([*case, *done], arithmetic),
        "rate": str(record["settings"]["matrix_product_tflop_per_s"]),
    }


def with_tables(text: str) -> str:
    """The README with the table of each `<!-- table NAME -->` marker filled in."""

    def fill(match: re.Match[str]) -> str:
        return f"<!-- table {match[1]} -->\n{tables(result(match[1])['rows'])}\n<!-- end table -->"

    return re.sub(r"<!-- table (\w+) -->\n.*?<!-- end table -->", fill, text, flags=re.DOTALL)
