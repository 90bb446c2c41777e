"""Every cause differs from its cured twin in what it says and nothing else, and is judged by known names."""

from __future__ import annotations

import dataclasses
import math
import re
from pathlib import Path

import pytest

from algorithms.collapse import CAUSES, COMPOSITES, DOCTOR_CLASSES
from algorithms.collapse.cause import ARCHITECTURES, FIRST, Cause, Predicate, applied, baseline
from algorithms.config import files as config_file
from algorithms.config.compatibility import check_settings
from algorithms.reports.run_files import READINGS
from benchmarks.doctor import matrix
from benchmarks.learning.warm import WARM

ROOT = Path(__file__).parents[2]
ALL = CAUSES | COMPOSITES


@pytest.mark.parametrize("name", list(CAUSES))
@pytest.mark.parametrize("network", ARCHITECTURES)
def test_a_cause_differs_from_its_twin_only_in_the_settings_that_it_names(
    name: str, network: str
) -> None:
    cause = CAUSES[name].on_network(network)
    on, cured = (cause.config(cured=cured, seed=3) for cured in (False, True))
    for config in (on, cured):
        check_settings(config)
        assert config.seed == 3 and config.init_from == WARM[network].name
        assert config.policy.network == network
        assert config_file.from_dict(config_file.to_dict(config)) == config
    changed = config_file.differences(cured, on)
    assert changed.pop("cause") == (f"{name}-cured", name)
    assert set(changed) <= set(cause.settings) | set(cause.cured)
    settled = {s for s in cause.settings if cause.settings[s] != cause.cured.get(s, math.nan)}
    assert set(changed) == settled  # none of its settings is the twin's already
    assert changed or cause.fault is not None
    for setting, (_, now) in changed.items():
        assert now == cause.settings[setting]


def test_a_cause_is_measured_as_often_as_the_runs_that_the_doctor_was_tuned_on() -> None:
    job = next(iter(matrix.jobs("open")))
    often = matrix.config_of(job, matrix.PARTS["open"][job.kind]).diagnostics_interval_updates
    for name, cause in CAUSES.items():
        assert cause.config(cured=False, seed=0).diagnostics_interval_updates <= often, name


@pytest.mark.parametrize("network", ARCHITECTURES)
def test_a_twin_differs_in_one_thing_unless_the_page_says_otherwise(network: str) -> None:
    page = (ROOT / "docs" / "causes.md").read_text(encoding="utf-8")
    (said,) = re.findall(r"The twins of (.*) differ in more than one setting", page)
    several = set()
    for name, cause in CAUSES.items():
        on, cured = (cause.on_network(network).config(cured=c, seed=0) for c in (False, True))
        things = set(config_file.differences(cured, on)) - {"cause"}
        if len(things) + (cause.fault is not None) > 1:
            several.add(name)
    assert several == set(re.findall(r"`(\w+)`", said))


@pytest.mark.parametrize("name", list(CAUSES))
@pytest.mark.parametrize("network", ARCHITECTURES)
def test_a_twin_differs_from_the_baseline_only_in_what_the_cause_names(
    name: str, network: str
) -> None:
    cause = CAUSES[name].on_network(network)
    named = {**cause.shared, **cause.cured}
    start = applied(baseline(network), {k: v for k, v in named.items() if k == "preset"})
    changed = config_file.differences(start, cause.config(cured=True, seed=0))
    assert set(changed) <= {*named, "cause"} and changed["cause"] == (None, f"{name}-cured")


@pytest.mark.parametrize("name", list(COMPOSITES))
def test_a_composite_is_a_run_of_at_most_300_updates_with_known_classes(name: str) -> None:
    cause = COMPOSITES[name]
    config = cause.config(cured=False, seed=1)
    check_settings(config)
    assert config.cause == name and config.total_moves <= 300 * 256
    assert set(cause.composite) <= set(DOCTOR_CLASSES)
    assert len(set(cause.composite)) == len(cause.composite)
    assert cause.doctor_class in cause.composite and not cause.predicates
    with pytest.raises(ValueError, match=f"{name} is a composite .* leave --cured out"):
        cause.config(cured=True, seed=1)


@pytest.mark.parametrize("network", ARCHITECTURES)
def test_a_network_changes_only_numbers_of_settings_and_bounds_that_the_causes_have(
    network: str,
) -> None:
    own = ARCHITECTURES[network]
    assert set(own.settings) == {"policy.network", "init_from", "optimizer.learning_rate"}
    assert set(own.changed) | set(own.bounds) <= set(CAUSES)
    for name, sides in own.changed.items():
        for side, settings in sides.items():
            assert set(settings) <= set(getattr(CAUSES[name], side)), name
    for name, bounds in own.bounds.items():
        assert set(bounds) <= {each.reading for each in CAUSES[name].predicates}
        there = CAUSES[name].on_network(network).predicates
        for first, other in zip(CAUSES[name].predicates, there, strict=True):
            assert (first.reading, first.direction) == (other.reading, other.direction)
            number = bounds.get(first.reading, (first.bound, first.margin))
            assert (other.bound, other.margin) == number


