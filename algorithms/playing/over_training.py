"""What a policy does in fixed positions in the course of its training: entropy, chosen move, regret, as arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from algorithms.diagnostics.probe_metrics import Floats, entropy
from algorithms.evaluation.snapshot_policies import RecordTail, Snapshot, moves_by_update, thinned
from algorithms.networks.policy_net import PolicyNet
from algorithms.playing.position import PositionSet, probe_set
from algorithms.reports.probe_files import probed_updates, read_probes


@dataclass(frozen=True, eq=False)
class OverTraining:
    """S policies of a run on M positions with at most L legal moves.

    Attributes:
        scored_moves: int64 `[S]`, rising.
        updates: int64 `[S]`.
        logprobs: float64 `[S, M, L]`, nats; -inf on padding.
        temperature: of the softmax.
        at: the positions.
        notes: sentences on policies that were left out.
    """

    scored_moves: NDArray[np.int64]
    updates: NDArray[np.int64]
    logprobs: Floats
    temperature: float
    at: PositionSet
    notes: tuple[str, ...] = ()

    def only(self, row: int) -> OverTraining:
        """The same on one of the positions, with its legal moves alone."""
        slots = self.at.legal_ids[row] >= 0
        logprobs = self.logprobs[:, row, slots][:, None]
        return replace(self, logprobs=logprobs, at=self.at.only(row))

    @property
    def probs(self) -> Floats:
        """float64 `[S, M, L]` probabilities; 0 on padding."""
        return np.exp(self.logprobs)

    @property
    def entropy(self) -> Floats:
        """float64 `[S, M]`, nats."""
        # A forced move's probability is 1 up to rounding.
        return np.maximum(0.0, entropy(self.logprobs, self.probs > 0))

    @property
    def chosen_prob(self) -> Floats:
        """float64 `[S, M]` probability of the most probable move."""
        return self.probs.max(-1)

    @property
    def regret_cp(self) -> Floats:
        """float64 `[S, M]` expected regret, centipawns; NaN where no score is known."""
        return (self.probs * self.at.regret_cp).sum(-1)

    @property
    def change(self) -> Floats:
        """float64 `[M]` total variation between the first policy and the last, 0 to 1."""
        first, last = np.exp(self.logprobs[0]), np.exp(self.logprobs[-1])
        return 0.5 * np.abs(last - first).sum(-1)


def over_training(
    every: Sequence[Snapshot],
    policies: Callable[[Snapshot], PolicyNet],
    at: PositionSet,
    temperature: float,
) -> OverTraining:
    """Each policy on each position, in one batch for each policy.

    A policy that cannot be loaded is left out, with a note.

    Args:
        every: the policies of a run, in order, as of `snapshots`.
        policies: loads one, such as `SnapshotPolicies`.
        at: the positions.
        temperature: of the softmax, above 0.

    Raises:
        ValueError: the temperature is not above 0, or none of the policies can be loaded.
    """
    _check(temperature)
    kept, found, notes = list[Snapshot](), [], []
    for each in every:
        try:
            found.append(at.logprobs(policies(each), temperature))
        except ValueError as error:
            notes.append(f"{error}.")
        else:
            kept.append(each)
    if not kept:
        raise ValueError(" ".join(["no policy of the run can be loaded.", *notes]))
    return OverTraining(
        scored_moves=np.array([each.scored_moves for each in kept], np.int64),
        updates=np.array([each.update for each in kept], np.int64),
        logprobs=np.stack(found).astype(np.float64),
        temperature=temperature,
        at=at,
        notes=tuple(notes),
    )


def recorded_probes(
    run_dir: Path,
    temperature: float | None = None,
    *,
    most: int | None = None,
    moves: Mapping[int, int] | None = None,
) -> OverTraining:
    """The policies that a run recorded on its probe positions while it trained; this needs no weights.

    Args:
        run_dir: the run folder.
        temperature: of the softmax; None for the one of the record. At another one the probabilities follow from the
            recorded ones, up to their rounding to float32.
        most: of more policies, so many are taken evenly; None for all.
        moves: update -> scored moves; None to read the record for them.

    Raises:
        FileNotFoundError: the run has none.
        ValueError: a file or the record is damaged, its positions are not those of this version, or the temperature is
            not above 0.
    """
    if moves is None:
        moves = moves_by_update(RecordTail(run_dir).read()[0])
    there = probed_updates(run_dir)
    known = [update for update in there if update in moves]
    if there and not known:
        raise ValueError(f"the record of {run_dir} has none of the updates of its probes")
    probes, at = read_probes(run_dir, thinned(known, most or len(known))), probe_set()
    asked = probes.temperature if temperature is None else temperature
    _check(asked)
    if not np.array_equal(probes.sheet.legal_ids, at.legal_ids) or not np.array_equal(
        probes.sheet.positions, at.positions
    ):
        raise ValueError(
            f"the probes of {run_dir} are of other positions than those of this version: open them with the version of "
            "the project that wrote them"
        )
    logprobs = np.where(at.legal_ids >= 0, probes.logprobs, -np.inf).astype(np.float64)
    return OverTraining(
        scored_moves=np.array([moves[update] for update in probes.updates.tolist()], np.int64),
        updates=probes.updates,
        logprobs=_normalised(logprobs * (probes.temperature / asked)),
        temperature=asked,
        at=at,
    )


def most_changed(curves: Sequence[OverTraining]) -> list[tuple[OverTraining, int]]:
    """(curves, row) of every position, the one first whose probabilities changed most over training.

    Args:
        curves: of one run, on different sets of positions; those of the first policy and the last are enough.
    """
    every = [
        (change, each, row) for each in curves for row, change in enumerate(each.change.tolist())
    ]
    # A stable sort: of equal changes the set given first comes first.
    return [(each, row) for _, each, row in sorted(every, key=lambda found: -found[0])]


def _normalised(logs: Floats) -> Floats:
    """The last axis scaled to probabilities that add up to 1."""
    top = logs.max(-1, keepdims=True)
    return logs - top - np.log(np.exp(logs - top).sum(-1, keepdims=True))


def _check(temperature: float) -> None:
    if not 0 < temperature < float("inf"):
        raise ValueError(f"temperature is {temperature}: it must be above 0 and finite")
