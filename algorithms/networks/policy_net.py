"""The interface of a policy network for rollout, update, evaluation and play; of this project's and of a user's own."""

from __future__ import annotations

import abc
import dataclasses
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from algorithms.core.batch import FlatBatch
from algorithms.core.checks import shown
from algorithms.core.distribution import MaskedCategorical
from algorithms.networks.settings import DEFAULT_PRECISION, DTYPES, NetworkConfig, PrecisionConfig
from chess_env.custom_objects import CustomObjectError, load_object
from chess_env.move_facts import FactsAsked, facts_asked
from chess_env.observation import PLANES

INITIAL_LOGIT_STD = 0.2
"""Spread of the logits at initialisation: a nearly uniform policy (entropy .02 nats below it)."""


def plane_scale() -> Tensor:
    """Float32 `[C]`: factors that bring each plane's largest value to 1."""
    return torch.tensor([1.0 / plane.high for plane in PLANES])


def linear_in(layer: nn.Linear, x: Tensor, dtype: torch.dtype) -> Tensor:
    """`[..., outputs]` `layer(x)` with the product in `dtype`; the weights keep theirs."""
    if dtype is torch.float32:
        return layer(x)
    bias = None if layer.bias is None else layer.bias.to(dtype)
    return F.linear(x.to(dtype), layer.weight.to(dtype), bias)


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
        reads_move_facts: which facts of each legal move it is given (`chess_env.move_facts.FactsAsked`).
    """

    reads_move_facts: FactsAsked = False

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
        """`[N]` the critic's values alone, side to move's view; None without a critic. Arguments as before."""
        return self.logits_and_values(obs, legal_ids, move_facts)[1]

    def forward(self, obs: Tensor, legal_ids: Tensor, move_facts: Tensor | None = None) -> Tensor:
        """`[N, L]` float32 logits of the legal moves; values on padding mean nothing. Arguments as before."""
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
            require_move_facts(legal_ids, move_facts, self.reads_move_facts)
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


def require_move_facts(legal_ids: Tensor, move_facts: Tensor | None, asked: FactsAsked) -> None:
    """Raises ValueError where the facts of the moves `legal_ids` `[N, L]` are not there, or not those asked for."""
    wanted = (*legal_ids.shape, len(facts_asked(asked)))
    request = "True" if asked is True else f"{asked}"
    if move_facts is None:
        raise ValueError(
            "this network reads the facts of each move and is given none: make the environment with "
            f"move_facts={request} and hand on info['move_facts'], or compute them by "
            "chess_env.move_facts.move_facts_batch"
        )
    if tuple(move_facts.shape) != wanted:
        raise ValueError(
            f"move_facts has shape {tuple(move_facts.shape)}: expected {wanted}, one row for each entry "
            f"of legal_ids and one column for each fact that the network reads; make the environment with "
            f"move_facts={request}"
        )


def outputs_at(policy: PolicyNet, states: FlatBatch) -> Outputs:
    """Distribution and values of `policy` at stored states `[N]`, at the temperature that they were sampled at."""
    return policy.outputs(states.obs, states.legal_ids, states.temperature, states.move_facts)


@torch.no_grad()
def legal_logprobs(policy: PolicyNet, states: FlatBatch, minibatch_size: int) -> Tensor:
    """Log-probabilities float32 `[N, L]` of the legal moves, nats; -inf on padding.

    Args:
        policy: the policy.
        states: N stored states, with their temperature.
        minibatch_size: states in one forward pass; another size may change the last bit.
    """
    parts = [
        outputs_at(policy, states.select(slice(start, start + minibatch_size))).dist.logprobs
        for start in range(0, states.num_states, minibatch_size)
    ]
    return torch.cat(parts)


class Network(Protocol):
    """A network of your own: a torch module made by `MyNet(config, critic=...)`, with one method.

    A class with the attribute `reads_move_facts = True` is given the facts of each legal move too:
    `forward(obs, legal_ids, move_facts)`, uint8 `[N, L, F]`, one column for each row of
    `chess_env.move_facts.MOVE_FACTS`, whose largest value is there; they are 0 on padding. With groups in
    `config.facts` there are more columns, those of `chess_env.move_facts.facts_asked(config.facts or True)`.

    It computes in the dtype of its parameters (float64 where the diagnostics made a float64 copy), a row of the
    answer depends on that row of the input alone (no batch statistics), a legal move's logit does not depend on
    its place in the list, and in evaluation mode two passes give the same numbers. The numbers of `config` are
    those given, or those of its size in the project's residual network.
    `algorithms.testing.check_policy_network` tries all of that.

    Args of the constructor:
        config: the run's `NetworkConfig`; take from it what you need (`channels`, `blocks`, `head_dim`).
        critic: whether values are asked for.
    """

    def forward(self, obs: Tensor, legal_ids: Tensor) -> tuple[Tensor, Tensor | None]:
        """(`[N, L]` logits of the legal moves, `[N]` values or None without a critic).

        Args:
            obs: uint8 `[N, C, 8, 8]` planes (`chess_env.observation.PLANES`), mover's view.
            legal_ids: integers `[N, L]`, action ids padded with -1 (`chess_env.moves`); logits on padding do not
                matter. Values are the side to move's view, in reward units.
        """
        ...


class CustomPolicy(PolicyNet):
    """The network that `config.network` names, called like this project's own.

    Args:
        config: its size; the network gets all of it.
        critic: whether there are values.
        precision: of it only `logprob_dtype` has an effect; the rest is the network's own.

    Raises:
        ValueError: the name leads to nothing that is a network; the message says what is wrong.
    """

    def __init__(
        self,
        config: NetworkConfig,
        *,
        critic: bool = False,
        precision: PrecisionConfig = DEFAULT_PRECISION,
    ) -> None:
        super().__init__(config, precision)
        self.has_critic = critic
        self.network = _made(config.network, config, critic)
        reads = bool(getattr(self.network, "reads_move_facts", False))
        self.reads_move_facts = reads and (config.facts or True)
        if config.facts and not reads:
            raise CustomObjectError(
                f"policy.facts is {', '.join(config.facts)}: policy.network {config.network} reads no facts of moves; "
                "leave it out, or set reads_move_facts = True on the class"
            )

    def trunk(self) -> nn.Module:
        """The user's whole module."""
        return self.network

    def logits_and_values(
        self, obs: Tensor, legal_ids: Tensor, move_facts: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """(`[N, L]` logits, `[N]` values or None).

        Raises:
            CustomObjectError: the network's answer has not that form.
        """
        name, wanted = self.config.network, tuple(legal_ids.shape)
        facts = (move_facts,) if self.reads_move_facts else ()
        answer = self.network(obs, legal_ids, *facts)
        if not (isinstance(answer, tuple) and len(answer) == 2):
            raise CustomObjectError(
                f"policy.network {name} gave a {type(answer).__name__}: expected (logits, values or None)"
            )
        logits, values = answer
        if tuple(logits.shape) != wanted:
            raise CustomObjectError(
                f"policy.network {name} gave logits of shape {tuple(logits.shape)}: expected {wanted}, "
                "one for each entry of legal_ids"
            )
        if not self.has_critic:
            return logits, None
        if values is None or tuple(values.shape) != wanted[:1]:
            shape = None if values is None else tuple(values.shape)
            raise CustomObjectError(
                f"policy.network {name} was made with critic=True and gave values {shape}: "
                f"expected shape {wanted[:1]}"
            )
        return logits, values


def asks_for_move_facts(spec: str) -> bool:
    """Whether the class `module:Name` has `reads_move_facts = True`.

    Raises:
        CustomObjectError: there is no such class.
    """
    return bool(getattr(load_object(spec, "policy.network"), "reads_move_facts", False))


def _made(spec: str, config: NetworkConfig, critic: bool) -> nn.Module:
    """The module that `module:Name` makes of these settings."""
    make: Any = load_object(spec, "policy.network")
    if not callable(make) or isinstance(make, nn.Module):
        raise CustomObjectError(
            f"policy.network {shown(spec)} is a {type(make).__name__}: name the class, which is called as "
            "Name(config, critic=...)"
        )
    config = dataclasses.replace(config, **config.dimensions._asdict())
    try:
        network = make(config, critic=critic)
    except TypeError as error:
        raise CustomObjectError(
            f"policy.network {shown(spec)} cannot be made as Name(config, critic={critic}): {error}"
        ) from error
    if not isinstance(network, nn.Module):
        raise CustomObjectError(
            f"policy.network {shown(spec)} made a {type(network).__name__}: expected a torch.nn.Module with "
            "forward(obs, legal_ids) -> (logits, values or None)"
        )
    if getattr(network, "reads_move_facts", False) and not asks_for_move_facts(spec):
        raise CustomObjectError(
            f"policy.network {shown(spec)} made a {type(network).__name__} that reads move facts: set "
            f"reads_move_facts = True on {spec.partition(':')[2]} itself, which is asked before anything is made"
        )
    if not any(parameter.requires_grad for parameter in network.parameters()):
        raise CustomObjectError(
            f"policy.network {shown(spec)} has no parameter that could be trained"
        )
    return network
