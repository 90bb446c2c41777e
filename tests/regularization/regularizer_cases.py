"""Small float64 batches for the regulariser's tests, built from logits."""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor

from algorithms.core.batch import FlatBatch, RolloutBatch, blank_batch
from algorithms.core.distribution import MaskedCategorical

TEMPERATURE = 1.2


def flat_batch(
    old_logits: Tensor,
    legal: Tensor,
    slots: Tensor,
    *,
    ref_logits: Tensor | None = None,
    valid: Tensor | None = None,
    temperature: float = TEMPERATURE,
) -> FlatBatch:
    """States `[N, L]` whose moves `slots` `[N, K]` the policy of `old_logits` is said to have chosen."""
    old = MaskedCategorical(old_logits.detach(), legal, temperature)
    ref = None
    if ref_logits is not None:
        ref = MaskedCategorical(ref_logits.detach(), legal, temperature).logprobs
    shape = {"samples": slots.shape[1], "num_legal": legal.shape[1], "temperature": temperature}
    return dataclasses.replace(
        blank_batch("positions", (len(legal), 1), **shape).flat(),
        legal_ids=torch.arange(legal.shape[1]).expand_as(legal).masked_fill(~legal, -1).short(),
        slots=slots,
        old_logprobs=old.gather(slots),
        valid=torch.ones_like(slots, dtype=torch.bool) if valid is None else valid,
        old_legal_logprobs=old.logprobs,
        ref_legal_logprobs=ref,
    )


def random_case(seed: int = 0) -> tuple[Tensor, FlatBatch, Tensor]:
    """(learner's logits requiring a gradient, batch with a reference, advantages): 4 states, K = 3.

    6, 5, 2 and 1 legal moves; one sample of the second state is not valid.
    """
    generator = torch.Generator().manual_seed(seed)
    logits, old, ref = torch.randn(3, 4, 6, generator=generator, dtype=torch.float64)
    legal = torch.arange(6) < torch.tensor([[6], [5], [2], [1]])
    slots = MaskedCategorical(old, legal, TEMPERATURE).sample(3, generator)
    valid = torch.ones(4, 3, dtype=torch.bool)
    valid[1, 2] = False
    advantages = torch.randn(4, 3, generator=generator, dtype=torch.float64)
    batch = flat_batch(old, legal, slots, ref_logits=ref, valid=valid)
    return logits.requires_grad_(), batch, advantages


def policy(logits: Tensor, batch: FlatBatch) -> MaskedCategorical:
    """The learner's distribution on a batch."""
    return MaskedCategorical(logits, batch.legal, batch.temperature)


def rollout(form: str, seed: int = 0) -> RolloutBatch:
    """A float64 rollout of 3 starts, 4 members and 2 plies with reference and learner.

    Everything that is not valid holds NaN or -inf, as padding may.
    """
    generator = torch.Generator().manual_seed(seed)
    states = (3, 2) if form == "positions" else (3, 4, 2)
    members = (3, 2, 4) if form == "positions" else states
    legal = torch.arange(6) < torch.randint(1, 7, (*states, 1), generator=generator)
    draws = torch.randn(3, *states, 6, generator=generator, dtype=torch.float64)
    old, ref, learner = (MaskedCategorical(z, legal, TEMPERATURE) for z in draws)
    slots = old.sample(4 if form == "positions" else 1, generator)
    old_logprobs = old.gather(slots).reshape(members)
    slots = slots.reshape(members)
    rewards = torch.randn(members, generator=generator, dtype=torch.float64)
    valid = torch.ones(members, dtype=torch.bool)
    valid[1, 1, 1] = False
    return dataclasses.replace(
        blank_batch(form, states, samples=4, num_legal=6, temperature=TEMPERATURE),  # type: ignore[arg-type]
        legal_ids=torch.arange(6).expand_as(legal).masked_fill(~legal, -1).to(torch.int16),
        slots=slots,
        actions=slots,
        old_logprobs=old_logprobs.masked_fill(~valid, -torch.inf),
        old_legal_logprobs=old.logprobs,
        rewards=rewards.masked_fill(~valid, torch.nan),
        valid=valid,
        ref_legal_logprobs=ref.logprobs,
        learner_legal_logprobs=learner.logprobs,
    )
