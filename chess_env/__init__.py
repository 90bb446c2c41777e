"""Chess self-play for Gymnasium: `import chess_env`, then `gym.make("ChessSelfPlay-v0")`."""

from __future__ import annotations

import gymnasium as gym

__version__ = "0.1.0"
ENV_ID = "ChessSelfPlay-v0"


def register_envs() -> None:
    """None; makes `ChessSelfPlay-v0` known to Gymnasium. May be called more than once."""
    if ENV_ID not in gym.registry:
        gym.register(
            id=ENV_ID,
            entry_point="chess_env.env:ChessSelfPlayEnv",
            vector_entry_point="chess_env.vector_env:ChessSelfPlayVectorEnv",
        )


register_envs()
