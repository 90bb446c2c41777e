"""Every remedy changes what it says and nothing else, and a trial of it runs against a fault and its twin."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from algorithms.collapse import CAUSES
from algorithms.collapse.cause import applied, baseline
from algorithms.collapse.remedies import KEPT, REMEDIES, Remedy, remedy_of
from algorithms.collapse.trial import SOUND, TWIN, UNTREATED, Trial, run_trial
from algorithms.config.files import differences

BASE = baseline("move_net")
SOME = applied(BASE, {"algorithm.update_epochs": 3, "regularizer.kl_controller": "doubling",
                      "regularizer.kl_old_coef": 0.1})  # fmt: skip


def altered(before: Any, after: Any) -> set[str]:
    return set(differences(before, after))


def test_there_are_twelve_remedies_or_more_and_each_is_for_some_run() -> None:
    assert len(REMEDIES) >= 12
    for remedy in REMEDIES.values():
        for config in (BASE, SOME):
            try:
                assert remedy.treated(config) != config
                break
            except ValueError:
                continue
        else:
            pytest.fail(f"{remedy.name} is for neither run")


@pytest.mark.parametrize("name", [name for name, each in REMEDIES.items() if not each.algorithm])
def test_a_remedy_of_settings_changes_those_alone(name: str) -> None:
    remedy = REMEDIES[name]
    config = SOME if name in ("one_pass", "no_controller") else BASE
    assert altered(config, remedy.treated(config)) <= {*remedy.settings, *remedy.times}


@pytest.mark.parametrize("name", [name for name, each in REMEDIES.items() if each.algorithm])
def test_another_algorithm_takes_over_how_samples_are_drawn_and_reused(name: str) -> None:
    config = applied(BASE, {"algorithm.group_size": 4, "algorithm.update_epochs": 3})
    treated = REMEDIES[name].treated(config)
    changed = altered(config, treated) - {*REMEDIES[name].settings}
    assert all(each.startswith("algorithm.") for each in changed)
    own = {field.name for field in dataclasses.fields(treated.algorithm)}
    assert type(treated.algorithm) is not type(config.algorithm)
    for field in own & set(KEPT):
        assert getattr(treated.algorithm, field) == getattr(config.algorithm, field)


def test_a_remedy_that_is_in_force_or_cannot_be_is_refused_with_the_reason() -> None:
    with pytest.raises(ValueError, match="one_pass: the run is like that already"):
        REMEDIES["one_pass"].treated(BASE)
    with pytest.raises(ValueError, match="it moves one coefficient"):
        REMEDIES["kl_reference"].treated(SOME)


def test_a_number_of_things_stays_whole() -> None:
    treated = REMEDIES["larger_groups"].treated(BASE)
    assert (treated.algorithm.group_size, treated.rollout.num_plies) == (16, 2)
    assert isinstance(treated.rollout.num_plies, int)
    moves = [
        c.rollout.num_envs * c.rollout.num_plies * c.algorithm.group_size for c in (BASE, treated)
    ]
    assert moves[0] == moves[1]


def test_an_unknown_remedy_is_named_and_one_of_your_own_is_found() -> None:
    with pytest.raises(ValueError, match="remedy is 'tiss': expected one of tis, "):
        remedy_of("tiss")
    own = remedy_of("tests.zoo.plain:Plain")
    assert type(own.treated(BASE).algorithm).__name__ == "Plain"


@pytest.mark.parametrize("start", ["warm", "cold"])
@pytest.mark.parametrize("fault", [*CAUSES, SOUND])
def test_runs_of_a_fault_differ_from_its_twin_s_and_the_treated_in_nothing_else(
    fault: str, start: Any
) -> None:
    untreated = Trial(fault, UNTREATED, "move_net", start).config(3)
    twin = Trial(fault, TWIN, "move_net", start).config(3)
    remedy = Remedy("rate", "", "", times={"optimizer.learning_rate": 0.5})
    assert altered(untreated, remedy.treated(untreated)) == {"optimizer.learning_rate"}
    assert untreated.init_from == (None if start == "cold" else "warm_move_net")
    if fault == SOUND or (cause := CAUSES[fault].on_network("move_net")).fault is not None:
        return
    expected = altered(cause.config(cured=True, seed=3), cause.config(cured=False, seed=3))
    assert altered(twin, untreated) == expected - {"cause"}


def test_a_cold_run_begins_at_random_weights_and_at_the_network_s_own_step_size() -> None:
    warm, cold = (
        Trial(SOUND, UNTREATED, "move_net", start).config(3) for start in ("warm", "cold")
    )
    assert altered(warm, cold) == {"init_from", "optimizer.learning_rate"}
    assert cold.optimizer.learning_rate == pytest.approx(3e-3)
    fast = Trial("weak_entropy_high_lr", UNTREATED, "move_net", "cold").config(3)
    assert fast.optimizer.learning_rate == pytest.approx(8 * 3e-3)  # as far above as in a warm run


def test_a_trial_leaves_a_row_for_each_seed_and_no_run_folder(tmp_path: Path) -> None:
    rows = {
        remedy: run_trial(Trial("reward_squash", remedy, "move_net", "warm", smoke=True), seeds, tmp_path)[0]
        for remedy, seeds in ((UNTREATED, (5, 6)), (TWIN, (5,)), ("tis", (5,)), ("hotter", (5,)))
    }  # fmt: skip
    assert list(tmp_path.iterdir()) == []
    assert [row["seed"] for row in rows[UNTREATED]] == [5, 6]
    ends = {remedy: each[0]["end_cp"] for remedy, each in rows.items()}
    starts = {remedy: each[0]["start_cp"] for remedy, each in rows.items()}
    assert starts[UNTREATED] == starts[TWIN] == starts["tis"] != starts["hotter"]  # its own policy
    # On-policy the weight is 1; the fault and the temperature change the run.
    assert ends["tis"] == pytest.approx(ends[UNTREATED], abs=0.5)
    assert ends[UNTREATED] != ends[TWIN] != ends["hotter"]
    again, _ = run_trial(
        Trial("reward_squash", UNTREATED, "move_net", "warm", smoke=True), (6,), tmp_path
    )
    assert again == rows[UNTREATED][1:]  # a run does not depend on those before it
