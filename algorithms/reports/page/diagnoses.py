"""What the page says of each run's diagnosis: its outcome, its causes, and what its record cannot tell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from algorithms.reports.page.columns import Column
from algorithms.reports.run_files import printable

NO_VERDICT = "not diagnosed"
UNKNOWN = "cannot tell"  # an outcome that the doctor does not know

# A run's folder -> what `Diagnosis.to_dict()` gives; a diagnosis may lack all but its verdict.
Diagnoses = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class CauseRow:
    """A cause that the doctor names.

    Attributes:
        name: of the cause.
        harm: how much it did, in words; "" where the diagnosis does not say.
        since: the update at which it begins.
        confidence: in words or as a number.
        evidence: what was measured.
        remedy: what would help.
        confirm: the command that would confirm it.
    """

    name: str
    harm: str
    since: str
    confidence: str
    evidence: Sequence[str]
    remedy: str
    confirm: str


@dataclass(frozen=True)
class Untold:
    """Causes that the record cannot tell, for one reason.

    Attributes:
        names: of the causes.
        missing: metrics that would tell.
        because: why they are needed, or why nothing can be told.
        logged_by: what logs them.
    """

    names: Sequence[str]
    missing: Sequence[str]
    because: str
    logged_by: str


@dataclass(frozen=True)
class Told:
    """What the doctor says of one run.

    Attributes:
        run: its name and seed.
        verdict: of the doctor.
        outcome: whether it learned, and what became of its entropy; "" where the diagnosis does not say.
        regret: held-out, start to end, with the interval of its change; "" where unknown.
        entropy: in nats, start to end; "" where unknown.
        costs: sentences on what it cost.
        causes: what is named, the harmful ones first.
        untold: what cannot be told.
        ruled_out: (name, reason) of the rest.
        notes: what else stands out.
    """

    run: str
    verdict: str
    outcome: str
    regret: str
    entropy: str
    costs: Sequence[str]
    causes: Sequence[CauseRow]
    untold: Sequence[Untold]
    ruled_out: Sequence[tuple[str, str]]
    notes: Sequence[str]


def told(columns: Sequence[Column], diagnoses: Diagnoses) -> list[Told]:
    """What the doctor says, run by run; runs without a diagnosis are absent."""
    found = []
    for column in columns:
        for run in column.runs:
            diagnosis = diagnoses.get(str(run.path))
            if diagnosis is not None:
                seed = "" if run.seed is None else f", seed {run.seed}"
                found.append(_told(f"{run.name}{seed}", diagnosis))
    return found


def verdict(diagnosis: Mapping[str, Any] | None) -> str:
    """The doctor's verdict; `NO_VERDICT` without a diagnosis."""
    return text_of((diagnosis or {}).get("verdict", NO_VERDICT))


def _told(run: str, diagnosis: Mapping[str, Any]) -> Told:
    outcome = diagnosis.get("outcome")
    outcome = outcome if isinstance(outcome, Mapping) else {}
    words = [_word(outcome, "learning", "", "whether it learns is not known")]
    words += [_word(outcome, "entropy", "entropy ", "what became of its entropy is not known")]
    return Told(
        run=run,
        verdict=verdict(diagnosis),
        outcome=", ".join(filter(None, words)),
        regret=_regret(outcome),
        entropy=_from_to(outcome.get("entropy_nats"), 2),
        costs=_sentences(outcome.get("notes")),
        causes=[_cause(cause) for cause in _mappings(diagnosis.get("causes"))],
        untold=_untold(_mappings(diagnosis.get("cannot_tell"))),
        ruled_out=[
            (text_of(each.get("name", "")), text_of(each.get("because", "")))
            for each in _mappings(diagnosis.get("ruled_out"))
        ],
        notes=_sentences(diagnosis.get("notes")),
    )


def _word(outcome: Mapping[str, Any], name: str, before: str, unknown: str) -> str:
    word = outcome.get(name)
    return "" if word is None else unknown if word == UNKNOWN else f"{before}{text_of(word)}"


def _cause(cause: Mapping[str, Any]) -> CauseRow:
    size, harm = cause.get("size"), ""
    if cause.get("harmful") is False:
        harm = "harmless at this size"
    elif _is_number(size):
        harm = f"{size:.2g} × the least harmful"
    return CauseRow(
        name=text_of(cause.get("name", "")),
        harm=harm,
        since=text_of(cause.get("since_update", "")),
        confidence=_confidence(cause.get("confidence")),
        evidence=_sentences(cause.get("evidence")),
        remedy=text_of(cause.get("remedy", "")),
        confirm=text_of(cause.get("confirm", "")),
    )


def _untold(causes: Sequence[Mapping[str, Any]]) -> list[Untold]:
    """Causes that cannot be told for one reason stand together."""
    together: dict[tuple[tuple[str, ...], str, str], list[str]] = {}
    for cause in causes:
        missing = tuple(_sentences(cause.get("missing")))
        logged_by = text_of(cause.get("logged_by", "")) if missing else ""
        key = missing, text_of(cause.get("because", "")), logged_by
        together.setdefault(key, []).append(text_of(cause.get("name", "")))
    return [Untold(names, *key) for key, names in together.items()]


def _regret(outcome: Mapping[str, Any]) -> str:
    ends, interval = _pair(outcome.get("regret_cp")), _pair(outcome.get("regret_change_95"))
    if ends is None:
        return ""
    change = f"{ends[1] / ends[0] - 1:+.0%}" if ends[0] > 0 else ""
    if change and interval is not None:
        change += f", 95 % interval {interval[0]:+.0%} to {interval[1]:+.0%}"
    return f"{_from_to(ends, 0)}{f' ({change})' if change else ''}".replace("-", "−")


def _from_to(values: Any, digits: int) -> str:
    ends = _pair(values)
    return "" if ends is None else f"{ends[0]:.{digits}f} → {ends[1]:.{digits}f}"


def _pair(values: Any) -> tuple[float, float] | None:
    if isinstance(values, list | tuple) and len(values) == 2 and all(map(_is_number, values)):
        return values[0], values[1]
    return None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _mappings(value: Any) -> list[Mapping[str, Any]]:
    return [each for each in value or () if isinstance(each, Mapping)]


def _confidence(value: Any) -> str:
    return f"{value:.0%}" if _is_number(value) else "" if value is None else text_of(value)


def _sentences(value: Any) -> list[str]:
    """The parts of an evidence or a list of notes, as texts."""
    if value is None:
        return []
    if isinstance(value, Mapping):
        return [f"{text_of(name)}: {text_of(part)}" for name, part in value.items()]
    if isinstance(value, list | tuple):
        return [text_of(part) for part in value]
    return [text_of(value)]


def text_of(value: Any) -> str:
    """A value of a diagnosis as a text that can be shown."""
    if isinstance(value, Mapping):
        return ", ".join(_sentences(value))
    return printable(f"{value:.4g}" if isinstance(value, float) else str(value))
