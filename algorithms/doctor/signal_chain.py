"""The stage of the update at which the learning signal is lost, by the columns `signal/...` (docs/metrics.md).

Rewards, ratio and step lose nothing in a sound update, whatever the algorithm, so a loss there is a fault. Draw, credit
and objective, and the ratio under a sampler correction, are noisy and have no such value; a bound holds for their mean
over some measured updates, with the upper end of its 95 % interval. The bounds were chosen on the open part of the
matrix (docs/doctor.md).
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from algorithms.doctor.metric_rows import MetricRows, is_finite

ENT_COEF, KL_OLD_COEF, KL_REF_COEF = "reg/ent_coef", "reg/kl_old_coef", "reg/kl_ref_coef"
"""Columns of the coefficients."""

NEEDED = 3
"""With fewer measured updates the stages cannot be told."""

LONGEST_GAP = 4
"""Times the mean distance of measured updates that a stretch without one may be long."""

EXACT_WINDOW, NOISY_WINDOW = 3, 8
"""Measured updates in a row that a mean is taken over."""

KEPT = 0.9
"""Share of the signal that rewards and ratio keep at least."""

OTHER_REWARD = 0.6
"""Share that a sound reward keeps on average which is not the worth of a move: less, and the reward is at fault."""

STEP_KEPT = 0.5
"""The same for the step, of one update."""

DRAW_KEPT, CREDIT_KEPT, OBJECTIVE_KEPT = 0.8, 0.6, 0.5

CLIP_KEPT = 0.5
"""Of the policy's pull after the clip, where a batch is used once: a second pass is there to be clipped."""

UNPLAYED = 0.2
"""Share of the first regret that the most probable moves would save at the end, below which a bonus does no harm."""

SOME_PULL = 0.1
"""Share from which a bonus may be what forces entropy up: noise makes the policy's gradient longer, not stronger."""

LONG_STEP = 0.02
"""Nats (k3) of an update beyond which a clip is there to hold it, as in a second pass."""

SINGLE_CREDIT_KEPT = 0.2
"""Of credit where a position has one sample: its baseline is no mean of others, and later plies may be credited."""

STUDENT = {1: 12.71, 2: 4.30, 3: 3.18, 4: 2.78, 5: 2.57, 6: 2.45, 7: 2.36}
"""Degrees of freedom -> 97.5 % quantile of Student's t."""

LARGEST = 1e6
"""Beyond it a measurement is damaged."""

SHORT = 12.0
"""A step whose sixteenfold gains more than so many times as much is too short."""

HELD = 8.0
"""The same of runs in which a KL to the sampler is what makes the steps short, from which it did harm."""

HELD_SHARE = 0.05
"""Share of that KL beside the policy's loss from which it is: small steps of other making leave it next to nothing."""

NARROW = 0.5
"""Regret of the states that are trained on, beside that of held-out ones, below which they teach little."""


class Stage(NamedTuple):
    """A stage of the update.

    Attributes:
        name: of its column, without `signal/`.
        title: in words.
        look_at: what decides it.
    """

    name: str
    title: str
    look_at: str


STAGES = (
    Stage(
        "ratio",
        "the sampler is not the policy that learns",
        "the temperatures of sampler and learner, dropout and precision in the rollout, how often the sampler is "
        "brought up to date, and the recorded log-probabilities",
    ),
    Stage(
        "draw",
        "the moves are not drawn from the policy",
        "how moves are sampled, and which samples are left out",
    ),
    Stage(
        "reward",
        "the rewards do not say what the moves are worth",
        "the evaluator, the reward terms and their sign for both colours, and what changes rewards before the update",
    ),
    Stage(
        "credit",
        "the advantages do not follow the rewards",
        "the baseline, what the advantages are divided by, and whether each belongs to its own move",
    ),
    Stage(
        "objective",
        "what is minimised is little of the policy's loss: a term outweighs it, or the clip takes it away",
        "the coefficients of bonus and KL, and the clip range (`signal/clip`)",
    ),
    Stage(
        "step",
        "the step is not the optimizer's on this gradient",
        "frozen weights, gradients that are lost on their way, the optimizer's settings and weight decay",
    ),
)
"""In their order: what comes later follows from what is lost before it."""


@dataclasses.dataclass(frozen=True)
class Loss:
    """A stage that loses the signal.

    Attributes:
        stage: which.
        since: the first measured update with it.
        kept: what it keeps from there on, of a noisy stage in the first window; 1 in a sound update.
    """

    stage: Stage
    since: int
    kept: float

    def __str__(self) -> str:
        """In words, as "the signal is lost at `reward` from update 21 on (-1.00 of it is kept)"."""
        where = f"the signal is lost at `{self.stage.name}` from update {self.since} on"
        return f"{where} ({self.kept:.2f} of it is kept)"

    def to_dict(self) -> dict[str, object]:
        """JSON values."""
        return {
            "stage": self.stage.name,
            "means": self.stage.title,
            "since_update": self.since,
            "kept": round(self.kept, 3),
            "look_at": self.stage.look_at,
        }


