"""Stockfish held back by its own options, as an opponent: `engine:nodes=1,skill_level=0`, `engine:...,uci_elo=1500`.

A weakened Stockfish draws its moves by the clock, so that no game of it repeats. For this reason it is an opponent of
evaluations alone: `chess_env` makes none for environments.
"""

from __future__ import annotations

import re
import shlex

from algorithms.evaluation.uci_player import UciPlayer
from chess_env.evaluators.uci import EngineError, find_stockfish

_BEGINNING = "engine:"
_OPTIONS = {"skill_level": "Skill Level", "uci_elo": "UCI_Elo"}
_SETTING = re.compile(r"(?P<key>\w+)=(?P<value>\d{1,12})")

SCALE = (
    "on the scale of Stockfish's option UCI_Elo, which its makers fitted to computer lists at 60 s + 0.6 s a game "
    "(CCRL 40/4), not to people; at another limit the labels are off, and a rating with them"
)
"""Whose scale a rating against players with labels is on; for people."""


def is_limited_stockfish(name: str) -> bool:
    """Whether an opponent's name asks for Stockfish held back by its options."""
    return name.startswith(_BEGINNING) and any(f"{key}=" in name for key in _OPTIONS)


def limited_stockfish(name: str) -> UciPlayer:
    """The player of such a name: one limit (nodes, depth, movetime_ms), and `skill_level` or `uci_elo`.

    Raises:
        ValueError: none or more than one of each, or a setting that is none of them.
        EngineError: there is no Stockfish, or it does not take the value.
    """
    found = [_SETTING.fullmatch(part) for part in name.removeprefix(_BEGINNING).split(",")]
    settings = [(each["key"], each["value"]) for each in found if each is not None]
    limits = [f"{key}={value}" for key, value in settings if key not in _OPTIONS]
    held_back = {key: int(value) for key, value in settings if key in _OPTIONS}
    if None in found or len(limits) != 1 or len(held_back) != 1 or len(settings) != 2:
        raise ValueError(
            f"player is {name!r}: expected one limit and either skill_level or uci_elo, as in "
            "'engine:nodes=1,skill_level=0' or 'engine:movetime_ms=50,uci_elo=1500'"
        )
    path = find_stockfish()
    if path is None:
        raise EngineError(
            f"player is {name!r} and no Stockfish was found: install it or set STOCKFISH_PATH"
        )
    options: dict[str, int | bool] = {"Threads": 1, "Hash": 1}
    if "uci_elo" in held_back:
        options["UCI_LimitStrength"] = True
    options |= {_OPTIONS[key]: value for key, value in held_back.items()}
    player = UciPlayer(shlex.quote(str(path)), limits[0], options)
    player.name = f"{player.program} ({name.removeprefix(_BEGINNING)})"
    return player


def label_of(name: str) -> int | None:
    """The Elo that a name gives its player, `uci_elo`; None where it gives none."""
    found = re.search(r"\buci_elo=(\d+)", name) if is_limited_stockfish(name) else None
    return None if found is None else int(found[1])
