"""Size and precision of a policy network."""

from __future__ import annotations

import dataclasses
from typing import Literal

import torch

from algorithms.core.checks import require_choice, require_count
from chess_env.custom_objects import spec_of

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
