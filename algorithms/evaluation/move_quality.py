"""Quality of single moves: exact measures of a policy on the held-out table, without games or engine.

A way of choosing moves is a matrix of probabilities, one row per position. Every measure is the exact
expectation of a value of the move over it, so nothing is sampled. `docs/eval.md` has the definitions.
"""

from __future__ import annotations

import dataclasses
import math
import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from algorithms.evaluation.policy_player import GREEDY
from algorithms.evaluation.regret import (
    PASS_K,
    SCORE_CLIP_CP,
    SUCCESS_REGRET_CP,
    HeldoutSlice,
    move_regret_cp,
)
from algorithms.networks.policy_net import PolicyNet
from algorithms.reports.judges import judge_in_words
from algorithms.reports.noise import noise_line
from algorithms.reports.statistics import bootstrap_interval

Floats = NDArray[np.float64]

TOP_K = (1, 3, 5)
"""Numbers of the table's best moves for which agreement is measured."""

_WIDTH = 79
_COLUMNS = 3
_LABELS = {
    "regret_cp": ("regret cp", 1, 1),
    "win_percent_loss": ("Win% loss", 1, 1),
    "accuracy_percent": ("accuracy %", 1, 1),
    "top_1": ("top-1 %", 100, 1),
    "top_3": ("top-3 %", 100, 1),
    "top_5": ("top-5 %", 100, 1),
    "pass_at_1": ("pass@1 %", 100, 1),
    "pass_at_8": ("pass@8 %", 100, 1),
    "entropy": ("entropy", 1, 2),
}
"""Of each measure: its name in the table, the factor it is shown with, its decimals."""


@dataclasses.dataclass(frozen=True)
class Quantity:
    """The mean of a measure over positions, with its 95 % bootstrap interval from `low` to `high`."""

    mean: float
    low: float
    high: float


@dataclasses.dataclass(frozen=True)
class MoveQuality:
    """One way of choosing moves on one slice.

    Attributes:
        slice_name: of the table.
        num_positions: in it.
        chooser: such as `greedy`, `T=1` or `uniform`.
        temperature: `GREEDY` (0), that of the softmax, or None where no policy chooses.
        figures: by measure, in the order of `measure`.
    """

    slice_name: str
    num_positions: int
    chooser: str
    temperature: float | None
    figures: dict[str, Quantity]

    def to_dict(self) -> dict[str, Any]:
        """Plain values; each measure under its name, its interval's ends with `_low` and `_high`."""
        values: dict[str, Any] = {
            "slice": self.slice_name,
            "num_positions": self.num_positions,
            "chooser": self.chooser,
            "temperature": self.temperature,
        }
        for name, figure in self.figures.items():
            values |= {name: figure.mean, f"{name}_low": figure.low, f"{name}_high": figure.high}
        return values


def win_percent(score_cp: Floats) -> Floats:
    """Lichess's Win% of scores, 0 to 100, from the view they are given in; like the input.

    50 + 50 (2 / (1 + exp(-0.00368208 cp)) - 1) (lichess.org/page/accuracy), the scores first clipped
    to +-1000 cp as Lichess does: 2.5 to 97.5.
    """
    clipped = np.clip(score_cp, -SCORE_CLIP_CP, SCORE_CLIP_CP)
    return 50 + 50 * (2 / (1 + np.exp(-0.00368208 * clipped)) - 1)


def accuracy_percent(win_percent_loss: Floats) -> Floats:
    """Lichess's accuracy of moves, 0 to 100, from what they lose of Win%; like the input.

    103.1668 exp(-0.04354 loss) - 3.1669 (lichess.org/page/accuracy), kept in 0 to 100, and 100
    without a loss. The site's code adds 1 for its imperfect analysis; the published formula does not.

    Raises:
        ValueError: a loss is negative or not a number.
    """
    if not (win_percent_loss >= 0).all():
        raise ValueError(
            f"a loss of Win% is {np.min(win_percent_loss)}: it is the best move's less the move's, at least 0"
        )
    curve = 103.1668 * np.exp(-0.04354 * win_percent_loss) - 3.1669
    return np.where(win_percent_loss == 0, 100.0, np.clip(curve, 0.0, 100.0))


def better_moves(heldout_slice: HeldoutSlice) -> NDArray[np.int64]:
    """int64 `[M, L]`: how many legal moves have a higher score; all tied with the best have 0.

    The scores are the table's own, unclipped: a faster mate is better. Padding has a number too.
    """
    scores = heldout_slice.child_score_cp
    legal = heldout_slice.legal_ids >= 0
    return ((scores[:, None, :] > scores[:, :, None]) & legal[:, None, :]).sum(axis=2)


def measure(probs: Floats, heldout_slice: HeldoutSlice) -> dict[str, Floats]:
    """Every measure's value at every position, float64 `[M]` by name; `entropy` is NaN where forced.

    `regret_cp` and the probability of a success are those of `evaluation.regret_cp`.

    Args:
        probs: float64 `[M, L]` probability of each legal move; 0 on padding.
        heldout_slice: from `evaluation.prepare_slice`.

    Raises:
        ValueError: these are no probabilities over the legal moves.
    """
    legal = heldout_slice.legal_ids >= 0
    _check(probs, legal)
    regret = move_regret_cp(heldout_slice)
    win = win_percent(heldout_slice.child_score_cp)
    lost = np.where(legal, np.where(legal, win, -np.inf).max(axis=1, keepdims=True) - win, 0.0)
    rank = better_moves(heldout_slice)

    def expected(values: NDArray[Any]) -> Floats:
        return (probs * values).sum(axis=1)

    # A sum of float32 probabilities may pass 1 by its rounding.
    success = np.minimum(expected(regret <= SUCCESS_REGRET_CP), 1.0)
    surprise = -np.log(np.where(probs > 0, probs, 1.0))
    return {
        "regret_cp": expected(regret),
        "win_percent_loss": expected(lost),
        "accuracy_percent": np.minimum(expected(accuracy_percent(lost)), 100.0),
        **{f"top_{k}": np.minimum(expected(rank < k), 1.0) for k in TOP_K},
        "pass_at_1": success,
        f"pass_at_{PASS_K}": 1 - (1 - success) ** PASS_K,
        "entropy": np.where(heldout_slice.num_legal >= 2, expected(surprise), np.nan),
    }


