"""Attention between the 64 squares, under the head that reads each move's facts."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F

from algorithms.networks.move_net import MoveNet
from algorithms.networks.settings import DEFAULT_PRECISION, NetworkConfig, PrecisionConfig

HEAD_CHANNELS = 16
"""Least features of an attention head."""


class AttentionBlock(nn.Module):
    """Self-attention, then an MLP, each of normalised features and added; at first the identity."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        most = max(1, channels // HEAD_CHANNELS)
        self.heads = max(n for n in range(1, most + 1) if channels % n == 0)
        self.attention_norm = nn.LayerNorm(channels)
        self.asked = nn.Linear(channels, 3 * channels)
        self.answered = nn.Linear(channels, channels)
        self.mlp_norm = nn.LayerNorm(channels)
        last = nn.Linear(2 * channels, channels)
        self.mlp = nn.Sequential(nn.Linear(channels, 2 * channels), nn.GELU(), last)
        for layer in (self.answered, last):
            nn.init.zeros_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor) -> Tensor:
        """`[N, 64, channels]`, like the input."""
        asked = self.asked(self.attention_norm(x)).unflatten(-1, (3, self.heads, -1))
        query, key, value = asked.permute(2, 0, 3, 1, 4)  # [N, heads, 64, channels of a head] each
        found = F.scaled_dot_product_attention(query, key, value)
        x = x + self.answered(found.transpose(1, 2).flatten(2))
        return x + self.mlp(self.mlp_norm(x))


def transformer(
    config: NetworkConfig,
    *,
    critic: bool = False,
    precision: PrecisionConfig = DEFAULT_PRECISION,
) -> MoveNet:
    """`MoveNet` with blocks of attention between the squares.

    Args:
        config: its dimensions are `channels` features of a square, in attention heads of 16; `blocks` of
            attention and MLP; and `head_dim` features of a move.
        critic: whether there is a value head.
        precision: where it computes below float32.
    """
    return MoveNet(config, critic=critic, precision=precision, block=AttentionBlock)
