"""What a policy network is made with: its size, and where it computes below float32."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Literal

import torch

from algorithms.core.checks import Rule, check_fields, whole_number
from chess_env.custom_objects import spec_of

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
Extent = Annotated[int, whole_number(1, "the network has an extent")]


@dataclasses.dataclass(frozen=True)
class NetworkConfig:
    """Size of the network. The default has about 320,000 parameters.

    Attributes:
        channels: width of the trunk; cost grows with its square.
        blocks: residual blocks of two 3x3 convolutions; each adds two squares of sight in every
            direction.
        head_dim: length of the from and to vectors whose product is a move's logit.
        dropout: share of the trunk's features that training mode drops, in [0, 1). Reinforcement
            learning always runs the policy in evaluation mode, where it has no effect: a policy
            that is random beside its sampling makes every ratio wrong.
        network: "module:Name" of a network of your own (`algorithms.networks.custom.Network`), which is given these
            settings and reads of them what it likes; None: the residual network of this project.
    """

    channels: Extent = 64
    blocks: Extent = 4
    head_dim: Extent = 32
    dropout: Annotated[
        float, Rule(lambda share: 0 <= share < 1, "the dropped share must be in [0, 1)")
    ] = 0.0
    network: str | None = None

    def __post_init__(self) -> None:
        if self.network is not None and not isinstance(self.network, str):
            object.__setattr__(self, "network", spec_of(self.network, "policy.network"))
        check_fields(self)


@dataclasses.dataclass(frozen=True)
class PrecisionConfig:
    """Where a policy computes below float32.

    Attributes:
        autocast: run the trunk in `autocast_dtype` on CUDA; no effect on a CPU.
        autocast_dtype: "bfloat16" or "float16".
        head_dtype: dtype of the head's matrix products (from, to and their product): "float32",
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
