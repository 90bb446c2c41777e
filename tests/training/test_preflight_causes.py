"""Each fault of a first rollout is found, under the doctor's name of its cause; a healthy one is left alone."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections import Counter
from typing import Any

import pytest

from algorithms import PRESETS
from algorithms.doctor.findings import Finding
from algorithms.testing.cases import forms_of
from algorithms.training.preflight import PreflightError
from tests.training.faults import FAULTS, ROLLOUT, Fault, judged, rolled, session_of

CONFIDENT = 1.5


def look_at(fault: Fault, seed: int, spread: float, form: str = "positions") -> str:
    """What is said of the fault, if it is named and nothing else is."""
    settings = dict(fault.settings)
    rollout: Any = settings.get("rollout", ROLLOUT)
    settings["rollout"] = dataclasses.replace(rollout, form=form)
    with session_of(seed, spread=spread, **settings) as session:
        found = judged(session, fault.make(session))
    return str(PreflightError(found)) if [each.name for each in found] == [fault.cause] else ""


@pytest.mark.parametrize("spread", [0.0, CONFIDENT])
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found_under_the_name_of_its_cause(name: str, spread: float) -> None:
    fault = FAULTS[name]
    said = look_at(fault, 0, spread)
    assert re.search(fault.says, said) and "Remedy: " in said and "--no-preflight" in said


@pytest.mark.parametrize("name", ["sampled hotter", "dropout", "bfloat16 head"])
def test_a_fault_is_found_in_whole_games_too(name: str) -> None:
    assert re.search(FAULTS[name].says, look_at(FAULTS[name], 1, 0.0, "games"))


def healthy(
    preset: str, form: str, seed: int, spread: float, temperature: float = 1.0
) -> tuple[Finding, ...]:
    algorithm, regularizer = PRESETS[preset]
    with session_of(
        seed,
        spread=spread,
        algorithm=algorithm,
        regularizer=regularizer,
        rollout=dataclasses.replace(ROLLOUT, form=form, temperature=temperature),
    ) as session:
        return judged(session, rolled(session))


STARTS = [(preset, form) for preset in PRESETS for form in forms_of(PRESETS[preset][0])]


@pytest.mark.parametrize(("preset", "form"), STARTS)
def test_a_healthy_start_has_no_finding(preset: str, form: str) -> None:
    assert healthy(preset, form, 0, CONFIDENT) == ()


@pytest.mark.slow
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_named_in_12_of_12_trials(name: str) -> None:
    fault = FAULTS[name]
    kinds = itertools.product(range(100, 103), (0.0, CONFIDENT), ("positions", "games"))
    said = [look_at(fault, seed, spread, form) for seed, spread, form in kinds]
    assert all(re.search(fault.says, each) for each in said), said


@pytest.mark.slow
def test_nothing_is_found_in_30_healthy_starts() -> None:
    alarms = Counter[str]()
    for seed in range(30):
        preset, form = STARTS[seed % len(STARTS)]
        spread, temperature = (0.0, CONFIDENT)[seed % 2], (1.0, 1.3, 0.7)[seed % 3]
        for finding in healthy(preset, form, 1000 + seed, spread, temperature):
            alarms[f"{preset} {form}: {finding}"] += 1
    assert not alarms
