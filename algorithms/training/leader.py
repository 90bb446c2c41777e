"""What one process of a run does beside learning: diagnostics, evaluations, matches and the record."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from algorithms.config import files as config_file
from algorithms.core.batch import RolloutBatch
from algorithms.diagnostics.probe_policy import PolicyProbe
from algorithms.diagnostics.probe_record import ProbeRecord
from algorithms.diagnostics.update_diagnostics import UpdateDiagnostics
from algorithms.evaluation.heldout import Regret
from algorithms.evaluation.match_play import MatchPlay
from algorithms.run_folder import environment
from algorithms.run_folder.checkpoint.snapshots import Schedule, Snapshots
from algorithms.run_folder.console import Display
from algorithms.run_folder.log import RunLog
from algorithms.training.record import Recorder
from algorithms.training.session import Session
from algorithms.updates.nonfinite import NonFiniteDump
from algorithms.updates.targets import Targets
from algorithms.updates.update import KeepBad

Watch = Callable[[Mapping[str, float]], str]


class Leader:
    """Looks at a run and writes it down; nothing that is learned depends on it.

    Args:
        session: the run; it has its progress already.
        run_dir: the run folder.
        display: shows the run.
        watch: as of `training.trainer.train`.
        resume_at: as of `RunLog`.

    Raises:
        ValueError: an opponent of the matches is not there; the folder is as it was.
        RunFolderError: the folder holds another run, or another process writes it.
    """

    def __init__(
        self,
        session: Session,
        run_dir: Path,
        display: Display,
        watch: Watch | None,
        *,
        resume_at: int | None,
    ) -> None:
        config, usage = session.config, session.usage
        self._session = session
        self._matches = MatchPlay(config.match, config.seed)
        try:
            log = RunLog(
                run_dir, track=config.track, config=config_file.to_dict(config), resume_at=resume_at
            )
        except BaseException:
            self._matches.close()
            raise
        self._log = log
        self._recorder = Recorder(
            session,
            run_dir,
            log,
            display,
            temperature=config.rollout.temperature,
            snapshots=Snapshots(run_dir, Schedule(config.checkpoint_keep, config.total_moves)),
            watch=watch,
            cpu_seconds=lambda: environment.cpu_seconds() + usage.others_cpu_s,
        )
        probe = PolicyProbe(
            config.env.reward,
            config.rollout.temperature,
            session.device,
            move_facts=session.policy.reads_move_facts,
        )
        self._diagnostics = UpdateDiagnostics(probe)
        self._probes = ProbeRecord(run_dir, probe, display.say)
        self._bad = NonFiniteDump(run_dir / "bad_batches", display.say)
        self._looked_s = 0.0

    def begin(self) -> None:
        """Measures the untrained policy and writes its checkpoint."""
        self._probes.begin(self._session.policy)
        self._recorder.begin()

    def resume(self) -> None:
        """Brings what lies beside the record to where the checkpoint is."""
        self._recorder.resume()
        self._probes.resume(self._session.progress.update)

    def before_update(self, batch: RolloutBatch, targets: Targets) -> dict[str, float]:
        """Metrics of the costly diagnostics at their interval, else none."""
        began = time.monotonic()
        found: dict[str, float] = {}
        if self._looking:
            reference = self._session.worker.reference
            found = self._diagnostics.before(self._session.learner, batch, targets, reference)
        self._looked_s = time.monotonic() - began
        return found

    def after_update(self) -> dict[str, float]:
        """The same, of what the update has done."""
        if not self._looking:
            return {}
        session, began = self._session, time.monotonic()
        found = self._diagnostics.after(session.policy, session.learner.learning_rate)
        assert self._diagnostics.logprobs is not None
        self._probes.write(session.progress.update + 1, self._diagnostics.logprobs)
        return {**found, "time/diagnostics_s": self._looked_s + time.monotonic() - began}

    @property
    def keep_bad(self) -> KeepBad:
        """What is done with a minibatch of this update that is not finite."""
        return partial(self._bad.keep, self._session.progress.update)

    def evaluate(self, *, every_slice: bool) -> dict[str, float]:
        """Metrics of the present policy on every held-out slice, or on the main one."""
        return self._recorder.evaluate(every_slice=every_slice)

    def play(self) -> dict[str, float]:
        """Metrics of games against the opponents of the configuration."""
        return self._matches.play(self._session.policy)

    def finish(self, row: Mapping[str, float], *, keep: bool, last: bool) -> None:
        """Writes and shows a row, and writes a checkpoint where it is time for one."""
        self._recorder.finish(row, keep=keep, last=last)

    def refuse(self, row: Mapping[str, float]) -> None:
        """Writes the row of the update that was not made."""
        self._log.write(row)

    def last_regret(self) -> Regret:
        """The main slice's regret at the last evaluation."""
        return self._recorder.last_regret()

    def close(self) -> None:
        """Closes the record and the opponents."""
        self._log.close()
        self._matches.close()

    @property
    def _looking(self) -> bool:
        interval = self._session.config.diagnostics_interval_updates
        return (self._session.progress.update + 1) % interval == 0
