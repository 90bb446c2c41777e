"""Why sampler and learner differ: each cause is tried, and the one that explains the gap is named."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import torch
from torch import Tensor, nn

from algorithms.core.batch import RolloutBatch
from algorithms.networks.logprobs import outputs_at
from algorithms.networks.policy_net import PolicyNet
from algorithms.networks.settings import DTYPES, PrecisionConfig
from algorithms.training.preflight.findings import Finding
from algorithms.training.preflight.step0 import Step0, plies, recompute

EXPLAINED = 0.3
"""A cause is named if what it leaves of the gap is below this share of it (root mean square)."""


@torch.no_grad()
def first_ply(policy: PolicyNet, batch: RolloutBatch) -> tuple[Tensor, Tensor]:
    """(`policy`'s and the sampler's legal log-probabilities `[n, L]`) of the first ply."""
    part = batch.flat().select(plies(batch)[0])
    return outputs_at(policy, part).dist.logprobs, part.old_legal_logprobs


def rms(one: Tensor, other: Tensor) -> float:
    """Root mean square of the difference over the legal moves, nats; infinite where one overflowed."""
    legal = one.isfinite()
    if not bool((legal == other.isfinite()).all()) or not bool(legal.any()):
        return float("inf")
    return float((one - other)[legal].double().square().mean().sqrt())


def explain(
    policy: PolicyNet, behaviour: PolicyNet, batch: RolloutBatch, step0: Step0, updates: int
) -> Finding:
    """The finding whose cause explains most of the gap; changed weights where no cause explains it."""
    slope = step0.metrics["step0/log_odds_slope"]
    gap = max(rms(step0.learner, step0.sampler), 1e-30)
    rescaled = (step0.learner / slope).log_softmax(-1) if slope > 0 else step0.learner
    left = {"temperature": rms(rescaled, step0.sampler) / gap}
    learner, sampler = first_ply(policy, batch)
    first_gap = max(rms(learner, sampler), 1e-30)
    for name, variant in _variants(policy).items():
        left[name] = rms(first_ply(variant, batch)[0], sampler) / first_gap
    if behaviour is not policy:
        left["behaviour"] = rms(first_ply(behaviour, batch)[0], sampler) / first_gap
    name = min(left, key=lambda key: left[key])
    if step0.same_temperature_refuted and left["temperature"] < EXPLAINED:
        # Rounding may hide in a temperature's gap, never the other way round.
        name = "temperature" if left[name] > 0.5 * left["temperature"] else name
    measured = _numbers(step0)
    if left[name] >= EXPLAINED:
        return _unexplained(policy, batch, step0, measured, updates)
    share = f"{measured}; {100 * left[name]:.1f} % of the gap remains"
    if name == "temperature":
        return _temperature(slope, batch.temperature, share)
    if name == "behaviour":
        return _stale_behaviour(policy, behaviour, share, batch.policy_version)
    return _precision(name, policy.precision, share)


def _numbers(step0: Step0) -> str:
    numbers = ", ".join(f"{name} = {value:.3g}" for name, value in step0.metrics.items())
    return f"{numbers} (tolerance {step0.tolerance:.3g})"


def not_finite(step0: Step0) -> Finding:
    """The finding where ratios cannot be formed at all."""
    return Finding(
        "not_finite",
        "fail",
        _numbers(step0),
        "finite log-probabilities",
        "log-probabilities are not finite: the temperature is too near 0, or weights overflowed",
        "raise rollout.temperature; look at the weights that the run started from",
    )


def _temperature(slope: float, recorded: float, measured: str) -> Finding:
    return Finding(
        "temperature",
        "fail",
        f"the learner's log-odds are {slope:.4f} times the sampler's; {measured}",
        "1.0000 times, at any scale of the logits",
        f"sampler and learner use different temperatures: the batch says {recorded:g}, and was "
        f"sampled at {recorded * slope:.4g} if that is the learner's",
        "one rollout.temperature for both: store the temperature that was sampled at in "
        f"RolloutBatch.temperature ({recorded * slope:.4g}), and let only policy.outputs divide "
        "by it",
    )


def _dropouts(policy: PolicyNet) -> list[str]:
    return [
        name
        for name, module in policy.named_modules()
        if isinstance(module, nn.modules.dropout._DropoutNd) and module.p > 0
    ]


def random_learner(policy: PolicyNet, random_by: float) -> Finding:
    """The finding where two passes of the learner differ by a ratio error of `random_by`."""
    active = [name for name in _dropouts(policy) if policy.get_submodule(name).training]
    because = (
        f"dropout is active in {', '.join(active)}: the learner is another policy in every pass"
        if active
        else "the forward pass is random although no dropout is active"
    )
    return Finding(
        "dropout" if active else "random_forward",
        "fail",
        f"two forward passes of the learner on the same states differ by a ratio error of "
        f"{random_by:.3g}",
        "0",
        because,
        "call policy.eval() for rollout and update (policy.dropout has no place in either), or set "
        "policy.dropout to 0",
    )


def _rollout_dropout(modules: list[str], measured: str, spread: float, gap: float) -> Finding:
    return Finding(
        "dropout",
        "fail",
        f"{measured}; in training mode the learner scatters by {spread:.3g} nats, the gap is "
        f"{gap:.3g}",
        "no gap",
        f"dropout was active in {', '.join(modules)} while the moves were sampled, not while they "
        "are learned from",
        "call policy.eval() for rollout and update, or set policy.dropout to 0",
    )


def _precision(variant: str, precision: PrecisionConfig, measured: str) -> Finding:
    return Finding(
        "precision",
        "fail",
        f"the learner with {variant} gives the sampler's log-probabilities; {measured}",
        "the same log-probabilities with the settings in force: "
        f"head_dtype {precision.head_dtype}, logprob_dtype {precision.logprob_dtype}",
        "sampler and learner compute in different precision",
        "give both the same precision.head_dtype, precision.logprob_dtype and precision.autocast (float32 "
        "leaves no gap)",
    )


def _stale_behaviour(
    policy: PolicyNet, behaviour: PolicyNet, measured: str, version: int
) -> Finding:
    ours, theirs = policy.state_dict(), behaviour.state_dict()
    largest = max(float((ours[name] - theirs[name]).abs().max()) for name in ours)
    return Finding(
        "weights",
        "fail",
        f"the behaviour policy's weights differ from the learner's by up to {largest:.3g} and give "
        f"the sampler's log-probabilities; {measured}",
        "0 at a synchronisation",
        f"the behaviour policy is stale (policy_version {version})",
        "copy the learner's weights to the behaviour policy before the first rollout "
        "(rollout.sync_interval_updates 1 needs no copy)",
    )


def _unexplained(
    policy: PolicyNet, batch: RolloutBatch, step0: Step0, measured: str, updates: int
) -> Finding:
    """Rounding by its traces, dropout in the rollout alone, or, by exclusion, other weights."""
    learner, sampler = step0.learner, step0.sampler
    gap = rms(learner, sampler)
    for name, dtype in DTYPES.items():
        if dtype is torch.float32:
            continue
        if _rounded_share(sampler, dtype) > 0.99 > _rounded_share(learner, dtype):
            return _precision(f"log-probabilities rounded to {name}", policy.precision, measured)
        if _rounded_share(learner, dtype) > 0.99 > _rounded_share(sampler, dtype):
            return _precision("float32 log-probabilities", policy.precision, measured)
    modules = _dropouts(policy)
    if modules:
        noisy = copy.deepcopy(policy).train()
        used = batch.flat().valid.any(-1)
        spread = rms(recompute(noisy, batch)[1][used], learner)
        if 1 / 3 < spread / gap < 3:
            return _rollout_dropout(modules, measured, spread, gap)
    return Finding(
        "weights",
        "fail",
        f"{measured}; {gap:.3g} nats (root mean square) that no temperature, precision or dropout "
        "explains",
        "0",
        f"the learner's weights are not those that sampled the batch (policy_version "
        f"{batch.policy_version}, updates done {updates})",
        "sample with the weights that learn: rollout.sync_interval_updates 1, and no step between "
        "rollout and update",
    )


def _rounded_share(logprobs: Tensor, dtype: torch.dtype) -> float:
    """Share of the log-probabilities other than 0 that `dtype` can hold exactly."""
    values = logprobs[logprobs.isfinite() & (logprobs != 0)]
    return float((values == values.to(dtype).to(values.dtype)).double().mean())


def _variants(policy: PolicyNet) -> dict[str, PolicyNet]:
    """The same weights in each other precision, by what differs."""
    precision, variants = policy.precision, dict[str, PolicyNet]()
    for head in DTYPES:
        for logprob in DTYPES:
            dtypes: dict[str, Any] = {"head_dtype": head, "logprob_dtype": logprob}
            changed = dataclasses.replace(precision, **dtypes)
            if changed != precision:
                name = f"head_dtype {head} and logprob_dtype {logprob}"
                variants[name] = _with(policy, changed)
    changed = dataclasses.replace(precision, autocast=not precision.autocast)
    if next(policy.parameters()).device.type == "cuda":
        variants[f"autocast {changed.autocast}"] = _with(policy, changed)
    variants["bfloat16 weights"] = _with(policy, precision).to(torch.bfloat16)
    return variants


def _with(policy: PolicyNet, precision: PrecisionConfig) -> PolicyNet:
    other = copy.deepcopy(policy)
    other.precision = precision
    return other
