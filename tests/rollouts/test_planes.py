"""Planes made from packed boards against those of the environment, and packed boards from planes."""

from __future__ import annotations

import chess
import numpy as np
import torch

from algorithms.rollouts.sampling import planes_of, positions_of
from chess_env.observation import PLANES, encode_batch
from chess_env.positions.start_positions import RandomPlies
from chess_env.rules.fen import pack_fens

SPECIAL = [
    chess.STARTING_FEN,
    "r3k2r/8/8/8/3pP3/8/8/R3K2R b Kq e3 0 1",
    "4k3/8/8/8/8/8/8/4K2R w K - 99 80",
    "4k3/8/8/8/8/8/8/Q3K2Q b - - 149 80",
]


def test_planes_from_packed_boards_equal_the_environments() -> None:
    rng = np.random.default_rng(0)
    source = RandomPlies(0, 200, exclude_heldout=False)
    positions = np.array([*pack_fens(SPECIAL), *(source.sample(rng) for _ in range(300))])
    repetitions = rng.integers(0, 5, len(positions)).astype(np.uint8)
    found = planes_of(torch.from_numpy(positions.view(np.int64)), torch.from_numpy(repetitions))
    assert np.array_equal(found.numpy(), encode_batch(positions, repetitions))


def test_every_plane_says_something() -> None:
    positions = np.array(pack_fens(SPECIAL))
    planes = encode_batch(positions, np.ones(len(positions), np.uint8))
    assert [
        plane.name for plane, seen in zip(PLANES, planes.any((0, 2, 3)), strict=True) if not seen
    ] == []


def test_packed_boards_from_planes_are_the_boards_the_planes_were_made_of() -> None:
    rng = np.random.default_rng(1)
    source = RandomPlies(0, 200, exclude_heldout=False)
    positions = np.array([*pack_fens(SPECIAL), *(source.sample(rng) for _ in range(300))])
    packed = torch.from_numpy(positions.view(np.int64))
    planes = planes_of(packed, torch.zeros(len(packed), dtype=torch.uint8))
    side = 1 - ((packed[:, 7] >> 10) & 1)
    expected = packed.clone()
    clock = ((packed[:, 7] >> 16) & 0xFFFF).clamp(max=100)
    expected[:, 7] = (packed[:, 7] & 0x7FF) | (clock << 16)
    assert torch.equal(positions_of(planes, side.to(torch.int8)), expected)
