"""The residual network: planes in, one logit per legal move out."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from algorithms.networks.policy_net import (
    INITIAL_LOGIT_STD,
    LogitFactors,
    PolicyNet,
    linear_in,
    plane_scale,
)
from algorithms.networks.settings import DEFAULT_PRECISION, DTYPES, NetworkConfig, PrecisionConfig
from chess_env.moves import ACTION_FROM, ACTION_PROMOTION, ACTION_TO, NUM_ACTIONS
from chess_env.observation import NUM_PLANES

STEM_STD = 0.4
"""Of the stem's weights: about 6 of the inputs of a 3x3 patch are set, which makes activations of unit scale."""


class ResidualBlock(nn.Module):
    """Two 3x3 convolutions and a pooled global term, added to the input; at first the identity."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1)
        self.pooled = nn.Linear(channels, channels)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)
        nn.init.kaiming_normal_(self.first.weight, nonlinearity="relu")
        nn.init.zeros_(self.pooled.weight)
        nn.init.zeros_(self.pooled.bias)
        nn.init.zeros_(self.second.weight)

    def forward(self, x: Tensor) -> Tensor:
        """`[N, channels, 8, 8]`, like the input."""
        hidden = self.first(x)
        hidden = F.relu(hidden + self.pooled(x.mean((2, 3)))[:, :, None, None])
        return F.relu(x + self.second(hidden))


class ResidualPolicy(PolicyNet):
    """Residual convolutional trunk with a from-to attention head.

    Every square gets a `from` and a `to` vector; a move's logit is their scaled product plus a
    learned bias of the action and of the under-promotion piece. A critic reads the mean of the
    squares' features and gives 0 at first. There are no batch statistics, so a row does not depend on
    the rest of its batch.

    Args:
        config: its dimensions are `channels` of the trunk, `blocks` of two convolutions, and the length
            `head_dim` of the from and to vectors.
        critic: whether there is a value head.
        precision: where it computes below float32.
    """

    def __init__(
        self,
        config: NetworkConfig,
        *,
        critic: bool = False,
        precision: PrecisionConfig = DEFAULT_PRECISION,
    ) -> None:
        super().__init__(config, precision)
        channels, blocks, head_dim = config.dimensions
        self.stem = nn.Conv2d(NUM_PLANES, channels, 3, padding=1)
        self.square_bias = nn.Parameter(torch.zeros(1, channels, 8, 8))
        self.body = nn.Sequential(*(ResidualBlock(channels) for _ in range(blocks)))
        self.dropout = nn.Dropout(config.dropout) if config.dropout > 0 else nn.Identity()
        self.norm = nn.LayerNorm(channels)
        self.from_vector = nn.Linear(channels, head_dim)
        self.to_vector = nn.Linear(channels, head_dim)
        self.action_bias = nn.Parameter(torch.zeros(NUM_ACTIONS))
        self.promotion_bias = nn.Parameter(torch.zeros(int(ACTION_PROMOTION.max()) + 1))
        nn.init.normal_(self.stem.weight, std=STEM_STD)
        # The norm gives the vectors unit features; without it both factors of a logit start tiny,
        # each holds back the other's gradient, and nothing is learned for thousands of moves.
        nn.init.normal_(self.from_vector.weight, std=channels**-0.5)
        nn.init.normal_(self.to_vector.weight, std=INITIAL_LOGIT_STD * channels**-0.5)
        # Last, so that the weights above are the same with and without a critic.
        self.value_head: nn.Sequential | None = None
        if critic:
            last = nn.Linear(channels, 1)
            self.value_head = nn.Sequential(nn.Linear(channels, channels), nn.ReLU(), last)
            nn.init.zeros_(last.weight)
            nn.init.zeros_(last.bias)

        scale = plane_scale().view(1, -1, 1, 1)
        self.register_buffer("plane_scale", scale, persistent=False)
        from_to = torch.tensor(ACTION_FROM * 64 + ACTION_TO)
        self.register_buffer("from_to", from_to, persistent=False)
        self.register_buffer("promotion", torch.tensor(ACTION_PROMOTION), persistent=False)
        self.plane_scale: Tensor
        self.from_to: Tensor
        self.promotion: Tensor

    def logits_and_values(
        self, obs: Tensor, legal_ids: Tensor, move_facts: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """(`[N, L]` logits, `[N]` values or None), from one pass through the trunk; it reads no move facts."""
        squares = self.squares(obs)
        return self.move_logits(squares, legal_ids), self.state_values(squares)

    def values(
        self, obs: Tensor, legal_ids: Tensor, move_facts: Tensor | None = None
    ) -> Tensor | None:
        """`[N]` the critic's values alone, side to move's view, from the planes alone; None without a critic."""
        return None if self.value_head is None else self.state_values(self.squares(obs))

    def logit_factors(self) -> LogitFactors:
        """The biases and the weights of the to vectors."""
        return LogitFactors(self.action_bias, (*self.to_vector.parameters(), self.promotion_bias))

    def trunk(self) -> nn.Module:
        """The residual blocks."""
        return self.body

    def squares(self, obs: Tensor) -> Tensor:
        """`[N, 64, channels]` normalised features of the squares, in the parameters' dtype."""
        on_cuda = obs.device.type == "cuda"
        dtype = DTYPES[self.precision.autocast_dtype]
        enabled = on_cuda and self.precision.autocast
        with torch.autocast(obs.device.type, dtype=dtype, enabled=enabled):
            planes = obs.to(self.plane_scale.dtype) * self.plane_scale
            # cuDNN's 16-bit convolutions read the channels of a square next to each other.
            if on_cuda:
                planes = planes.contiguous(memory_format=torch.channels_last)
            x = F.relu(self.stem(planes) + self.square_bias)
            x = self.body(x)
        with torch.autocast(obs.device.type, enabled=False):
            x = self.dropout(x).to(self.norm.weight.dtype)
            return self.norm(x.flatten(2).transpose(1, 2))

    def move_logits(self, squares: Tensor, legal_ids: Tensor) -> Tensor:
        """`[N, L]` logits of the actions `legal_ids` (integers, -1 on padding) from `squares(obs)`."""
        dtype = DTYPES[self.precision.head_dtype]
        with torch.autocast(squares.device.type, enabled=False):
            from_vector = linear_in(self.from_vector, squares, dtype)
            to_vector = linear_in(self.to_vector, squares, dtype)
            product = (from_vector @ to_vector.transpose(1, 2)).to(squares.dtype)
            product = product * from_vector.shape[-1] ** -0.5
            action = legal_ids.long().clamp(min=0)
            bias = self.action_bias + self.promotion_bias[self.promotion]
            return product.flatten(1).gather(1, self.from_to[action]) + bias[action]

    def state_values(self, squares: Tensor) -> Tensor | None:
        """`[N]` values from `squares(obs)`; None without a critic."""
        if self.value_head is None:
            return None
        with torch.autocast(squares.device.type, enabled=False):
            return self.value_head(squares.mean(1)).squeeze(-1)
