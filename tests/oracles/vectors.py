"""What `trl_vectors.py` stored, in this project's axes.

A prompt is a start position, a completion a game (form `games`), a token a ply and a vocabulary
entry a legal move. TRL knows one author of a completion and one reward for it, so every ply here
belongs to the same player and the whole reward comes with the last one. Two illegal slots with
large logits are added behind the legal moves, and plies up to TRL's `max_completion_length`.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from algorithms.core.batch import RolloutBatch, blank_batch
from algorithms.core.distribution import MaskedCategorical

PATH = Path(__file__).with_name("trl_vectors.json")
PLIES = 7  # of the rollout: TRL's max_completion_length
PADDED_PLIES = 2  # of them are beyond the longest completion
ILLEGAL_SLOTS = 2

TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-5}


def load() -> dict[str, Any]:
    """The stored vectors."""
    return json.loads(PATH.read_text())


def grouped(values: Any, dtype: torch.dtype, stored: dict[str, Any]) -> Tensor:
    """TRL's `[P * G, ...]` list as a tensor `[P, G, ...]`."""
    tensor = torch.tensor(values, dtype=dtype)
    return tensor.unflatten(0, (stored["groups"], stored["group_size"]))


def make_batch(
    stored: dict[str, Any], dtype: torch.dtype, *, equal_lengths: bool = False
) -> tuple[RolloutBatch, Tensor]:
    """The stored inputs as a `games` batch, and the learner's logits `[P * G * T, L]`."""
    inputs, temperature = stored["inputs"], stored["temperature"]
    lengths = grouped(inputs["lengths"], torch.int64, stored)
    tokens = grouped(inputs["tokens"], torch.int64, stored)
    *lead, length = tokens.shape
    if equal_lengths:
        lengths = torch.full_like(lengths, length)
    legal_moves = len(inputs["logits"][0][0])

    def padded(values: Any) -> Tensor:
        logits = grouped(values, dtype, stored)
        return F.pad(logits, (0, ILLEGAL_SLOTS, 0, PLIES - length), value=50.0)

    ply = torch.arange(PLIES).expand(*lead, PLIES)
    legal_ids = torch.arange(legal_moves + ILLEGAL_SLOTS).expand(*lead, PLIES, -1)
    legal = legal_ids < legal_moves
    behaviour = MaskedCategorical(padded(inputs["old_logits"]), legal, temperature)
    slots = F.pad(tokens, (0, PLIES - length))
    last = ply == (lengths - 1).unsqueeze(-1)
    rewards = torch.where(last, grouped(inputs["rewards"], dtype, stored).unsqueeze(-1), 0.0)
    batch = dataclasses.replace(
        blank_batch("games", (*lead, PLIES), num_legal=legal.shape[-1], temperature=temperature),
        legal_ids=legal_ids.masked_fill(~legal, -1).to(torch.int16),
        slots=slots,
        actions=slots,
        old_logprobs=behaviour.gather(slots.unsqueeze(-1)).squeeze(-1),
        old_legal_logprobs=behaviour.logprobs,
        rewards=rewards,
        terminated=last,
        valid=ply < lengths.unsqueeze(-1),
        side=torch.ones(*lead, PLIES, dtype=torch.int8),
    )
    return batch, padded(inputs["logits"]).flatten(0, 2)


def close(actual: Tensor, expected: Tensor) -> None:
    """Fails unless equal to the dtype's tolerance, relative to the largest expected number."""
    tolerance = TOLERANCE[expected.dtype]
    scale = float(expected.abs().max())
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance * scale)


def expected(stored: dict[str, Any], dtype: torch.dtype, case: str, key: str) -> Tensor:
    """One stored result; what there is per completion is `[P, G, ...]`."""
    value = stored["results"][str(dtype).removeprefix("torch.")][case][key]
    if isinstance(value, list):
        return grouped(value, dtype, stored)
    return torch.tensor(value, dtype=dtype)


def setting(stored: dict[str, Any], case: str, name: str) -> float:
    return stored["results"]["float64"][case]["settings"][name]


def loss_and_gradient(
    batch: RolloutBatch, logits: Tensor, sample_loss: Any, weights: Tensor
) -> tuple[Tensor, Tensor]:
    """Our loss of the batch, and its gradient at the stored logits in TRL's axes."""
    logits = logits.clone().requires_grad_()
    flat = batch.flat()
    dist = MaskedCategorical(logits, flat.legal, flat.temperature)
    loss = torch.where(flat.valid, batch.flatten(weights) * sample_loss(dist, flat), 0.0).sum()
    (gradient,) = torch.autograd.grad(loss, logits)
    gradient = gradient.unflatten(0, batch.valid.shape)
    assert (gradient[..., -ILLEGAL_SLOTS:] == 0).all()
    assert (gradient[~batch.valid] == 0).all()
    return loss.detach(), gradient[..., :-PADDED_PLIES, :-ILLEGAL_SLOTS]


def per_ply(values: Tensor) -> Tensor:
    """TRL's one advantage per completion at each of its plies."""
    return values.unsqueeze(-1).expand(*values.shape, PLIES)


def clip_bounds(stored: dict[str, Any], case: str) -> tuple[float, float]:
    """(clip_low, clip_high) that mean what the case's settings mean in TRL."""
    low, high = setting(stored, case, "epsilon"), setting(stored, case, "epsilon_high")
    if case == "cispo":
        return 1.0, high - 1.0
    return low, low if high is None else high
