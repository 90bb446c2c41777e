"""The boards between two rollouts, as numpy arrays on the host."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from chess_env.vector_env import ChessSelfPlayVectorEnv


@dataclasses.dataclass
class VecState:
    """The boards as they stand between two rollouts, so that the streams of play go on.

    Attributes:
        positions: uint64 `[N, 8]`, packed; the planes are made where the network runs.
        repetitions: uint8 `[N]`, earlier occurrences of each position in its game.
        legal_ids: int16 `[N, 218]` ascending, padded with -1.
        num_legal: int16 `[N]`.
        ply: int32 `[N]`.
        turn: int8 `[N]`, 1 White.
        phase: int8 `[N]`.
        score_cp: int32 `[N]`, side to move's view, centipawns; None without an evaluator.
        move_facts: uint8 `[N, 218, F]` of each legal move; None where the boards were made without.
    """

    positions: NDArray[np.uint64]
    repetitions: NDArray[np.uint8]
    legal_ids: NDArray[np.int16]
    num_legal: NDArray[np.int16]
    ply: NDArray[np.int32]
    turn: NDArray[np.int8]
    phase: NDArray[np.int8]
    score_cp: NDArray[np.int32] | None = None
    move_facts: NDArray[np.uint8] | None = None

    @classmethod
    def of(cls, vec: ChessSelfPlayVectorEnv, info: Mapping[str, Any]) -> VecState:
        """The boards of `vec` after the `reset` or `step` that returned `info`; keeps its arrays."""
        names = ("legal_ids", "num_legal", "ply", "turn", "phase")
        named = {name: info[name] for name in names}
        named |= {name: info[name] for name in ("score_cp", "move_facts") if name in info}
        return cls(vec.positions, vec.repetitions, **named)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays by name, each of shape `[boards, ...]`, for a checkpoint."""
        named = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {name: value for name, value in named.items() if value is not None}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> VecState:
        """The inverse of `to_arrays`."""
        return cls(**arrays)
