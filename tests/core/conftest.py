from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from algorithms.core.batch import RolloutBatch
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
    return RolloutBatch(
        form=form,  # type: ignore[arg-type]
        obs=torch.zeros(*states, 1, 8, 8, dtype=torch.uint8),
        legal_ids=ids.masked_fill(~legal, -1).to(torch.int16),
        slots=slots,
        actions=actions,
        old_logprobs=old_logprobs,
        old_legal_logprobs=dist.logprobs,
        rewards=torch.randn(slots.shape, generator=generator),
        terminated=torch.zeros(slots.shape, dtype=torch.bool),
        truncated=torch.zeros(states, dtype=torch.bool),
        valid=torch.ones(slots.shape, dtype=torch.bool),
        ply=torch.zeros(states, dtype=torch.int32),
        side=torch.ones(states, dtype=torch.int8),
        phase=torch.zeros(states, dtype=torch.int8),
        temperature=temperature,
        policy_version=0,
    )


@pytest.fixture
def batch_of() -> Callable[..., RolloutBatch]:
    return make_batch
