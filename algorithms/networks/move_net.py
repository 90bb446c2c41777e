"""The network that reads the facts of each legal move: a head, and a trunk of any size."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from algorithms.networks.layers import SquareEmbedding
from algorithms.networks.move_head import MoveHead, ScoredMoves, padded
from algorithms.networks.policy_net import LogitFactors, PolicyNet, require_move_facts
from algorithms.networks.settings import DEFAULT_PRECISION, DTYPES, NetworkConfig, PrecisionConfig


class MixerBlock(nn.Module):
    """Two small MLPs, added to the features: one across the squares, one within each. At first the identity."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        last_squares, last_channels = nn.Linear(64, 64), nn.Linear(2 * channels, channels)
        self.square_norm = nn.LayerNorm(channels)
        self.across_squares = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), last_squares)
        self.channel_norm = nn.LayerNorm(channels)
        self.across_channels = nn.Sequential(
            nn.Linear(channels, 2 * channels), nn.ReLU(), last_channels
        )
        for layer in (last_squares, last_channels):
            nn.init.zeros_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor) -> Tensor:
        """`[N, 64, channels]`, like the input."""
        x = x + self.across_squares(self.square_norm(x).transpose(1, 2)).transpose(1, 2)
        return x + self.across_channels(self.channel_norm(x))


class MoveNet(PolicyNet):
    """Features of the squares, blocks that mix them (or none), and the head that reads each move's facts.

    Without blocks the features of a square depend on the man there alone; the rest of the board is in the
    facts of the move (`chess_env.move_facts`) and in the mean of the squares. That is far stronger than a trunk without
    facts, at a tenth of its cost. A critic reads the mean of the squares, and mean and largest of the moves'
    features; it gives 0 at first.

    Args:
        config: its dimensions are `channels` features of a square, `blocks` of the trunk, and `head_dim`
            features of a move.
        critic: whether there is a value head.
        precision: where it computes below float32.
        block: makes one block of the trunk, `[N, 64, channels]` to the same, from `channels`.
    """

    reads_move_facts = True

    def __init__(
        self,
        config: NetworkConfig,
        *,
        critic: bool = False,
        precision: PrecisionConfig = DEFAULT_PRECISION,
        block: Callable[[int], nn.Module] = MixerBlock,
    ) -> None:
        super().__init__(config, precision)
        channels, blocks, width = config.dimensions
        self.embedding = SquareEmbedding(channels)
        self.body = nn.Sequential(*(block(channels) for _ in range(blocks)))
        self.dropout = nn.Dropout(config.dropout) if config.dropout > 0 else nn.Identity()
        self.norm = nn.LayerNorm(channels)
        self.head = MoveHead(channels, width)
        # Last, so that the weights above are the same with and without a critic.
        self.value_head: nn.Sequential | None = None
        if critic:
            last = nn.Linear(channels, 1)
            first = nn.Linear(channels + 2 * width, channels)
            self.value_head = nn.Sequential(first, nn.ReLU(), last)
            nn.init.zeros_(last.weight)
            nn.init.zeros_(last.bias)

    def logits_and_values(
        self, obs: Tensor, legal_ids: Tensor, move_facts: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """(`[N, L]` logits, `[N]` values or None), from one pass.

        Raises:
            ValueError: the facts of the moves are missing, or of another shape.
        """
        require_move_facts(legal_ids, move_facts)
        assert move_facts is not None
        squares = self.squares(obs)
        with torch.autocast(obs.device.type, enabled=False):
            moves = self.head(squares, legal_ids, move_facts, DTYPES[self.precision.head_dtype])
            return moves.logits, self.state_values(squares, legal_ids, moves)

    def logit_factors(self) -> LogitFactors:
        """The biases, the weights of the moves' features, and the weights of the to vectors."""
        head = self.head
        return LogitFactors(
            head.action_bias,
            (head.score.weight, *head.to_vector.parameters(), head.promotion_bias),
        )

    def trunk(self) -> nn.Module:
        """The blocks; empty where there are none."""
        return self.body

    def squares(self, obs: Tensor) -> Tensor:
        """`[N, 64, channels]` normalised features of the squares, in the parameters' dtype."""
        enabled = obs.device.type == "cuda" and self.precision.autocast
        dtype = DTYPES[self.precision.autocast_dtype]
        with torch.autocast(obs.device.type, dtype=dtype, enabled=enabled):
            x = self.body(self.embedding(obs))
        with torch.autocast(obs.device.type, enabled=False):
            return self.norm(self.dropout(x).to(self.norm.weight.dtype))

    def state_values(self, squares: Tensor, legal_ids: Tensor, moves: ScoredMoves) -> Tensor | None:
        """`[N]` values; None without a critic."""
        if self.value_head is None:
            return None
        features = padded(moves.features, moves.slots, legal_ids.shape)
        count = (legal_ids >= 0).sum(1, keepdim=True).clamp(min=1)
        # Features are at least 0, so the padding's 0 is in the way of neither the sum nor the largest.
        read = (squares.mean(1), features.sum(1) / count, features.amax(1))
        return self.value_head(torch.cat(read, 1)).squeeze(-1)
