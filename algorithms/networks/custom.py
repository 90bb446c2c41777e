"""A policy network of a user's own: its contract, and how the project calls it."""

from __future__ import annotations

import dataclasses
from typing import Any, Protocol

from torch import Tensor, nn

from algorithms.core.checks import shown
from algorithms.networks.policy_net import PolicyNet
from algorithms.networks.settings import DEFAULT_PRECISION, NetworkConfig, PrecisionConfig
from chess_env.custom_objects import CustomObjectError, load_object


class Network(Protocol):
    """A network of your own: a torch module made by `MyNet(config, critic=...)`, with one method.

    A class with the attribute `reads_move_facts = True` is given the facts of each legal move too:
    `forward(obs, legal_ids, move_facts)`, uint8 `[N, L, F]`, one column for each row of
    `chess_env.move_facts.MOVE_FACTS`, whose largest value is there; they are 0 on padding.

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
        self.reads_move_facts = asks_for_move_facts(config.network)
        self.network = _made(config.network, config, critic)
        self.reads_move_facts = bool(getattr(self.network, "reads_move_facts", False))

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
