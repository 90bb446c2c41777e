"""The doctor: what a run's record says of collapse and its causes, without looking at a setting."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from algorithms.collapse.doctor import regulariser_rules, sampler_rules, signal_rules, step_rules
from algorithms.collapse.doctor.evidence import LARGEST_ENTROPY, Evidence, Record
from algorithms.collapse.doctor.packed_row import PackedRow
from algorithms.reports.peaks import judge_peak
from algorithms.reports.run_files import read_rows
from algorithms.reports.summaries import Rows

RULES = (
    sampler_rules.temperature_mismatch,
    sampler_rules.forward_mismatch,
    sampler_rules.stale_behaviour,
    regulariser_rules.sampled_entropy_bonus,
    regulariser_rules.saturated_controller,
    signal_rules.no_signal,
    signal_rules.fixed_positions,
    regulariser_rules.loss_budget,
    regulariser_rules.sharp_optimum,
    step_rules.clip_asymmetry,
    step_rules.update_epochs,
    step_rules.weak_entropy_high_lr,
)
"""Each tests one cause by a measurement that the cause alone explains; none reads a setting.

In the order of their rank among equally confident ones: what corrupts the samples comes first. Bounds
stand between what the runs of the causes and their cured twins showed (docs/causes.md); the
quantities are 0, 1 or equal by theory where the cause is absent, unless the rule says otherwise.
"""

NEEDED_UPDATES = 4
"""With fewer the record says too little."""

HEALTHY, SPENT, COLLAPSE, IMPAIRED, UNEXPLAINED, SHORT = (
    "healthy",
    "not a collapse",
    "collapse",
    "impaired",
    "unexplained collapse",
    "too short",
)


@dataclasses.dataclass(frozen=True)
class Diagnosis:
    """What the doctor says.

    Attributes:
        verdict: "healthy"; "not a collapse" (entropy fell while held-out regret improved);
            "collapse" (a cause, and entropy lost without what it should have bought); "impaired" (a
            cause, and no collapse so far); "unexplained collapse" (that loss, and no cause found);
            "too short".
        causes: ranked, the likeliest first.
        notes: what else stands out: impossible values, peaks that are noise, what was lost for what.
    """

    verdict: str
    causes: tuple[Evidence, ...]
    notes: tuple[str, ...]

    @property
    def exit_code(self) -> int:
        """1 where a cause was found or entropy was lost for nothing, otherwise 0."""
        return 1 if self.causes or self.verdict == UNEXPLAINED else 0

    def to_dict(self) -> dict[str, Any]:
        """JSON values: {"verdict", "causes": [{"name", "confidence", ...}], "notes"}."""
        return {
            "verdict": self.verdict,
            "causes": [cause.to_dict() for cause in self.causes],
            "notes": list(self.notes),
        }

    def line(self) -> str:
        """The diagnosis in a line."""
        if not self.causes:
            spent = ": entropy falls while held-out regret improves"
            return self.verdict + (spent if self.verdict == SPENT else "")
        first = self.causes[0]
        return f"{self.verdict}: {first.name} ({first.confidence:.0%}); {first.remedy}"


def diagnose(rows: Rows) -> Diagnosis:
    """The diagnosis of a record.

    Args:
        rows: of a metrics.jsonl, in order.
    """
    record = Record(rows)
    if record.updates < NEEDED_UPDATES:
        note = (
            f"{record.updates} updates on record: a diagnosis needs at least {NEEDED_UPDATES}, and "
            "two evaluations"
        )
        return Diagnosis(SHORT, (), (note, *_impossible(record)))
    found = [evidence for rule in RULES if (evidence := rule(record)) is not None]
    found.sort(key=lambda evidence: -evidence.confidence)  # stable: equals stay in rank
    evaluations = len(record.series("eval/regret_cp"))
    if not found and evaluations < 2:  # "healthy" is a judgement on what entropy bought
        note = f"{evaluations} evaluations on record: without a cause, a verdict needs two"
        return Diagnosis(SHORT, (), (note, *_impossible(record)))
    verdict = _verdict(record, bool(found))
    return Diagnosis(verdict, tuple(found), tuple(_notes(record, verdict)))


def diagnose_run(run_dir: Path) -> Diagnosis:
    """The diagnosis of a run folder, from its metrics.jsonl alone; a note says what does not match its checksum.

    Raises:
        ValueError: there is no record, or it cannot be read.
    """
    rows, doubts = read_rows(run_dir)
    diagnosis = diagnose(rows)
    return dataclasses.replace(diagnosis, notes=(*diagnosis.notes, *doubts))


class Watch:
    """Follows a run row by row: a line on its state, renewed at every evaluation.

    Args:
        rows: what is on record already, of a run that is continued.
    """

    def __init__(self, rows: Rows = ()) -> None:
        self._rows = [PackedRow(row) for row in rows]
        self._line = ""

    def __call__(self, row: Mapping[str, float]) -> str:
        """The line after this row of the record."""
        # A run that is continued plays again what its checkpoint had not seen: those rows are gone.
        while self._rows and (self._rows[-1].get("step") or 0.0) >= row["step"]:
            self._rows.pop()
        self._rows.append(PackedRow(row))
        if "eval/regret_cp" in row:
            diagnosis = diagnose(self._rows)
            self._line = "" if diagnosis.verdict == SHORT else diagnosis.line()
        return self._line


def _verdict(record: Record, has_cause: bool) -> str:
    lost = record.entropy_kept < 0.6
    if has_cause:
        return COLLAPSE if lost else IMPAIRED
    if lost:
        return SPENT if record.regret_kept < 0.95 else UNEXPLAINED
    return HEALTHY


def _notes(record: Record, verdict: str) -> list[str]:
    notes = _impossible(record)
    if verdict == SPENT:
        notes.append(
            f"entropy fell to {record.entropy_kept:.0%} of its start while held-out regret fell to "
            f"{record.regret_kept:.0%} of its own: the entropy was spent on learning"
        )
    if verdict == UNEXPLAINED:
        notes.append(
            f"entropy fell to {record.entropy_kept:.0%} of its start and held-out regret is "
            f"{record.regret_kept:.0%} of its own: nothing was bought with it, and no rule fires"
        )
    rewards = record.series("rollout/reward_mean")
    # Only where nothing was learned: there a lucky batch is easily read as progress.
    if len(rewards) >= 8 and max(rewards) > min(rewards) and record.regret_kept > 0.9:
        peak = judge_peak(rewards, higher_is_better=True, trend=True)
        if peak.is_noise and not peak.cannot_be_judged:
            notes.append(
                f"the best mean reward, {peak.score:.3g} at update {peak.index + 1}, is noise: the "
                f"best of {peak.evaluations} is that far from the trend with probability "
                f"{peak.p_value:.2g}"
            )
    return notes


def _impossible(record: Record) -> list[str]:
    """Values that no run can have: entropies above the logarithm of the number of legal moves."""
    notes = []
    for name in ("policy/entropy", "reg/entropy", "eval/entropy", "reg/entropy_sampled"):
        highest = max(record.series(name), default=0.0)
        if highest > LARGEST_ENTROPY:
            notes.append(
                f"impossible value: {name} reaches {highest:.2f} nats, and no chess position has "
                f"more than ln 218 = {LARGEST_ENTROPY:.3f}: whatever is logged there is no entropy"
            )
    for entropy, bound in record.both("policy/entropy", "policy/entropy_bound"):
        if entropy > bound + 1e-3:
            notes.append(
                f"impossible value: policy/entropy is {entropy:.3f} where the legal moves allow "
                f"{bound:.3f} (mean of ln n)"
            )
            break
    return notes
