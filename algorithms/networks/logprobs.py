"""A policy's distribution at stored states, by a forward pass without sampling or gradient."""

from __future__ import annotations

import torch
from torch import Tensor

from algorithms.core.batch import FlatBatch
from algorithms.networks.policy_net import Outputs, PolicyNet


def outputs_at(policy: PolicyNet, states: FlatBatch) -> Outputs:
    """Distribution and values of `policy` at stored states `[N]`, at the temperature that they were sampled at."""
    return policy.outputs(states.obs, states.legal_ids, states.temperature, states.move_facts)


@torch.no_grad()
def legal_logprobs(policy: PolicyNet, states: FlatBatch, minibatch_size: int) -> Tensor:
    """Log-probabilities float32 `[N, L]` of the legal moves, nats; -inf on padding.

    Args:
        policy: the policy.
        states: N stored states, with their temperature.
        minibatch_size: states in one forward pass; another size may change the last bit.
    """
    parts = [
        outputs_at(policy, states.select(slice(start, start + minibatch_size))).dist.logprobs
        for start in range(0, states.num_states, minibatch_size)
    ]
    return torch.cat(parts)
