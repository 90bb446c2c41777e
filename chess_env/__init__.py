"""Chess self-play for Gymnasium: `import chess_env`, then `gym.make("ChessSelfPlay-v0")`."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import gymnasium as gym

if TYPE_CHECKING:
    from chess_env.env import ChessSelfPlayEnv
    from chess_env.evaluators import make_evaluator
    from chess_env.positions.start_positions import make_start_positions
    from chess_env.vector_env import ChessSelfPlayVectorEnv

__version__ = "0.2.0"
__all__ = [
    "ENV_ID",
    "ChessSelfPlayEnv",
    "ChessSelfPlayVectorEnv",
    "make_evaluator",
    "make_start_positions",
    "register_envs",
]

ENV_ID = "ChessSelfPlay-v0"
# Imported on first use, so that registering the environment stays quick.
_HOMES = {
    "ChessSelfPlayEnv": "chess_env.env",
    "ChessSelfPlayVectorEnv": "chess_env.vector_env",
    "make_evaluator": "chess_env.evaluators",
    "make_start_positions": "chess_env.positions.start_positions",
}


def register_envs() -> None:
    """Makes `ChessSelfPlay-v0` known to Gymnasium. May be called more than once."""
    if ENV_ID not in gym.registry:
        gym.register(
            id=ENV_ID,
            entry_point="chess_env.env:ChessSelfPlayEnv",
            vector_entry_point="chess_env.vector_env:ChessSelfPlayVectorEnv",
        )


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


register_envs()
