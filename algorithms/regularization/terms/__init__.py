"""The terms of this project, one file each: its settings, and the function that makes the `Term` of them.

A new term is a file beside these and its two names here. A term of your own is `module:Name` in the setting
`regularizer.terms` (docs/extending.md).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from algorithms.regularization.term import Term
from algorithms.regularization.terms.entropy import EntropySettings, entropy
from algorithms.regularization.terms.kl_cov import KLCovSettings, kl_cov_term
from algorithms.regularization.terms.kl_old import KLOldSettings, kl_old
from algorithms.regularization.terms.kl_ref import KLRefSettings, kl_ref
from algorithms.regularization.terms.repo import RepoSettings, repo

MAKERS: tuple[Callable[[Any], Term], ...] = (entropy, kl_old, kl_ref, repo, kl_cov_term)
"""Each makes its term of the settings."""


# The fields of the last base come first.
@dataclass(frozen=True)
class TermSettings(KLCovSettings, RepoSettings, KLRefSettings, KLOldSettings, EntropySettings):
    """The settings of all terms, flat."""


def terms_of(settings: TermSettings) -> tuple[Term, ...]:
    """The terms that the settings mean, those that are off among them.

    Raises:
        ValueError: a term's settings contradict each other.
    """
    return tuple(make(settings) for make in MAKERS)