def test_a_cause_is_that_of_the_first_network_unless_another_is_asked_for() -> None:
    for cause in ALL.values():
        assert cause.network == FIRST and cause.on_network(FIRST) == cause
    with pytest.raises(ValueError, match="network is 'transformer': .*'resnet', 'move_net'"):
        CAUSES["kl_trap"].on_network("transformer")


def test_names_are_of_one_cause_and_every_class_is_that_of_a_cause() -> None:
    assert not set(CAUSES) & set(COMPOSITES)
    assert len(DOCTOR_CLASSES) == len(set(DOCTOR_CLASSES))
    assert {cause.doctor_class for cause in CAUSES.values()} == set(DOCTOR_CLASSES)


def known_metric(metric: str, page: str) -> bool:
    """Whether docs/metrics.md defines it, by itself or in a family."""
    family = re.sub(r"_p_(below_01|01_10|10_50|50_90|above_90)$", "_<bin>", metric)
    family = re.sub(r"^(loss_share|grad_share)/entropy$", r"\1/<term>", family)
    return f"`{metric}`" in page or f"`{family}`" in page


@pytest.mark.parametrize("name", list(ALL))
def test_what_a_cause_says_of_itself_is_complete_and_its_readings_exist(name: str) -> None:
    cause = ALL[name]
    page = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    assert cause.name == name and re.fullmatch(r"[a-z0-9_]+", name)
    assert cause.title and cause.because.endswith(".") and cause.remedy
    assert (cause.fault is None) == (cause.fault_says == "")
    assert cause.fault is not None or not cause.blocked_by_preflight
    assert cause.composite or cause.predicates
    for predicate in cause.predicates:
        assert predicate.margin > 0 and math.isfinite(predicate.bound)
    readings = [p.reading for p in cause.predicates] + [f.reading for f in cause.published]
    for reading in readings:
        how, _, metric = reading.partition(" ")
        assert how in READINGS and known_metric(metric, page), reading


def test_a_setting_that_is_not_there_is_refused_with_the_known_ones() -> None:
    for settings, wrong in (
        ({"regulariser.ent_coef": 1.0}, "regulariser.ent_coef"),
        ({"regularizer.ent_coeff": 1.0}, "ent_coeff"),
        ({"sed": 1}, "sed"),
    ):
        with pytest.raises(ValueError, match=f"setting is '{wrong}': known here: .*, "):
            applied(baseline(), settings)


def test_a_preset_brings_its_algorithm_and_settings_change_it_after_that() -> None:
    config = applied(baseline(), {"algorithm.update_epochs": 4, "preset": "dr_grpo"})
    assert config.preset == "dr_grpo" and config.algorithm.update_epochs == 4
    assert config.algorithm.advantage_scale != baseline().algorithm.advantage_scale
    assert dataclasses.replace(config.algorithm, update_epochs=1) == (
        applied(baseline(), {"preset": "dr_grpo"}).algorithm
    )


ABOVE = Predicate("last a/b", "above", 5.0, 2.0)
BELOW = Predicate("last a/b", "below", 5.0, 2.0)


@pytest.mark.parametrize(
    ("predicate", "value", "twin", "alone", "against"),
    [
        (ABOVE, 7.0, 4.0, True, True),
        (ABOVE, 7.0, 5.0, True, True),  # the bound itself is not beyond it; exactly the margin
        (ABOVE, 5.0, 0.0, False, False),
        (ABOVE, 6.0, 4.5, True, False),  # beyond, and nearer than the margin
        (ABOVE, 9.0, 6.0, True, False),  # the twin is beyond it too
        (ABOVE, math.inf, 4.0, True, True),
        (ABOVE, 7.0, math.nan, True, True),  # the twin's record lacks it
        (ABOVE, math.nan, 4.0, False, False),
        (ABOVE, math.nan, math.nan, False, False),
        (ABOVE, 4.0, math.nan, False, False),
        (BELOW, 3.0, 6.0, True, True),
        (BELOW, 3.0, 5.0, True, True),
        (BELOW, 5.0, 9.0, False, False),
        (BELOW, 4.5, 6.0, True, False),
        (BELOW, 1.0, 4.0, True, False),
        (BELOW, 3.0, math.nan, True, True),
        (BELOW, math.nan, 6.0, False, False),
    ],
)
def test_a_predicate_holds_beyond_its_bound_and_away_from_the_twin(
    predicate: Predicate, value: float, twin: float, alone: bool, against: bool
) -> None:
    assert predicate.holds(value) is alone
    assert predicate.holds_against(value, twin) is against


def test_a_predicate_says_itself_in_words() -> None:
    assert str(ABOVE) == "last a/b above 5, and 2 from the twin's"
    assert BELOW.beyond == "below 5"


def test_the_twin_of_a_cause_without_settings_of_its_own_has_the_shared_ones() -> None:
    cause = Cause("x", "t", "b.", "r", shared={"total_moves": 2048})
    assert cause.config(cured=True, seed=0).total_moves == 2048
    assert cause.config(cured=True, seed=0).label == "x-cured"
