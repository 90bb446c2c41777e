"""Layers that several networks are made of."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from chess_env.observation import NUM_PLANES, PLANES

INITIAL_LOGIT_STD = 0.2
"""Spread of the logits at initialisation: a nearly uniform policy (entropy .02 nats below it)."""

EMBEDDING_STD = 0.5
"""Of a square's first features: 1 to 5 of its planes are set, which with the position's makes unit scale."""


class SquareEmbedding(nn.Module):
    """Features of each square by itself: a linear layer of its planes, and learned features of the square."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.planes = nn.Linear(NUM_PLANES, channels, bias=False)
        self.position = nn.Parameter(torch.empty(64, channels))
        nn.init.normal_(self.planes.weight, std=EMBEDDING_STD)
        nn.init.normal_(self.position, std=EMBEDDING_STD)
        self.register_buffer("scale", plane_scale(), persistent=False)
        self.scale: Tensor

    def forward(self, obs: Tensor) -> Tensor:
        """`[N, 64, channels]` in the parameters' dtype, from uint8 planes `[N, C, 8, 8]`."""
        # Turned round while they are bytes; scaled in the weights, of which there are fewer.
        planes = obs.flatten(2).transpose(1, 2).contiguous().to(self.scale.dtype)
        return F.linear(planes, self.planes.weight * self.scale) + self.position


def plane_scale() -> Tensor:
    """Float32 `[C]`: factors that bring each plane's largest value to 1."""
    return torch.tensor([1.0 / plane.high for plane in PLANES])


def linear_in(layer: nn.Linear, x: Tensor, dtype: torch.dtype) -> Tensor:
    """`[..., outputs]` `layer(x)` with the product in `dtype`; the weights keep theirs."""
    if dtype is torch.float32:
        return layer(x)
    bias = None if layer.bias is None else layer.bias.to(dtype)
    return F.linear(x.to(dtype), layer.weight.to(dtype), bias)
