"""The networks that read the facts of each legal move: one head, over a trunk that mixes the squares or attends."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from algorithms.networks.policy_net import (
    INITIAL_LOGIT_STD,
    LogitFactors,
    PolicyNet,
    linear_in,
    plane_scale,
    require_move_facts,
)
from algorithms.networks.settings import DEFAULT_PRECISION, DTYPES, NetworkConfig, PrecisionConfig
from chess_env.move_facts import FactsAsked, facts_asked
from chess_env.moves import ACTION_FROM, ACTION_PROMOTION, ACTION_TO, NUM_ACTIONS
from chess_env.observation import NUM_PLANES

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


FACTS_STD = 0.15
"""Of the facts' weights: about 20 of a move's facts are set, which makes features of about unit scale."""


class MoveLogits(NamedTuple):
    """The head's output for the M legal moves of N positions.

    Attributes:
        logits: `[N, L]`, 0 on padding.
        features: `[M, width]` from which each move's logit is computed, at least 0, in the order of the slots.
        slots: int64 `[M]` place of each legal move in the flattened `[N, L]`.
    """

    logits: Tensor
    features: Tensor
    slots: Tensor


class MoveHead(nn.Module):
    """One logit for each legal move.

        features = ReLU(A[from square] + B[to square] + C[mean of the squares] + E[action] + M[facts])
        logit    = w . features + (from vector) . (to vector) / sqrt(their length) + bias[action]

    Only legal moves are computed: a list is padded to 218 entries and about 35 of them are moves, and a
    position has fewer of these than from and to squares, so squares are gathered before they are multiplied.

    Args:
        channels: features of a square.
        width: features of a move; the from and to vectors are half as long.
        asked: the facts that it reads.
    """

    def __init__(self, channels: int, width: int, asked: FactsAsked = True) -> None:
        super().__init__()
        facts = facts_asked(asked)
        self.from_features = nn.Linear(channels, width, bias=False)
        self.to_features = nn.Linear(channels, width, bias=False)
        self.board_features = nn.Linear(channels, width)
        self.action_features = nn.Parameter(torch.zeros(NUM_ACTIONS, width))
        self.fact_features = nn.Linear(len(facts), width, bias=False)
        self.score = nn.Linear(width, 1, bias=False)
        self.from_vector = nn.Linear(channels, max(1, width // 2))
        self.to_vector = nn.Linear(channels, max(1, width // 2))
        self.action_bias = nn.Parameter(torch.zeros(NUM_ACTIONS))
        self.promotion_bias = nn.Parameter(torch.zeros(int(ACTION_PROMOTION.max()) + 1))
        for layer in (self.from_features, self.to_features):
            nn.init.normal_(layer.weight, std=(2 * channels) ** -0.5)
        nn.init.normal_(self.fact_features.weight, std=FACTS_STD)
        nn.init.normal_(self.score.weight, std=INITIAL_LOGIT_STD * (width / 4) ** -0.5)
        # One factor of unit scale and one of 0: either has a gradient at once, and the product adds no noise.
        nn.init.normal_(self.from_vector.weight, std=channels**-0.5)
        nn.init.zeros_(self.to_vector.weight)
        nn.init.zeros_(self.to_vector.bias)

        for name, table in (
            ("from_square", ACTION_FROM),
            ("to_square", ACTION_TO),
            ("promotion", ACTION_PROMOTION),
        ):
            self.register_buffer(name, torch.tensor(table), persistent=False)
        scale = torch.tensor([1.0 / fact.high for fact in facts])
        self.register_buffer("fact_scale", scale, persistent=False)
        self.from_square: Tensor
        self.to_square: Tensor
        self.promotion: Tensor
        self.fact_scale: Tensor

    def forward(
        self, squares: Tensor, legal_ids: Tensor, move_facts: Tensor, dtype: torch.dtype
    ) -> MoveLogits:
        """Logits and features of the legal moves, in the dtype of the squares.

        Args:
            squares: `[N, 64, channels]` features of unit scale.
            legal_ids: integers `[N, L]`, action ids padded with -1.
            move_facts: uint8 `[N, L, F]` (`chess_env.move_facts`); those on padding are not read.
            dtype: of the matrix products.
        """
        listed = legal_ids.flatten()
        slots = (listed >= 0).nonzero().squeeze(1)
        action, row = listed[slots].long(), slots // legal_ids.shape[1]
        # `F.embedding` is the gather whose gradient is quick on a CPU.
        ends = torch.stack((self.from_square[action], self.to_square[action])) + 64 * row
        origin, target = F.embedding(ends, squares.flatten(0, 1)).unbind()
        facts = move_facts.flatten(0, 1).index_select(0, slots).to(squares.dtype) * self.fact_scale
        board = linear_in(self.board_features, squares.mean(1), dtype).to(squares.dtype)
        products = (
            linear_in(self.from_features, origin, dtype)
            + linear_in(self.to_features, target, dtype)
            + linear_in(self.fact_features, facts, dtype)
        )
        features = F.relu(
            products.to(squares.dtype)
            + F.embedding(row, board)
            + F.embedding(action, self.action_features)
        )
        pair = linear_in(self.from_vector, origin, dtype) * linear_in(self.to_vector, target, dtype)
        scores = linear_in(self.score, features, dtype).squeeze(-1).to(squares.dtype)
        scores = scores + pair.to(squares.dtype).sum(-1) * pair.shape[1] ** -0.5
        bias = self.action_bias + self.promotion_bias[self.promotion]
        scores = scores + F.embedding(action, bias[:, None]).squeeze(-1)
        return MoveLogits(padded(scores, slots, legal_ids.shape), features, slots)


def padded(values: Tensor, slots: Tensor, shape: torch.Size) -> Tensor:
    """`[N, L, ...]` with the values `[M, ...]` of the legal moves in their slots and 0 on padding.

    Args:
        values: of the legal moves.
        slots: int64 `[M]` places in the flattened `[N, L]`.
        shape: (N, L).
    """
    empty = values.new_zeros(shape.numel(), *values.shape[1:])
    return empty.index_copy(0, slots, values).unflatten(0, shape)


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

    reads_move_facts: FactsAsked = True

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
        self.reads_move_facts = config.facts or True
        self.head = MoveHead(channels, width, self.reads_move_facts)
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
        require_move_facts(legal_ids, move_facts, self.reads_move_facts)
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

    def state_values(self, squares: Tensor, legal_ids: Tensor, moves: MoveLogits) -> Tensor | None:
        """`[N]` values; None without a critic."""
        if self.value_head is None:
            return None
        features = padded(moves.features, moves.slots, legal_ids.shape)
        count = (legal_ids >= 0).sum(1, keepdim=True).clamp(min=1)
        # Features are at least 0, so the padding's 0 is in the way of neither the sum nor the largest.
        read = (squares.mean(1), features.sum(1) / count, features.amax(1))
        return self.value_head(torch.cat(read, 1)).squeeze(-1)


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


transformer = functools.partial(MoveNet, block=AttentionBlock)
"""`MoveNet` with blocks of attention between the squares, `channels` features of each in heads of 16."""
