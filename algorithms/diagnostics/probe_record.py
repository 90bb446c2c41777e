"""The probe tensors of a run: written at every measurement, and continued with the run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from algorithms.diagnostics.probe_metrics import Floats
from algorithms.diagnostics.probe_policy import PolicyProbe
from algorithms.networks.policy_net import PolicyNet
from algorithms.reports.probe_files import (
    ProbeSheet,
    probe_path,
    probed_updates,
    read_probe,
    write_probe,
)


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
