"""A bandit that every algorithm must learn: tabular logits, no game, the loop's own order of steps."""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor

from algorithms.core.advantages import normalized
from algorithms.core.algorithm import Algorithm
from algorithms.core.batch import RolloutBatch, blank_batch
from algorithms.core.distribution import MaskedCategorical
from algorithms.core.losses import weighted_sum
from algorithms.testing.cases import forms_of
from chess_env.testing import rule

STATES, ARMS = 16, 4
UPDATES, LEARNING_RATE = 25, 0.25
LEAST_GAIN = 0.3
"""Mean reward must rise by this share of the way from the uniform policy to the best one."""


def check_learning(algorithm: Algorithm, *, seed: int = 0) -> None:
    """Checks that the algorithm learns: on 16 states with 4 arms the mean reward rises.

    Each state has its own logits, uniform at first; its arms pay -1, -1/3, 1/3 and 1 in an order of its own. Where
    the rewards are success or failure, the two better arms are successes, and the mean is of 1 and -1 for them. 25
    rollouts of one ply, each followed by the algorithm's passes with Adam; in `games` form where the algorithm
    refuses `positions`. A critic gives 0 throughout.

    Args:
        algorithm: an instance.
        seed: of the sampling.

    Raises:
        ContractError: the mean reward does not rise by 30 % of the way to the best policy.
    """
    generator = torch.Generator().manual_seed(seed)
    paid = torch.stack([torch.randperm(ARMS, generator=generator) for _ in range(STATES)])
    rewards = 2 * paid / (ARMS - 1) - 1.0
    if algorithm.needs().success_rewards:
        rewards = rewards.sign()
    logits = torch.zeros(STATES, ARMS, requires_grad=True)
    optimizer = torch.optim.Adam([logits], lr=LEARNING_RATE)
    form = forms_of(algorithm)[0]
    for _ in range(UPDATES):
        batch = _rollout(algorithm, form, logits.detach(), rewards, generator)
        flat = batch.flat()
        if algorithm.needs().uniforms:
            drawn = torch.rand(flat.valid.shape, generator=generator)
            flat = dataclasses.replace(flat, uniforms=drawn)
        advantages = batch.flatten(algorithm.advantages(batch))
        if algorithm.needs().normalize_advantages:
            advantages = normalized(advantages, flat.valid)
        weights, controls = batch.flatten(algorithm.weights(batch)), algorithm.controls()
        for _ in range(algorithm.update_epochs):
            optimizer.zero_grad()
            rows = logits.repeat_interleave(flat.num_states // STATES, 0)
            dist = MaskedCategorical(rows, flat.legal, batch.temperature)
            loss = algorithm.policy_loss(dist, flat, advantages, controls).loss
            weighted_sum(loss, weights, flat.valid).backward()
            optimizer.step()
    probs = torch.softmax(logits.detach(), -1)
    mean = float((probs * rewards).sum(-1).mean())  # 0 for the uniform policy, 1 for the best
    rule(
        mean >= LEAST_GAIN,
        f"the algorithm must learn: after {UPDATES} updates on a bandit the mean reward is {mean:+.2f}, where the "
        "uniform policy has 0 and the best 1 (is the loss to be minimised?)",
    )


def _rollout(
    algorithm: Algorithm, form: str, logits: Tensor, rewards: Tensor, generator: torch.Generator
) -> RolloutBatch:
    """One ply in every state; in `games` form each of a state's samples is a game."""
    needs, group = algorithm.needs(), algorithm.group_size
    states = (STATES, 1) if form == "positions" else (STATES, group, 1)
    members = (*states, group) if form == "positions" else states
    batch = blank_batch(form, states, samples=group, num_legal=ARMS)  # type: ignore[arg-type]
    dist = MaskedCategorical(logits[:, None], torch.ones(STATES, 1, ARMS, dtype=torch.bool), 1.0)
    slots = (
        torch.arange(ARMS).expand(*states, ARMS)
        if needs.all_moves
        else dist.sample(group, generator)
    )
    chosen = slots.shape if needs.all_moves else members
    values = torch.zeros(states) if needs.critic is not None else None
    old = dist.logprobs if form == "positions" else dist.logprobs.unsqueeze(1)
    return dataclasses.replace(
        batch,
        slots=slots.reshape(chosen),
        actions=slots.reshape(chosen),
        old_logprobs=dist.gather(slots).reshape(chosen),
        old_legal_logprobs=old.expand(*states, ARMS),
        rewards=(rewards.clamp(min=0) if needs.success_rewards else rewards)[:, None]
        .gather(-1, slots)
        .reshape(chosen),
        terminated=torch.zeros(chosen, dtype=torch.bool),
        truncated=torch.ones(states, dtype=torch.bool),
        valid=torch.ones(chosen, dtype=torch.bool),
        values=values,
        next_values=values,
        # That of the start: blank batches come from the uniform policy.
        ref_legal_logprobs=batch.old_legal_logprobs if needs.reference else None,
    )
