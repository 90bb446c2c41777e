"""The doctor: the outcome of a run, and the causes that its record names, rules out or cannot tell."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from algorithms.doctor.findings import (
    PRESENT,
    CauseRule,
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
from algorithms.doctor.matrices import Tried, confidence, tried_against
from algorithms.doctor.metric_rows import (
    LEARNING,
    LOST,
    NOT_LEARNING,
    UNKNOWN,
    WORSE,
    MetricRows,
    RunOutcome,
    outcome_of,
)
from algorithms.doctor.pace import Curve, Pace, curve_of, pace, settings_of, such_runs
from algorithms.doctor.sample_rules import FIRST_ROLLOUT_RULES, SAMPLER_RULES, SIGNAL_RULES
from algorithms.doctor.signal_chain import NEEDED, SignalChain, signal_chain
from algorithms.doctor.update_rules import LARGEST_ENTROPY, REGULARISER_RULES, STEP_RULES
from algorithms.reports.run_files import Rows, doubts_of, read_metrics, read_object
from algorithms.reports.statistics import judge_peak

RULES: tuple[CauseRule, ...] = (*SAMPLER_RULES, *REGULARISER_RULES, *SIGNAL_RULES, *STEP_RULES)
"""Each tests one cause by measurements, and none reads a setting of the run. In the order of their rank: what corrupts
the samples comes first."""

_FIRST, _NEWEST = 256, 1_792
"""Rows of a long run that are kept while it is followed."""

NEEDED_UPDATES = 4
"""With fewer only the samples of the first update can be judged."""

AS_USUAL, LEARNS, SLOW, UNMEASURED, COLLAPSE, IMPAIRED, UNEXPLAINED, CANNOT_TELL, SHORT = (
    "learning as such runs do, no known cause found",
    "learning, no known cause found",
    "learning, slower than such runs",
    "learning, stages not measured",
    "collapse",
    "impaired",
    "unexplained collapse",
    "cannot tell",
    "too short",
)


@dataclasses.dataclass(frozen=True)
class Diagnosis:
    """The doctor's diagnosis of a record.

    Attributes:
        verdict: "learning as such runs do, no known cause found" (every cause is ruled out or harmless at its size,
            no stage of the update loses the signal, and it keeps up with its twin or with runs of the same
            settings); "learning, no known cause found" (where no such run is known); "learning, slower than such
            runs" (nothing is found, and it does not keep up); "learning, stages not measured" (the best of a
            record without the signal chain); "collapse" (a harmful cause or a stage that loses the signal, and
            entropy lost without return); "impaired" (the same, and no collapse); "unexplained collapse" (that loss,
            and no cause); "not learning" or "getting worse" (and no cause); "cannot tell" (no cause, and something
            is missing); "too short".
        outcome: of the run.
        findings: one for each cause, in the order of their rank.
        notes: other observations: impossible values, peaks that are noise.
        chain: the stages of the update, and which of them loses the learning signal.
        pace: beside the twin, or runs of the same settings; None where none is known.
        tried: what the matrix of remedies supports against the likeliest harmful cause; None where it supports none.
    """

    verdict: str
    outcome: RunOutcome
    findings: tuple[Finding, ...]
    notes: tuple[str, ...]
    chain: SignalChain
    pace: Pace | None = None
    tried: Tried | None = None

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
        """0 nothing found, 1 a cause or stage named or not learning, 3 nothing named and something untold."""
        if self.verdict in (AS_USUAL, LEARNS):
            return 0
        return 3 if self.verdict in (UNMEASURED, CANNOT_TELL, SHORT) else 1

    def to_dict(self) -> dict[str, Any]:
        """JSON values: verdict, outcome, pace, stages, causes (ranked), ruled_out, tried, cannot_tell, notes."""
        return {
            "verdict": self.verdict,
            "outcome": self.outcome.to_dict(),
            "pace": None if self.pace is None else self.pace.to_dict(),
            "stages": self.chain.to_dict(),
            "causes": [_cause(finding) for finding in self.causes],
            "ruled_out": reasons_of(self.findings),
            "tried": None if self.tried is None else self.tried._asdict(),
            "cannot_tell": gaps_of(self.findings),
            "notes": list(self.notes),
        }

    @property
    def state(self) -> str:
        """The outcome in words, as "learning, entropy spent on learning"."""
        learning, entropy = self.outcome.learning, self.outcome.entropy
        if learning == entropy == UNKNOWN:
            return "cannot tell whether it learns, nor what becomes of its entropy"
        learning = "cannot tell whether it learns" if learning == UNKNOWN else learning
        rest = "entropy not known" if entropy == UNKNOWN else f"entropy {entropy}"
        return f"{learning}, {rest}"

    def line(self) -> str:
        """The diagnosis in a line."""
        harmful = [finding for finding in self.causes if finding.is_harmful]
        lost = [str(loss) for loss in self.chain.losses[:1]]
        if harmful:
            first = harmful[0].verdict
            assert isinstance(first, Named)
            named = ", ".join(f"{each.name} ({each.confidence:.0%})" for each in harmful)
            return "; ".join([f"{self.verdict}: {named}", *lost, first.remedy])
        if lost:
            return f"{self.verdict}: {lost[0]}; look at {self.chain.losses[0].stage.look_at}"
        if self.verdict in (AS_USUAL, LEARNS, SLOW, UNMEASURED):
            kept_up = [] if self.pace is None else [str(self.pace)]
            return "; ".join([self.state, self.verdict.partition(", ")[2], *kept_up])
        said = self.state.startswith(self.verdict)
        return "; ".join([self.state if said else f"{self.verdict}: {self.state}", *self.lacking])

    @property
    def lacking(self) -> list[str]:
        """What is missing for a better diagnosis, in a phrase; empty where nothing is."""
        # What only the signal chain tells is told once three updates are measured.
        if count := sum(not _is_of_chain(each.verdict) for each in self.untold):
            return [f"{count} cause{'s' if count > 1 else ''} cannot be told"]
        rows_are_missing = self.verdict == CANNOT_TELL and self.outcome.learning == LEARNING
        return ["rows are missing"] if rows_are_missing else []


def diagnose(rows: Rows, others: Sequence[Curve] = (), beside: str = "its twin") -> Diagnosis:
    """The diagnosis of a record.

    Args:
        rows: of a metrics.jsonl, in order.
        others: evaluations of runs that it should keep up with.
        beside: what these are.
    """
    record = MetricRows(rows)
    outcome = outcome_of(record)
    chain = signal_chain(record)
    notes = [
        *_missing_rows(record),
        *_impossible(record),
        *_lucky_peak(record, outcome),
        *chain.notes,
    ]
    if not record.is_one_run:
        notes.insert(
            0, "the steps go back: the record holds rows of more than one run, or of a run twice"
        )
        untold = Untold((), "the record is not that of one run")
        found = [Finding(rule.name, untold, float("nan"), rule.logged_by) for rule in RULES]
        return Diagnosis(CANNOT_TELL, outcome, tuple(found), tuple(notes), SignalChain(0, (), ()))
    looked = {rule.name: _looked(rule, record, outcome) for rule in RULES}
    staged = {rule.name: _by_stage(rule, looked[rule.name], chain) for rule in RULES}
    harmful = {name for name, verdict in staged.items() if does_harm(verdict)}
    findings = tuple(
        Finding(rule.name, verdict, confidence(rule.name, verdict), rule.logged_by, rule.stage)
        for rule in RULES
        for verdict in (
            _by_stage(rule, unless_hidden(looked[rule.name], rule.hidden_by, harmful), chain),
        )
    )
    findings = (*_measured_at_start(record, outcome), *findings)
    if chain.losses:  # the causes of the first stage that loses the signal come first
        own = {rule.name for rule in RULES if rule.stage == chain.losses[0].stage.name}
        findings = tuple(sorted(findings, key=lambda each: each.name not in own))
    kept_up = pace(record, others, beside)
    if kept_up is not None and not kept_up.is_slow:
        findings = tuple(_beside_pace(each, kept_up) for each in findings)
    verdict = _verdict(record, outcome, findings, chain, kept_up)
    return Diagnosis(verdict, outcome, findings, tuple(notes), chain, kept_up)


def diagnose_run(run_dir: Path, twin: Path | None = None) -> Diagnosis:
    """The diagnosis of a run folder, from its metrics.jsonl; a note says what does not match its checksum.

    Its settings are read for two things: whether a remedy is in force already, and whether there are curves of runs
    that had the same, or others of the regulariser.

    Args:
        run_dir: the folder.
        twin: folder of the run that it should keep up with; None takes runs of the same settings, where some are known,
            and otherwise those whose regulariser is another: then it can only be found slower.

    Raises:
        ValueError: there is no record, or it cannot be read.
    """
    rows, doubts = read_metrics(run_dir), doubts_of(run_dir)
    settings = _settings(run_dir)
    if twin is not None:
        others, beside = [curve_of(read_metrics(twin))], "its twin"
    else:
        moves = curve_of(rows)[0]
        others, different = such_runs(settings, moves[-1] if len(moves) else 0.0)
        usual = " and ".join(f"{name} {value}" for name, value in different.items())
        beside = f"{len(others)} runs with {usual}" if different else f"{len(others)} such runs"
        # To keep up with runs of other settings shows no more than that it learns.
        if different and not (
            (kept_up := pace(MetricRows(rows), others, beside)) and kept_up.is_slow
        ):
            others = []
    diagnosis = diagnose(rows, others, beside)
    diagnosis = dataclasses.replace(
        diagnosis,
        findings=tuple(_with_other_settings(each, settings) for each in diagnosis.findings),
        notes=(*diagnosis.notes, *doubts),
    )
    first = next((each for each in diagnosis.causes if each.is_harmful), None)
    if first is None or _is_of_a_kl(first):
        return diagnosis
    return dataclasses.replace(diagnosis, tried=tried_against(first.name, settings))


def _is_of_a_kl(finding: Finding) -> bool:
    """Whether a KL outweighs the rewards: the remedies were tried against a bonus that does."""
    confirm = finding.verdict.confirm if isinstance(finding.verdict, Named) else ""
    return finding.name == "loss_budget" and "--regularizer.kl-" in confirm


def _with_other_settings(finding: Finding, settings: dict[str, Any]) -> Finding:
    """The finding without a remedy that is in force already."""
    verdict = finding.verdict
    if not isinstance(verdict, Named):
        return finding
    known, (_, *changes) = dict(settings_of(settings, frozenset())), verdict.confirm.split(" --")
    named = [change.partition(" ") for change in changes if not change.startswith("like ")]
    if not named or not all(
        _is_set(known.get(name.replace("-", "_")), value) for name, _, value in named
    ):
        return finding
    told = "none is known: the setting that cures it elsewhere is in force"
    return dataclasses.replace(
        finding, verdict=dataclasses.replace(verdict, remedy=told, confirm="")
    )


def _is_set(value: Any, text: str) -> bool:
    """Whether a setting has the value that a command line gives it."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value == float(text)
    return str(value) == text


