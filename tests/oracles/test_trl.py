"""Our algorithms against TRL's numbers (`trl_vectors.json`, made by `trl_vectors.py`).

Where the two differ on purpose:

- TRL takes a group's mean over whole completions; ours in `games` form takes it ply by ply over the
  games that are still going on. Both agree at the first ply, and wherever all games are equally long.
- TRL divides by the standard deviation of the raw rewards of the batch (`scale_rewards="batch"`),
  ours by the root mean square of the centred ones. They differ by one factor for the whole batch.
- TRL's CISPO clamps the ratio at `epsilon_high` itself and has no lower bound; ours says how far
  the bounds are from 1, as the paper does: epsilon_high = 1 + clip_high, clip_low = 1.
- TRL's RLOO clips a ratio of whole completions. Strictly on-policy that ratio is 1 and its gradient is
  that of the score function, which is what ours computes; the values of the two losses differ.
- TRL's RLOO and ours divide the sum over tokens by different constants (completions, tokens).
- TRL's `dr_grpo` divides by `max_completion_length`, ours by the plies of the rollout: the same here.
- TRL calls a completion without a reward NaN; ours is a member that is not valid.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from algorithms import PRESETS
from algorithms.core import advantages as adv
from algorithms.core.algorithm import Algorithm
from algorithms.core.batch import FlatBatch, RolloutBatch
from algorithms.core.distribution import MaskedCategorical
from algorithms.core.metrics import ratio_metrics, ratio_sums
from tests.oracles import vectors

ROOT = Path(__file__).parents[2]


def test_the_stored_vectors_reach_both_clip_bounds_and_ragged_completions(
    stored: dict[str, Any],
) -> None:
    results, inputs = stored["results"]["float64"], stored["inputs"]
    for case in ("grpo", "dr_grpo", "dapo"):
        assert results[case]["clip_fraction_low"] > 0.1 < results[case]["clip_fraction_high"]
    batch, logits = vectors.make_batch(stored, torch.float64)
    flat = batch.flat()
    learner = MaskedCategorical(logits, flat.legal, flat.temperature)
    ratio = (learner.gather(flat.slots) - flat.old_logprobs)[flat.valid].exp()
    assert (ratio > vectors.setting(stored, "cispo", "epsilon_high")).any()
    assert len(set(inputs["lengths"])) >= 3 and len(set(inputs["scored"])) == 2
    assert int(batch.valid.sum()) == sum(inputs["lengths"])


def test_the_stored_vectors_say_which_versions_made_them(stored: dict[str, Any]) -> None:
    pins = (ROOT / "tests/oracles/requirements-trl.txt").read_text().split()
    for name, version in stored["versions"].items():
        assert f"{name}=={version.partition('+')[0]}" in pins


@pytest.mark.parametrize("case", ["grpo", "dr_grpo"])
def test_group_advantages_are_those_of_trl(
    stored: dict[str, Any], dtype: torch.dtype, case: str
) -> None:
    rewards = vectors.grouped(stored["inputs"]["rewards"], dtype, stored)
    scored = vectors.grouped(stored["inputs"]["scored"], torch.bool, stored)
    scale = vectors.setting(stored, case, "scale_rewards")
    everyone = adv.group_relative(rewards, torch.ones_like(scored), -1, scale)  # type: ignore[arg-type]
    vectors.close(everyone, vectors.expected(stored, dtype, case, "advantages"))
    some = adv.group_relative(rewards, scored, -1, scale)  # type: ignore[arg-type]
    vectors.close(some, vectors.expected(stored, dtype, case, "advantages_partly_scored"))


def test_leave_one_out_advantages_are_those_of_trl(
    stored: dict[str, Any], dtype: torch.dtype
) -> None:
    rewards = vectors.grouped(stored["inputs"]["rewards"], dtype, stored)
    scored = vectors.grouped(stored["inputs"]["scored"], torch.bool, stored)
    everyone = adv.leave_one_out(rewards, torch.ones_like(scored), -1)
    vectors.close(everyone, vectors.expected(stored, dtype, "rloo", "advantages"))
    some = adv.leave_one_out(rewards, scored, -1)
    vectors.close(some, vectors.expected(stored, dtype, "rloo", "advantages_partly_scored"))


def test_batch_scaled_advantages_differ_from_trl_by_one_factor(
    stored: dict[str, Any], dtype: torch.dtype
) -> None:
    rewards = vectors.grouped(stored["inputs"]["rewards"], dtype, stored)
    theirs = vectors.expected(stored, dtype, "grpo_batch_scale", "advantages")
    everyone = torch.ones_like(rewards, dtype=torch.bool)
    centred = adv.group_relative(rewards, everyone, -1, "none")
    vectors.close(theirs * (rewards.std() + adv.STD_FLOOR), centred)
    factor = (rewards.std() + adv.STD_FLOOR) / (centred.square().mean().sqrt() + adv.STD_FLOOR)
    vectors.close(adv.group_relative(rewards, everyone, -1, "batch"), theirs * factor)


@pytest.mark.parametrize("case", ["grpo", "dapo"])
def test_clip_fractions_are_those_of_trl(
    stored: dict[str, Any], dtype: torch.dtype, case: str
) -> None:
    batch, logits = vectors.make_batch(stored, dtype)
    flat = batch.flat()
    logprobs = MaskedCategorical(logits, flat.legal, flat.temperature).gather(flat.slots)
    advantages = batch.flatten(vectors.per_ply(vectors.expected(stored, dtype, case, "advantages")))
    low, high = vectors.clip_bounds(stored, case)
    metrics = ratio_metrics(
        ratio_sums(logprobs, flat.old_logprobs, advantages, flat.valid, low, high)
    )
    for ours, theirs in (("clip_fraction_low", "low"), ("clip_fraction_high", "high")):
        stored_value = vectors.expected(stored, dtype, case, f"clip_fraction_{theirs}")
        assert float(metrics[f"policy/{ours}"]) == pytest.approx(float(stored_value), rel=1e-6)


def test_the_mean_entropy_is_that_of_trl(stored: dict[str, Any], dtype: torch.dtype) -> None:
    batch, logits = vectors.make_batch(stored, dtype)
    flat = batch.flat()
    entropy = MaskedCategorical(logits, flat.legal, flat.temperature).entropy()
    vectors.close(
        entropy[flat.valid.squeeze(-1)].mean(),
        vectors.expected(stored, dtype, "grpo", "entropy_mean"),
    )


# Whole algorithms -----------------------------------------------------------------------------

GRPO_CASES = ("grpo", "dr_grpo", "dapo", "cispo")


def configured(stored: dict[str, Any], case: str) -> Algorithm:
    """Our preset of that name with the stored case's sizes and bounds, a game's outcome as reward.

    What defines the preset (surrogate, reduction) is left as it is.
    """
    low, high = vectors.clip_bounds(stored, case)
    changes: dict[str, Any] = {
        "group_size": stored["group_size"],
        "credit": "outcome",
        "clip_range": low,
        "clip_range_high": high,
        "advantage_scale": vectors.setting(stored, case, "scale_rewards"),
    }
    return dataclasses.replace(PRESETS[case][0], **changes)


def ours(
    algorithm: Algorithm, batch: RolloutBatch, logits: Tensor, advantages: Tensor
) -> tuple[Tensor, Tensor]:
    """An algorithm's own loss of the batch, for these advantages, and its gradient in TRL's axes."""

    def sample_loss(dist: MaskedCategorical, flat: FlatBatch) -> Tensor:
        return algorithm.policy_loss(dist, flat, advantages, algorithm.controls()).loss

    return vectors.loss_and_gradient(batch, logits, sample_loss, algorithm.weights(batch))


@pytest.mark.parametrize("case", GRPO_CASES)
def test_an_algorithm_gives_trls_loss_and_gradient_for_trls_advantages(
    stored: dict[str, Any], dtype: torch.dtype, case: str
) -> None:
    batch, logits = vectors.make_batch(stored, dtype)
    algorithm = configured(stored, case)
    advantages = batch.flatten(vectors.per_ply(vectors.expected(stored, dtype, case, "advantages")))
    loss, gradient = ours(algorithm, batch, logits, advantages)
    vectors.close(loss, vectors.expected(stored, dtype, case, "loss"))
    vectors.close(gradient, vectors.expected(stored, dtype, case, "gradient"))
    # Every game is alive at its first ply, where the group is TRL's.
    first = algorithm.advantages(batch)[..., 0]
    vectors.close(first, vectors.expected(stored, dtype, case, "advantages"))


@pytest.mark.parametrize("case", GRPO_CASES)
def test_an_algorithm_gives_trls_loss_from_rewards_where_all_games_are_equally_long(
    stored: dict[str, Any], dtype: torch.dtype, case: str
) -> None:
    batch, logits = vectors.make_batch(stored, dtype, equal_lengths=True)
    algorithm = configured(stored, case)
    advantages = batch.flatten(algorithm.advantages(batch))
    loss, _ = ours(algorithm, batch, logits, advantages)
    vectors.close(loss, vectors.expected(stored, dtype, case, "loss_equal_lengths"))


def test_rloo_has_trls_advantages_and_on_policy_gradient(
    stored: dict[str, Any], dtype: torch.dtype
) -> None:
    batch, logits = vectors.make_batch(stored, dtype)
    algorithm = dataclasses.replace(
        PRESETS["rloo"][0],
        group_size=stored["group_size"],  # type: ignore[call-arg]
        credit="outcome",
    )
    theirs = vectors.expected(stored, dtype, "rloo", "advantages")
    vectors.close(algorithm.advantages(batch)[..., 0], theirs)
    advantages = batch.flatten(vectors.per_ply(theirs))
    _, gradient = ours(algorithm, batch, logits, advantages)
    plies_per_game = batch.valid.sum() / theirs.numel()
    vectors.close(gradient * plies_per_game, vectors.expected(stored, dtype, "rloo", "gradient"))
