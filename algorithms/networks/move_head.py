"""The head that reads each legal move: its from and to squares, its action and its facts."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from algorithms.networks.layers import INITIAL_LOGIT_STD, linear_in
from chess_env.move_facts import MOVE_FACTS, NUM_MOVE_FACTS
from chess_env.moves import ACTION_FROM, ACTION_PROMOTION, ACTION_TO, NUM_ACTIONS

FACTS_STD = 0.15
"""Of the facts' weights: about 20 of a move's facts are set, which makes features of about unit scale."""


class ScoredMoves(NamedTuple):
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
    """

    def __init__(self, channels: int, width: int) -> None:
        super().__init__()
        self.from_features = nn.Linear(channels, width, bias=False)
        self.to_features = nn.Linear(channels, width, bias=False)
        self.board_features = nn.Linear(channels, width)
        self.action_features = nn.Parameter(torch.zeros(NUM_ACTIONS, width))
        self.fact_features = nn.Linear(NUM_MOVE_FACTS, width, bias=False)
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
            self.register_buffer(name, torch.from_numpy(table.astype(np.int64)), persistent=False)
        scale = torch.tensor([1.0 / fact.high for fact in MOVE_FACTS])
        self.register_buffer("fact_scale", scale, persistent=False)
        self.from_square: Tensor
        self.to_square: Tensor
        self.promotion: Tensor
        self.fact_scale: Tensor

    def forward(
        self, squares: Tensor, legal_ids: Tensor, move_facts: Tensor, dtype: torch.dtype
    ) -> ScoredMoves:
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
        return ScoredMoves(padded(scores, slots, legal_ids.shape), features, slots)


def padded(values: Tensor, slots: Tensor, shape: torch.Size) -> Tensor:
    """`[N, L, ...]` with the values `[M, ...]` of the legal moves in their slots and 0 on padding.

    Args:
        values: of the legal moves.
        slots: int64 `[M]` places in the flattened `[N, L]`.
        shape: (N, L).
    """
    empty = values.new_zeros(shape.numel(), *values.shape[1:])
    return empty.index_copy(0, slots, values).unflatten(0, shape)
