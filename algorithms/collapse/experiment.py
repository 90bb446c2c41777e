"""Runs a cause or its cured twin, and takes the readings of the predicates from the record."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from algorithms.collapse.cause import FULL, Cause
from algorithms.collapse.faults import Fault
from algorithms.config.run import TrainConfig
from algorithms.core.checks import message_lines
from algorithms.doctor import Diagnosis, Watch, diagnose_run
from algorithms.reports.run_files import read, read_run
from algorithms.training.result import TrainResult
from algorithms.training.session import Session
from algorithms.training.trainer import train

SNAPSHOTS = 20
"""Policies that a run keeps, so that one can see how it collapsed."""


@dataclasses.dataclass(frozen=True)
class CauseOutcome:
    """The outcome of a run of a cause.

    Attributes:
        cause: the cause.
        cured: whether it was the twin.
        seed: the run's seed.
        result: of the training run.
        readings: reading -> value, of the predicates and of the published figures.
        diagnosis: the doctor's.
        smoke: whether the run was a few seconds long, too short for the predicates.
    """

    cause: Cause
    cured: bool
    seed: int
    result: TrainResult
    readings: dict[str, float]
    diagnosis: Diagnosis
    smoke: bool = False

    def to_dict(self) -> dict[str, Any]:
        """JSON values."""
        return {
            "cause": self.cause.name,
            "doctor_class": self.cause.doctor_class,
            "network": self.cause.network,
            "size": self.cause.size,
            "cured": self.cured,
            "seed": self.seed,
            "readings": {k: v if math.isfinite(v) else None for k, v in self.readings.items()},
            "diagnosis": self.diagnosis.to_dict(),
            "result": self.result.to_dict(),
        }

    def lines(self) -> list[str]:
        """The outcome for people."""
        who = "cured twin" if self.cured else "cause"
        size = "" if self.cause.size == FULL else f", size {self.cause.size}"
        lines = [f"{self.cause.name} ({who}) on {self.cause.network}{size}, seed {self.seed}"]
        for predicate in self.cause.predicates:
            value = self.readings[predicate.reading]
            verdict = "holds" if predicate.holds(value) else "does not hold"
            says = "not judged" if self.smoke else verdict
            lines.append(f"  {predicate.reading} = {value:.4g}: {predicate.beyond} {says}")
        if self.cause.size != FULL:
            lines.append("  the predicates are those of the full size: none is judged")
        if self.smoke:
            lines.append("  a smoke run is too short to judge a cause: run it without --smoke")
        doctor = f"doctor: {self.diagnosis.line()}"
        return [*lines, *message_lines(doctor, indent="    ", head="  ")]


def smaller(config: TrainConfig) -> TrainConfig:
    """The run in a few seconds: 64 groups in four updates or a few more, to see that its parts work."""
    return dataclasses.replace(
        config,
        rollout=dataclasses.replace(config.rollout, num_envs=8, num_plies=2),
        total_moves=4 * 8 * 2 * config.algorithm.group_size,
        eval_interval_updates=2,
        diagnostics_interval_updates=2,
    )


def session_with(fault: Fault | None) -> Callable[..., Session]:
    """A `make_session` of `train` whose sessions have a fault that no setting can make; None: none."""

    def make_session(settings: TrainConfig, *, fresh: bool) -> Session:
        session = Session(settings, fresh=fresh)
        if fault is not None:
            # Dropout in the sampler draws from torch's global stream, which no setting seeds.
            torch.manual_seed(settings.seed)
            fault(session)
        return session

    return make_session


def run_cause(
    cause: Cause,
    *,
    cured: bool,
    seed: int,
    run_dir: Path | None = None,
    preflight: bool = True,
    smoke: bool = False,
    num_engines: int | None = None,
) -> CauseOutcome:
    """The outcome of a run of the cause, or of its cured twin.

    Args:
        cause: from `CAUSES`, or what its `on_network` gives.
        cured: run the twin.
        seed: of everything that is random.
        run_dir: a new folder; None makes one under runs/.
        preflight: let the preflight stop a run with a fault.
        smoke: a few seconds, to see that the parts work; predicates are not judged then.
        num_engines: threads of the boards and of the evaluator, which change no score; None: as the cause has it.

    Raises:
        PreflightError: the preflight found the fault, as it should.
        ValueError, RunFolderError: as of `train`.
    """
    config = cause.config(cured=cured, seed=seed)
    config = dataclasses.replace(
        config, run_dir=run_dir, preflight=preflight, checkpoint_keep=SNAPSHOTS
    )
    if num_engines is not None:
        env = dataclasses.replace(config.env, num_engines=num_engines, num_threads=num_engines)
        config = dataclasses.replace(config, env=env)
    if smoke:
        config = smaller(config)
    fault = None if cured else cause.fault
    result = train(config, make_session=session_with(fault), watch=Watch())
    rows = read_run(result.run_dir).rows
    asked = [p.reading for p in cause.predicates] + [f.reading for f in cause.published]
    return CauseOutcome(
        cause,
        cured,
        seed,
        result,
        {reading: read(rows, reading) for reading in dict.fromkeys(asked)},
        diagnose_run(result.run_dir),
        smoke,
    )
