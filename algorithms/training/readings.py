"""What the regulariser's controllers see of a fresh rollout."""

from __future__ import annotations

import torch

from algorithms.core.batch import RolloutBatch
from algorithms.core.diagnostics import legal_entropy, to_floats
from algorithms.regularization import Reading


@torch.no_grad()
def take_reading(batch: RolloutBatch, *, progress: float, update: int, kl_old: float) -> Reading:
    """Entropies over states with at least 2 legal moves and a valid sample, as `policy/entropy` is.

    Args:
        batch: the rollout.
        progress: spent share of the budget before it, in [0, 1].
        update: updates done before it.
        kl_old: of the last update, nats.
    """
    logprobs, legal = batch.old_legal_logprobs.double(), batch.legal_ids >= 0
    used = batch.valid.any(-1) if batch.form == "positions" else batch.valid
    num_legal = legal.sum(-1)
    free = used & (num_legal >= 2)
    entropy = legal_entropy(logprobs)
    measured = {
        "entropy": entropy[free].mean(),
        "entropy_normalized": (entropy / num_legal.clamp(min=2).log())[free].mean(),
    }
    if batch.ref_legal_logprobs is not None:
        gap = torch.where(legal, logprobs - batch.ref_legal_logprobs.double(), 0.0)
        measured["kl_ref"] = (logprobs.exp() * gap).sum(-1)[used].mean()
    values = to_floats(measured)
    return Reading(
        progress=progress,
        update=update,
        entropy=values["entropy"],
        entropy_normalized=values["entropy_normalized"],
        kl_old=kl_old,
        kl_ref=values.get("kl_ref"),
    )