def _settings(run_dir: Path) -> dict[str, Any]:
    """Of config.json; empty where there is none that can be read: then there is no such run to compare with."""
    try:
        return read_object(run_dir / "config.json")
    except (OSError, ValueError):
        return {}


def _looked(rule: CauseRule, record: MetricRows, outcome: RunOutcome) -> Verdict:
    verdict: Verdict = rule(record, outcome)
    if isinstance(verdict, RuledOut) and (gaps := record.in_part(*rule.metrics(record))):
        return Untold(gaps, "on record in a part of the updates alone")
    if record.updates >= NEEDED_UPDATES or isinstance(verdict, Untold):
        return verdict
    # Two updates from somewhere in a run do not tell a fixed difference from old weights.
    if rule in SAMPLER_RULES and isinstance(verdict, Named) and record.fresh_starts:
        return verdict
    return Untold((), f"{record.updates} updates on record: {NEEDED_UPDATES} are needed")


def _by_stage(rule: CauseRule, verdict: Verdict, chain: SignalChain) -> Verdict:
    """What is left of a rule's verdict beside what the stages say."""
    if not isinstance(verdict, Named):
        return verdict
    lost = {loss.stage.name: loss for loss in chain.losses}
    before = [lost[stage] for stage in rule.follows if stage in lost]
    if before and does_harm(verdict):
        return Untold((), f"{before[0]}, which shows as much: cure that first, and look again")
    if rule.stage in lost:  # what is there does harm, whatever its size
        return dataclasses.replace(verdict, size=max(1.0, verdict.size))
    if rule.stage == "ratio" and chain.keeps("ratio") and verdict.size >= 1:
        return dataclasses.replace(verdict, size=PRESENT)
    return verdict


