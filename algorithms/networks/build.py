"""Networks made from their settings, and their layers that a run does not train."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import torch
import torch._functorch.config
from torch import nn

from algorithms.core.checks import require_choice
from algorithms.networks.custom import CustomPolicy, asks_for_move_facts
from algorithms.networks.move_net import MoveNet
from algorithms.networks.policy_net import PolicyNet
from algorithms.networks.residual import ResidualPolicy
from algorithms.networks.settings import DEFAULT_PRECISION, NetworkConfig, PrecisionConfig
from algorithms.networks.transformer import transformer


class Make(Protocol):
    """Makes a network with fresh weights."""

    def __call__(
        self, config: NetworkConfig, *, critic: bool, precision: PrecisionConfig
    ) -> PolicyNet:
        """The network of these settings."""
        ...


class BuiltIn(NamedTuple):
    """A network of this project, whose sizes stand in `algorithms.networks.settings.SIZES`.

    Attributes:
        make: makes one, its weights drawn from torch's global generator.
        reads_move_facts: whether it is given the facts of each legal move.
    """

    make: Make
    reads_move_facts: bool


NETWORKS = {
    "move_net": BuiltIn(MoveNet, True),
    "resnet": BuiltIn(ResidualPolicy, False),
    "transformer": BuiltIn(transformer, True),
}


def build_policy(
    config: NetworkConfig,
    *,
    seed: int,
    device: torch.device,
    critic: bool = False,
    precision: PrecisionConfig = DEFAULT_PRECISION,
) -> PolicyNet:
    """A freshly initialised network on `device`.

    The same seed gives the same weights on every device, and the same policy with and without a
    critic. The global random state is left as it was.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        policy = make_policy(config, critic=critic, precision=precision)
    return policy.to(device)


def make_policy(
    config: NetworkConfig,
    *,
    critic: bool = False,
    precision: PrecisionConfig = DEFAULT_PRECISION,
) -> PolicyNet:
    """The network that the settings name, with weights drawn from torch's global generator.

    Raises:
        ValueError: `config.network` names nothing that is a network.
    """
    make: Make = CustomPolicy if config.is_custom else NETWORKS[config.network].make
    return make(config, critic=critic, precision=precision)


def reads_move_facts(config: NetworkConfig) -> bool:
    """Whether the network that the settings name is given the facts of each legal move; nothing is built.

    Raises:
        ValueError: `config.network` names nothing.
    """
    if config.is_custom:
        return asks_for_move_facts(config.network)
    return NETWORKS[config.network].reads_move_facts


def compile_trunk(policy: PolicyNet) -> None:
    """Makes `policy` compute its trunk by torch.compile from now on, with the same weights under the same names.

    A copy of the policy is not compiled. The first pass of each kind (with and without a gradient, another
    number of states) takes seconds to tens of seconds.

    Raises:
        ValueError: the trunk has no weights.
    """
    trunk = policy.trunk()
    if next(trunk.parameters(), None) is None:
        raise ValueError(
            f"compile is on and {policy.config.label} has no trunk to compile (blocks is 0): leave compile "
            "out, or choose a network with blocks"
        )
    # The diagnostics take several gradients through one forward pass.
    torch._functorch.config.donated_buffer = False
    trunk.compile()


def trained_parameters(network: nn.Module, frozen_layers: Sequence[str]) -> list[nn.Parameter]:
    """The parameters that an optimizer may change; the others no longer have a gradient.

    Args:
        network: the network.
        frozen_layers: names of modules or parameters; all that is inside a module is frozen with it.

    Raises:
        ValueError: a name that the network does not have, or nothing is left to train.
    """
    named = dict(network.named_parameters())
    known = {
        ".".join(name.split(".")[:end])
        for name in named
        for end in range(1, 1 + name.count(".") + 1)
    }
    for layer in frozen_layers:
        if layer not in known:  # the list of all is long: blocks, their layers, weights and biases
            near = sorted(name for name in known if name.count(".") < 2)
            require_choice("one of optimizer.frozen_layers", layer, near)
    frozen = {
        name
        for name in named
        for layer in frozen_layers
        if name == layer or name.startswith(f"{layer}.")
    }
    for name in frozen:
        named[name].requires_grad_(False)
    trained = [parameter for name, parameter in named.items() if name not in frozen]
    if not trained:
        raise ValueError(
            f"optimizer.frozen_layers freezes all {len(named)} parameters: leave one layer out"
        )
    return trained
