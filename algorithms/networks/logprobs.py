"""Log-probabilities of stored states: the forward pass that nothing is sampled or learned from."""

from __future__ import annotations

import torch
from torch import Tensor

from algorithms.networks.policy_net import PolicyNet


@torch.no_grad()
def legal_logprobs(
    policy: PolicyNet, obs: Tensor, legal_ids: Tensor, temperature: float, minibatch_size: int
) -> Tensor:
    """Log-probabilities float32 `[N, L]` of the legal moves, nats; -inf on padding.

    Args:
        policy: whose they are.
        obs: uint8 `[N, C, 8, 8]` planes, mover's view.
        legal_ids: integers `[N, L]`, action ids padded with -1.
        temperature: of the softmax.
        minibatch_size: states in one forward pass; another size may change the last bit.
    """
    parts = [
        policy.outputs(rows, ids, temperature).dist.logprobs
        for rows, ids in zip(
            obs.split(minibatch_size), legal_ids.split(minibatch_size), strict=True
        )
    ]
    return torch.cat(parts)
