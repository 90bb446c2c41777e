"""A run's policy on the fixed probe positions: measured exactly, compared over time, and kept in files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from algorithms.core.algorithm import Algorithm, Controls
from algorithms.core.distribution import MaskedCategorical
from algorithms.diagnostics.entropy_prediction import exact_rewards, float64_copy, probe_states
from algorithms.diagnostics.probe_metrics import (
    Floats,
    PolicyChange,
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


class PolicyProbe:
    """The committed positions in one run's reward, at one temperature.

    Args:
        reward: the environment's reward setting, for exact advantages and the optimum.
        temperature: softmax temperature of every figure. It stays the same when a controller moves
            that of the rollouts, so that a run's figures can be compared.
        device: where the network runs.
        move_facts: whether the run's network reads the facts of each move.

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
        move_facts: bool = False,
    ) -> None:
        self.probes = load_probe_set()
        self.temperature = temperature
        self._rewards = exact_rewards(self.probes, reward)
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
        change = PolicyChange(
            legal=self._legal,
            before=_array(before),
            after=_array(after),
            rewards=self._rewards,
            clip_low=controls.clip_low,
            clip_high=controls.clip_high,
        )
        entropies = entropy(change.after, self._legal)
        metrics = change.metrics()
        for kind, chosen in self._kinds.items():
            metrics[f"probe/entropy_{kind}"] = float(entropies[chosen].mean())
        if self.start is not None:
            metrics["probe/kl_start"] = self._mean(kl(change.after, self.start, self._legal))
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
