"""The optimal policy under an entropy bonus and a KL to a reference, and when it is known."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from algorithms.diagnostics.probe_metrics import Floats, Mask
from algorithms.regularization.term import Term


def optimum_logprobs(
    ref_logprobs: Floats, rewards: Floats, legal: Mask, *, kl_ref_coef: float, ent_coef: float
) -> Floats:
    """float64 `[M, L]` log-probabilities of the regularised optimum, nats; -inf on padding.

    It maximises, position by position, with beta = `kl_ref_coef` and c = `ent_coef`,

        E_pi[R] - beta KL(pi || ref) + c H(pi) = E_pi[R + beta ln ref] - (beta + c) E_pi[ln pi].

    The derivative with respect to pi(a) is R(a) + beta ln ref(a) - (beta + c)(ln pi(a) + 1), and
    must be the same for all moves, the multiplier of sum pi = 1. Hence

        pi*(a) ~ (ref(a)^beta exp R(a))^(1 / (beta + c)),

    which is ref exp(R / beta) without a bonus, and the softmax of R / c without a KL. The objective is
    concave, so there is no other. A constant added to the rewards of a position falls out.

    Args:
        ref_logprobs: float64 `[M, L]` the reference policy; anything on padding, and where beta is 0.
        rewards: float64 `[M, L]`.
        legal: bool `[M, L]`, a legal move in every row.
        kl_ref_coef: beta, reward units per nat, >= 0.
        ent_coef: c, reward units per nat, >= 0; above 0 where beta is 0.

    Raises:
        ValueError: a coefficient is out of range.
    """
    if not (kl_ref_coef >= 0 and ent_coef >= 0 and kl_ref_coef + ent_coef > 0):
        raise ValueError(
            f"kl_ref_coef is {kl_ref_coef} and ent_coef {ent_coef}: expected both to be >= 0 and one to "
            "be > 0; without a KL to a reference and a bonus the optimum is the best move alone"
        )
    anchored = legal & (kl_ref_coef > 0)
    score = (rewards + kl_ref_coef * np.where(anchored, ref_logprobs, 0.0)) / (
        kl_ref_coef + ent_coef
    )
    score = np.where(legal, score, -np.inf)
    score = score - score.max(-1, keepdims=True)
    return score - np.log(np.exp(score).sum(-1, keepdims=True))


def has_closed_optimum(terms: Sequence[Term]) -> bool:
    """Whether the regulariser pulls to `optimum_logprobs` of a reference, and to nothing else.

    There must be a KL to the reference, and every term that is on must keep the optimum (`keeps_optimum`).
    """
    return any(term.name == "kl_ref" and term.coef > 0 for term in terms) and pulls_to_optimum(
        terms
    )


def pulls_to_optimum(terms: Sequence[Term]) -> bool:
    """Whether the regulariser pulls to `optimum_logprobs`, of a reference or of the bonus alone.

    Every term that is on must keep the optimum (`keeps_optimum`), and one must pull: the KL to the reference or
    the entropy bonus.
    """
    active = [term for term in terms if term.coef > 0]
    return any(term.name in ("kl_ref", "entropy") for term in active) and all(
        term.keeps_optimum for term in active
    )