def _beside_pace(finding: Finding, kept_up: Pace) -> Finding:
    """The finding of a run that keeps up."""
    verdict = finding.verdict
    if not (isinstance(verdict, Untold) and verdict.told_by_pace):
        return finding
    return dataclasses.replace(finding, verdict=RuledOut(f"{verdict.because}; {kept_up}"))


def _measured_at_start(record: MetricRows, outcome: RunOutcome) -> list[Finding]:
    """The findings that only the preflight makes, where it made one: it measures them, and nothing is inferred."""
    looked = [(rule, rule(record, outcome)) for rule in FIRST_ROLLOUT_RULES]
    return [
        Finding(rule.name, verdict, 1.0, rule.logged_by)
        for rule, verdict in looked
        if isinstance(verdict, Named)
    ]


def _verdict(
    record: MetricRows,
    outcome: RunOutcome,
    findings: tuple[Finding, ...],
    chain: SignalChain,
    kept_up: Pace | None,
) -> str:
    if chain.losses or any(finding.is_harmful for finding in findings):
        return COLLAPSE if outcome.entropy == LOST else IMPAIRED
    if record.updates < NEEDED_UPDATES:
        return SHORT
    if outcome.learning in (NOT_LEARNING, WORSE):
        return UNEXPLAINED if outcome.entropy == LOST else outcome.learning
    if outcome.entropy == LOST:
        return UNEXPLAINED
    told = all(_is_of_chain(f.verdict) for f in findings if isinstance(f.verdict, Untold))
    if outcome.learning != LEARNING or not told or not record.is_whole:
        return CANNOT_TELL
    if kept_up is not None and kept_up.is_slow:
        return SLOW
    if chain.measured < NEEDED:
        return UNMEASURED
    return LEARNS if kept_up is None else AS_USUAL


