"""The parts of a pretraining run, their state, and one optimizer step."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import torch

from algorithms.networks.build import build_policy, trained_parameters
from algorithms.networks.device import choose_device
from algorithms.networks.policy_net import PolicyNet
from algorithms.networks.weights import initialise
from algorithms.pretraining.config import TEMPERATURE, PretrainConfig
from algorithms.pretraining.minibatches import Minibatch
from algorithms.run_folder.progress import Progress
from algorithms.updates.learner import make_optimizer
from algorithms.updates.nonfinite import NonFiniteGuard
from algorithms.updates.recorded_state import (
    EMPTY_OPTIMIZER,
    check_optimizer,
    check_state,
    not_ours,
)


@dataclasses.dataclass
class Plateau:
    """Whether held-out regret still falls.

    Attributes:
        best_cp: the regret that the next improvement is counted from.
        stale_evals: evaluations since that improvement.
    """

    best_cp: float = math.inf
    stale_evals: int = 0

    def see(self, regret_cp: float, min_improvement_cp: float) -> None:
        """Counts one evaluation; slow improvements add up, because the best stays where it is."""
        if regret_cp <= self.best_cp - min_improvement_cp:
            self.best_cp, self.stale_evals = regret_cp, 0
        else:
            self.stale_evals += 1


class StepMeans:
    """Means over the positions of the steps since the last row."""

    def __init__(self) -> None:
        self._sums: dict[str, float] = {}
        self._positions = self._steps = self.skipped = 0
        self._grad_norm = 0.0

    def add(self, values: dict[str, torch.Tensor], positions: int, grad_norm: float) -> None:
        """Adds one step's means over its positions."""
        for name, mean in values.items():
            self._sums[name] = self._sums.get(name, 0.0) + float(mean) * positions
        self._positions += positions
        self._grad_norm += grad_norm
        self._steps += 1

    def metrics(self) -> dict[str, float]:
        """The means, and how many steps were left out; the means are absent where all were."""
        found = {name: total / self._positions for name, total in self._sums.items()}
        if self._steps:
            found["train/grad_norm"] = self._grad_norm / self._steps
        return found | {"train/skipped_steps": float(self.skipped)}


class Pretraining:
    """The parts of one run.

    Args:
        config: what to build.
        fresh: start from the weights of `config.init_from`; a continued run has its own.

    Raises:
        ValueError: settings that cannot go together, or weights of another network.

    Attributes:
        policy: the network that learns.
        optimizer: Adam over the layers that learn.
        guard: leaves out steps that are not finite.
        device: where the network lives.
        progress: amounts done; `plies` counts positions and `scored_moves` labelled moves.
        plateau: whether held-out regret still falls.
        labels: identity of the labels; a continued run must have the same.
    """

    def __init__(self, config: PretrainConfig, *, fresh: bool = True) -> None:
        self.config = config
        self.device = choose_device(config.device)
        self.policy: PolicyNet = build_policy(
            config.policy, seed=config.seed, device=self.device, precision=config.precision
        ).eval()
        if fresh and config.init_from is not None:
            initialise(self.policy, config.init_from)
        self._trained = trained_parameters(self.policy, config.optimizer.frozen_layers)
        self.optimizer = make_optimizer(self._trained, config.optimizer.full_learning_rate)
        self.guard = NonFiniteGuard()
        self.progress = Progress()
        self.plateau = Plateau()
        self.labels: dict[str, Any] = {}

    def learning_rate(self) -> float:
        """Adam's step size of the next step."""
        done = self.progress.update
        share = done / self.config.lr_decay_steps
        return self.config.optimizer.learning_rate_at(done, share)

    def step(self, batch: Minibatch, means: StepMeans) -> None:
        """Makes one step on the cross-entropy of the targets under the policy at temperature 1.

        Raises:
            NonFiniteError: several steps in a row were not finite.
        """
        for group in self.optimizer.param_groups:
            group["lr"] = self.learning_rate()
        dist = self.policy.outputs(batch.obs, batch.legal_ids, TEMPERATURE, batch.move_facts).dist
        slots = torch.arange(batch.targets.shape[1], device=self.device).expand(batch.targets.shape)
        # Through `gather`, because `logprobs` is -inf on padding and 0 x -inf is no number.
        loss = -(batch.targets * dist.gather(slots)).sum(-1).mean()
        self.optimizer.zero_grad()
        loss.backward()
        limit = self.config.optimizer.max_grad_norm
        norm = float(torch.nn.utils.clip_grad_norm_(self._trained, limit))
        loss = loss.detach()
        finite = math.isfinite(norm) and math.isfinite(float(loss))
        self.guard.record(finite, f"loss {float(loss)}, gradient norm {norm}")
        if not finite:
            means.skipped += 1
        else:
            self.optimizer.step()
            with torch.no_grad():
                said = _said(loss, batch, dist.probs, dist.entropy())
            means.add(said, len(batch.obs), norm)
        self.progress.update += 1
        self.progress.plies += len(batch.obs)
        self.progress.scored_moves += batch.num_labels

    def state(self) -> dict[str, Any]:
        """Everything beside the weights that the rest of the run depends on."""
        return {
            "progress": dataclasses.asdict(self.progress),
            "optimizer": self.optimizer.state_dict(),
            "guard": self.guard.state_dict(),
            "plateau": dataclasses.asdict(self.plateau),
            "labels": self.labels,
        }

    def load(self, path: Path, weights: dict[str, torch.Tensor], state: dict[str, Any]) -> None:
        """Continues from a checkpoint's weights and `state()`.

        Raises:
            ValueError: another network, or the checkpoint of another kind of run; names `path`.
        """
        parameters = [p for group in self.optimizer.param_groups for p in group["params"]]
        try:
            check_state(state, {**self.state(), "optimizer": EMPTY_OPTIMIZER})
            check_optimizer(state["optimizer"]["state"], parameters)
            self.policy.load_state_dict(weights)
            groups = self.optimizer.state_dict()["param_groups"]
            self.optimizer.load_state_dict({**state["optimizer"], "param_groups": groups})
        except (ValueError, RuntimeError) as error:
            raise not_ours(path, error) from error
        self.plateau = Plateau(**state["plateau"])
        self.progress = Progress(**state["progress"])
        self.guard.load_state_dict(state["guard"])


def _said(
    loss: torch.Tensor, batch: Minibatch, probs: torch.Tensor, entropy: torch.Tensor
) -> dict[str, torch.Tensor]:
    """Means over a minibatch of what the policy said before the step."""
    targets = batch.targets
    target_entropy = torch.special.entr(targets).sum(-1).mean()
    chosen = targets.gather(-1, probs.argmax(-1, keepdim=True)).squeeze(-1)
    return {
        "pretrain/loss": loss,
        "pretrain/target_entropy": target_entropy,
        "pretrain/kl": loss - target_entropy,
        "pretrain/entropy": entropy.mean(),
        "pretrain/top1_agreement": (chosen == targets.max(-1).values).float().mean(),
    }
