"""The names of the targets; what they read with is imported when one is made."""

from __future__ import annotations

import importlib
from pathlib import Path

from benchmarks.reliability.fuzz.judge import Target

_HOMES = {
    "chess_targets": ("fen", "pgn"),
    "uci_targets": ("uci_engine", "uci_commands"),
    "folder_targets": ("metrics", "checkpoint", "config"),
    "board_targets": ("board_question", "board_pgn"),
}
TARGETS = tuple(name for names in _HOMES.values() for name in names)


def made(name: str, scratch: Path) -> Target:
    """The target of this name.

    Args:
        name: of `TARGETS`.
        scratch: an empty folder for its files.
    """
    (home,) = (home for home, names in _HOMES.items() if name in names)
    target: Target = getattr(importlib.import_module(f"{__package__}.{home}"), name)(scratch)
    return target
