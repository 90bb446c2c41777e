"""Measurements of one update: the gradient of each term of the loss before it, the probes after it.

And the probe: a run's policy on the fixed positions, measured exactly, compared over time, and kept in files.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from algorithms.core.algorithm import Algorithm, Controls, Needs
from algorithms.core.batch import FlatBatch, RolloutBatch
from algorithms.core.distribution import MaskedCategorical
from algorithms.core.metrics import to_floats
from algorithms.diagnostics.entropy_prediction import (
    EntropyPrediction,
    ProbeStates,
    exact_rewards,
    float64_copy,
    gradients_of,
    probe_states,
    sampled_pull,
)
from algorithms.diagnostics.probe_metrics import (
    Floats,
    change_metrics,
    entropy,
    has_closed_optimum,
    kl,
    optimum_logprobs,
)
from algorithms.diagnostics.probe_set import KINDS, load_probe_set
from algorithms.networks.policy_net import PolicyNet
from algorithms.regularization import Regularizer
from algorithms.reports.probe_files import (
    ProbeSheet,
    probe_path,
    probed_updates,
    read_probe,
    write_probe,
)
from algorithms.updates.learner import Learner, WholePasses
from algorithms.updates.training_batch import Targets, TrainingBatch, make_training_batch
from algorithms.updates.update import loss_of
from chess_env.move_facts import FactsAsked


class PolicyProbe:
    """The committed positions in one run's reward, at one temperature.

    Args:
        reward: the environment's reward setting, for exact advantages and the optimum.
        temperature: softmax temperature of every figure. It stays the same when a controller moves
            that of the rollouts, so that a run's figures can be compared.
        device: where the network runs.
        move_facts: which facts of each move the run's network reads.

    Attributes:
        probes: the positions.
        states: the same for the network.
        start: float64 `[M, L]` log-probabilities of the run's initial policy, nats; None where they
            are not known (`probe/kl_start` is then left out).
    """

    def __init__(
        self,
        reward: str | None,
        temperature: float,
        device: torch.device,
        *,
        move_facts: FactsAsked = False,
    ) -> None:
        self.probes = load_probe_set()
        self.temperature = temperature
        self._rewards = exact_rewards(self.probes.legal_ids, self.probes.child_score_cp, reward)
        self.states = probe_states(self.probes, self._rewards, device, move_facts=move_facts)
        self._legal = self.probes.legal_ids >= 0
        self._free = self.probes.num_legal >= 2
        self._kinds = {
            name: chosen
            for name in KINDS
            if (chosen := self.probes.of_kind(name) & self._free).any()
        }
        self.start: Floats | None = None

    @torch.no_grad()
    def look(self, policy: PolicyNet) -> Floats:
        """Log-probabilities float64 `[M, L]` of a policy, nats, computed in float64; -inf on padding."""
        logits = self.states.logits(float64_copy(policy))
        return _array(MaskedCategorical(logits, self.states.legal, self.temperature).logprobs)

    def start_from(self, logprobs: np.ndarray) -> None:
        """Takes the initial policy from a file's log-probabilities `[M, L]`.

        Their probabilities are scaled to sum 1 again: rounding in float32 would otherwise show as a KL.
        """
        known = np.where(self._legal, logprobs.astype(np.float64), -np.inf)
        self.start = known - np.log(np.exp(known).sum(-1, keepdims=True))

    def metrics(self, before: Tensor, after: Tensor, controls: Controls) -> dict[str, float]:
        """`probe/...` of one update, see docs/metrics.md; without the optimum's.

        Args:
            before: float64 `[M, L]` log-probabilities before the update, nats.
            after: the same after it.
            controls: the clip bounds of the update.
        """
        new = _array(after)
        metrics = change_metrics(
            self._legal,
            _array(before),
            new,
            self._rewards,
            clip_low=controls.clip_low,
            clip_high=controls.clip_high,
        )
        entropies = entropy(new, self._legal)
        for kind, chosen in self._kinds.items():
            metrics[f"probe/entropy_{kind}"] = float(entropies[chosen].mean())
        if self.start is not None:
            metrics["probe/kl_start"] = self._mean(kl(new, self.start, self._legal))
        return metrics

    def optimum(
        self, algorithm: Algorithm, regularizer: Regularizer, reference: PolicyNet | None
    ) -> dict[str, float]:
        """`probe/optimum_entropy`, nats, with the coefficients in force; empty where there is none."""
        coefs = regularizer.state.coefs
        if (
            reference is None
            or not has_closed_optimum(regularizer.all_terms)
            or not algorithm.needs().reward_units
        ):
            return {}
        best = optimum_logprobs(
            self.look(reference),
            self._rewards,
            self._legal,
            kl_ref_coef=coefs["kl_ref_coef"],
            ent_coef=coefs["ent_coef"],
        )
        return {"probe/optimum_entropy": self._mean(entropy(best, self._legal))}

    def _mean(self, values: Floats) -> float:
        """Mean of `[M]` over the positions with two legal moves or more."""
        return float(values[self._free].mean())


def _array(logprobs: Tensor) -> Floats:
    return logprobs.detach().cpu().numpy()


class ProbeRecord:
    """Files under RUN/probes; a file that cannot be written is reported and the run goes on.

    Args:
        run_dir: the run folder.
        probe: the measurements; its initial policy is set here.
        say: shows warnings.
    """

    def __init__(self, run_dir: Path, probe: PolicyProbe, say: Callable[[str], None]) -> None:
        self._run_dir, self._probe, self._say = run_dir, probe, say
        probes = probe.probes
        self._sheet = ProbeSheet(probes.kinds, probes.legal_ids, probes.positions, probes.sha256)

    def begin(self, policy: PolicyNet) -> None:
        """Writes the initial policy as update 0 and measures distances from it."""
        logprobs = self._probe.look(policy)
        # As the file holds it, so that a continued run measures from the same numbers.
        self._probe.start_from(logprobs.astype("float32"))
        self.write(0, logprobs)

    def resume(self, update: int) -> None:
        """Takes the initial policy from update 0 and drops the files after `update`."""
        for later in probed_updates(self._run_dir):
            if later > update:
                probe_path(self._run_dir, later).unlink()
        try:
            first = read_probe(probe_path(self._run_dir, 0))
        except (FileNotFoundError, ValueError) as error:
            self._say(f"WARNING: probe/kl_start is left out from here on: {error}")
            return
        if first.sheet.set_sha256 != self._sheet.set_sha256:
            self._say(
                "WARNING: probe/kl_start is left out from here on: the run began with another set "
                f"of probe positions ({first.sheet.set_sha256[:12]}..., this version has "
                f"{self._sheet.set_sha256[:12]}...)"
            )
            return
        self._probe.start_from(first.logprobs[0])

    def write(self, update: int, logprobs: Floats) -> None:
        """Writes the policy after `update`.

        Args:
            update: updates done.
            logprobs: float64 `[M, L]`, nats.
        """
        try:
            write_probe(self._run_dir, update, logprobs, self._probe.temperature, self._sheet)
        except OSError as error:
            path = probe_path(self._run_dir, update)
            self._say(f"WARNING: {path} could not be written ({error.strerror or error})")


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
        self._before: tuple[EntropyPrediction, EntropyPrediction, Controls] | None = None
        self.logprobs: Floats | None = None

    def before(
        self,
        learner: Learner,
        batch: RolloutBatch,
        targets: Targets,
        reference: PolicyNet | None = None,
    ) -> dict[str, float]:
        """Gradient and loss shares on at most `size` states of the batch; remembers the policy.

        The terms are `policy`, those of the regulariser, and `value` where there is a critic, all with
        their coefficients. The entropy of the regularised optimum is among them, where there is one.

        Args:
            learner: not yet updated on `batch`.
            batch: one rollout with at least one valid sample.
            targets: from `make_targets`.
            reference: the policy that `kl_ref` is measured to, where there is one.

        Raises:
            ValueError: the algorithm learns a critic, and policy or batch have no values.
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
        self._before = (
            EntropyPrediction(twin, self._probe.states, self._probe.temperature),
            EntropyPrediction(twin, trained, batch.temperature),
            learner.controls,
        )
        parameters = [p for p in learner.policy.parameters() if p.requires_grad]
        # One process asks, for all shards.
        whole = dataclasses.replace(learner, passes=WholePasses())
        shares = term_metrics(loss_of(whole, minibatch).terms(), parameters)
        return shares | self._probe.optimum(algorithm, learner.regularizer, reference)

    def after(self, policy: PolicyNet, learning_rate: float) -> dict[str, float]:
        """Metrics of the update since `before`: the change of entropy, and `probe/...`.

        Args:
            policy: updated.
            learning_rate: of this update.
        """
        assert self._before is not None  # `before` comes first
        twin = float64_copy(policy)
        (on_fixed, on_trained, controls), self._before = self._before, None
        fixed, logprobs = on_fixed.after(twin, learning_rate)
        trained, _ = on_trained.after(twin, learning_rate)
        self.logprobs = logprobs.cpu().numpy()
        return (
            {f"entropy/{name}": value for name, value in fixed.items()}
            | {f"entropy/batch_{name}": value for name, value in trained.items()}
            | self._probe.metrics(on_fixed.before, logprobs, controls)
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
    return partial(sampled_pull, flat.slots, weights * minibatch.advantages.double())


def term_metrics(terms: dict[str, Tensor], parameters: Sequence[Tensor]) -> dict[str, float]:
    """Gradient norm, share and cosine, and share of the loss value, of every scalar loss term.

    See docs/metrics.md. One backward pass for each; the parameters' own gradients are left alone.
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
