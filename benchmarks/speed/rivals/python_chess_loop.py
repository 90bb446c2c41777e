"""The rival of the vector environment: one board on python-chess, written as well as Python allows.

Random legal play from the initial position with planes, mask, own threefold and fifty-move rules and
automatic restart on every ply, like `ChessSelfPlayVectorEnv`. Bitboards are unpacked eight bits at a
time, action ids come from a table, and repetitions from a dictionary of transposition keys; python-chess
spends nearly all of the remaining time generating legal moves.
"""

from __future__ import annotations

import random
import struct

import chess
import numpy as np

NUM_ACTIONS = 1858


def action_table() -> list[list[int]]:
    """Action id by from-square and to-square (mover's view); -1 where no queen or knight moves."""
    table = [[-1] * 64 for _ in range(64)]
    next_id = 0
    for start in range(64):
        for end in range(64):
            ranks = abs(start // 8 - end // 8)
            files = abs(start % 8 - end % 8)
            straight = start != end and (ranks == 0 or files == 0 or ranks == files)
            if straight or {ranks, files} == {1, 2}:
                table[start][end] = next_id
                next_id += 1
    return table


ACTION = action_table()
UNDERPROMOTION_BASE = 1792
PACK_WHITE, PACK_BLACK = struct.Struct("<12Q"), struct.Struct(">12Q")


def planes_of(board: chess.Board, earlier: int) -> np.ndarray:
    """uint8 [19, 8, 8]: the observation, `earlier` occurrences of the position included."""
    white = board.turn
    own, their = board.occupied_co[white], board.occupied_co[not white]
    men = (board.pawns, board.knights, board.bishops, board.rooks, board.queens, board.kings)
    # Big-endian packing reverses the bytes of each bitboard: the board seen from the other side.
    pack = PACK_WHITE if white else PACK_BLACK
    raw = pack.pack(*[m & own for m in men], *[m & their for m in men])
    planes = np.zeros((19, 8, 8), np.uint8)
    bits = np.frombuffer(raw, np.uint8).reshape(12, 8)
    planes[:12] = np.unpackbits(bits, axis=1, bitorder="little").reshape(12, 8, 8)
    rights = board.castling_rights
    home, away = (rights & 0xFF, rights >> 56) if white else (rights >> 56, rights & 0xFF)
    for plane, held in ((12, home & 128), (13, home & 1), (14, away & 128), (15, away & 1)):
        if held:
            planes[plane] = 1
    if board.ep_square is not None and board.has_legal_en_passant():
        square = board.ep_square ^ (0 if white else 56)
        planes[16, square >> 3, square & 7] = 1
    planes[17] = min(earlier, 2)
    planes[18] = min(board.halfmove_clock, 100)
    return planes


def ids_of(board: chess.Board, legal: list[chess.Move]) -> list[int]:
    """Action id of each legal move."""
    flip = 0 if board.turn else 56
    return [
        ACTION[move.from_square ^ flip][move.to_square ^ flip]
        if move.promotion is None or move.promotion == chess.QUEEN
        else UNDERPROMOTION_BASE
        + 3 * (3 * (move.from_square & 7) + (move.to_square & 7) - (move.from_square & 7))
        + move.promotion
        - 2
        for move in legal
    ]


class PythonChessLoop:
    """One game after another; `step(slot)` plays the slot-th legal move and returns what an agent needs."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.board = chess.Board()
        self.seen: dict[object, int] = {}
        self.observe()

    def observe(self) -> None:
        board = self.board
        self.legal = list(board.legal_moves)
        key = board._transposition_key()
        self.occurrences = self.seen.get(key, 0) + 1
        self.seen[key] = self.occurrences
        self.planes = planes_of(board, self.occurrences - 1)
        self.mask = np.zeros(NUM_ACTIONS, np.int8)
        self.mask[ids_of(board, self.legal)] = 1

    def step(self, slot: int) -> tuple[np.ndarray, np.ndarray, float, bool]:
        board = self.board
        move = self.legal[slot]
        if board.is_zeroing(move):
            self.seen = {}
        board.push(move)
        self.observe()
        reward, over = 0.0, False
        if not self.legal:
            reward, over = (1.0 if board.is_check() else 0.0), True
        elif (
            board.halfmove_clock >= 100 or self.occurrences >= 3 or board.is_insufficient_material()
        ):
            over = True
        planes, mask = self.planes, self.mask
        if over:
            self.reset()
        return planes, mask, reward, over


def play(loop: PythonChessLoop, rng: random.Random, plies: int) -> int:
    """Number of plies played at random."""
    for _ in range(plies):
        loop.step(int(rng.random() * len(loop.legal)))
    return plies