@dataclasses.dataclass(frozen=True)
class SignalChain:
    """What the record says of the stages.

    Attributes:
        measured: updates with a measurement of all stages; 0 where a long part of the run has none.
        losses: the stages that lose the signal, in their order.
        notes: on what is no fault of a stage: steps too short, starts that teach little, a collapsed policy.
    """

    measured: int
    losses: tuple[Loss, ...]
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, object]:
        """JSON values: how many updates were measured, and the stages that lose the signal, the first one first."""
        return {"measured": self.measured, "lost": [loss.to_dict() for loss in self.losses]}

    def keeps(self, stage: str) -> bool:
        """Whether the stage was measured and loses nothing."""
        return self.measured >= NEEDED and all(each.stage.name != stage for each in self.losses)


Row = Mapping[str, float | None]


def signal_chain(record: MetricRows) -> SignalChain:
    """The stages of a record."""
    rows = [(n, row) for n, row in record.update_rows if is_finite(row, "signal/vanished")]
    measured = [(n, row) for n, row in rows if is_finite(row, "signal/draw")]
    updates = [n for n, _ in measured]

    def column(name: str) -> NDArray[np.float64]:
        return np.array([_value(row, name) for _, row in measured])

    # Shares of the signal that are left after each stage: a quotient of two small ones would be all noise.
    draw, reward, ratio = column("draw"), column("reward"), column("ratio")
    # Another reward than the worth of a move, as centipawns: what it pays by the second evaluator's scores.
    expected = column("reward_expected")
    if not (draw * expected).sum() >= OTHER_REWARD * draw.sum():
        expected = np.ones_like(ratio)
    rewarded = draw * np.where(np.isfinite(reward), reward, 1.0)
    credited = rewarded * column("credit")
    built = credited * ratio * column("passes")
    steps = [(n, _value(row, "step")) for n, row in rows]
    several = bool((column("samples") > 1).any())
    whole = np.ones_like(ratio)
    found = {
        # A correction weighs what another policy drew: unbiased at best, and no longer exact.
        "ratio": _noisy(updates, ratio, whole, KEPT)
        if record.has("correction/weight_mean")
        else _exact(updates, ratio, whole),
        "draw": _noisy(updates, draw, column("draw_expected"), DRAW_KEPT),
        "reward": _exact(updates, draw * reward, draw * expected),
        "credit": _exact(updates, column("advantages"), whole)
        or _noisy(updates, credited, rewarded, CREDIT_KEPT if several else SINGLE_CREDIT_KEPT),
        "objective": (
            None
            if bonus_is_harmless(record)
            else _noisy(updates, built * column("objective"), built, OBJECTIVE_KEPT)
        )
        or (_noisy(updates, column("clip"), whole, CLIP_KEPT) if _clips(record) else None),
        "step": next(((n, kept) for n, kept in steps if kept < STEP_KEPT), None),
    }
    losses = [(stage, found[stage.name]) for stage in STAGES]
    return SignalChain(
        _measured(record, rows),
        tuple(Loss(stage, *lost) for stage, lost in losses if lost is not None),
        tuple(_notes(record, rows, measured)),
    )


def _measured(record: MetricRows, rows: Sequence[tuple[int, Row]]) -> int:
    """How many updates have all stages; 0 where a long part of the run has none."""
    names = ("draw_expected", "clip", "passes", *(stage.name for stage in STAGES))
    whole = [n for n, row in rows if all(is_finite(row, f"signal/{name}") for name in names)]
    seen = [n for n, row in rows if n in whole or _value(row, "vanished") > 0]
    if len(seen) < 2:
        return 0
    usual = float(np.diff(seen).mean())
    ends = [record.first_update - 1, *seen, record.last_update + 1]
    longest = max(after - before for before, after in itertools.pairwise(ends))
    return len(whole) if longest <= LONGEST_GAP * usual else 0


def _clips(record: MetricRows) -> bool:
    """Whether what a clip takes away is a loss: updates are short, of one pass, and no gate takes as much by design."""
    once = record.median("train/passes") == 1 and not record.has("policy/gate_mean")
    return once and not record.median("policy/approx_kl") > LONG_STEP


def clip_takes_most(record: MetricRows) -> bool:
    """Whether a clip takes more of the policy's pull than it should."""
    return _clips(record) and record.median("signal/clip") < CLIP_KEPT


def share_at_end(record: MetricRows, coef: str) -> float:
    """Share of the term that `coef` weighs beside the policy's, in the last quarter; NaN where it is not logged.

    A KL to the sampler has no gradient at the first step of an update, where gradient shares are measured: its
    share of the loss, beside the policy's, is taken.
    """
    if coef == ENT_COEF:
        return record.last("grad_share/entropy", 0.25)
    term = record.quarter(coef.replace("_coef", "_weighted"))
    policy = record.quarter("train/policy_loss")
    return term / (term + policy) if term + policy > 0 else math.nan


