"""What rollout, update, evaluation and play ask of a policy network."""

from __future__ import annotations

import abc
import dataclasses

import torch
from torch import Tensor, nn

from algorithms.core.distribution import MaskedCategorical
from algorithms.networks.settings import DEFAULT_PRECISION, DTYPES, NetworkConfig, PrecisionConfig


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


class PolicyNet(nn.Module, abc.ABC):
    """A policy network: what rollout, update, evaluation and play ask of one.

    A row of its answer depends on that row of its input alone, and in evaluation mode two passes give the
    same numbers: on that rest ratios that start at exactly 1.

    Attributes:
        config: its size.
        precision: where it computes below float32.
    """

    def __init__(
        self, config: NetworkConfig, precision: PrecisionConfig = DEFAULT_PRECISION
    ) -> None:
        super().__init__()
        self.config = config
        self.precision = precision

    @abc.abstractmethod
    def logits_and_values(self, obs: Tensor, legal_ids: Tensor) -> tuple[Tensor, Tensor | None]:
        """(`[N, L]` logits, `[N]` values or None without a critic), in the parameters' dtype.

        Args:
            obs: uint8 `[N, C, 8, 8]` planes, mover's view.
            legal_ids: integers `[N, L]`, action ids padded with -1; logits on padding mean nothing.
        """

    @abc.abstractmethod
    def values(self, obs: Tensor) -> Tensor | None:
        """float32 `[N]` the critic's values alone, side to move's view; None without a critic."""

    def forward(self, obs: Tensor, legal_ids: Tensor) -> Tensor:
        """`[N, L]` float32 logits of the legal moves; values on padding mean nothing.

        Args:
            obs: uint8 `[N, C, 8, 8]` planes, mover's view.
            legal_ids: integers `[N, L]`, action ids padded with -1.
        """
        return self.logits_and_values(obs, legal_ids)[0]

    def outputs(self, obs: Tensor, legal_ids: Tensor, temperature: float) -> Outputs:
        """Distribution and values: the one way to either, for sampling and for learning.

        Args:
            obs: uint8 `[N, C, 8, 8]` planes, mover's view.
            legal_ids: integers `[N, L]`, action ids padded with -1.
            temperature: of the softmax.
        """
        logits, values = self.logits_and_values(obs, legal_ids)
        rounded = DTYPES[self.precision.logprob_dtype]
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
        coarse = {self.precision.head_dtype, self.precision.logprob_dtype} != {"float32"}
        return coarse or (device.type == "cuda" and (self.precision.autocast or tf32))
