"""The diagnosis of another trainer's log, at the level that it has."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from algorithms.doctor.findings import (
    Finding,
    Named,
    RuledOut,
    Untold,
    Verdict,
    causes_of,
    does_harm,
    gaps_of,
    reasons_of,
    unless_hidden,
    with_verdict,
)
from algorithms.doctor.metric_rows import LEARNING, LOST, UNKNOWN
from algorithms.foreign.outcome import FEWEST, ForeignOutcome, outcome_of
from algorithms.foreign.reading import Log
from algorithms.foreign.rules import RULES, LogRule, Suspected

AS_EXPECTED, CANNOT_TELL, COLLAPSE, IMPAIRED, UNEXPLAINED = (
    "as expected, no known cause found",
    "cannot tell",
    "collapse",
    "impaired",
    "unexplained collapse",
)


@dataclasses.dataclass(frozen=True)
class ForeignDiagnosis:
    """The diagnosis of a log.

    Attributes:
        log: what was read.
        verdict: "as expected, no known cause found" (rewards rise, and nothing that the log shows speaks for a cause);
            "collapse" (a harmful cause, and entropy lost without return); "impaired" (the same, and no collapse);
            "unexplained collapse" (that loss, and no cause); "not learning" or "getting worse" (and no cause);
            "cannot tell" (the log does not show whether the run learns).
        outcome: of the run.
        findings: one for each cause, in the order of their rank.
        notes: on the file.
    """

    log: Log
    verdict: str
    outcome: ForeignOutcome
    findings: tuple[Finding, ...]
    notes: tuple[str, ...]

    @property
    def causes(self) -> tuple[Finding, ...]:
        """The causes that are named: the harmful ones first, then by rank."""
        return causes_of(self.findings)

    @property
    def ruled_out(self) -> tuple[Finding, ...]:
        """The causes that are ruled out."""
        return with_verdict(self.findings, RuledOut)

    @property
    def untold(self) -> tuple[Finding, ...]:
        """The causes of which the record does not tell."""
        return with_verdict(self.findings, Untold)

    @property
    def exit_code(self) -> int:
        """0 nothing found, 1 a harmful cause or a poor outcome, 3 cannot tell."""
        return {AS_EXPECTED: 0, CANNOT_TELL: 3}.get(self.verdict, 1)

    def to_dict(self) -> dict[str, Any]:
        """JSON values."""
        log, outcome = self.log, self.outcome
        return {
            "verdict": self.verdict,
            "log": {
                "trainer": log.trainer.name,
                "guessed": log.guessed,
                "format": log.format,
                "updates": log.num_updates,
                "steps_apart": log.gap,
                "evaluations": len(log.values("eval_reward")),
            },
            "outcome": {
                "learning": outcome.learning,
                "entropy": outcome.entropy,
                "judged_by": outcome.judged_by,
                "reward": _ends(outcome.reward.before, outcome.reward.after),
                "entropy_nats": _ends(outcome.nats.before, outcome.nats.after),
            },
            "causes": [_cause(each) for each in self.causes],
            "ruled_out": reasons_of(self.findings),
            "cannot_tell": gaps_of(self.findings),
            "notes": list(self.notes),
        }


OF_ANY_TRAINING = frozenset({"loss", "learning_rate", "grad_norm", "epoch"})


def diagnose_log(log: Log) -> ForeignDiagnosis:
    """The diagnosis of a log."""
    outcome, notes = outcome_of(log), list(log.notes)
    rules = [rule for rule in RULES if rule.name not in log.trainer.without]
    reason = ""
    if not log.is_one_run:
        reason = "the log is not that of one run"
    elif set(log.columns) <= OF_ANY_TRAINING:
        has = ", ".join(sorted(log.columns))
        reason = (
            f"the log has {has} alone, as one of supervised training: where rewards and entropy have other names, give "
            "them by --map theirs=ours"
        )
    elif log.is_filled:
        notes.insert(
            0, "many updates repeat the values of the one before: missing values were filled in"
        )
        reason = "values were filled in: what was measured is not told from what was not"
    elif log.num_updates < FEWEST:
        reason = f"{log.num_updates} updates in the log: {FEWEST} are needed"
    if reason:
        findings = tuple(_finding(rule, Untold((), reason), log) for rule in rules)
        return ForeignDiagnosis(log, CANNOT_TELL, outcome, findings, tuple(notes))
    looked = {rule.name: rule(log, outcome) for rule in rules}
    harmful = {name for name, verdict in looked.items() if does_harm(verdict)}
    findings = tuple(
        _finding(rule, unless_hidden(looked[rule.name], rule.hidden_by, harmful), log)
        for rule in rules
    )
    return ForeignDiagnosis(log, _verdict(outcome, findings), outcome, findings, tuple(notes))


def _finding(rule: LogRule, verdict: Verdict, log: Log) -> Finding:
    missing = verdict.missing if isinstance(verdict, Untold) else ()
    ways = [log.trainer.logged_by[name] for name in missing if name in log.trainer.logged_by]
    return Finding(rule.name, verdict, math.nan, "; ".join(dict.fromkeys(ways)))


def _verdict(outcome: ForeignOutcome, findings: tuple[Finding, ...]) -> str:
    if any(finding.is_harmful for finding in findings):
        return COLLAPSE if outcome.entropy == LOST else IMPAIRED
    if outcome.learning == UNKNOWN:
        return CANNOT_TELL
    if outcome.entropy == LOST:
        return UNEXPLAINED
    if outcome.learning != LEARNING:
        return outcome.learning
    suspected = any(isinstance(each.verdict, Suspected) for each in findings)
    return CANNOT_TELL if suspected else AS_EXPECTED


def _ends(before: float, after: float) -> list[float] | None:
    return [round(before, 6), round(after, 6)] if math.isfinite(before + after) else None


def _cause(finding: Finding) -> dict[str, Any]:
    verdict = finding.verdict
    assert isinstance(verdict, Named)
    return {
        "name": finding.name,
        "harmful": finding.is_harmful,
        "since_step": verdict.since,
        "evidence": verdict.evidence,
        "remedy": verdict.remedy,
        "confirm": verdict.confirm,
    }