def strongest_term(record: MetricRows) -> tuple[str, float]:
    """(coefficient of the term with the largest share beside the policy's, that share); NaN if none is logged."""
    pulls = {
        ENT_COEF: record.median("grad_share/entropy"),
        KL_REF_COEF: record.median("grad_share/kl_ref"),
        KL_OLD_COEF: share_at_end(record, KL_OLD_COEF),
    }
    return max(pulls.items(), key=lambda each: -1.0 if math.isnan(each[1]) else each[1])


def gain_of_longer(record: MetricRows) -> float:
    """How many times as much steps of 16 times the length would gain, on average; NaN where these gain nothing."""
    gain = record.mean("signal/gain_measured")
    return record.mean("signal/gain_long") / gain if gain > 0 else math.nan


def share_of_sampler_kl(record: MetricRows) -> float:
    """Share of the KL to the sampler beside the policy's loss at the end of an update, the median; 0 without one."""
    pairs = record.together("reg/kl_old_weighted", "train/policy_loss")
    shares = [abs(kl) / (abs(kl) + abs(policy)) for _, (kl, policy) in pairs if kl != 0]
    return float(np.median(shares)) if shares else 0.0


def bonus_is_harmless(record: MetricRows) -> bool:
    """Whether the strongest term is a bonus, and the policy plays what it knows all the same.

    Near the best policy under a bonus its pull and that of the rewards cancel, however good that policy is.
    """
    not_played, (coef, share) = unplayed(record), strongest_term(record)
    return coef == ENT_COEF and share > SOME_PULL and bool(not_played) and not_played[-1] < UNPLAYED


def unplayed(record: MetricRows) -> list[float]:
    """Share of the first regret that the most probable moves would save, at each evaluation after an update."""
    first = record.first("eval/regret_cp")
    rows = record.together("eval/regret_cp", "eval/regret_cp_greedy") if first > 0 else []
    return [(sampled - greedy) / first for _, (sampled, greedy) in rows]


def _value(row: Row, name: str) -> float:
    """NaN where the number is missing, or none that a run writes."""
    value = row.get(f"signal/{name}")
    return math.nan if value is None or not abs(value) < LARGEST else float(value)


Found = tuple[int, float] | None
"""(first measured update of a stage that loses the signal, share that it keeps)."""


def _share(after: NDArray[np.float64], before: NDArray[np.float64], window: slice) -> float:
    """Share that is left on average over a window."""
    return float(after[window].mean() / before[window].mean())


def _exact(
    updates: Sequence[int], after: NDArray[np.float64], before: NDArray[np.float64]
) -> Found:
    """Two overlapping windows in a row that keep less than `KEPT`; one where there are no two."""
    rows = np.flatnonzero(np.isfinite(after) & np.isfinite(before))
    after, before = after[rows], before[rows]
    windows = _windows(len(rows), EXACT_WINDOW)
    kept = [_share(after, before, window) for window in windows]
    needed = min(2, len(windows))
    for place in range(len(windows) - needed + 1 if windows else 0):
        if all(share < KEPT for share in kept[place : place + needed]):
            inside = range(windows[place].start, windows[place + needed - 1].stop)
            begins = next(row for row in inside if not after[row] >= KEPT * before[row])
            return updates[rows[begins]], _share(after, before, slice(begins, None))
    return None


def _noisy(
    updates: Sequence[int], after: NDArray[np.float64], before: NDArray[np.float64], bound: float
) -> Found:
    """A window that keeps less than the bound by the upper end of its interval."""
    rows = np.flatnonzero(np.isfinite(after) & np.isfinite(before))
    after, before = after[rows], before[rows]
    for window in _windows(len(rows), NOISY_WINDOW):
        kept, count = _share(after, before, window), window.stop - window.start
        scatter = (after[window] - kept * before[window]).std(ddof=1) / math.sqrt(count)
        if kept + STUDENT[count - 1] * scatter / abs(before[window].mean()) < bound:
            return updates[rows[window.start]], kept
    return None


def _windows(count: int, size: int) -> list[slice]:
    """All windows of so many measured updates, of all of them where there are fewer; none of a single one."""
    size = min(size, count)
    return [slice(start, start + size) for start in range(count - size + 1) if size > 1]


def _notes(
    record: MetricRows, rows: Sequence[tuple[int, Row]], measured: Sequence[tuple[int, Row]]
) -> Iterator[str]:
    """Sentences on what is lost at no stage."""
    gone = [n for n, row in rows if _value(row, "vanished") > 0]
    if gone and rows[-1][0] == gone[-1]:
        yield (
            f"from update {gone[0]} on the policy tries next to no moves of different worth: nothing is left to "
            "learn from"
        )
    if (times := gain_of_longer(record)) > SHORT:
        yield (
            f"the steps are short: 16 times as long they would gain {times:.0f} times as much on held-out positions"
        )
    data = float(np.mean([_value(row, "data") for _, row in measured] or [math.nan]))
    if data < NARROW:
        yield f"the positions that are trained on have {data:.0%} of the regret of held-out ones: they teach little"
