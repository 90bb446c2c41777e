"""Tables of docs/other_trainers.md: what is read of which trainer, the rules, an example, and how often it is right."""

from __future__ import annotations

import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from algorithms.commands.diagnose import written_foreign
from algorithms.foreign import diagnose_log, read_log
from algorithms.foreign.trainer import QUANTITIES
from algorithms.foreign.trainers import TRAINERS
from docs.pages import ROOT, result
from docs.pages.markdown import table

PACKED = ROOT / "benchmarks" / "data" / "foreign"


def trainers() -> str:
    """A line for each trainer."""
    return table(
        ["trainer", "`--from`", "checked with", "tells of the quantities"],
        [
            (
                each.title,
                f"`{each.name}`",
                each.checked,
                ", ".join(
                    f"`{name}`"
                    for name in QUANTITIES
                    if any(
                        c.quantity == name
                        for c in (*each.columns.values(), *each.patterns.values())
                    )
                ),
            )
            for each in TRAINERS.values()
        ],
    )


def quantities() -> str:
    """A line for each quantity, as `--map` takes it."""
    return table(["quantity", "is"], [(f"`{name}`", means) for name, means in QUANTITIES.items()])


def names(trainer: str) -> str:
    """A line for each name of a trainer's log."""
    own = TRAINERS[trainer]
    return table(
        ["in the log", "is read as", "note"],
        [
            (f"`{name}`", f"`{'-' if column.factor < 0 else ''}{column.quantity}`", column.means)
            for name, column in (*own.columns.items(), *own.patterns.items())
        ],
    )


def example(run: str) -> str:
    """What `chess-lab diagnose` says of a packed run of TRL."""
    with tempfile.TemporaryDirectory() as scratch:
        with tarfile.open(PACKED / "trl_open.tar.xz") as packed:
            packed.extract(f"{run}/trainer_state.json", scratch, filter="data")
        lines = written_foreign(diagnose_log(read_log(Path(scratch) / run / "trainer_state.json")))
    return "\n".join(["```text", *lines, "```"])


def rates(*names: str) -> str:
    """A line for each figure, a column for each set of logs."""
    found = [result(f"foreign_{name}") for name in names]

    def share(row: Mapping[str, Any]) -> str:
        if not row["of"]:
            return "none"
        return f"{row['count']} of {row['of']} ({row['low']:.0%} to {row['high']:.0%})"

    figures = [row["figure"] for row in found[0]["settings"]["rates"]]
    columns = [{row["figure"]: share(row) for row in each["settings"]["rates"]} for each in found]
    return table(
        ["figure", *(name.replace("_", ", ") for name in names)],
        [(figure, *(column[figure] for column in columns)) for figure in figures],
    )


def rivals(logs: str) -> str:
    """A line for each doctor and the way it is read: what it flags of the logs of a set."""
    found = result("foreign_rivals")
    own = result(f"foreign_{logs}")["rows"]
    faulty = [row for row in own if row["cause"]]
    groups = [
        [row for row in own if not row["cause"]],
        faulty,
        [row for row in faulty if row["harmful"]],
    ]
    mine = [f"{sum(row['flagged'] is True for row in group)} of {len(group)}" for group in groups]
    lines: list[tuple[str, ...]] = [("`chess-lab diagnose`", "verdict of harm", *mine)]
    for each in found["counts"][logs]:
        shares = [
            f"{each[f'{name}_flagged']} of {each[name]}" for name in ("sound", "faulty", "harmful")
        ]
        lines.append(
            (f"{each['tool']} {found['versions'][each['tool']]}", each["reading"], *shares)
        )
    return table(["doctor", "flags by", "sound", "faulty", "harmful"], lines)
