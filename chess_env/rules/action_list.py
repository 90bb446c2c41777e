"""The ids of moves, given as the target squares of every man, in one loop that has no branch for each man.

A loop over the targets of one man ends where the processor cannot predict it. Without such loops, and with one loop for
each kind of man, the legal moves of a position take .78 of the time. What lies on the stack here would lie on the heap
as an array of NumPy.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import carray, types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from chess_env.jit import inlined
from chess_env.moves import FROM_TO_ACTION
from chess_env.rules.bitboards import U0, U1, lowest_square, popcount

_ACTIONS = FROM_TO_ACTION.reshape(-1)
_ROW = 66
STACK_WORDS = 2 * _ROW


@intrinsic
def stack_words(typing_context: Any) -> Any:
    """Pointer to `STACK_WORDS` uint64 on the stack of the kernel that calls this; for `numba.carray`."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        size = context.get_constant(types.intp, STACK_WORDS)
        return cgutils.alloca_once(builder, context.get_value_type(types.uint64), size=size)

    return types.CPointer(types.uint64)(), codegen


@inlined
def write_actions(men: np.uint64, targets: NDArray[np.uint64], out: NDArray[np.int16]) -> int:
    """Number of moves; their ids are written to `out` in ascending order, a promotion's as that to a queen.

    Args:
        men: uint64, the squares that moves start from.
        targets: uint64 [64], where each of these men may go.
        out: int16, long enough.
    """
    # Of each man that can move: its targets, and in the second half where its row of `_ACTIONS` begins.
    lists = carray(stack_words(), STACK_WORDS)
    listed, total = 0, 0
    while men:
        square = lowest_square(men)
        men &= men - U1
        lists[listed] = targets[square]
        lists[_ROW + listed] = np.uint64(64 * square)
        total += popcount(targets[square])
        listed += int(targets[square] != U0)
    lists[listed] = U0
    left, row, following = lists[0], lists[_ROW], 1
    next_left, next_row = lists[1], lists[_ROW + 1]
    for slot in range(total):
        # An unsigned index: of a signed one it is asked whether it counts from the end.
        out[slot] = _ACTIONS[row + np.uint64(lowest_square(left))]
        left &= left - U1
        # All ones after the last target of a man: then the next man's are taken.
        over = U0 - np.uint64(left == U0)
        left |= next_left & over
        row += (next_row - row) & over
        following += int(over & U1)
        next_left, next_row = lists[following], lists[_ROW + following]
    return total
