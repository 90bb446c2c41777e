"""Other observations in a record: values that no run can have, and peaks that are noise."""

from __future__ import annotations

from algorithms.collapse.doctor.outcome import LEARNING, RunOutcome
from algorithms.collapse.doctor.record import Record
from algorithms.collapse.doctor.regulariser_rules import LARGEST_ENTROPY
from algorithms.reports.peaks import judge_peak


def impossible(record: Record) -> list[str]:
    """Sentences on entropies above the logarithm of the number of legal moves."""
    notes = []
    for name in ("policy/entropy", "reg/entropy", "eval/entropy", "reg/entropy_sampled"):
        highest = max(record.series(name), default=0.0)
        if highest > LARGEST_ENTROPY:
            notes.append(
                f"impossible value: {name} reaches {highest:.2f} nats, and no chess position has "
                f"more than ln 218 = {LARGEST_ENTROPY:.3f}: whatever is logged there is no entropy"
            )
    for _, (entropy, bound) in record.together("policy/entropy", "policy/entropy_bound"):
        if entropy > bound + 1e-3:
            notes.append(
                f"impossible value: policy/entropy is {entropy:.3f} where the legal moves allow "
                f"{bound:.3f} (mean of ln n)"
            )
            break
    return notes


def missing_rows(record: Record) -> list[str]:
    """Sentences on updates that are not on record: what they were like is unknown."""
    if record.updates == 0 or record.is_whole:
        return []
    if not record.has_its_beginning:
        return [
            f"the record begins at update {record.first_update}: what came before it is unknown"
        ]
    return [
        f"the record has {record.updates} of the updates up to {record.last_update}: rows are missing"
    ]


def lucky_peak(record: Record, outcome: RunOutcome) -> list[str]:
    """A sentence where the best mean reward is noise; only where nothing was learned and luck looks like progress."""
    rewards = record.series("rollout/reward_mean")
    if outcome.learning == LEARNING or len(rewards) < 8 or not max(rewards) > min(rewards):
        return []
    peak = judge_peak(rewards, higher_is_better=True, trend=True)
    if not peak.is_noise or peak.cannot_be_judged:
        return []
    return [
        f"the best mean reward, {peak.score:.3g} at update {peak.index + 1}, is noise: the "
        f"best of {peak.evaluations} is that far from the trend with probability {peak.p_value:.2g}"
    ]
