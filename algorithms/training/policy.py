"""The policy network: planes in, one logit per legal move out."""

from __future__ import annotations

import abc
import dataclasses
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from algorithms.core.checks import require_choice, require_count
from algorithms.core.distribution import MaskedCategorical
from chess_env.moves import ACTION_FROM, ACTION_PROMOTION, ACTION_TO, NUM_ACTIONS
from chess_env.observation import NUM_PLANES, PLANES
from chess_env.own_objects import spec_of

INITIAL_LOGIT_STD = 0.2
"""Spread of the logits at initialisation: a nearly uniform policy (entropy .02 nats below it)."""

STEM_STD = 0.4
"""Of the stem's weights: about 6 of its 171 inputs are set, which makes activations of unit scale."""


DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


@dataclasses.dataclass(frozen=True)
class PolicyConfig:
    """Size and precision of the network. The default has about 320,000 parameters.

    Attributes:
        channels: width of the trunk; cost grows with its square.
        blocks: residual blocks of two 3x3 convolutions; each adds two squares of sight in every
            direction.
        head_dim: length of the from and to vectors whose product is a move's logit.
        autocast: run the trunk in `autocast_dtype` on CUDA; no effect on a CPU.
        autocast_dtype: "bfloat16" or "float16".
        head_dtype: dtype of the head's matrix products (from, to and their product): "float32",
            "bfloat16" or "float16". Below float32 it is an experiment switch.
        logprob_dtype: the log-probabilities are rounded to it; ratio and KL are float32 arithmetic
            on the rounded values. Below float32 it is an experiment switch.
        dropout: share of the trunk's features that training mode drops, in [0, 1). Reinforcement
            learning always runs the policy in evaluation mode, where it has no effect: a policy
            that is random beside its sampling makes every ratio wrong.
        network: "module:Name" of a network of your own (`own_policy.Network`), which is given these
            settings and reads of them what it likes; None: the residual network of this project.
    """

    channels: int = 64
    blocks: int = 4
    head_dim: int = 32
    autocast: bool = True
    autocast_dtype: Literal["bfloat16", "float16"] = "bfloat16"
    head_dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    logprob_dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    dropout: float = 0.0
    network: str | None = None

    def __post_init__(self) -> None:
        if self.network is not None and not isinstance(self.network, str):
            object.__setattr__(self, "network", spec_of(self.network, "policy.network"))
        for name in ("channels", "blocks", "head_dim"):
            require_count(name, getattr(self, name), 1, "the network has an extent")
        for name in ("autocast_dtype", "head_dtype", "logprob_dtype"):
            known = [dtype for dtype in DTYPES if (name, dtype) != ("autocast_dtype", "float32")]
            require_choice(name, getattr(self, name), known)
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout is {self.dropout}: the dropped share must be in [0, 1)")


@dataclasses.dataclass(frozen=True)
class Outputs:
    """What the network says about N states.

    Attributes:
        dist: over the legal slots, at the temperature asked for.
        values: float32 `[N]` the critic's values, side to move's view, reward units; None without a
            critic.
    """

    dist: MaskedCategorical
    values: Tensor | None


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


class PolicyNet(nn.Module, abc.ABC):
    """A policy network: what rollout, update, evaluation and play ask of one.

    A row of its answer depends on that row of its input alone, and in evaluation mode two passes give the
    same numbers: on that rest ratios that start at exactly 1.

    Attributes:
        config: size and precision.
    """

    def __init__(self, config: PolicyConfig) -> None:
        super().__init__()
        self.config = config

    @abc.abstractmethod
    def logits_and_values(self, obs: Tensor, legal_ids: Tensor) -> tuple[Tensor, Tensor | None]:
        """(`[N, L]` logits, `[N]` values or None without a critic), in the parameters' dtype.

        Args:
            obs: uint8 `[N, 19, 8, 8]` planes, mover's view.
            legal_ids: integers `[N, L]`, action ids padded with -1; logits on padding mean nothing.
        """

    @abc.abstractmethod
    def values(self, obs: Tensor) -> Tensor | None:
        """float32 `[N]` the critic's values alone, side to move's view; None without a critic."""

    def forward(self, obs: Tensor, legal_ids: Tensor) -> Tensor:
        """`[N, L]` float32 logits of the legal moves; values on padding mean nothing.

        Args:
            obs: uint8 `[N, 19, 8, 8]` planes, mover's view.
            legal_ids: integers `[N, L]`, action ids padded with -1.
        """
        return self.logits_and_values(obs, legal_ids)[0]

    def outputs(self, obs: Tensor, legal_ids: Tensor, temperature: float) -> Outputs:
        """Distribution and values: the one way to either, for sampling and for learning.

        Args:
            obs: uint8 `[N, 19, 8, 8]` planes, mover's view.
            legal_ids: integers `[N, L]`, action ids padded with -1.
            temperature: of the softmax.
        """
        logits, values = self.logits_and_values(obs, legal_ids)
        rounded = DTYPES[self.config.logprob_dtype]
        dist = MaskedCategorical(
            logits,
            legal_ids >= 0,
            temperature,
            logprob_dtype=None if rounded is torch.float32 else rounded,
        )
        return Outputs(dist, values)

    @property
    def num_parameters(self) -> int:
        """Number of trained parameters."""
        return sum(parameter.numel() for parameter in self.parameters())

    def reduced_precision(self, device: torch.device) -> bool:
        """True if the forward pass on `device` may round below float32.

        That is autocast and TF32 on CUDA, and a lower `head_dtype` or `logprob_dtype` anywhere. The
        same rows in the same batch shape still give the same numbers; in another batch shape the
        last bit of float32 differs, and where it decides a rounding, so does the coarse result.
        """
        tf32 = torch.backends.cudnn.allow_tf32 or torch.backends.cuda.matmul.allow_tf32
        coarse = {self.config.head_dtype, self.config.logprob_dtype} != {"float32"}
        return coarse or (device.type == "cuda" and (self.config.autocast or tf32))


