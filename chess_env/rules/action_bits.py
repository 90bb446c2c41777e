"""The legal actions of a board as a set of bits: bit a % 64 of word a // 64 is 1 where action a is legal.

On a little-endian machine, `np.unpackbits(bits.view(np.uint8), axis=1, count=1858, bitorder="little")` is the mask.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from chess_env.jit import inlined, kernel
from chess_env.moves import NUM_ACTIONS
from chess_env.rules.bitboards import U0, U1, popcount, square_bit

MASK_WORDS = -(-NUM_ACTIONS // 64)

ActionBits = NDArray[np.uint64]
_UINT64, _INT64, _FLOAT64 = np.dtype(np.uint64), np.dtype(np.int64), np.dtype(np.float64)


@inlined
def set_action_bits(legal_ids: NDArray[np.int16], num_legal: int, words: ActionBits) -> None:
    """Writes the first `num_legal` ids to `words`, uint64 [30]."""
    for word in range(MASK_WORDS):  # numba's slice assignment costs more on so short a row
        words[word] = U0
    for slot in range(num_legal):
        action = np.int64(legal_ids[slot])
        words[action >> 6] |= square_bit(action & 63)


@inlined
def _square_of(bits: np.uint64, number: int) -> int:
    """int64: index of the set bit that has `number` set bits below it, by halves."""
    square = 0
    for size in (32, 16, 8, 4, 2, 1):
        below = popcount(bits & (square_bit(size) - U1))
        is_above = int(number >= below)
        number -= below * is_above
        square += size * is_above
        bits >>= np.uint64(size * is_above)
    return square


@kernel
def _sample(bits: ActionBits, uniforms: NDArray[np.float64], actions: NDArray[np.int64]) -> int:
    for row in range(bits.shape[0]):
        total = 0
        for word in range(bits.shape[1]):
            total += popcount(bits[row, word])
        if total == 0 or not 0 <= uniforms[row] < 1:
            return row
        number = min(int(uniforms[row] * total), total - 1)
        # No branch depends on the random number: the processor could not predict it.
        found, passed, counted = 0, 0, 0
        for word in range(bits.shape[1]):
            counted += popcount(bits[row, word])
            is_before = counted <= number
            found += is_before
            passed = counted if is_before else passed
        actions[row] = 64 * found + _square_of(bits[row, found], number - passed)
    return -1


def sample_action_bits(bits: ActionBits, uniforms: NDArray[np.float64]) -> NDArray[np.int64]:
    """int64 [N]: one legal action of each board, all of a board's alike likely.

    Args:
        bits: uint64 [N, 30], `info["action_mask_bits"]`.
        uniforms: float64 [N] in [0, 1), such as `rng.random(N)`; of L legal actions, the one number floor(L * u).

    Raises:
        ValueError: arrays of another shape or dtype, a board without a legal action, or a number outside [0, 1).
    """
    bits, uniforms = np.asarray(bits), np.asarray(uniforms)
    count = len(uniforms) if uniforms.ndim == 1 else -1
    if bits.shape != (count, MASK_WORDS) or bits.dtype != _UINT64 or uniforms.dtype != _FLOAT64:
        raise ValueError(
            f"bits are {bits.dtype} {list(bits.shape)} and uniforms {uniforms.dtype} {list(uniforms.shape)}: "
            f"expected uint64 [N, {MASK_WORDS}] and float64 [N]"
        )
    actions = np.empty(count, _INT64)
    bad = _sample(bits, uniforms, actions)
    if bad >= 0:
        raise ValueError(
            f"board {bad} has {int(np.bitwise_count(bits[bad]).sum())} legal actions and the uniform {uniforms[bad]}: "
            "expected at least one action, and a number in [0, 1)"
        )
    return actions
