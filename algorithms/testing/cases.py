"""Random batches that give an algorithm what it needs."""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor

from algorithms.core.algorithm import Algorithm
from algorithms.core.batch import FlatBatch, RolloutBatch, blank_batch
from algorithms.core.distribution import MaskedCategorical

STARTS, PLIES, SLOTS = 3, 4, 7


@dataclasses.dataclass(frozen=True)
class Case:
    """A rollout and the logits `[N, L]` it was sampled from (illegal slots hold anything).

    Attributes:
        algorithm: the one that is tried.
        batch: the rollout.
        flat: the same with its states in one axis.
        logits: `[N, L]`.
    """

    algorithm: Algorithm
    batch: RolloutBatch
    flat: FlatBatch
    logits: Tensor

    def dist(self, logits: Tensor) -> MaskedCategorical:
        """The distribution of other logits `[N, L]` over the same legal moves."""
        return MaskedCategorical(logits, self.flat.legal, self.batch.temperature)

    def advantages(self) -> Tensor:
        """`[N, K]` the algorithm's advantages of the rollout."""
        return self.batch.flatten(self.algorithm.advantages(self.batch))


def noise_like(values: Tensor, seed: int = 0) -> Tensor:
    """Standard normal numbers of the same shape and dtype."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(values.shape, generator=generator, dtype=values.dtype)


def forms_of(algorithm: Algorithm) -> tuple[str, ...]:
    """The rollout forms that can serve an algorithm: those that its advantages do not refuse."""
    needs = algorithm.needs()
    alone = needs.all_moves or needs.tempered is not None
    possible = ("positions",) if alone else ("positions", "games")
    return tuple(form for form in possible if _serves(algorithm, form))


def _serves(algorithm: Algorithm, form: str) -> bool:
    try:
        algorithm.advantages(random_case(algorithm, form).batch)
    except ValueError:  # how an algorithm says that it cannot
        return False
    return True


def random_case(
    algorithm: Algorithm,
    form: str = "positions",
    *,
    seed: int = 0,
    temperature: float = 1.3,
    num_legal: int | None = None,
    dtype: torch.dtype = torch.float32,
    endings: bool = True,
) -> Case:
    """A random batch of 3 starts and 4 plies; in `games` form some games end early."""
    generator = torch.Generator().manual_seed(seed)
    members = algorithm.group_size
    states = (STARTS, PLIES) if form == "positions" else (STARTS, members, PLIES)
    width = SLOTS if num_legal is None else num_legal + 1
    counts = torch.randint(1, SLOTS + 1, (*states, 1), generator=generator)
    if num_legal is not None:
        counts = torch.full_like(counts, num_legal)
    legal = torch.arange(width) < counts
    ids = torch.arange(width).expand(*states, width).masked_fill(~legal, -1)
    logits = torch.randn(*states, width, generator=generator, dtype=dtype)
    dist = MaskedCategorical(logits, legal, temperature)
    truncated = torch.zeros(states, dtype=torch.bool)
    if algorithm.needs().all_moves:
        slots = torch.arange(width).expand_as(ids).masked_fill(~legal, 0)
        valid = legal
    else:
        slots = dist.sample(members if form == "positions" else 1, generator)
        valid = torch.ones(slots.shape, dtype=torch.bool)
    old_logprobs = dist.gather(slots)
    if form == "games":
        slots, old_logprobs, valid = slots[..., 0], old_logprobs[..., 0], valid[..., 0]
    terminated = torch.zeros(slots.shape, dtype=torch.bool)
    if form == "games" and endings:
        terminated = torch.rand(states, generator=generator) < 0.2
        truncated = (torch.rand(states, generator=generator) < 0.1) & ~terminated
        over = (terminated | truncated).int()
        valid = over.cumsum(-1) - over == 0
        truncated[..., -1] |= ~terminated[..., -1]
    rewards = torch.randn(slots.shape, generator=generator, dtype=dtype)
    if algorithm.needs().success_rewards:
        rewards = (rewards > 0).to(dtype)
    tempered = None
    if algorithm.needs().tempered is not None:
        tempered = torch.rand(states, generator=generator) < 0.3
        valid = valid & ~(tempered.unsqueeze(-1) & (rewards <= 0))
    values = next_values = None
    if algorithm.needs().critic is not None:
        values = torch.randn(states, generator=generator, dtype=dtype)
        next_values = torch.randn(states, generator=generator, dtype=dtype)
    ply = torch.arange(PLIES, dtype=torch.int32).expand(states)
    batch = dataclasses.replace(
        blank_batch(form, states, num_legal=width, temperature=temperature),  # type: ignore[arg-type]
        legal_ids=ids.to(torch.int16),
        slots=slots,
        actions=ids.gather(-1, slots if form == "positions" else slots[..., None]).reshape(
            slots.shape
        ),
        old_logprobs=old_logprobs,
        old_legal_logprobs=dist.logprobs,
        rewards=rewards,
        terminated=terminated,
        truncated=truncated,
        valid=valid,
        ply=ply,
        side=(
            (ply + torch.randint(0, 2, (STARTS, *(1,) * (len(states) - 1)), generator=generator))
            % 2
        ).to(torch.int8),
        values=values,
        next_values=next_values,
        tempered=tempered,
        samples="all_legal" if algorithm.needs().all_moves else "drawn",
    )
    if algorithm.needs().reference:
        other = torch.randn(*states, width, generator=generator, dtype=dtype)
        reference = MaskedCategorical(other, legal, temperature).logprobs
        batch = dataclasses.replace(batch, ref_legal_logprobs=reference)
    flat = batch.flat()
    if algorithm.needs().uniforms:
        flat = dataclasses.replace(flat, uniforms=torch.rand(flat.valid.shape, generator=generator))
    return Case(algorithm, batch, flat, logits.reshape(-1, width))
