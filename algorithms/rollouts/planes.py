"""Planes made where the network runs (a packed board is 64 bytes to send, its planes 1,216), and back."""

from __future__ import annotations

import torch
from torch import Tensor

from chess_env.observation import MAX_REPETITIONS, MAX_RULE50, NUM_PLANES


def planes_of(positions: Tensor, repetitions: Tensor) -> Tensor:
    """uint8 `[N, 19, 8, 8]`: the planes of `chess_env.observation.encode_batch`, on the positions' device.

    Args:
        positions: int64 `[N, 8]`, packed positions (the bits of `chess_env.rules.movegen`'s uint64 words).
        repetitions: uint8 `[N]`, earlier occurrences of each position in its game.
    """
    squares = torch.arange(64, device=positions.device)
    men = ((positions[:, :7, None] >> squares) & 1).to(torch.uint8)
    kinds, own = men[:, :6], men[:, 6:]
    state = positions[:, 7, None]
    planes = torch.empty((len(positions), NUM_PLANES, 64), dtype=torch.uint8, device=men.device)
    planes[:, :6] = kinds * own
    planes[:, 6:12] = kinds * (1 - own)
    planes[:, 12:16] = ((state >> squares[:4]) & 1).unsqueeze(-1)
    en_passant = (state >> 4) & 63
    planes[:, 16] = (squares == en_passant) & (en_passant > 0)
    planes[:, 17] = repetitions.clamp(max=MAX_REPETITIONS).unsqueeze(-1)
    planes[:, 18] = ((state >> 16) & 0xFFFF).clamp(max=MAX_RULE50)
    return planes.view(-1, NUM_PLANES, 8, 8)


def positions_of(planes: Tensor, side: Tensor) -> Tensor:
    """int64 `[N, 8]`: the packed positions that the planes show; the inverse of `planes_of`.

    The planes say nothing of the full-move number (0 here) and end the rule-50 clock at 100.

    Args:
        planes: uint8 `[N, 19, 8, 8]`, mover's view.
        side: int8 `[N]`, side to move, 1 White, 0 Black.
    """
    squares = torch.arange(64, device=planes.device)
    cells = planes.flatten(2).long()
    men = (cells[:, :12] << squares).sum(-1)  # one bit for each square, so no sum carries
    positions = torch.zeros((len(planes), 8), dtype=torch.int64, device=planes.device)
    positions[:, :6] = men[:, :6] | men[:, 6:]
    positions[:, 6] = men[:, :6].sum(-1)
    rights = (cells[:, 12:16, 0] << squares[:4]).sum(-1)
    en_passant = (cells[:, 16] * squares).sum(-1) << 4
    black = (1 - side.long()) << 10
    positions[:, 7] = rights | en_passant | black | (cells[:, 18, 0] << 16)
    return positions
