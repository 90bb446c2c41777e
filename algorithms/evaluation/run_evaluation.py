"""The evaluations of a run: their slices and names, and the figures that the progress keeps."""

from __future__ import annotations

import time
from typing import Protocol

import torch

from algorithms.evaluation.heldout import MAIN_SLICE, Regret, prepare_slice, regret_cp
from algorithms.networks.policy_net import PolicyNet
from algorithms.run_folder.progress import Progress
from chess_env.positions.heldout import load_heldout


class Evaluated(Protocol):
    """The parts of a run that are evaluated.

    Attributes:
        device: where the network lives.
        progress: amounts done; it keeps the lowest regret and entropy.
    """

    device: torch.device
    progress: Progress

    @property
    def policy(self) -> PolicyNet:
        """The network."""
        ...


class RunEvaluation:
    """Exact regret of a session's policy on held-out slices.

    Args:
        session: the run.
        temperature: that the run began with, so that its figures stay comparable where a controller
            moves that of the rollouts.

    Attributes:
        regret: of the main slice, at the last evaluation; None before the first.
    """

    def __init__(self, session: Evaluated, *, temperature: float) -> None:
        heldout = load_heldout()
        self._session = session
        self._temperature = temperature
        self._slices = {name: prepare_slice(heldout, name) for name in heldout.slice_names}
        self.regret: Regret | None = None

    def main_slice(self) -> dict[str, float]:
        """Metrics of the main slice, which carry no slice in their names."""
        return self._measure([MAIN_SLICE])

    def all_slices(self) -> dict[str, float]:
        """Metrics of every slice."""
        return self._measure(list(self._slices))

    def _measure(self, names: list[str]) -> dict[str, float]:
        began = time.monotonic()
        session, done = self._session, self._session.progress
        metrics: dict[str, float] = {}
        for name in names:
            regret = regret_cp(
                session.policy,
                self._slices[name],
                temperature=self._temperature,
                device=session.device,
            )
            if name == MAIN_SLICE:
                self.regret = regret
                done.best_regret_cp = min(done.best_regret_cp, regret.regret_cp)
                done.entropy_min = min(done.entropy_min, regret.entropy)
                metrics.update(regret.metrics())
            else:
                metrics.update(regret.metrics(prefix=f"eval/{name}"))
        metrics["time/eval_s"] = time.monotonic() - began
        return metrics
