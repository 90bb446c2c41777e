"""The policy network: planes in, one logit per legal move out."""

from __future__ import annotations

import dataclasses

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from chess_env.moves import ACTION_FROM, ACTION_PROMOTION, ACTION_TO, NUM_ACTIONS
from chess_env.observation import NUM_PLANES, PLANES

INITIAL_LOGIT_STD = 0.2
"""Spread of the logits at initialisation: a nearly uniform policy (entropy .02 nats below it)."""

STEM_STD = 0.4
"""Of the stem's weights: about 6 of its 171 inputs are set, which makes activations of unit scale."""


@dataclasses.dataclass(frozen=True)
class PolicyConfig:
    """Size of the network. The default has about 320,000 parameters.

    Attributes:
        channels: width of the trunk; cost grows with its square.
        blocks: residual blocks of two 3x3 convolutions; each adds two squares of sight in every
            direction.
        head_dim: length of the from and to vectors whose product is a move's logit.
        autocast: run the trunk in bfloat16 on CUDA (head and softmax stay float32); no effect on a
            CPU.
    """

    channels: int = 64
    blocks: int = 4
    head_dim: int = 32
    autocast: bool = True

    def __post_init__(self) -> None:
        for name in ("channels", "blocks", "head_dim"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}: the network needs {name} >= 1")


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


class PolicyNet(nn.Module):
    """Residual convolutional trunk with a from-to attention head.

    Every square gets a `from` and a `to` vector; a move's logit is their scaled product plus a
    learned bias of the action and of the under-promotion piece. There is neither dropout nor batch
    statistics, so training and evaluation agree and a row does not depend on the rest of its batch.
    """

    def __init__(self, config: PolicyConfig) -> None:
        super().__init__()
        self.config = config
        channels = config.channels
        self.stem = nn.Conv2d(NUM_PLANES, channels, 3, padding=1)
        self.square_bias = nn.Parameter(torch.zeros(1, channels, 8, 8))
        self.body = nn.Sequential(*(ResidualBlock(channels) for _ in range(config.blocks)))
        self.norm = nn.LayerNorm(channels)
        self.from_vector = nn.Linear(channels, config.head_dim)
        self.to_vector = nn.Linear(channels, config.head_dim)
        self.action_bias = nn.Parameter(torch.zeros(NUM_ACTIONS))
        self.promotion_bias = nn.Parameter(torch.zeros(int(ACTION_PROMOTION.max()) + 1))
        nn.init.normal_(self.stem.weight, std=STEM_STD)
        # The norm gives the vectors unit features; without it both factors of a logit start tiny,
        # each holds back the other's gradient, and nothing is learned for thousands of moves.
        nn.init.normal_(self.from_vector.weight, std=channels**-0.5)
        nn.init.normal_(self.to_vector.weight, std=INITIAL_LOGIT_STD * channels**-0.5)

        scale = torch.tensor([1.0 / plane.high for plane in PLANES]).view(1, -1, 1, 1)
        from_to = ACTION_FROM.astype(np.int64) * 64 + ACTION_TO.astype(np.int64)
        self.register_buffer("plane_scale", scale, persistent=False)
        self.register_buffer("from_to", torch.from_numpy(from_to), persistent=False)
        promotion = torch.from_numpy(ACTION_PROMOTION.astype(np.int64))
        self.register_buffer("promotion", promotion, persistent=False)
        self.plane_scale: Tensor
        self.from_to: Tensor
        self.promotion: Tensor

    @property
    def num_parameters(self) -> int:
        """Number of trained parameters."""
        return sum(parameter.numel() for parameter in self.parameters())

    def reduced_precision(self, device: torch.device) -> bool:
        """True if the forward pass on `device` may round below float32 (autocast or TF32)."""
        tf32 = torch.backends.cudnn.allow_tf32 or torch.backends.cuda.matmul.allow_tf32
        return device.type == "cuda" and (self.config.autocast or tf32)

    def forward(self, obs: Tensor, legal_ids: Tensor) -> Tensor:
        """`[N, L]` float32 logits of the legal moves; values on padding mean nothing.

        Args:
            obs: uint8 `[N, 19, 8, 8]` planes, mover's view.
            legal_ids: integers `[N, L]`, action ids padded with -1.
        """
        on_cuda = obs.device.type == "cuda"
        with torch.autocast(
            obs.device.type, dtype=torch.bfloat16, enabled=on_cuda and self.config.autocast
        ):
            planes = obs.float() * self.plane_scale
            x = F.relu(self.stem(planes) + self.square_bias)
            x = self.body(x)
        with torch.autocast(obs.device.type, enabled=False):
            squares = self.norm(x.float().flatten(2).transpose(1, 2))
            from_vector, to_vector = self.from_vector(squares), self.to_vector(squares)
            product = from_vector @ to_vector.transpose(1, 2) * self.config.head_dim**-0.5
            action = legal_ids.long().clamp(min=0)
            bias = self.action_bias + self.promotion_bias[self.promotion]
            return product.flatten(1).gather(1, self.from_to[action]) + bias[action]


def build_policy(config: PolicyConfig, *, seed: int, device: torch.device) -> PolicyNet:
    """A freshly initialised network on `device`.

    The same seed gives the same weights on every device. The global random state is left as it was.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        policy = PolicyNet(config)
    return policy.to(device)
