"""Each fault of a first rollout is found, under the name of its cause; a healthy one is left alone."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from typing import Any

import pytest

from algorithms import PRESETS
from algorithms.training.preflight import preflight
from algorithms.training.preflight.findings import Finding, Report
from tests.training.faults import FAULTS, ROLLOUT, Fault, rolled, session_of

CONFIDENT = 1.5


def look_at(fault: Fault, seed: int, spread: float, form: str = "positions") -> Report:
    settings = dict(fault.settings)
    rollout: Any = settings.get("rollout", ROLLOUT)
    settings["rollout"] = dataclasses.replace(rollout, form=form)
    with session_of(seed, spread=spread, **settings) as session:
        return preflight(session, fault.make(session))


def named(report: Report, fault: Fault) -> Finding | None:
    """The finding that names the fault, if nothing else is found of its severity."""
    findings = report.failures if fault.severity == "fail" else report.findings
    if [finding.cause for finding in findings] != [fault.cause]:
        return None
    return findings[0] if re.search(fault.says, str(findings[0])) else None


@pytest.mark.parametrize("spread", [0.0, CONFIDENT])
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found_under_the_name_of_its_cause(name: str, spread: float) -> None:
    fault = FAULTS[name]
    report = look_at(fault, 0, spread)
    found = named(report, fault)
    assert found is not None, [str(finding) for finding in report.findings]
    assert found.severity == fault.severity and found.remedy and found.expected


@pytest.mark.parametrize("name", ["sampled hotter", "illegal move", "dropout", "bfloat16 head"])
def test_a_fault_is_found_in_whole_games_too(name: str) -> None:
    report = look_at(FAULTS[name], 1, 0.0, "games")
    assert named(report, FAULTS[name]), [str(finding) for finding in report.findings]


def healthy(preset: str, form: str, seed: int, spread: float, temperature: float = 1.0) -> Report:
    algorithm, regularizer = PRESETS[preset]
    with session_of(
        seed,
        spread=spread,
        algorithm=algorithm,
        regularizer=regularizer,
        rollout=dataclasses.replace(ROLLOUT, form=form, temperature=temperature),
    ) as session:
        return preflight(session, rolled(session))


STARTS = [
    (preset, form)
    for preset in PRESETS
    for form in ("positions", "games")
    if form == "positions" or not PRESETS[preset][0].needs().all_moves
]


@pytest.mark.parametrize(("preset", "form"), STARTS)
def test_a_healthy_start_has_no_finding(preset: str, form: str) -> None:
    report = healthy(preset, form, 0, CONFIDENT)
    assert report.findings == (), [str(finding) for finding in report.findings]


@pytest.mark.slow
@pytest.mark.parametrize("spread", [0.0, CONFIDENT])
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_named_in_20_of_20_trials(name: str, spread: float) -> None:
    fault = FAULTS[name]
    reports = [
        look_at(fault, 100 + seed, spread, ("positions", "games")[seed % 2]) for seed in range(20)
    ]
    missed = [list(map(str, r.findings)) for r in reports if named(r, fault) is None]
    assert not missed, f"{20 - len(missed)} of 20: {missed}"


@pytest.mark.slow
def test_nothing_is_found_in_100_healthy_starts() -> None:
    alarms = Counter[str]()
    for seed in range(100):
        preset, form = STARTS[seed % len(STARTS)]
        spread, temperature = (0.0, CONFIDENT)[seed % 2], (1.0, 1.3, 0.7)[seed % 3]
        for finding in healthy(preset, form, 1000 + seed, spread, temperature).findings:
            alarms[f"{preset} {form}: {finding}"] += 1
    assert not alarms
