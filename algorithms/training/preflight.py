"""The preflight: a process's first rollout is measured, and the doctor says whether the run may start.

Before anything is learned, sampler and learner have equal weights: they should be one distribution, up to rounding.
What is measured goes into the record as `step0/*`, so that `chess-lab diagnose` says why a run was refused.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from algorithms.core.algorithm import Controls
from algorithms.core.batch import RolloutBatch
from algorithms.core.metrics import log_odds, to_floats
from algorithms.doctor import diagnose
from algorithms.doctor.findings import Finding, Named
from algorithms.networks.policy_net import PolicyNet, legal_logprobs, outputs_at
from algorithms.networks.settings import DTYPES
from algorithms.rollouts.sampling import positions_of
from algorithms.training.session import Session
from chess_env.evaluators import CachedEvaluator, Evaluator
from chess_env.evaluators.protocol import scores_of
from chess_env.rules.rules import hash_batch

RESCORED_POSITIONS = 32


class PreflightError(RuntimeError):
    """A run must not start. The message has each cause with its measurement and remedy.

    Args:
        failures: the doctor's findings, at least one.
    """

    def __init__(self, failures: tuple[Finding, ...]) -> None:
        self.failures = failures
        lines = [
            f"- {each.name}: {each.verdict.measured} (without the fault: {each.verdict.without}). "
            f"Remedy: {each.verdict.remedy}"
            for each in failures
            if isinstance(each.verdict, Named)
        ]
        faults = f"{len(lines)} fault{'s' if len(lines) > 1 else ''}"
        super().__init__(
            "\n".join([f"the preflight found {faults} before the first update:", *lines])
            + "\n--no-preflight starts the run all the same"
        )


def refusals(session: Session, row: Mapping[str, float]) -> tuple[Finding, ...]:
    """The doctor's findings that forbid a run to start.

    Every cause that it names does, at whatever size. Where log-probabilities are rounded below float32 a small
    difference is to be expected, and only a harmful one does.

    Args:
        session: the run.
        row: of the first rollout, with what `measure_first_rollout` gives.
    """
    rounds = session.policy.precision.logprob_dtype != "float32"
    named = diagnose([row]).causes
    return tuple(finding for finding in named if finding.is_harmful or not rounds)


def measure_first_rollout(session: Session, batch: RolloutBatch) -> dict[str, float]:
    """The `step0/*` metrics of a process's first rollout; without the preflight only the distances among them.

    The session, its random streams and its record stay as they are: queries to the evaluator are not counted.

    Args:
        session: its policies are still those that sampled.
        batch: the first rollout.
    """
    config, learner, began = session.config, session.learner, time.monotonic()
    policy = session.worker.sampling_policy(session.progress.update)
    # Dropout draws from torch's global random state.
    with torch.random.fork_rng(devices=[session.device] if session.device.type == "cuda" else []):
        metrics = sampler_gap(policy, batch, learner.controls)
        metrics["step0/repeat_error"] = repeat_error(learner.behaviour, batch)
        metrics["step0/preflight"] = float(config.preflight)
        if not config.preflight:
            return metrics
        if not policy.reduced_precision(session.device):
            # Below float32 the update computes the old log-probabilities anew, in its own shape.
            size = config.optimizer.minibatch_size
            metrics["step0/shape_error"] = _shape_error(policy, batch, size)
        with session.usage.untracked():
            metrics |= _rescored(batch, session.evaluator)
    return metrics | {"time/preflight_s": time.monotonic() - began}


@torch.no_grad()
def sampler_gap(policy: PolicyNet, batch: RolloutBatch, controls: Controls) -> dict[str, float]:
    """The distances between the sampler and `policy` on a batch, `step0/*` in docs/metrics.md.

    Args:
        policy: the policy that sampled the batch, or one that should equal it.
        batch: its first rollout.
        controls: the clip bounds.
    """
    flat = batch.flat()
    # Every row is computed in the rollout's batch shape, so that equal weights differ by rounding at most.
    learner = torch.empty_like(flat.old_legal_logprobs)
    for rows in _plies(batch):
        learner[rows] = outputs_at(policy, flat.select(rows)).dist.logprobs
    gap = torch.where(flat.legal, learner - flat.old_legal_logprobs, 0.0)
    kl = (learner.exp() * gap).sum(-1)
    logprobs = learner.gather(-1, flat.slots)
    ratio = torch.where(flat.valid, (logprobs - flat.old_logprobs).exp(), 1.0)
    used = flat.valid.any(-1)
    outside = (ratio > 1 + controls.clip_high) | (ratio < 1 - controls.clip_low)
    measured = to_floats(
        {
            "step0/ratio_error": (ratio - 1).abs().max(),
            "step0/clip_fraction": outside.sum() / flat.valid.sum().clamp(min=1),
            "step0/kl_old": torch.where(used, kl.abs(), 0.0).max(),
            "step0/kl_old_mean": torch.where(used, kl, 0.0).sum() / used.sum().clamp(min=1),
        }
    )
    rounding = torch.finfo(DTYPES[policy.precision.logprob_dtype]).eps
    slope, residual = _line(flat.old_legal_logprobs[used], learner[used], rounding)
    return measured | {"step0/log_odds_slope": slope, "step0/log_odds_residual": residual}


def _line(sampler: Tensor, learner: Tensor, eps: float) -> tuple[float, float]:
    """(slope, residual in nats) of the learner's log-odds as a line through the sampler's, by least squares.

    Equal weights at T_sampler and T_learner give T_sampler / T_learner and no residual. The slope is 1 where rounding
    alone can make its distance from 1: log-odds may be so small that there is no slope to see.

    Args:
        sampler: `[n, L]` log-probabilities of the legal moves, -inf on padding.
        learner: the same.
        eps: relative rounding of a log-probability.
    """
    legal = learner.isfinite() & sampler.isfinite()
    x, y = log_odds(sampler, legal), log_odds(learner, legal)
    variance, moves = float(x.square().sum()), max(1.0, float(legal.sum()))
    slope = 1.0
    if variance > 1e-12:
        error = eps * float(sampler[legal].abs().max())
        # Rounding scatters the slope (six of its own errors are allowed), and that of x also pulls it towards 0.
        resolution = 6 * error / math.sqrt(variance) + error**2 * moves / variance + 1e-4
        found = float((x * y).sum()) / variance
        slope = found if abs(found - 1) > resolution and resolution < 0.05 else 1.0
    return slope, math.sqrt(float((y - slope * x).square().sum()) / moves)


def _plies(batch: RolloutBatch) -> list[Tensor]:
    """Int64 `[states of a ply]` for each ply: flat indices of the states that went through the network together."""
    states = batch.obs.shape[:-3]
    rows = torch.arange(states.numel(), device=batch.obs.device).reshape(states)
    return [rows[..., ply].reshape(-1) for ply in range(states[-1])]


@torch.no_grad()
def repeat_error(policy: PolicyNet, batch: RolloutBatch) -> float:
    """Largest |ratio - 1| over the first ply's legal moves between two passes in the same shape.

    0 unless something in the forward pass is drawn at random; dropout then moves torch's global
    random state, which the caller has to guard.

    Args:
        policy: in the mode (`train` or `eval`) that is asked about; its mode is left as it is.
        batch: shows it the states.
    """
    part = batch.flat().select(_plies(batch)[0])
    one, other = (outputs_at(policy, part).dist.logprobs for _ in range(2))
    return _largest_ratio_gap(one, other)


def _shape_error(policy: PolicyNet, batch: RolloutBatch, minibatch_size: int) -> float:
    """Largest |ratio - 1| between the first ply as one batch and as minibatches."""
    part = batch.flat().select(_plies(batch)[0])
    sizes = part.num_states, min(minibatch_size, max(1, part.num_states // 2))
    return _largest_ratio_gap(*(legal_logprobs(policy, part, size) for size in sizes))


def _largest_ratio_gap(one: Tensor, other: Tensor) -> float:
    """Largest |ratio - 1| where two tables of legal log-probabilities are both finite."""
    legal = one.isfinite() & other.isfinite()
    return float(torch.where(legal, (one - other).expm1().abs(), 0.0).max())


def _rescored(batch: RolloutBatch, evaluator: Evaluator) -> dict[str, float]:
    """How far scores of some positions differ when they are asked for again, in another order and in other company.

    A cache is left out: it would only repeat the stored scores.
    """
    if batch.before_cp is None:
        return {}
    flat = batch.flat()
    used = flat.valid.any(-1).nonzero().squeeze(-1)
    packed = positions_of(flat.obs[used], batch.side.reshape(-1)[used]).cpu().numpy()
    positions = packed.view(np.uint64)
    recorded = batch.before_cp.reshape(-1)[used].cpu().numpy().astype(np.int64)
    different = np.sort(np.unique(hash_batch(positions), return_index=True)[1])
    count = min(RESCORED_POSITIONS, len(different))
    chosen = different[np.linspace(0, len(different) - 1, count).astype(int)]
    asked = evaluator.inner if isinstance(evaluator, CachedEvaluator) else evaluator
    backwards = scores_of(asked, positions[chosen[::-1]])[::-1]
    halves = [half for half in np.array_split(chosen, 2) if len(half)]
    forwards = np.concatenate([scores_of(asked, positions[half]) for half in halves])
    gaps = [np.abs(scores - recorded[chosen]).max() for scores in (backwards, forwards)]
    return {
        "step0/rescore_error_cp": float(max(gaps)),
        "step0/order_error_cp": float(np.abs(backwards - forwards).max()),
    }
