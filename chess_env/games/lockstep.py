"""The kernels behind `Boards`: each runs over its rows and writes into arrays that it is given."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from chess_env.jit import inlined, kernel
from chess_env.observation import NUM_PLANES, encode
from chess_env.rules.action_bits import set_action_bits
from chess_env.rules.movegen import MAX_LEGAL, apply, legal_actions_of
from chess_env.rules.packed import STATE, Positions, rule50_clock
from chess_env.rules.rules import (
    ONGOING,
    Statuses,
    occurred,
    phase_of,
    position_hash,
    status_of,
)

# Columns of `Boards.counters`.
HISTORY_LENGTH, REPETITIONS, PLY, STATUS, NUM_LEGAL = range(5)


@inlined
def settle_one(
    positions: Positions,
    history: NDArray[np.uint64],
    counters: NDArray[np.int64],
    legal_ids: NDArray[np.int16],
    row: int,
    fifty_move: bool,
    drawn_at: int,
) -> None:
    """Sets history, legal moves and status of a row whose position has just been set."""
    position = positions[row]
    key = position_hash(position)
    length = counters[row, HISTORY_LENGTH]
    repetitions = occurred(history[row], length, key)
    counters[row, REPETITIONS] = repetitions
    history[row, length] = key
    counters[row, HISTORY_LENGTH] = length + 1
    before = counters[row, NUM_LEGAL]
    count = legal_actions_of(position, legal_ids[row])
    for i in range(count, before):
        legal_ids[row, i] = -1
    counters[row, NUM_LEGAL] = count
    counters[row, STATUS] = status_of(position, count, repetitions, fifty_move, drawn_at)


@kernel
def settle(
    positions: Positions,
    history: NDArray[np.uint64],
    counters: NDArray[np.int64],
    legal_ids: NDArray[np.int16],
    index: NDArray[np.int64],
    fifty_move: bool,
    drawn_at: int,
) -> None:
    """Sets history, legal moves and status of the rows `index`, whose positions have just been set."""
    for row in index:
        settle_one(positions, history, counters, legal_ids, row, fifty_move, drawn_at)


@kernel
def place(
    positions: Positions,
    history: NDArray[np.uint64],
    counters: NDArray[np.int64],
    legal_ids: NDArray[np.int16],
    index: NDArray[np.int64],
    starts: Positions,
    fifty_move: bool,
    drawn_at: int,
) -> None:
    """Starts a new game on each of the rows `index`."""
    for i in range(index.shape[0]):
        row = index[i]
        for word in range(8):
            positions[row, word] = starts[i, word]
        counters[row, HISTORY_LENGTH] = 0
        counters[row, PLY] = 0
        settle_one(positions, history, counters, legal_ids, row, fifty_move, drawn_at)


@kernel
def advance(
    positions: Positions,
    history: NDArray[np.uint64],
    counters: NDArray[np.int64],
    legal_ids: NDArray[np.int16],
    index: NDArray[np.int64],
    actions: NDArray[np.int64],
    fifty_move: bool,
    drawn_at: int,
) -> None:
    """Makes one legal move on each of the rows `index`."""
    child = np.empty(8, np.uint64)
    for i in range(index.shape[0]):
        row = index[i]
        apply(positions[row], actions[i], child)
        for word in range(8):
            positions[row, word] = child[word]
        counters[row, PLY] += 1
        if rule50_clock(child) == 0:
            counters[row, HISTORY_LENGTH] = 0
        settle_one(positions, history, counters, legal_ids, row, fifty_move, drawn_at)


@kernel
def find_illegal(
    counters: NDArray[np.int64],
    legal_ids: NDArray[np.int16],
    actions: NDArray[np.int64],
    out: NDArray[np.bool_],
) -> int:
    """int64: how many `actions`, [N] or [N, G], are illegal; `out` tells which."""
    total, rows, group = 0, len(actions), actions.size // len(actions)
    actions_N_G, out_N_G = actions.reshape(rows, group), out.reshape(rows, group)
    for row in range(rows):
        num_legal = counters[row, NUM_LEGAL]
        for g in range(group):
            action = actions_N_G[row, g]
            # A binary search without branches, which nobody could predict.
            low, length = 0, num_legal
            while length > 1:
                half = length >> 1
                low += half * (legal_ids[row, low + half - 1] < action)
                length -= half
            out_N_G[row, g] = num_legal == 0 or legal_ids[row, low] != action
            total += out_N_G[row, g]
    return total


@kernel
def judge(
    counters: NDArray[np.int64],
    refused: NDArray[np.bool_],
    waiting: NDArray[np.bool_],
    max_plies: int,
    status: Statuses,
    terminated: NDArray[np.bool_],
    truncated: NDArray[np.bool_],
    done: NDArray[np.bool_],
) -> int:
    """int64: how many games are done; writes how each one stands after a step."""
    num_done = 0
    for row in range(status.shape[0]):
        status[row] = ONGOING if refused[row] or waiting[row] else counters[row, STATUS]
        terminated[row] = status[row] != ONGOING or refused[row]
        out_of_plies = counters[row, PLY] >= max_plies
        truncated[row] = out_of_plies and not terminated[row] and not waiting[row]
        done[row] = terminated[row] or truncated[row]
        num_done += done[row]
    return num_done


@kernel
def look_ahead(
    positions: Positions,
    history: NDArray[np.uint64],
    counters: NDArray[np.int64],
    actions: NDArray[np.int64],
    fifty_move: bool,
    drawn_at: int,
    children: NDArray[np.uint64],
    status: Statuses,
) -> None:
    """Writes the positions and status after each of the legal `actions` [N, G]."""
    legal_ids = np.empty(MAX_LEGAL, np.int16)
    for row in range(actions.shape[0]):
        for g in range(actions.shape[1]):
            child = children[row, g]
            apply(positions[row], actions[row, g], child)
            repetitions = 0
            if rule50_clock(child):
                key = position_hash(child)
                repetitions = occurred(history[row], counters[row, HISTORY_LENGTH], key)
            count = legal_actions_of(child, legal_ids)
            status[row, g] = status_of(child, count, repetitions, fifty_move, drawn_at)


@kernel
def write_masks(
    counters: NDArray[np.int64],
    legal_ids: NDArray[np.int16],
    index: NDArray[np.int64],
    masks: NDArray[np.int8],
) -> None:
    """Writes the masks of the rows `index`, int8 [N, 1858]: 1 where legal."""
    for row in index:
        masks[row] = 0
        for slot in range(counters[row, NUM_LEGAL]):
            masks[row, legal_ids[row, slot]] = 1


@kernel
def show(
    positions: Positions,
    counters: NDArray[np.int64],
    board_legal_ids: NDArray[np.int16],
    index: NDArray[np.int64],
    num_legal: NDArray[np.int16],
    ply: NDArray[np.int32],
    turn: NDArray[np.int8],
    phase: NDArray[np.int8],
    status: Statuses,
    repetitions: NDArray[np.uint8] | None,
    shown_positions: Positions | None,
    planes: NDArray[np.uint8] | None,
    mask: NDArray[np.int8] | None,
    mask_bits: NDArray[np.uint64] | None,
    legal_ids: NDArray[np.int16] | None,
) -> None:
    """Writes what is seen on the rows `index` (see `View`); each set of arrays that are None is compiled apart."""
    for row in index:
        position = positions[row]
        num_legal[row] = counters[row, NUM_LEGAL]
        ply[row] = counters[row, PLY]
        turn[row] = 1 - np.int8((position[STATE] >> np.uint64(10)) & np.uint64(1))
        phase[row] = phase_of(position)
        status[row] = counters[row, STATUS]
        if repetitions is not None:
            repetitions[row] = min(counters[row, REPETITIONS], 255)
        if shown_positions is not None:
            for word in range(8):
                shown_positions[row, word] = position[word]
        if legal_ids is not None:
            # Element loops: numba's slice assignment costs four times as much on such short rows.
            for slot in range(MAX_LEGAL):
                legal_ids[row, slot] = board_legal_ids[row, slot]
        if mask_bits is not None:
            set_action_bits(board_legal_ids[row], counters[row, NUM_LEGAL], mask_bits[row])
    if mask is not None:
        write_masks(counters, board_legal_ids, index, mask)
    if planes is not None:
        flat_planes = planes.reshape(planes.shape[0], NUM_PLANES, 64)
        for row in index:
            encode(positions[row], counters[row, REPETITIONS], flat_planes[row])
