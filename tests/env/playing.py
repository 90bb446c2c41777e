"""Shared by the environment's tests: making one without an engine, and playing moves given in UCI."""

from __future__ import annotations

from typing import Any

import chess

from chess_env.env import ChessSelfPlayEnv
from chess_env.moves import move_to_action

ILLEGAL = move_to_action(chess.Move.from_uci("e2e8"), chess.WHITE)
SHUFFLE = ("g1f3", "g8f6", "f3g1", "f6g8")


def make(**arguments: Any) -> ChessSelfPlayEnv:
    return ChessSelfPlayEnv(**({"evaluator": "none"} | arguments))


def play(env: ChessSelfPlayEnv, uci: str) -> tuple[Any, float, bool, bool, dict[str, Any]]:
    return env.step(move_to_action(chess.Move.from_uci(uci), env.board.turn))
