"""A trained policy as a player of matches: one batched forward pass for all its boards."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from algorithms.training.policy import PolicyNet
from chess_env.movegen import Positions
from chess_env.observation import encode_batch
from chess_env.rules import legal_actions_batch

GREEDY = 0.0
"""The temperature of a player that always makes its most probable move."""

ROWS = 8
"""Boards in one forward pass. The number is fixed (the last pass is padded), because the rounding of a
convolution depends on it: with it a game does not depend on how many others run beside it. Measured on one
core of a CPU, 1 board costs 1.9 ms, 8 boards 0.6 ms each, 64 boards 0.4 ms each; towards the end of a
match few games are left, and a large number would mostly compute padding."""


class PolicyPlayer:
    """Plays a policy's most probable move, or draws from the policy at a temperature.

    It sees what it saw in training: repetitions and the rule-50 clock are in its planes.

    Args:
        policy: in evaluation mode; stays on its device.
        temperature: `GREEDY` (0), or that of the softmax from which moves are drawn.
        label: what to call the policy; the temperature is added to it.
        rows: boards in one forward pass; see `ROWS`.

    Raises:
        ValueError: the temperature is negative or not finite, or `rows` is below 1.
    """

    def __init__(
        self, policy: PolicyNet, *, temperature: float, label: str, rows: int = ROWS
    ) -> None:
        if not (math.isfinite(temperature) and temperature >= 0) or rows < 1:
            raise ValueError(
                f"temperature is {temperature} and rows {rows}: expected a temperature of at least 0 "
                "(0 plays the most probable move) and at least 1 row"
            )
        self._policy, self._temperature, self._rows = policy.eval(), temperature, rows
        self._device = next(policy.parameters()).device
        how = "greedy" if temperature == GREEDY else f"temperature {temperature:g}"
        self.name = f"{label} ({how})"

    def choose(
        self, positions: Positions, rngs: Sequence[np.random.Generator]
    ) -> NDArray[np.int64]:
        """int64 [N], as `choose_with_history` where no position has occurred before."""
        return self.choose_with_history(positions, np.zeros(len(positions), np.int64), rngs)

    def choose_with_history(
        self,
        positions: Positions,
        repetitions: NDArray[np.integer],
        rngs: Sequence[np.random.Generator],
    ) -> NDArray[np.int64]:
        """int64 [N]; greedy ties go to the lowest action id, otherwise one `random` draw per board."""
        legal_ids, _ = legal_actions_batch(positions)
        probs = self._probs(encode_batch(positions, repetitions.astype(np.uint8)), legal_ids)
        if self._temperature == GREEDY:
            slots = probs.argmax(axis=1)
        else:
            below = np.cumsum(probs, axis=1)
            uniforms = np.array([rng.random() for rng in rngs])
            # float64 sums of float32 probabilities: the total is 1 but for rounding.
            slots = (below <= uniforms[:, None] * below[:, -1:]).sum(axis=1)
        return legal_ids[np.arange(len(slots)), slots].astype(np.int64)

    def close(self) -> None:
        """None; nothing is held."""

    @torch.inference_mode()
    def _probs(
        self, planes: NDArray[np.uint8], legal_ids: NDArray[np.int16]
    ) -> NDArray[np.float64]:
        """float64 [N, 218]: the policy's probabilities; 0 on padding. Greedy ones are at temperature 1.

        Raises:
            ValueError: one is not finite.
        """
        count = len(planes)
        padding = -count % self._rows
        planes = np.concatenate([planes, np.repeat(planes[:1], padding, axis=0)])
        legal_ids = np.concatenate([legal_ids, np.repeat(legal_ids[:1], padding, axis=0)])
        found = []
        for start in range(0, len(planes), self._rows):
            rows = slice(start, start + self._rows)
            outputs = self._policy.outputs(
                torch.from_numpy(planes[rows]).to(self._device),
                torch.from_numpy(legal_ids[rows]).to(self._device),
                self._temperature or 1.0,
            )
            found.append(outputs.dist.probs.double().cpu().numpy())
        probs = np.concatenate(found)[:count]
        if not np.isfinite(probs).all():
            raise ValueError(
                f"{self.name} gives probabilities that are not finite: use another checkpoint"
            )
        return probs