def uniform_probs(heldout_slice: HeldoutSlice) -> Floats:
    """float64 `[M, L]`: every legal move equally likely, the baseline of every policy."""
    return (heldout_slice.legal_ids >= 0) / heldout_slice.num_legal[:, None]


@torch.no_grad()
def policy_probs(
    policy: PolicyNet,
    heldout_slice: HeldoutSlice,
    *,
    temperature: float,
    device: torch.device,
    minibatch_size: int = 256,
) -> Floats:
    """float64 `[M, L]`: the policy's probabilities at a temperature; 1 for its best move if `GREEDY`.

    Of equally probable moves the greedy one is the first, as in `evaluation.regret_cp` and in games.

    Args:
        policy: on `device`.
        heldout_slice: from `evaluation.prepare_slice`.
        temperature: `GREEDY` (0) or above.
        device: where the network runs.
        minibatch_size: positions per forward pass; memory only.

    Raises:
        ValueError: the temperature is negative or not finite.
    """
    found = []
    asked = 1.0 if temperature == GREEDY else temperature
    for obs, legal_ids, facts in heldout_slice.inputs(policy, device, minibatch_size):
        probs = policy.outputs(obs, legal_ids, asked, facts).dist.probs
        if temperature == GREEDY and bool(probs.isfinite().all()):
            probs = torch.zeros_like(probs).scatter_(1, probs.argmax(1, keepdim=True), 1.0)
        found.append(probs.double().cpu().numpy())
    return np.concatenate(found)


def judge(
    probs: Floats,
    heldout_slice: HeldoutSlice,
    *,
    chooser: str,
    temperature: float | None,
    seed: int,
) -> MoveQuality:
    """The measures' means over the slice with their intervals; `seed` is that of the bootstrap.

    Raises:
        ValueError: see `measure`; or every position of the slice is forced.
    """
    figures = {}
    for name, values in measure(probs, heldout_slice).items():
        known = values[~np.isnan(values)]
        low, high = bootstrap_interval(known, seed=seed)
        figures[name] = Quantity(float(known.mean()), low, high)
    return MoveQuality(heldout_slice.name, len(probs), chooser, temperature, figures)


def table(found: Sequence[MoveQuality], evaluator_id: str) -> list[str]:
    """Lines of at most 79 columns: for each slice its measures in rows, the ways of choosing in columns.

    Below them stands what the judge itself and the teacher lose, where `evaluator_id` is that of the measured judge.
    """
    lines: list[str] = []
    for name in dict.fromkeys(quality.slice_name for quality in found):
        columns = [quality for quality in found if quality.slice_name == name]
        lines += ["", f"{name}, {columns[0].num_positions} positions"]
        for start in range(0, len(columns), _COLUMNS):
            lines += _rows(columns[start : start + _COLUMNS])
        if (noise := noise_line(evaluator_id, name)) is not None:
            lines.append(noise)
    return lines[1:]


def evaluator_lines(evaluator_id: str) -> list[str]:
    """The evaluator whose scores judge the moves, in words and by its id, wrapped to 79 columns."""
    words = f"judged by {judge_in_words(evaluator_id)}"
    named = textwrap.wrap(f"scored by {evaluator_id}", _WIDTH, break_on_hyphens=False)
    return [*textwrap.wrap(words, _WIDTH), *named]


def _rows(columns: Sequence[MoveQuality]) -> list[str]:
    rows = [" " * 10 + "".join(f" {quality.chooser:<22}" for quality in columns)]
    for name, (label, factor, decimals) in _LABELS.items():
        cells = ""
        for quality in columns:
            figure = quality.figures[name]
            mean, low, high = (
                f"{factor * value:.{decimals}f}" for value in (figure.mean, figure.low, figure.high)
            )
            cells += f" {f'{mean} ({low}-{high})':<22}"
        rows.append(f"{label:<10}{cells}")
    return [row.rstrip() for row in rows]


def _check(probs: Floats, legal: NDArray[np.bool_]) -> None:
    """None.

    Raises:
        ValueError: the probabilities are of another shape, negative, on padding or do not add up to 1.
    """
    if probs.shape != legal.shape:
        raise ValueError(
            f"probs has shape {probs.shape} and the slice's legal moves {legal.shape}: expected the same"
        )
    right = (probs >= 0).all(axis=1) & (np.where(legal, 0.0, probs) == 0).all(axis=1)
    right &= np.abs(probs.sum(axis=1) - 1) <= 1e-4  # float32 over 218 moves is far closer
    if not right.all():
        row = int(np.flatnonzero(~right)[0])
        total = math.fsum(probs[row])
        raise ValueError(
            f"the moves' probabilities at position {row} of the slice are not a distribution over its legal "
            f"moves (sum {total:g}, lowest {probs[row].min():g}): use another checkpoint or temperature"
        )
