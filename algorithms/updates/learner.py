"""The learner: a policy and all that it needs for a step."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import torch

from algorithms.config.run import OptimizerConfig
from algorithms.core.algorithm import Algorithm, Controls
from algorithms.networks.policy_net import PolicyNet
from algorithms.regularization import Regularizer
from algorithms.updates.adam import Adam, Optimizer
from algorithms.updates.nonfinite import NonFiniteGuard
from algorithms.updates.passes import Passes, WholePasses


def make_optimizer(trained: Sequence[torch.nn.Parameter], rate: float) -> Optimizer:
    """Adam over the parameters; on CUDA one kernel takes the whole step, elsewhere one call for each operation."""
    if trained[0].is_cuda:
        return torch.optim.Adam(trained, lr=rate, fused=True)
    return Adam(trained, rate)


@dataclasses.dataclass
class Learner:
    """A policy, and everything that decides how it learns from a batch.

    Attributes:
        policy: trained in place.
        optimizer: Adam over the policy's trained parameters.
        algorithm: gives the policy loss and the number of passes.
        regularizer: gives the entropy and KL terms.
        controls: current clip bounds and target KL.
        settings: minibatch size, largest gradient norm, schedule of the step size.
        behaviour: the policy that samples: `policy` itself, or a copy that is synchronised at intervals.
        shuffling: CPU generator of the order of the states.
        guard: counter of non-finite steps, across updates.
        passes: how outputs and gradients of a minibatch are computed.
    """

    policy: PolicyNet
    optimizer: Optimizer
    algorithm: Algorithm
    regularizer: Regularizer
    controls: Controls
    settings: OptimizerConfig
    behaviour: PolicyNet
    shuffling: torch.Generator
    guard: NonFiniteGuard = dataclasses.field(default_factory=NonFiniteGuard)
    passes: Passes = dataclasses.field(default_factory=WholePasses)

    @property
    def learning_rate(self) -> float:
        """Step size of the next update."""
        return float(self.optimizer.param_groups[0]["lr"])

    @learning_rate.setter
    def learning_rate(self, rate: float) -> None:
        for group in self.optimizer.param_groups:
            group["lr"] = rate

    @property
    def trained(self) -> list[torch.nn.Parameter]:
        """The parameters that are trained, in the order of the optimizer's state."""
        return [p for group in self.optimizer.param_groups for p in group["params"]]

    def state_dict(self) -> dict[str, Any]:
        """Everything beside the weights that the next steps depend on, for a checkpoint."""
        return {
            "optimizer": self.optimizer.state_dict(),
            "controls": dataclasses.asdict(self.controls),
            "regularizer": self.regularizer.state_dict(),
            "guard": self.guard.state_dict(),
            "shuffling": self.shuffling.get_state(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continues from `state_dict()`; other entries are not looked at.

        The optimizer keeps its own settings: they follow from the configuration.
        """
        groups = self.optimizer.state_dict()["param_groups"]
        self.optimizer.load_state_dict({**state["optimizer"], "param_groups": groups})
        self.controls = Controls(**state["controls"])
        self.regularizer.load_state_dict(state["regularizer"])
        self.guard.load_state_dict(state["guard"])
        self.shuffling.set_state(state["shuffling"])
