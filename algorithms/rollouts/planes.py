"""Planes computed on the network's device (a packed board is 64 bytes, and so is each plane), and the inverse."""

from __future__ import annotations

import torch
from torch import Tensor

from chess_env.observation import MAX_REPETITIONS, MAX_RULE50, NUM_PLANES, PLANE_INDEX

# The groups that both directions treat as one.
_OWN_MEN = slice(PLANE_INDEX.mover_pawn, PLANE_INDEX.mover_king + 1)
_THEIR_MEN = slice(PLANE_INDEX.opponent_pawn, PLANE_INDEX.opponent_king + 1)
_RIGHTS = slice(PLANE_INDEX.mover_castles_kingside, PLANE_INDEX.opponent_castles_queenside + 1)


def planes_of(positions: Tensor, repetitions: Tensor) -> Tensor:
    """uint8 `[N, C, 8, 8]`: the planes of `chess_env.observation.encode_batch`, on the positions' device.

    Args:
        positions: int64 `[N, 8]`, packed positions (the bits of `chess_env.rules.movegen`'s uint64 words).
        repetitions: uint8 `[N]`, earlier occurrences of each position in its game.
    """
    squares = torch.arange(64, device=positions.device)
    men = ((positions[:, :7, None] >> squares) & 1).to(torch.uint8)
    kinds, own = men[:, :6], men[:, 6:]
    state = positions[:, 7, None]
    planes = torch.empty((len(positions), NUM_PLANES, 64), dtype=torch.uint8, device=men.device)
    planes[:, _OWN_MEN] = kinds * own
    planes[:, _THEIR_MEN] = kinds * (1 - own)
    planes[:, _RIGHTS] = ((state >> squares[:4]) & 1).unsqueeze(-1)
    en_passant = (state >> 4) & 63
    planes[:, PLANE_INDEX.en_passant] = (squares == en_passant) & (en_passant > 0)
    planes[:, PLANE_INDEX.repetitions] = repetitions.clamp(max=MAX_REPETITIONS).unsqueeze(-1)
    planes[:, PLANE_INDEX.rule50_clock] = ((state >> 16) & 0xFFFF).clamp(max=MAX_RULE50)
    return planes.view(-1, NUM_PLANES, 8, 8)


def positions_of(planes: Tensor, side: Tensor) -> Tensor:
    """int64 `[N, 8]`: the packed positions that the planes show; the inverse of `planes_of`.

    The planes say nothing of the full-move number (0 here) and end the rule-50 clock at 100.

    Args:
        planes: uint8 `[N, C, 8, 8]`, mover's view.
        side: int8 `[N]`, side to move, 1 White, 0 Black.
    """
    squares = torch.arange(64, device=planes.device)
    cells = planes.flatten(2).long()
    # One bit for each square, so no sum carries.
    own = (cells[:, _OWN_MEN] << squares).sum(-1)
    theirs = (cells[:, _THEIR_MEN] << squares).sum(-1)
    positions = torch.zeros((len(planes), 8), dtype=torch.int64, device=planes.device)
    positions[:, :6] = own | theirs
    positions[:, 6] = own.sum(-1)
    rights = (cells[:, _RIGHTS, 0] << squares[:4]).sum(-1)
    en_passant = (cells[:, PLANE_INDEX.en_passant] * squares).sum(-1) << 4
    black = (1 - side.long()) << 10
    positions[:, 7] = rights | en_passant | black | (cells[:, PLANE_INDEX.rule50_clock, 0] << 16)
    return positions
