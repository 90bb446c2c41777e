"""Metrics of a stored rollout against docs/metrics.md's formulas, in plain NumPy loops (float64)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from algorithms.core.batch import RolloutBatch
from algorithms.core.metrics import (
    add_sums,
    batch_metrics,
    ratio_metrics,
    ratio_sums,
    to_floats,
)
from tests.golden.batches import PATH

PHASES = {0: "opening", 1: "middlegame", 2: "endgame"}
BUCKETS = {"2_10": (2, 10), "11_25": (11, 25), "26_40": (26, 40), "41_plus": (41, 218)}
Arrays = dict[str, Any]


def stored(form: str) -> Arrays:
    """The rollout's arrays with junk where no sample is valid; some `positions` are struck out.

    One group of them keeps a single member, and one has none.
    """
    with np.load(PATH) as file:
        arrays = {k.split(".")[1]: file[k] for k in file.files if k.startswith(f"{form}.")}
    if form == "positions":
        arrays["valid"] = np.random.default_rng(0).random(arrays["valid"].shape) < 0.8
        arrays["valid"][0, 0, 1:] = arrays["valid"][1, 1] = False
        arrays["valid"][0, 0, 0] = True
    arrays["rewards"] = np.where(arrays["valid"], arrays["rewards"], np.nan).astype(np.float32)
    return arrays


def groups(arrays: Arrays) -> list[list[tuple[int, ...]]]:
    """Indices of the valid members of every group."""
    shape = arrays["rewards"].shape
    if str(arrays["form"]) == "positions":
        index = [[(*s, k) for k in range(shape[-1])] for s in np.ndindex(shape[:-1])]
    else:
        index = [[(p, g, t) for g in range(shape[1])] for p, t in np.ndindex(shape[0], shape[2])]
    return [[i for i in members if arrays["valid"][i]] for members in index]


def recomputed(arrays: Arrays, every: bool) -> tuple[dict[str, float], np.ndarray]:
    """(metrics by the page's formulas, the advantages r - group mean that they are of)."""
    positions = str(arrays["form"]) == "positions"
    valid, rewards = arrays["valid"], arrays["rewards"].astype(np.float64)
    pi = np.exp(arrays["old_legal_logprobs"].astype(np.float64))

    def state(index: tuple[int, ...]) -> tuple[int, ...]:
        return index[:-1] if positions else index

    def weight(index: tuple[int, ...]) -> float:
        return float(pi[(*state(index), arrays["slots"][index])]) if every else 1.0

    samples = [tuple(i) for i in np.argwhere(valid)]
    states = sorted({state(i) for i in samples})
    n = {s: int((arrays["legal_ids"][s] >= 0).sum()) for s in states}
    entropy = {s: -sum(p * math.log(p) for p in pi[s] if p > 0) for s in states if n[s] >= 2}

    def mean(pairs: list[tuple[float, float]]) -> float:
        return sum(v * w for v, w in pairs) / sum(w for _, w in pairs)

    def average(values: list[float]) -> float:
        return sum(values) / len(values)

    metrics = {
        "policy/entropy": average(list(entropy.values())),
        "policy/entropy_bound": average([math.log(n[s]) for s in entropy]),
        "policy/entropy_normalized": average([h / math.log(n[s]) for s, h in entropy.items()]),
        "policy/effective_moves": average([math.exp(h) for h in entropy.values()]),
        "rollout/num_legal_mean": average([n[s] for s in states]),
        "rollout/forced_fraction": average([float(n[s] == 1) for s in states]),
        "rollout/reward_mean": mean([(rewards[i], weight(i)) for i in samples]),
        "rollout/reward_best": max(rewards[i] for i in samples),
        "rollout/terminated_fraction": mean(
            [(float(arrays["terminated"][i]), weight(i)) for i in samples]
        ),
        "rollout/scored_moves": len(samples),
    }
    for code, phase in PHASES.items():
        chosen = [h for s, h in entropy.items() if arrays["phase"][s] == code]
        metrics |= {f"policy/entropy_{phase}": average(chosen)} if chosen else {}
    for bucket, (low, high) in BUCKETS.items():
        chosen = [h for s, h in entropy.items() if low <= n[s] <= high]
        metrics |= {f"policy/entropy_legal_{bucket}": average(chosen)} if chosen else {}

    total = sum(weight(i) for i in samples)
    for name, wanted in (("median", 0.5), ("p90", 0.9)):
        reached = 0.0
        for value, share in sorted((rewards[i], weight(i)) for i in samples):
            reached += share
            if reached >= wanted * total - 1e-12:
                metrics[f"rollout/reward_{name}"] = value
                break

    steps = [
        (float(arrays["score_cp"][i]) - float(arrays["before_cp"][state(i)]), weight(i))
        for i in samples
    ]
    middle = mean(steps)
    metrics["rollout/step_cp_mean"] = middle
    metrics["rollout/step_cp_std"] = math.sqrt(mean([((v - middle) ** 2, w) for v, w in steps]))
    metrics["rollout/step_cp_abs_mean"] = mean([(abs(v), w) for v, w in steps])

    advantages = np.zeros(rewards.shape)
    spreads, agreements, regrets, apart, small = [], [], [], [], 0
    for members in groups(arrays):
        small += len(members) < 2
        if not members:
            continue
        shares = np.array([weight(i) for i in members])
        values = np.array([rewards[i] for i in members])
        centre = (shares * values).sum() / shares.sum()
        for i in members:
            advantages[i] = rewards[i] - centre
        if every:
            regrets.append(values.max() - centre)
        if len(members) < 2:
            continue
        if every:
            spreads.append(math.sqrt((shares * (values - centre) ** 2).sum() / shares.sum()))
        else:
            spreads.append(values.std(ddof=1))
        first = positions or members[0][2] == 0
        if first and not every:
            apart += [(a, b) for a in members for b in members if a < b]
        free = [i for i in members if n[state(i)] >= 2]
        if every:
            agreements.append(float(((shares / shares.sum()) ** 2).sum()))
        elif first and len(free) >= 2:
            pairs = [(a, b) for a in free for b in free if a != b]
            same = [arrays["actions"][a] == arrays["actions"][b] for a, b in pairs]
            agreements.append(float(np.mean(same)))
    metrics["rollout/small_groups"] = small
    metrics["rollout/reward_std"] = average(spreads)
    metrics["rollout/reward_zero_std_fraction"] = average([float(s == 0) for s in spreads])
    metrics["policy/action_agreement"] = average(agreements)
    if apart:
        clipped = np.clip(arrays["score_cp"], -2000, 2000)
        most = max(abs(rewards[a] - rewards[b]) for a, b in apart)
        blind = [
            float(abs(rewards[a] - rewards[b]) <= most / 100)
            for a, b in apart
            if abs(int(clipped[a]) - int(clipped[b])) >= 50
        ]
        metrics["rollout/blind_fraction"] = average(blind)
    if every:
        metrics["rollout/regret_reward"] = average(regrets)
    elif positions:
        metrics["rollout/single_move_fraction"] = average(
            [
                float(len({int(arrays["slots"][i]) for i in members}) == 1)
                for members in groups(arrays)
                if len(members) >= 2
            ]
        )
        metrics["rollout/distinct_moves_mean"] = average(
            [
                len({int(arrays["slots"][i]) for i in members})
                for members in groups(arrays)
                if members
            ]
        )
    pairs = [(float(advantages[i]), weight(i)) for i in samples]
    middle = mean(pairs)
    metrics["rollout/advantage_mean"] = middle
    metrics["rollout/advantage_std"] = math.sqrt(mean([((v - middle) ** 2, w) for v, w in pairs]))
    return metrics, advantages


@pytest.mark.parametrize("form", ["positions", "games", "all_moves"])
def test_metrics_of_a_stored_rollout_equal_the_page_s_formulas(form: str) -> None:
    arrays, every = stored(form), form == "all_moves"
    expected, advantages = recomputed(arrays, every)
    fields = {name: torch.from_numpy(a) if a.shape else a.item() for name, a in arrays.items()}
    batch = RolloutBatch(**fields, samples="all_legal" if every else "drawn")
    metrics = batch_metrics(batch, torch.from_numpy(advantages))
    assert len(expected) > 20 and (form != "positions" or metrics["rollout/small_groups"] >= 2)
    found = {name: metrics[name] for name in expected}
    assert found == pytest.approx(expected, rel=1e-6, abs=1e-9)


def test_ratio_metrics_of_a_stored_rollout_equal_the_page_s_formulas() -> None:
    arrays = stored("positions")
    rng = np.random.default_rng(1)
    valid = arrays["valid"].reshape(8, -1)
    old = arrays["old_logprobs"].astype(np.float64).reshape(8, -1)
    new, advantages = old + rng.normal(0, 0.3, old.shape), rng.normal(size=old.shape)
    sums = ratio_sums(
        *(torch.from_numpy(a) for a in (new, old, advantages, valid)), clip_low=0.2, clip_high=0.28
    )
    ratio, sign = np.exp(new - old)[valid], advantages[valid]
    expected = {
        "policy/clip_fraction_low": np.mean((ratio < 0.8) & (sign < 0)),
        "policy/clip_fraction_high": np.mean((ratio > 1.28) & (sign > 0)),
        "policy/ratio_out_of_range": np.mean((ratio < 0.8) | (ratio > 1.28)),
        "policy/approx_kl": np.mean(ratio - 1 - np.log(ratio)),
        "ratio/std": ratio.std(),
        "ratio/max": ratio.max(),
        "ratio/ess": ratio.sum() ** 2 / (len(ratio) * (ratio**2).sum()),
    }
    assert to_floats(ratio_metrics(sums)) == pytest.approx(expected, rel=1e-6)
    assert 0 < expected["policy/clip_fraction_low"] < expected["policy/ratio_out_of_range"]


def test_sums_of_two_minibatches_equal_those_of_both_together() -> None:
    generator = torch.Generator().manual_seed(0)
    logprobs, old, advantages = torch.randn(3, 10, 4, generator=generator)
    valid = torch.rand(10, 4, generator=generator) < 0.7

    def sums(rows: slice) -> dict[str, torch.Tensor]:
        return ratio_sums(logprobs[rows], old[rows], advantages[rows], valid[rows], 0.2, 0.3)

    parts = add_sums(add_sums({}, sums(slice(0, 3))), sums(slice(3, 10)))
    assert to_floats(ratio_metrics(parts)) == pytest.approx(
        to_floats(ratio_metrics(sums(slice(0, 10))))
    )