def _is_of_chain(verdict: Verdict) -> bool:
    """Whether nothing is missing but the signal chain."""
    missing = verdict.missing if isinstance(verdict, Untold) else ()
    return bool(missing) and all(name.startswith("signal/") for name in missing)


def _cause(finding: Finding) -> dict[str, Any]:
    verdict = finding.verdict
    assert isinstance(verdict, Named)
    return {
        "name": finding.name,
        "confidence": round(finding.confidence, 3),
        "stage": finding.stage,
        "harmful": finding.is_harmful,
        "size": round(verdict.size, 3),
        "since_update": verdict.since,
        "evidence": verdict.evidence,
        "remedy": verdict.remedy,
        "confirm": verdict.confirm,
    }


def _impossible(record: MetricRows) -> list[str]:
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


def _missing_rows(record: MetricRows) -> list[str]:
    """Sentences on updates that are not on record: what they were like is unknown."""
    if record.updates == 0 and len(record.rows) > 1:
        names = sorted({name for row in record.rows for name in row})[:3]
        return [
            f"no row has the metrics of an update (train/..., policy/..., rollout/...): were they renamed? There are "
            f"{', '.join(names)}"
        ]
    if record.is_filled:
        return [
            f"{record.repeats} of {record.updates} updates repeat the values of the one before them: the record was "
            "filled in, and what was measured is not told from what was not"
        ]
    if record.updates == 0 or record.is_whole:
        return []
    if not record.has_its_beginning:
        return [
            f"the record begins at update {record.first_update}: what came before it is unknown"
        ]
    return [
        f"the record has {record.updates} of the updates up to {record.last_update}: rows are missing"
    ]


def _lucky_peak(record: MetricRows, outcome: RunOutcome) -> list[str]:
    """A sentence where the best mean reward is noise; only where nothing was learned and luck looks like progress."""
    rewards = record.series("rollout/reward_mean")
    if outcome.learning == LEARNING or len(rewards) < 8 or not max(rewards) > min(rewards):
        return []
    peak = judge_peak(rewards, higher_is_better=True, trend=True)
    if not peak.is_noise or peak.cannot_be_judged:
        return []
    return [
        f"the best mean reward, {peak.score:.3g} at update {peak.index + 1}, is expected by chance: in "
        f"{peak.p_value:.0%} of such runs without progress the best of {peak.evaluations} is that far from the trend"
    ]


class Watch:
    """Follows a run row by row: a line on its state, renewed at every evaluation.

    Of a long run it keeps the first rows and the newest, so that its memory does not grow;
    `chess-lab diagnose` reads all of them.

    Args:
        rows: what is on record already, of a run that is continued.
    """

    def __init__(self, rows: Iterable[Mapping[str, float | None]] = ()) -> None:
        self._rows: list[Mapping[str, float | None]] = []
        self._line = ""
        for row in rows:
            self.add(row)

    def __call__(self, row: Mapping[str, float]) -> str:
        """The line after this row of the record."""
        self.add(row)
        if "eval/regret_cp" in row:
            self._line = _line(diagnose(self._rows))
        return self._line and f"doctor: {self._line}"

    def add(self, row: Mapping[str, float | None]) -> None:
        """Takes up a row without a line after it."""
        # A run that is continued plays again what its checkpoint had not seen: those rows are gone.
        while self._rows and (self._rows[-1].get("step") or 0.0) >= (row["step"] or 0.0):
            self._rows.pop()
        self._rows.append(dict(row))
        if len(self._rows) > _FIRST + _NEWEST:
            del self._rows[_FIRST]


def _line(diagnosis: Diagnosis) -> str:
    """What is known so far: a cause that does harm with its remedy, otherwise how the run does."""
    if diagnosis.verdict == SHORT:
        return ""
    if (
        diagnosis.verdict == UNEXPLAINED
        or diagnosis.chain.losses
        or any(cause.is_harmful for cause in diagnosis.causes)
    ):
        return diagnosis.line()
    state = diagnosis.state
    if diagnosis.outcome.learning == NOT_LEARNING:
        state = state.replace(NOT_LEARNING, f"{NOT_LEARNING} yet", 1)
    return "; ".join([state, *diagnosis.lacking])
