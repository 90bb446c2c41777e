"""Our presets against TRL's numbers: see test_trl.py for what the two mean differently."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from torch import Tensor

from algorithms import PRESETS
from algorithms.core.algorithm import Algorithm
from algorithms.core.batch import FlatBatch, RolloutBatch
from algorithms.core.distribution import MaskedCategorical
from algorithms.grpo import GRPO
from tests.oracles import vectors

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
        return algorithm.policy_loss(dist, flat, advantages, algorithm.controls())

    return vectors.loss_and_gradient(batch, logits, sample_loss, algorithm.weights(batch))


def test_presets_keep_what_defines_them() -> None:
    grpo, dr_grpo, dapo = (PRESETS[name][0] for name in ("grpo", "dr_grpo", "dapo"))
    assert isinstance(grpo, GRPO) and isinstance(dr_grpo, GRPO) and isinstance(dapo, GRPO)
    assert (grpo.advantage_scale, grpo.reduction) == ("group", "game_mean")
    assert (dr_grpo.advantage_scale, dr_grpo.reduction) == ("none", "constant_length")
    assert (dapo.clip_range, dapo.clip_range_high) == (0.2, 0.28)
    assert (dapo.advantage_scale, dapo.reduction) == ("group", "sample_mean")
    assert dapo.needs().live_groups


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
