"""Tables of docs/other_trainers.md: what is read of which trainer, the rules, and an example."""

from __future__ import annotations

import tempfile
from pathlib import Path

from algorithms.commands.diagnose import written_foreign
from algorithms.foreign import diagnose_log, read_log
from algorithms.foreign.trainer import QUANTITIES
from algorithms.foreign.trainers import TRAINERS
from benchmarks.corpus.chess import archive
from docs.pages import ROOT
from docs.pages.markdown import table

PACKED = ROOT / "benchmarks" / "data" / "corpus"


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
        with archive(PACKED / "trl_open.tar.xz") as packed:
            packed.extract(f"{run}/trainer_state.json", scratch)
        lines = written_foreign(diagnose_log(read_log(Path(scratch) / run / "trainer_state.json")))
    return "\n".join(["```text", *lines, "```"])
