"""What one update does, looked at from outside: gradient shares before it, entropy change after it."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from algorithms.core.algorithm import Algorithm, Controls, Needs
from algorithms.core.batch import FlatBatch, RolloutBatch
from algorithms.regularization import Regularizer
from algorithms.training.entropy_probe import (
    EntropyProbe,
    ProbeStates,
    float64_copy,
    heldout_states,
    sampled_pull,
)
from algorithms.training.gradient_share import gradient_shares
from algorithms.training.minibatches import Material, make_material
from algorithms.training.policy import PolicyNet
from algorithms.training.targets import Targets
from chess_env.heldout import Heldout


class UpdateDiagnostics:
    """Measures one update: `before` it, then `after` it; nothing is kept between updates.

    It reads the run and changes nothing in it, random streams included.

    Args:
        heldout: where the probe's positions come from.
        reward: the environment's reward setting, for the exact advantages of the probe.
        temperature: softmax temperature at which the held-out probe is measured. It stays the same
            when a controller moves that of the rollouts, so that a run's figures can be compared;
            the trained states are looked at at their own.
        device: where the network runs.
        size: most states in the probe, and most states taken from the batch. With 24 the
            whole look takes less than an update (benchmarks/diagnostics.py).
    """

    def __init__(
        self,
        heldout: Heldout,
        reward: str | None,
        temperature: float,
        device: torch.device,
        size: int = 24,
    ) -> None:
        self._heldout = heldout_states(heldout, reward, device, size)
        self._temperature = temperature
        self._size = size
        self._probes: dict[str, EntropyProbe] = {}

    def before(
        self,
        policy: PolicyNet,
        algorithm: Algorithm,
        regularizer: Regularizer,
        controls: Controls,
        batch: RolloutBatch,
        targets: Targets,
    ) -> dict[str, float]:
        """Gradient and loss shares on at most `size` states of the batch; remembers the policy.

        Args:
            policy: not yet updated on `batch`.
            algorithm: gives the policy loss.
            regularizer: gives the other terms.
            controls: current clip bounds.
            batch: one rollout with at least one valid sample.
            targets: from `make_targets`.
        """
        needs = algorithm.needs()
        # A stream of its own, so that the run draws what it would have drawn without this.
        generator = torch.Generator().manual_seed(0)
        material = make_material(algorithm, batch, targets, generator)
        index = chosen_states(material.flat, self._size, whole_games=needs.whole_games)
        part = material.select(index)
        trained = ProbeStates(part.flat.obs, part.flat.legal_ids, _batch_pull(part, needs))
        twin = float64_copy(policy)
        self._probes = {
            "entropy/": EntropyProbe(twin, self._heldout, self._temperature),
            "entropy/batch_": EntropyProbe(twin, trained, batch.temperature),
        }
        return gradient_shares(policy, algorithm, regularizer, controls, part)

    def after(self, policy: PolicyNet, learning_rate: float) -> dict[str, float]:
        """The entropy change of the update since `before`, measured and predicted, nats.

        Raises:
            RuntimeError: `before` was not called for this update.
        """
        if not self._probes:
            raise RuntimeError(
                "there is nothing to compare with: call before() ahead of the update"
            )
        twin = float64_copy(policy)
        probes, self._probes = self._probes, {}
        return {
            prefix + name: value
            for prefix, probe in probes.items()
            for name, value in probe.after(twin, learning_rate).items()
        }


def chosen_states(flat: FlatBatch, size: int, *, whole_games: bool) -> Tensor:
    """Int64 index of at most `size` states, evenly spaced; or the first whole games (at least one)."""
    if whole_games:
        _, lengths = flat.games.unique_consecutive(return_counts=True)
        games = max(1, int((lengths.cumsum(0) <= size).sum()))
        return torch.arange(int(lengths[:games].sum()), device=flat.obs.device)
    spaced = torch.linspace(0, flat.num_states - 1, min(size, flat.num_states), dtype=torch.float64)
    return spaced.round().long().to(flat.obs.device)


def _batch_pull(part: Material, needs: Needs) -> Callable[[Tensor], Tensor]:
    """pi A as the samples show it: each weighs 1 / K_s, or pi_old where all moves are scored."""
    flat = part.flat
    weights = flat.valid.double()
    if needs.all_moves:
        weights = torch.where(flat.valid, flat.old_logprobs.double().exp(), 0.0)
    weights = weights / weights.sum(-1, keepdim=True)
    return sampled_pull(flat.slots, weights * part.advantages.double())
