"""Checks before the first update: can this run learn what it should learn?"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from contextlib import AbstractContextManager

import torch

from algorithms.core.batch import RolloutBatch
from algorithms.core.batch_metrics import policy_metrics
from algorithms.training.preflight import first_rollout, staleness
from algorithms.training.preflight.findings import Finding, PreflightError, Report
from algorithms.training.preflight.sampler import check_sampler
from algorithms.training.preflight.step0 import measure_step0, repeat_error
from algorithms.training.session import Session


def look(session: Session, batch: RolloutBatch, say: Callable[[str], None]) -> dict[str, float]:
    """The `step0/*` metrics of a process's first rollout, before anything is learned from it.

    With `config.preflight` off nothing is judged: the gaps between sampler and learner are only
    measured, and `step0/preflight` is 0.

    Args:
        session: its policies are still those that sampled.
        batch: the first rollout.
        say: shows a warning. Those of controllers are left to the controllers.

    Raises:
        PreflightError: the run must not start; the message names cause and remedy.
    """
    if not session.config.preflight:
        say("WARNING: the preflight is switched off: no fault of the first rollout stops this run")
        return {**_distances(session, batch), "step0/preflight": 0.0}
    began = time.monotonic()
    report = preflight(session, batch)
    if report.failures:
        raise PreflightError(report.failures)
    for finding in report.warnings:
        if finding.cause != "controller":
            say(f"WARNING: {finding}")
    spent = time.monotonic() - began
    return {**report.metrics, "step0/preflight": 1.0, "time/preflight_s": spent}


def preflight(session: Session, batch: RolloutBatch) -> Report:
    """The findings on one rollout and the weights that sampled it.

    The session, its random streams and its record stay as they are: changes are made to copies, and
    queries to the evaluator are not counted.
    """
    with _random_state_kept(session), session.usage.untracked():
        return _preflight(session, batch)


def _distances(session: Session, batch: RolloutBatch) -> dict[str, float]:
    """Sampler and learner measured without a judgement; the random streams stay as they are."""
    with _random_state_kept(session):
        policy = session.worker.sampling_policy(session.progress.update)
        step0 = measure_step0(policy, batch, session.learner.controls)
        repeated = repeat_error(session.learner.behaviour, batch)
    return step0.metrics | {"step0/repeat_error": repeated}


def _random_state_kept(session: Session) -> AbstractContextManager[None]:
    """Gives torch's global random state back as it was: dropout draws from it."""
    devices = [session.device] if session.device.type == "cuda" else []
    return torch.random.fork_rng(devices=devices)


def _preflight(session: Session, batch: RolloutBatch) -> Report:
    config, done, learner = session.config, session.progress, session.learner
    metrics, findings = first_rollout.check_moves(batch)
    findings = findings or first_rollout.check_move_facts(batch)
    if any(finding.cause == "move_facts" for finding in findings):
        return Report(tuple(findings), metrics)  # sampler and learner differ by them
    found: list[first_rollout.Checked] = [
        check_sampler(
            session.worker.sampling_policy(done.update),
            learner.behaviour,
            batch,
            learner.controls,
            updates=done.update,
            minibatch_size=config.optimizer.minibatch_size,
        ),
        first_rollout.check_rewards(batch, config.env.reward),
        first_rollout.check_evaluator(batch, session.evaluator),
    ]
    for more, others in found:
        metrics, findings = metrics | more, findings + others
    if any(finding.severity == "fail" for finding in findings):
        return Report(tuple(findings), metrics)  # what follows would only show their symptoms
    findings += _controllers(session, batch, metrics["step0/kl_old_mean"])
    found = [
        first_rollout.check_starts(
            batch,
            session.worker.parts[0].vec.unwrapped.settings.source,
            seed=config.seed,
            starts_of_run=_starts_of_run(session),
        )
    ]
    if done.update == 0:
        found.append(staleness.dry_run(learner, batch, config))
    for more, others in found:
        metrics, findings = metrics | more, findings + others
    return Report(tuple(findings), metrics)


def _starts_of_run(session: Session) -> float:
    """Games that the budget pays for, most likely: each board starts one every `max_plies` plies."""
    rollout = session.config.rollout
    rollouts = session.config.total_moves / session.budget.moves_per_rollout
    games = 1.0
    if rollout.form == "positions":
        games = rollout.num_plies / (session.config.env.max_plies or rollout.num_plies)
    return rollouts * rollout.num_envs * games


def _controllers(session: Session, batch: RolloutBatch, kl_at_start: float) -> list[Finding]:
    """What the controllers say of their first measurements, asked of a copy."""
    measured = session.measurements(policy_metrics(batch), kl_at_start=kl_at_start)
    signals = copy.deepcopy(session.learner.regularizer).update(measured, session.learner.controls)
    return [
        Finding(
            "controller",
            "warn",
            warning,
            "a first reading within the controller's range",
            "a controller has no room, or is past its threshold, before anything was learned",
            "set the regularizer's target or floor to what the untrained policy has room for",
        )
        for warning in signals.warnings
    ]
