"""Rules and their findings: a cause is named, ruled out, or cannot be told."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Container, Iterable
from typing import Any

from algorithms.doctor.metric_rows import MetricRows, RunOutcome

PRESENT = 0.9
"""Size of what is there and did no harm to this run."""


@dataclasses.dataclass(frozen=True)
class Named:
    """The record speaks for the cause.

    Attributes:
        size: of the effect, in units of the least size that did harm in the matrix: 1 and more is harmful.
        since: the first update with it.
        measured: what was measured, with the numbers of one row or the median of a stretch.
        without: the same quantity without the cause.
        remedy: what to change.
        confirm: the command of a run that would show otherwise.
    """

    size: float
    since: int
    measured: str
    without: str
    remedy: str
    confirm: str

    @property
    def evidence(self) -> str:
        """What was measured, and what is without the cause."""
        return f"{self.measured}; without the cause: {self.without}"


@dataclasses.dataclass(frozen=True)
class RuledOut:
    """The record speaks against the cause; `because` says how, with the numbers."""

    because: str


@dataclasses.dataclass(frozen=True)
class Untold:
    """The record is silent; `missing` are the metrics that would speak, `because` says why they are needed.

    Where it is `told_by_pace`, a run that keeps up with its twin or with such runs has no harm of it.
    """

    missing: tuple[str, ...]
    because: str = ""
    told_by_pace: bool = False


Verdict = Named | RuledOut | Untold


def named_if_harmful(found: Named) -> Verdict:
    """A matter of degree, which every run has some of, is a cause only at a size that did harm."""
    if found.size >= 1:
        return found
    return RuledOut(f"{found.measured}: too little to do harm")


def does_harm(verdict: Verdict) -> bool:
    """Whether the cause is named, at a size that did harm."""
    return isinstance(verdict, Named) and verdict.size >= 1


def unless_hidden(verdict: Verdict, hidden_by: Iterable[str], harmful: Container[str]) -> Verdict:
    """What is left of a rule's verdict where another cause shows the same.

    Args:
        verdict: of the rule.
        hidden_by: causes that, where they do harm, show what this one shows.
        harmful: the causes that do harm.
    """
    others = [name for name in hidden_by if name in harmful]
    if not others or not isinstance(verdict, Named):
        return verdict
    return Untold((), f"{' and '.join(others)} shows the same: cure that first, and look again")


@dataclasses.dataclass(frozen=True)
class CauseRule:
    """A test of one cause.

    Attributes:
        name: of the cause (`DOCTOR_CLASSES`).
        needs: alternative sets of metrics; the rule needs all metrics of one set.
        logged_by: the setting or command that logs what it needs.
        look: the test, of records that have one of `needs`.
        stage: of the signal chain that loses the signal by it; "" where none shows it.
        hidden_by: causes that, where they do harm, show what this one shows.
        follows: stages that, where they lose the signal, make this one's measurements what they are.
    """

    name: str
    needs: tuple[tuple[str, ...], ...]
    logged_by: str
    look: Callable[[MetricRows, RunOutcome], Verdict]
    stage: str = ""
    hidden_by: tuple[str, ...] = ()
    follows: tuple[str, ...] = ()

    def metrics(self, record: MetricRows) -> tuple[str, ...]:
        """The first of the alternatives of `needs` that the record has; () where it has none."""
        return next((metrics for metrics in self.needs if record.has(*metrics)), ())

    def __call__(self, record: MetricRows, outcome: RunOutcome) -> Verdict:
        """What the record says of the cause."""
        if not self.metrics(record):
            lacking = tuple(metric for metric in self.needs[0] if not record.has(metric))
            return Untold(lacking) if lacking else Untold(self.needs[0], "no row has all of them")
        return self.look(record, outcome)


@dataclasses.dataclass(frozen=True)
class Finding:
    """The doctor's finding on one cause.

    Attributes:
        name: of the cause.
        verdict: of its rule.
        confidence: share of such findings that were right in the matrix; NaN where nothing is named.
        logged_by: what logs the metrics that are missing.
        stage: of the signal chain at which the cause acts; "" where none shows it.
    """

    name: str
    verdict: Verdict
    confidence: float
    logged_by: str
    stage: str = ""

    @property
    def is_harmful(self) -> bool:
        """Whether it is named, at a size that did harm."""
        return does_harm(self.verdict)


def causes_of(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The causes that are named: the harmful ones first, then by rank."""
    named = with_verdict(findings, Named)
    return tuple(sorted(named, key=lambda each: not each.is_harmful))


def with_verdict(findings: Iterable[Finding], kind: type[Verdict]) -> tuple[Finding, ...]:
    """The findings with a verdict of this kind."""
    return tuple(each for each in findings if isinstance(each.verdict, kind))


def reasons_of(findings: Iterable[Finding]) -> list[dict[str, Any]]:
    """JSON values of the causes that are ruled out."""
    return [
        {"name": each.name, "because": each.verdict.because}
        for each in findings
        if isinstance(each.verdict, RuledOut)
    ]


def gaps_of(findings: Iterable[Finding]) -> list[dict[str, Any]]:
    """JSON values of the causes of which the record does not tell."""
    return [
        {
            "name": each.name,
            "missing": list(each.verdict.missing),
            "because": each.verdict.because,
            "logged_by": each.logged_by,
        }
        for each in findings
        if isinstance(each.verdict, Untold)
    ]


def rerun(*changes: str, algorithm: str = "") -> str:
    """The command of a counterfactual run: the settings of RUN, changed in these, and under another algorithm if named.

    A change whose number the record does not give ("nan") is left out: no run can be given it.
    """
    known = [change for change in changes if not change.endswith(" nan")]
    return " ".join(["chess-lab train", *filter(None, [algorithm]), "--like RUN", *known])
