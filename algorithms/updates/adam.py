"""Adam without torch's compiler, which `torch.optim.Adam` imports when it is made."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim.adam import adam

_BETA1, _BETA2, _EPS = 0.9, 0.999, 1e-8


class Adam:
    """Adam over parameters on the CPU, with the arithmetic of torch's own functional form.

    Its steps and its state are those of `torch.optim.Adam(parameters, rate, foreach=True)`, to the bit. That class
    imports torch's compiler, which was a third of the CPU time of a smoke run.

    Source: Kingma and Ba, arXiv 1412.6980, algorithm 1.

    Args:
        parameters: that are trained.
        rate: step size.

    Attributes:
        param_groups: one group, with `params` and `lr`.
    """

    def __init__(self, parameters: Sequence[torch.nn.Parameter], rate: float) -> None:
        self.param_groups: list[dict[str, Any]] = [{"params": list(parameters), "lr": rate}]
        self._state: dict[int, dict[str, Tensor]] = {}

    @property
    def _parameters(self) -> list[torch.nn.Parameter]:
        found: list[torch.nn.Parameter] = self.param_groups[0]["params"]
        return found

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Removes the gradients, or sets them to 0."""
        for parameter in self._parameters:
            if set_to_none or parameter.grad is None:
                parameter.grad = None
            else:
                parameter.grad.zero_()

    @torch.no_grad()
    def step(self) -> None:
        """One step of the parameters that have a gradient."""
        moved = list(self._moved())
        states = [state for _, _, state in moved]
        if moved:
            adam(
                [parameter for parameter, _, _ in moved],
                [gradient for _, gradient, _ in moved],
                [state["exp_avg"] for state in states],
                [state["exp_avg_sq"] for state in states],
                [],
                [state["step"] for state in states],
                foreach=True,
                amsgrad=False,
                beta1=_BETA1,
                beta2=_BETA2,
                lr=self.param_groups[0]["lr"],
                weight_decay=0.0,
                eps=_EPS,
                maximize=False,
            )

    def _moved(self) -> Iterator[tuple[Tensor, Tensor, dict[str, Tensor]]]:
        """(parameter, its gradient, its state) of each parameter with a gradient."""
        for number, parameter in enumerate(self._parameters):
            if parameter.grad is not None:
                if number not in self._state:
                    self._state[number] = {
                        "step": torch.tensor(0.0),
                        "exp_avg": torch.zeros_like(parameter),
                        "exp_avg_sq": torch.zeros_like(parameter),
                    }
                yield parameter, parameter.grad, self._state[number]

    def state_dict(self) -> dict[str, Any]:
        """`state` by the number of the parameter, and `param_groups` with these numbers."""
        group = {**self.param_groups[0], "params": list(range(len(self._parameters)))}
        return {"state": dict(self._state), "param_groups": [group]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continues from the `state_dict()` of this or of `torch.optim.Adam`; the step size is that of its group.

        Raises:
            ValueError: another number of parameters.
        """
        (group,) = state_dict["param_groups"]
        if len(group["params"]) != len(self._parameters):
            raise ValueError(
                f"the optimizer's state has {len(group['params'])} parameters, expected {len(self._parameters)}"
            )
        self.param_groups[0]["lr"] = group["lr"]
        self._state = {number: dict(entry) for number, entry in state_dict["state"].items()}
