"""Settings of a policy network: its name, its size, and where it computes below float32."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Literal, NamedTuple

import torch

from algorithms.core.checks import (
    Rule,
    at_most,
    check_fields,
    require,
    require_choice,
    whole_number,
)
from chess_env.custom_objects import spec_of

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
Extent = Annotated[
    int,
    whole_number(1, "the network has an extent"),
    at_most(65_536, "the weights grow with its square"),
]
Blocks = Annotated[
    int,
    whole_number(0, "blocks are counted"),
    at_most(1_000, "each move passes through all blocks"),
]

DEFAULT_NETWORK = "move_net"


class Dimensions(NamedTuple):
    """A network in three numbers; its own file says what each is there."""

    channels: int
    blocks: int
    head_dim: int


SIZES = {
    "move_net": {
        "tiny": Dimensions(32, 0, 32),
        "small": Dimensions(64, 0, 32),
        "medium": Dimensions(64, 0, 64),
        "large": Dimensions(64, 3, 64),
    },
    "resnet": {
        "tiny": Dimensions(16, 1, 32),
        "small": Dimensions(32, 2, 32),
        "medium": Dimensions(64, 4, 32),
        "large": Dimensions(64, 6, 32),
    },
    "transformer": {
        "tiny": Dimensions(32, 1, 32),
        "small": Dimensions(64, 2, 64),
        "medium": Dimensions(64, 4, 64),
        "large": Dimensions(96, 4, 64),
    },
}
"""Network -> size -> its dimensions. A network of a user's own is given the numbers of `resnet`."""

LEARNING_RATES = {"move_net": 3e-3, "resnet": 2e-3, "transformer": 2e-3}
"""Adam's first step size of runs that name none. docs/networks.md says how it was chosen."""

WITHOUT_BLOCKS = ("move_net",)
"""Networks that may have 0 blocks."""

WITHOUT_FACTS = ("resnet",)
"""Networks that read no facts of moves."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class NetworkConfig:
    """A network and its size.

    Attributes:
        network: "resnet" (convolutions over the board), "move_net" (the facts of each move, with no trunk or
            a small one), "transformer" (attention between the squares, and the facts of each move), or
            "module:Name" of a network of your own (`algorithms.networks.policy_net.Network`), which is given
            these settings and may read any of them.
        size: "tiny", "small", "medium" or "large". channels, blocks and head_dim override it where they are given.
        channels: features of a square: the width of the trunk, whose cost grows with its square. None: of the size.
        blocks: blocks of the trunk, one behind the other; move_net may have 0. None: of the size.
        head_dim: length of the from and to vectors whose product is a move's logit in resnet, of a move's hidden
            features in the others. None: of the size.
        dropout: share of the trunk's features that training mode drops, in [0, 1). Reinforcement
            learning always runs the policy in evaluation mode, where it has no effect: dropout
            would make every ratio wrong.
        facts: groups of facts of each move that the network reads beyond the usual ones, out of "exchange", "lines",
            "threats", "replies", "kings", "answers" and "structure" (`chess_env.move_facts.FURTHER_FACTS`).
            docs/networks.md says what each costs.
    """

    network: str = DEFAULT_NETWORK
    size: Literal["tiny", "small", "medium", "large"] = "medium"
    channels: Extent | None = None
    blocks: Blocks | None = None
    head_dim: Extent | None = None
    dropout: Annotated[
        float, Rule(lambda share: 0 <= share < 1, "the dropped share must be in [0, 1)")
    ] = 0.0
    facts: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.network, str):
            object.__setattr__(self, "network", spec_of(self.network, "policy.network"))
        if not self.is_custom:
            require_choice("policy.network", self.network, [*SIZES, "module:Name"])
        check_fields(self)
        require(
            self.blocks != 0 or self.network in WITHOUT_BLOCKS,
            f"blocks is 0: {self.network} needs a trunk; set blocks >= 1, or network to "
            f"{WITHOUT_BLOCKS[0]}, which works without one",
        )
        if self.facts:
            from chess_env.move_facts import checked_groups  # with their kernels: heavy

            object.__setattr__(self, "facts", checked_groups(self.facts, "policy.facts"))
        require(
            not self.facts or self.network not in WITHOUT_FACTS,
            f"policy.facts is {', '.join(self.facts)}: {self.network} reads no facts of moves; leave it out, or set "
            f"network to {DEFAULT_NETWORK}",
        )

    @property
    def is_custom(self) -> bool:
        """Whether the network is a user's own."""
        return ":" in self.network

    @property
    def label(self) -> str:
        """The network for people: "move_net medium", with the numbers given in brackets behind it.

        A network of a user's own is shown without a size that nobody chose: it may read none.
        """
        name = f"{self.network} {self.size}"
        if self.is_custom and self.size == NetworkConfig.size:
            name = self.network
        numbers = {field: getattr(self, field) for field in Dimensions._fields}
        given = ", ".join(f"{field} {n}" for field, n in numbers.items() if n is not None)
        if self.facts:
            given = ", ".join(filter(None, (given, f"facts {'+'.join(self.facts)}")))
        return f"{name} ({given})" if given else name

    @property
    def dimensions(self) -> Dimensions:
        """The numbers that hold: those given, and the size's for those that are None."""
        sizes = SIZES["resnet" if self.is_custom else self.network]
        given = Dimensions(self.channels, self.blocks, self.head_dim)  # type: ignore[arg-type]
        pairs = zip(given, sizes[self.size], strict=True)
        return Dimensions(*(of_size if number is None else number for number, of_size in pairs))

    @property
    def learning_rate(self) -> float:
        """The step size for runs that name none; a network of a user's own has that of `resnet`."""
        return LEARNING_RATES["resnet" if self.is_custom else self.network]


def tiny(config: NetworkConfig) -> NetworkConfig:
    """The same network in its smallest size, for a run of a few seconds."""
    return dataclasses.replace(config, size="tiny", channels=None, blocks=None, head_dim=None)


@dataclasses.dataclass(frozen=True)
class PrecisionConfig:
    """Where a policy computes below float32.

    Attributes:
        autocast: run the trunk in `autocast_dtype` on CUDA; no effect on a CPU.
        autocast_dtype: "bfloat16" or "float16".
        head_dtype: dtype of the head's matrix products: "float32",
            "bfloat16" or "float16". Below float32 it is an experiment switch.
        logprob_dtype: the log-probabilities are rounded to it; ratio and KL are float32 arithmetic
            on the rounded values. Below float32 it is an experiment switch.
    """

    autocast: bool = True
    autocast_dtype: Literal["bfloat16", "float16"] = "bfloat16"
    head_dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    logprob_dtype: Literal["float32", "bfloat16", "float16"] = "float32"

    def __post_init__(self) -> None:
        check_fields(self)


DEFAULT_PRECISION = PrecisionConfig()
