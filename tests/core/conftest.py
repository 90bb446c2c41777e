from __future__ import annotations

import dataclasses
import math

import torch

from algorithms.core.batch import RolloutBatch, blank_batch
from algorithms.core.distribution import MaskedCategorical


def make_batch(
    form: str = "positions", seed: int = 0, temperature: float = 1.0, spread: float = 1.0
) -> RolloutBatch:
    """A batch of 3 starts, 4 members, 2 plies and up to 6 legal moves, sampled from random logits."""
    generator = torch.Generator().manual_seed(seed)
    states = (3, 2) if form == "positions" else (3, 4, 2)
    num_legal = torch.randint(2, 7, (*states, 1), generator=generator)
    legal = torch.arange(6) < num_legal
    ids = torch.arange(6).expand(*states, 6) * 10
    dist = MaskedCategorical(
        spread * torch.randn(*states, 6, generator=generator), legal, temperature
    )
    slots = dist.sample(4 if form == "positions" else 1, generator)
    old_logprobs = dist.gather(slots)
    actions = ids.gather(-1, slots)
    if form == "games":
        slots, old_logprobs, actions = slots[..., 0], old_logprobs[..., 0], actions[..., 0]
    return dataclasses.replace(
        blank_batch(form, states, samples=4, num_legal=6, temperature=temperature),  # type: ignore[arg-type]
        legal_ids=ids.masked_fill(~legal, -1).to(torch.int16),
        slots=slots,
        actions=actions,
        old_logprobs=old_logprobs,
        old_legal_logprobs=dist.logprobs,
        rewards=torch.randn(slots.shape, generator=generator),
    )


def all_moves(batch: RolloutBatch, rewards: torch.Tensor) -> RolloutBatch:
    """A positions batch whose samples are all legal moves; junk on padding."""
    legal = batch.legal_ids >= 0
    slots = torch.arange(legal.shape[-1]).expand(legal.shape).masked_fill(~legal, 0)
    return dataclasses.replace(
        batch,
        slots=slots,
        actions=batch.legal_ids.long().clamp(min=0),
        old_logprobs=batch.old_legal_logprobs,
        rewards=rewards.masked_fill(~legal, math.nan),
        terminated=torch.zeros_like(legal),
        valid=legal,
        samples="all_legal",
    )
