"""What a reader knows of a trainer: the names of its log, its options, and what it does not log."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

QUANTITIES = {
    "reward": "mean reward of the training samples, before any KL is taken off",
    "eval_reward": "mean reward on data that is not trained on",
    "reward_std": "standard deviation of the rewards",
    "dead": "share of the groups (samples of one prompt) with equal rewards",
    "entropy": "entropy of the policy, nats a token or an action",
    "clip": "share of the samples whose ratio is beyond a bound",
    "clip_low": "share of the samples that the lower bound takes the gradient of",
    "clip_high": "the same for the upper bound",
    "kl_ref": "KL to the reference policy, nats",
    "kl_update": "KL between the policy before and after an update, nats, an estimate that is never negative (k3)",
    "kl_signed": "the same by the mean log-ratio (k1), which is near 0 where steps are small",
    "mismatch": "mean distance of the sampler's and the learner's log-probability, nats",
    "mismatch_kl": "KL between sampler and learner on equal weights, nats",
    "surprise_gap": "mean of -log p of fresh samples less the exact entropy, nats",
    "inverse_temperature": "factor of the learner's log-odds that fits the sampler's",
    "first_ratio_std": "standard deviation of the log-ratio at a batch's first use, nats",
    "grad_norm": "norm of the gradient before clipping",
    "learning_rate": "step size of the optimizer",
    "ent_coef": "coefficient of the entropy bonus",
    "kl_coef": "coefficient of the KL to the reference",
    "epoch": "times that the data was gone over",
    "loss": "the whole loss",
    "critic_error": "mean squared error of the critic",
    "passes_done": "passes over batches so far",
    "batches_done": "batches sampled so far",
    "dropout": "largest dropout that is on while the learner computes",
    "gamma": "discount a step",
    "episode_length": "mean length of the episodes, steps",
}
"""What a log can hold, by the names that `--map theirs=ours` takes."""


@dataclasses.dataclass(frozen=True)
class Column:
    """One name of a trainer's log.

    Attributes:
        quantity: of `QUANTITIES`.
        factor: what theirs is multiplied by, as -1 for a log of minus the entropy.
        means: how theirs differs from the plain definition: averaged over what, which estimate.
    """

    quantity: str
    factor: float = 1.0
    means: str = ""


@dataclasses.dataclass(frozen=True)
class Trainer:
    """A trainer whose logs are read.

    Attributes:
        name: what `--from` calls it.
        title: what people call it.
        checked: versions or commits whose names were compared with this table.
        unit: what one sample of its log-probabilities is.
        steps: names of the step, the first one that a row has counts.
        columns: theirs -> what it is, after the prefixes; of several that a log has for a quantity the first counts.
        patterns: the same for names with a part that users choose; those of one quantity are averaged.
        prefixes: beginnings of names that other trackers add -> what stands in their place.
        options: role -> its name among the trainer's options, for remedies and `--config`.
        logged_by: quantity -> what makes the trainer log it.
        row_is_batch: whether a step of the log is all steps of the optimizer on one batch.
        uses: steps of the optimizer on one batch by the options; None where they do not tell.
        without: causes that its runs cannot have.
        exact_bonus: whether its entropy bonus is the entropy itself, not an estimate from samples.
        logs_used_coefs: whether a coefficient that is not in the log is 0.
    """

    name: str
    title: str
    checked: str
    unit: str
    steps: tuple[str, ...]
    columns: Mapping[str, Column]
    patterns: Mapping[str, Column] = dataclasses.field(default_factory=dict)
    prefixes: Mapping[str, str] = dataclasses.field(default_factory=dict)
    options: Mapping[str, str] = dataclasses.field(default_factory=dict)
    logged_by: Mapping[str, str] = dataclasses.field(default_factory=dict)
    row_is_batch: bool = True
    uses: Callable[[Mapping[str, Any]], int | None] = lambda config: None
    without: frozenset[str] = frozenset()
    exact_bonus: bool = False
    logs_used_coefs: bool = False

    def known(self, names: Iterable[str]) -> dict[str, Column]:
        """Those of a log's names that are read -> what they are."""
        given = {self._plain(name): name for name in names}
        found = {}
        quantities = set[str]()
        for name, column in self.columns.items():
            if name in given and column.quantity not in quantities:
                quantities.add(column.quantity)
                found[given[name]] = column
        for pattern, column in self.patterns.items():
            fits = [name for name in given if re.fullmatch(pattern, name)]
            if column.quantity not in quantities and fits:
                quantities.add(column.quantity)
                found |= {given[name]: column for name in fits}
        return found

    def option(self, role: str) -> str:
        """Its name of an option, or the plain word."""
        return self.options.get(role, role.replace("_", " "))

    def _plain(self, name: str) -> str:
        if name in self.columns:
            return name
        for prefix, instead in self.prefixes.items():
            if name.startswith(prefix):
                return instead + name[len(prefix) :]
        return name
