"""Measurements of one update: the gradient of each term of the loss before it, the probes after it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from algorithms.core.algorithm import Controls, Needs
from algorithms.core.batch import FlatBatch, RolloutBatch
from algorithms.core.metrics import to_floats
from algorithms.diagnostics.entropy_prediction import (
    EntropyPrediction,
    ProbeStates,
    float64_copy,
    gradients_of,
    sampled_pull,
)
from algorithms.diagnostics.policy_probe import PolicyProbe
from algorithms.diagnostics.probe_metrics import Floats
from algorithms.networks.policy_net import PolicyNet
from algorithms.updates.learner import Learner, WholePasses
from algorithms.updates.training_batch import Targets, TrainingBatch, make_training_batch
from algorithms.updates.update import loss_of


@dataclasses.dataclass(frozen=True, eq=False)
class _Before:
    """What is remembered from before an update.

    Attributes:
        fixed: the policy on the probe's positions.
        trained: the policy on states of the batch.
        controls: the clip bounds in force.
    """

    fixed: EntropyPrediction
    trained: EntropyPrediction
    controls: Controls


class UpdateDiagnostics:
    """Measures one update: `before` it, then `after` it.

    It reads the run and changes nothing in it, random streams included.

    Args:
        probe: the fixed positions, which are measured at its temperature; the trained states are
            measured at their own.
        size: most states taken from the batch. With 24 all measurements take less than an update
            (benchmarks/speed/diagnostics.py).

    Attributes:
        logprobs: float64 `[M, L]` of the policy on the probe's positions after the update that was
            measured last, nats, -inf on padding; None before the first.
    """

    def __init__(self, probe: PolicyProbe, size: int = 24) -> None:
        self._probe = probe
        self._size = size
        self._before: _Before | None = None
        self.logprobs: Floats | None = None

    def before(
        self,
        learner: Learner,
        batch: RolloutBatch,
        targets: Targets,
        reference: PolicyNet | None = None,
    ) -> dict[str, float]:
        """Gradient and loss shares on at most `size` states of the batch; remembers the policy.

        The entropy of the regularised optimum is among them, where there is one.

        Args:
            learner: not yet updated on `batch`.
            batch: one rollout with at least one valid sample.
            targets: from `make_targets`.
            reference: the policy that `kl_ref` is measured to, where there is one.
        """
        algorithm, needs = learner.algorithm, learner.algorithm.needs()
        # A stream of its own, so that the run draws what it would have drawn without this.
        generator = torch.Generator().manual_seed(0)
        training = make_training_batch(algorithm, batch, targets, generator)
        index = chosen_states(training.flat, self._size, whole_games=needs.whole_games)
        minibatch = training.select(index)
        flat = minibatch.flat
        everywhere = torch.ones(flat.num_states, dtype=torch.bool, device=flat.obs.device)
        pull = _batch_pull(minibatch, needs)
        trained = ProbeStates(flat.obs, flat.legal_ids, pull, everywhere, flat.move_facts)
        twin = float64_copy(learner.policy)
        self._before = _Before(
            fixed=EntropyPrediction(twin, self._probe.states, self._probe.temperature),
            trained=EntropyPrediction(twin, trained, batch.temperature),
            controls=learner.controls,
        )
        shares = gradient_shares(learner, minibatch)
        return shares | self._probe.optimum(algorithm, learner.regularizer, reference)

    def after(self, policy: PolicyNet, learning_rate: float) -> dict[str, float]:
        """Metrics of the update since `before`: the change of entropy, and `probe/...`.

        Args:
            policy: updated.
            learning_rate: of this update.

        Raises:
            RuntimeError: `before` was not called for this update.
        """
        if self._before is None:
            raise RuntimeError(
                "there is nothing to compare with: call before() ahead of the update"
            )
        twin = float64_copy(policy)
        seen, self._before = self._before, None
        fixed, logprobs = seen.fixed.after(twin, learning_rate)
        trained, _ = seen.trained.after(twin, learning_rate)
        self.logprobs = logprobs.cpu().numpy()
        return (
            {f"entropy/{name}": value for name, value in fixed.items()}
            | {f"entropy/batch_{name}": value for name, value in trained.items()}
            | self._probe.metrics(seen.fixed.before, logprobs, seen.controls)
        )


def chosen_states(flat: FlatBatch, size: int, *, whole_games: bool) -> Tensor:
    """Int64 `[n]` index of at most `size` states, evenly spaced; or the first whole games (at least one)."""
    if whole_games:
        _, lengths = flat.games.unique_consecutive(return_counts=True)
        games = max(1, int((lengths.cumsum(0) <= size).sum()))
        return torch.arange(int(lengths[:games].sum()), device=flat.obs.device)
    spaced = torch.linspace(0, flat.num_states - 1, min(size, flat.num_states), dtype=torch.float64)
    return spaced.round().long().to(flat.obs.device)


def _batch_pull(minibatch: TrainingBatch, needs: Needs) -> Callable[[Tensor], Tensor]:
    """pi A as the samples show it: each weighs 1 / K_s, or pi_old where all moves are scored."""
    flat = minibatch.flat
    weights = flat.valid.double()
    if needs.all_moves:
        weights = torch.where(flat.valid, flat.old_logprobs.double().exp(), 0.0)
    weights = weights / weights.sum(-1, keepdim=True)
    return sampled_pull(flat.slots, weights * minibatch.advantages.double())


def gradient_shares(learner: Learner, minibatch: TrainingBatch) -> dict[str, float]:
    """Gradient norm, share and cosine, and share of the loss value, of every active loss term.

    See docs/metrics.md. The terms are `policy`, those of the regulariser, and `value` where there is
    a critic, all with their coefficients. One backward pass for each; the parameters' own gradients
    are left alone.

    Args:
        learner: before the update.
        minibatch: the states that are measured.

    Raises:
        ValueError: the algorithm learns a critic, and policy or batch have no values.
    """
    trained = [p for p in learner.policy.parameters() if p.requires_grad]
    whole = dataclasses.replace(learner, passes=WholePasses())  # one process asks, for all shards
    return term_metrics(loss_of(whole, minibatch).terms(), trained)


def term_metrics(terms: dict[str, Tensor], parameters: Sequence[Tensor]) -> dict[str, float]:
    """The metrics of scalar loss terms, one backward pass each.

    A share or cosine with nothing to divide by (all gradients 0) is NaN.
    """
    gradients = [gradients_of(term, parameters) for term in terms.values()]
    rows = torch.stack([torch.cat([g.reshape(-1) for g in parts]) for parts in gradients]).double()
    total = rows.sum(0)
    norms = rows.norm(dim=-1)
    cosines = (rows @ total) / (norms * total.norm())
    values = torch.stack(list(terms.values())).detach().double().abs()
    metrics: dict[str, Tensor] = {}
    for index, name in enumerate(terms):
        metrics[f"grad_share/{name}_norm"] = norms[index]
        metrics[f"grad_share/{name}"] = norms[index] / norms.sum()
        metrics[f"grad_cosine/{name}"] = cosines[index]
        metrics[f"loss_share/{name}"] = values[index] / values.sum()
    return to_floats(metrics)