class ResidualPolicy(PolicyNet):
    """Residual convolutional trunk with a from-to attention head.

    Every square gets a `from` and a `to` vector; a move's logit is their scaled product plus a
    learned bias of the action and of the under-promotion piece. A critic reads the mean of the
    squares' features and says 0 at first. There are no batch statistics, so a row does not depend on
    the rest of its batch.

    Args:
        config: size and precision.
        critic: whether there is a value head.
    """

    def __init__(self, config: PolicyConfig, *, critic: bool = False) -> None:
        super().__init__(config)
        channels = config.channels
        self.stem = nn.Conv2d(NUM_PLANES, channels, 3, padding=1)
        self.square_bias = nn.Parameter(torch.zeros(1, channels, 8, 8))
        self.body = nn.Sequential(*(ResidualBlock(channels) for _ in range(config.blocks)))
        self.dropout = nn.Dropout(config.dropout) if config.dropout > 0 else nn.Identity()
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
        # Last, so that the weights above are the same with and without a critic.
        self.value_head: nn.Sequential | None = None
        if critic:
            last = nn.Linear(channels, 1)
            self.value_head = nn.Sequential(nn.Linear(channels, channels), nn.ReLU(), last)
            nn.init.zeros_(last.weight)
            nn.init.zeros_(last.bias)

        scale = torch.tensor([1.0 / plane.high for plane in PLANES]).view(1, -1, 1, 1)
        from_to = ACTION_FROM.astype(np.int64) * 64 + ACTION_TO.astype(np.int64)
        self.register_buffer("plane_scale", scale, persistent=False)
        self.register_buffer("from_to", torch.from_numpy(from_to), persistent=False)
        promotion = torch.from_numpy(ACTION_PROMOTION.astype(np.int64))
        self.register_buffer("promotion", promotion, persistent=False)
        self.plane_scale: Tensor
        self.from_to: Tensor
        self.promotion: Tensor

    def logits_and_values(self, obs: Tensor, legal_ids: Tensor) -> tuple[Tensor, Tensor | None]:
        """(`[N, L]` logits, `[N]` values or None), from one pass through the trunk."""
        squares = self.squares(obs)
        return self.move_logits(squares, legal_ids), self.state_values(squares)

    def values(self, obs: Tensor) -> Tensor | None:
        """float32 `[N]` the critic's values alone, side to move's view; None without a critic."""
        return None if self.value_head is None else self.state_values(self.squares(obs))

    def squares(self, obs: Tensor) -> Tensor:
        """`[N, 64, channels]` normalised features of the squares, in the parameters' dtype."""
        on_cuda = obs.device.type == "cuda"
        dtype = DTYPES[self.config.autocast_dtype]
        enabled = on_cuda and self.config.autocast
        with torch.autocast(obs.device.type, dtype=dtype, enabled=enabled):
            planes = obs.to(self.plane_scale.dtype) * self.plane_scale
            x = F.relu(self.stem(planes) + self.square_bias)
            x = self.body(x)
        with torch.autocast(obs.device.type, enabled=False):
            x = self.dropout(x).to(self.norm.weight.dtype)
            return self.norm(x.flatten(2).transpose(1, 2))

    def move_logits(self, squares: Tensor, legal_ids: Tensor) -> Tensor:
        """`[N, L]` logits of the actions `legal_ids` (integers, -1 on padding) from `squares(obs)`."""
        dtype = DTYPES[self.config.head_dtype]
        with torch.autocast(squares.device.type, enabled=False):
            from_vector = _linear(self.from_vector, squares, dtype)
            to_vector = _linear(self.to_vector, squares, dtype)
            product = (from_vector @ to_vector.transpose(1, 2)).to(squares.dtype)
            product = product * self.config.head_dim**-0.5
            action = legal_ids.long().clamp(min=0)
            bias = self.action_bias + self.promotion_bias[self.promotion]
            return product.flatten(1).gather(1, self.from_to[action]) + bias[action]

    def state_values(self, squares: Tensor) -> Tensor | None:
        """`[N]` values from `squares(obs)`; None without a critic."""
        if self.value_head is None:
            return None
        with torch.autocast(squares.device.type, enabled=False):
            return self.value_head(squares.mean(1)).squeeze(-1)


def _linear(layer: nn.Linear, x: Tensor, dtype: torch.dtype) -> Tensor:
    """`layer(x)` with the product in `dtype`; the weights stay what the optimizer moves."""
    if dtype is torch.float32:
        return layer(x)
    return F.linear(x.to(dtype), layer.weight.to(dtype), layer.bias.to(dtype))


def build_policy(
    config: PolicyConfig, *, seed: int, device: torch.device, critic: bool = False
) -> PolicyNet:
    """A freshly initialised network on `device`.

    The same seed gives the same weights on every device, and the same policy with and without a
    critic. The global random state is left as it was.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        policy = make_policy(config, critic=critic)
    return policy.to(device)


def make_policy(config: PolicyConfig, *, critic: bool = False) -> PolicyNet:
    """The network that the settings name, with weights drawn from torch's global generator.

    Raises:
        ValueError: `config.network` names nothing that is a network.
    """
    if config.network is None:
        return ResidualPolicy(config, critic=critic)
    from algorithms.training.own_policy import OwnPolicy  # which needs this module

    return OwnPolicy(config, critic=critic)
