"""A trained policy as a player of matches: one batched forward pass for all its boards."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from algorithms.networks.policy_net import PolicyNet
from chess_env.observation import NUM_PLANES, encode_batch
from chess_env.rules.movegen import MAX_LEGAL
from chess_env.rules.packed import Positions
from chess_env.rules.rules import legal_actions_batch

GREEDY = 0.0
"""The temperature of a player that always makes its most probable move."""

ROWS = 8
MORE_ROWS = (32, 16)
"""Boards in one forward pass; the last one is padded. The rounding of a convolution can depend on this
number, and a game must not depend on how many others run beside it. So the larger ones are only used where
they give the same bits, which is tried when a player is made. Measured on one core of a CPU (where all
numbers from 4 on gave the same bits): 1 board costs 1.3 ms, 8 boards 0.57 ms each, 32 boards 0.44 ms each,
128 boards 0.55 ms each."""


class PolicyPlayer:
    """Plays a policy's most probable move, or draws from the policy at a temperature.

    It sees what it saw in training: repetitions and the rule-50 clock are in its planes.

    Args:
        policy: in evaluation mode; stays on its device.
        temperature: `GREEDY` (0), or that of the softmax from which moves are drawn.
        label: what to call the policy; the temperature is added to it.

    Raises:
        ValueError: the temperature is negative or not finite.
    """

    def __init__(self, policy: PolicyNet, *, temperature: float, label: str) -> None:
        if not (math.isfinite(temperature) and temperature >= 0):
            raise ValueError(
                f"temperature is {temperature}: expected a temperature of at least 0 (0 plays the most "
                "probable move)"
            )
        self._policy, self._temperature = policy.eval(), temperature
        self._device = next(policy.parameters()).device
        self._sizes = [*self._sizes_of_equal_bits(), ROWS]
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
            below = np.cumsum(probs, axis=1, dtype=np.float64)
            uniforms = np.array([rng.random() for rng in rngs])
            # float64 sums of float32 probabilities: the total is 1 but for rounding.
            slots = (below <= uniforms[:, None] * below[:, -1:]).sum(axis=1)
        return legal_ids[np.arange(len(slots)), slots].astype(np.int64)

    def close(self) -> None:
        """None; nothing is held."""

    def _probs(
        self, planes: NDArray[np.uint8], legal_ids: NDArray[np.int16]
    ) -> NDArray[np.float32]:
        """float32 [N, 218]: the policy's probabilities; 0 on padding. Greedy ones are at temperature 1.

        Raises:
            ValueError: one is not finite.
        """
        count = len(planes)
        padding = -count % ROWS
        if padding:
            planes = np.concatenate([planes, np.repeat(planes[:1], padding, axis=0)])
            legal_ids = np.concatenate([legal_ids, np.repeat(legal_ids[:1], padding, axis=0)])
        found, start = [], 0
        while start < len(planes):
            size = next(size for size in self._sizes if size <= len(planes) - start)
            found.append(self._pass(planes[start : start + size], legal_ids[start : start + size]))
            start += size
        probs = np.concatenate(found)[:count]
        if not np.isfinite(probs).all():
            raise ValueError(
                f"{self.name} gives probabilities that are not finite: use another checkpoint"
            )
        return probs

    @torch.inference_mode()
    def _pass(self, planes: NDArray[np.uint8], legal_ids: NDArray[np.int16]) -> NDArray[np.float32]:
        """float32 [rows, 218], one forward pass."""
        outputs = self._policy.outputs(
            torch.from_numpy(planes).to(self._device),
            torch.from_numpy(legal_ids).to(self._device),
            self._temperature or 1.0,
        )
        return outputs.dist.probs.float().cpu().numpy()

    def _sizes_of_equal_bits(self) -> list[int]:
        """Those of `MORE_ROWS` that give the same bits as `ROWS` at a time, on boards of random planes."""
        rng = np.random.default_rng(0)
        most = max(MORE_ROWS)
        planes = rng.integers(0, 2, (most, NUM_PLANES, 8, 8), np.uint8)
        legal_ids = np.tile(np.arange(MAX_LEGAL, dtype=np.int16), (most, 1))

        def in_passes_of(size: int) -> NDArray[np.float32]:
            starts = range(0, most, size)
            return np.concatenate(
                [self._pass(planes[at : at + size], legal_ids[at : at + size]) for at in starts]
            )

        few = in_passes_of(ROWS)
        return [size for size in MORE_ROWS if np.array_equal(in_passes_of(size), few)]
