"""The interface of a policy network for rollout, update, evaluation and play."""

from __future__ import annotations

import abc
import dataclasses
from typing import NamedTuple

import torch
from torch import Tensor, nn

from algorithms.core.distribution import MaskedCategorical
from algorithms.networks.settings import DEFAULT_PRECISION, DTYPES, NetworkConfig, PrecisionConfig
from chess_env.move_facts import NUM_MOVE_FACTS


@dataclasses.dataclass(frozen=True)
class Outputs:
    """The network's output for N states.

    Attributes:
        dist: over the legal slots, at the temperature asked for.
        values: float32 `[N]` the critic's values, side to move's view, reward units; None without a
            critic.
    """

    dist: MaskedCategorical
    values: Tensor | None


class LogitFactors(NamedTuple):
    """Parameters that are a factor of a network's logits: if all are doubled, every logit is.

    Attributes:
        action_bias: `[NUM_ACTIONS]` added to the logit of each action.
        others: the rest.
    """

    action_bias: Tensor
    others: tuple[Tensor, ...]


class PolicyNet(nn.Module, abc.ABC):
    """A policy network, as rollout, update, evaluation and play use it.

    A row of its answer depends on that row of its input alone, and in evaluation mode two passes give the
    same numbers: ratios start at exactly 1 because of that.

    Attributes:
        config: its size.
        precision: where it computes below float32.
        reads_move_facts: whether it is given the facts of each legal move (`chess_env.move_facts`).
    """

    reads_move_facts = False

    def __init__(
        self, config: NetworkConfig, precision: PrecisionConfig = DEFAULT_PRECISION
    ) -> None:
        super().__init__()
        self.config = config
        self.precision = precision

    @abc.abstractmethod
    def logits_and_values(
        self, obs: Tensor, legal_ids: Tensor, move_facts: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """(`[N, L]` logits, `[N]` values or None without a critic), in the parameters' dtype.

        Args:
            obs: uint8 `[N, C, 8, 8]` planes, mover's view.
            legal_ids: integers `[N, L]`, action ids padded with -1; logits on padding mean nothing.
            move_facts: uint8 `[N, L, F]` (`chess_env.move_facts`), where the network reads them.
        """

    @abc.abstractmethod
    def trunk(self) -> nn.Module:
        """The part that does most of the arithmetic, which `compile_trunk` compiles."""

    def logit_factors(self) -> LogitFactors:
        """The parameters that all logits together are linear in.

        Raises:
            ValueError: the network does not say which these are.
        """
        raise ValueError(
            f"policy.network is {self.config.network!r}: it does not say which parameters its logits are "
            "linear in; expected a network with a method logit_factors, such as resnet or move_net"
        )

    def values(
        self, obs: Tensor, legal_ids: Tensor, move_facts: Tensor | None = None
    ) -> Tensor | None:
        """`[N]` the critic's values alone, side to move's view; None without a critic.

        Args:
            obs: uint8 `[N, C, 8, 8]` planes, mover's view.
            legal_ids: integers `[N, L]`, action ids padded with -1.
            move_facts: uint8 `[N, L, F]`, where the network reads them.
        """
        return self.logits_and_values(obs, legal_ids, move_facts)[1]

    def forward(self, obs: Tensor, legal_ids: Tensor, move_facts: Tensor | None = None) -> Tensor:
        """`[N, L]` float32 logits of the legal moves; values on padding mean nothing.

        Args:
            obs: uint8 `[N, C, 8, 8]` planes, mover's view.
            legal_ids: integers `[N, L]`, action ids padded with -1.
            move_facts: uint8 `[N, L, F]`, where the network reads them.
        """
        return self.logits_and_values(obs, legal_ids, move_facts)[0]

    def outputs(
        self,
        obs: Tensor,
        legal_ids: Tensor,
        temperature: float,
        move_facts: Tensor | None = None,
    ) -> Outputs:
        """Distribution and values; sampling and learning both get them here.

        Args:
            obs: uint8 `[N, C, 8, 8]` planes, mover's view.
            legal_ids: integers `[N, L]`, action ids padded with -1.
            temperature: of the softmax.
            move_facts: uint8 `[N, L, F]`, where the network reads them.

        Raises:
            ValueError: it reads move facts and is given none, or of another shape.
        """
        if self.reads_move_facts:
            require_move_facts(legal_ids, move_facts)
        logits, values = self.logits_and_values(obs, legal_ids, move_facts)
        return Outputs(self.dist_of(logits, legal_ids >= 0, temperature), values)

    def dist_of(self, logits: Tensor, legal: Tensor, temperature: float) -> MaskedCategorical:
        """The distribution that logits `[N, L]` make over the slots where `legal` is True, in this precision."""
        rounded = DTYPES[self.precision.logprob_dtype]
        dtype = None if rounded is torch.float32 else rounded
        return MaskedCategorical(logits, legal, temperature, logprob_dtype=dtype)

    @property
    def num_parameters(self) -> int:
        """Number of trained parameters."""
        return sum(parameter.numel() for parameter in self.parameters())

    def reduced_precision(self, device: torch.device) -> bool:
        """True if the forward pass on `device` may round below float32.

        That is autocast and TF32 on CUDA, which leave float64 weights alone, and a lower `head_dtype` or
        `logprob_dtype` anywhere. The
        same rows in the same batch shape still give the same numbers; in another batch shape the
        last bit of float32 differs, and where it decides a rounding, so does the coarse result.
        """
        tf32 = torch.backends.cudnn.allow_tf32 or torch.backends.cuda.matmul.allow_tf32
        coarse = {self.precision.head_dtype, self.precision.logprob_dtype} != {"float32"}
        rounds = self.precision.autocast or tf32
        double = next(self.parameters()).dtype is torch.float64
        return coarse or (device.type == "cuda" and rounds and not double)


def require_move_facts(legal_ids: Tensor, move_facts: Tensor | None) -> None:
    """Raises ValueError where the facts of the moves `legal_ids` `[N, L]` are not there, or of another shape."""
    wanted = (*legal_ids.shape, NUM_MOVE_FACTS)
    if move_facts is None:
        raise ValueError(
            "this network reads the facts of each move and is given none: make the environment with "
            "move_facts=True and hand on info['move_facts'], or compute them by "
            "chess_env.move_facts.move_facts_batch"
        )
    if tuple(move_facts.shape) != wanted:
        raise ValueError(
            f"move_facts has shape {tuple(move_facts.shape)}: expected {wanted}, one row for each entry "
            "of legal_ids and one column for each of chess_env.move_facts.MOVE_FACTS"
        )
