"""The policy's distribution over the legal moves of a position: the only softmax in the project."""

from __future__ import annotations

import math

import torch
from torch import Tensor


class MaskedCategorical:
    """Categorical distribution over legal slots at a stated temperature.

    Slots are positions in a padded list of legal moves, never the full action space. Sampling and
    learning build the same object with the temperature stored in the batch, so the two
    cannot differ unnoticed. There is no default. All arithmetic is at least float32, also under autocast
    (float64 logits stay float64).

    A row without a legal slot (padding) has entropy 0 and zero gradient; its samples mean nothing.
    A row in which a legal logit is not finite (NaN, inf, -inf) is NaN throughout.

    Args:
        logits: `[..., L]` unnormalised scores at temperature 1.
        legal: `[..., L]` bool, True where the slot holds a legal move. Illegal slots get
            probability exactly 0.
        temperature: > 0; logits are divided by it. Above 1 flattens, below 1 sharpens.
        logprob_dtype: the log-probabilities are rounded to it and kept in the dtype of the logits,
            which is what a softmax in that precision hands on; an experiment switch. Rounded, the
            probabilities no longer add up to 1 exactly and the entropy may exceed its bound by the
            rounding. None rounds nothing.

    Raises:
        ValueError: the temperature is not a positive finite number, or the shapes differ.
    """

    def __init__(
        self,
        logits: Tensor,
        legal: Tensor,
        temperature: float,
        *,
        logprob_dtype: torch.dtype | None = None,
    ) -> None:
        if not (math.isfinite(temperature) and temperature > 0):
            raise ValueError(
                f"temperature is {temperature}: softmax(logits / temperature) needs a positive "
                "finite number; "
                "set temperature > 0 (for the best move take the argmax of the logits instead)"
            )
        if logits.shape != legal.shape:
            raise ValueError(
                f"logits have shape {tuple(logits.shape)} and legal {tuple(legal.shape)}: both "
                "must be [..., L] "
                "over the same legal slots"
            )
        if not logits.dtype.is_floating_point or logits.dtype.itemsize < 4:
            logits = logits.float()
        self.legal = legal
        self.temperature = temperature
        # A finite fill keeps rows without any legal slot free of NaN, in value and in gradient.
        filled = (logits / temperature).masked_fill(~legal, torch.finfo(logits.dtype).min)
        # 0, or NaN in a row with a legal logit that is not finite: -inf alone would go unnoticed.
        filled = filled + (0.0 * filled.detach()).sum(-1, keepdim=True)
        finite = torch.log_softmax(filled, dim=-1).masked_fill(~legal, 0.0)
        if logprob_dtype is not None:
            finite = finite.to(logprob_dtype).to(finite.dtype)
        self._finite_logprobs = finite

    @property
    def logprobs(self) -> Tensor:
        """`[..., L]` log-probabilities in nats; illegal slots are -inf and carry no gradient."""
        return self._finite_logprobs.masked_fill(~self.legal, -math.inf)

    @property
    def probs(self) -> Tensor:
        """`[..., L]` probabilities; illegal slots are exactly 0."""
        return self._finite_logprobs.exp().masked_fill(~self.legal, 0.0)

    def entropy(self) -> Tensor:
        """`[...]` exact entropy over the legal moves, nats, at most ln(num_legal). Differentiable."""
        return -(self.probs * self._finite_logprobs).sum(-1)

    def gather(self, slots: Tensor) -> Tensor:
        """`[..., K]` log-probabilities of legal slots (integers `[..., K]`). Differentiable."""
        return self._finite_logprobs.gather(-1, slots.long())

    @torch.no_grad()
    def sample(self, num_samples: int, generator: torch.Generator) -> Tensor:
        """`[..., num_samples]` int64 slots, independent, with replacement, never illegal.

        The inverse of the float64 cumulative distribution, so that rounding can pick neither a
        padded slot nor one of probability 0. The generator must live on the logits' device.
        """
        cumulative = self.probs.double().cumsum(-1)
        uniform = torch.rand(
            (*cumulative.shape[:-1], num_samples),
            generator=generator,
            device=cumulative.device,
            dtype=torch.float64,
        )
        slots = torch.searchsorted(cumulative, uniform * cumulative[..., -1:], right=True)
        last = (self.legal.sum(-1) - 1).clamp(min=0)
        return torch.minimum(slots, last.unsqueeze(-1))

    def kl(self, other_logprobs: Tensor) -> Tensor:
        """`[...]` exact KL(self || other) over the legal moves, nats, >= 0. Differentiable in self.

        Args:
            other_logprobs: `[..., L]` log-probabilities of the other policy; values on illegal
                slots are ignored.
        """
        gap = self._finite_logprobs - other_logprobs.masked_fill(~self.legal, 0.0)
        return (self.probs * gap).sum(-1)
