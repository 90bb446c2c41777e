"""A cause at a size differs from the full one in what that size says, and each size of it can be run."""

from __future__ import annotations

import itertools

import pytest

from algorithms.collapse import CAUSES, COMPOSITES
from algorithms.collapse.cause import ARCHITECTURES, FULL, SIZE_NAMES, SIZES, Cause
from algorithms.config import files as config_file
from algorithms.config.compatibility import check_settings

EACH = [(name, size) for name, sizes in SIZES.items() for size in sizes]


def at(name: str, size: str, network: str = "resnet") -> Cause:
    return CAUSES[name].on_network(network).at_size(size)


def test_every_cause_but_two_comes_in_the_four_sizes() -> None:
    assert set(CAUSES) - set(SIZES) == {"low_precision", "zero_variance_groups"}
    assert SIZE_NAMES == ("full", "half", "third", "harmless")
    assert all((FULL, *sizes) == SIZE_NAMES for sizes in SIZES.values())


@pytest.mark.parametrize(
    ("name", "size", "network"),
    [(*each, n) for each, n in zip(EACH, itertools.cycle(ARCHITECTURES))],
)
def test_a_size_builds_the_settings_of_both_runs_and_says_what_it_is(
    name: str, size: str, network: str
) -> None:
    full, cause = at(name, FULL, network), at(name, size, network)
    assert (cause.size, cause.network, cause.predicates) == (size, network, ())
    assert (cause.fault is None) == (full.fault is None) == (cause.fault_says == "")
    for cured in (False, True):
        config = cause.config(cured=cured, seed=3)
        check_settings(config)
        assert config_file.from_dict(config_file.to_dict(config)) == config
        assert config.cause == f"{name}-{size}{'-cured' if cured else ''}"
    changed = config_file.differences(
        full.config(cured=False, seed=3), cause.config(cured=False, seed=3)
    )
    assert changed.pop("cause") == (name, f"{name}-{size}")
    assert changed or cause.fault_says != full.fault_says  # it is another run


@pytest.mark.parametrize("name", SIZES)
def test_a_size_has_a_twin_of_its_own_exactly_where_it_says_so(name: str) -> None:
    for size, made in SIZES[name].items():
        full, cause = at(name, FULL), at(name, size)
        changed = config_file.differences(
            full.config(cured=True, seed=0), cause.config(cured=True, seed=0)
        )
        changed.pop("cause")
        assert bool(changed) == bool(made.shared or made.cured), size
        assert all(value_of(cause, each, cured=False) == changed[each][1] for each in made.shared)


def value_of(cause: Cause, setting: str, *, cured: bool) -> object:
    """The value of a dotted setting in one of the runs."""
    value: object = cause.config(cured=cured, seed=0)
    for part in setting.split("."):
        value = getattr(value, part)
    return value


@pytest.mark.parametrize("network", ARCHITECTURES)
def test_factors_are_of_what_the_cause_has_on_that_network(network: str) -> None:
    full = value_of(
        at("weak_entropy_high_lr", FULL, network), "optimizer.learning_rate", cured=False
    )
    half = value_of(
        at("weak_entropy_high_lr", "half", network), "optimizer.learning_rate", cured=False
    )
    assert isinstance(full, float) and half == full / 2
    bonus = at("loss_budget", "third", network).config(cured=False, seed=0).regularizer.ent_coef
    assert bonus == pytest.approx(1.0)  # a third of 3


def test_sizes_are_monotonic_where_they_are_one_number() -> None:
    def values(name: str, setting: str) -> list[float]:
        return [float(str(value_of(at(name, size), setting, cured=False))) for size in SIZE_NAMES]

    falling = {
        "loss_budget": "regularizer.ent_coef", "sampled_entropy_bonus": "regularizer.ent_coef",
        "kl_trap": "regularizer.ent_coef", "saturated_controller": "regularizer.kl_coef_max",
        "weak_entropy_high_lr": "optimizer.learning_rate", "update_epochs": "algorithm.update_epochs",
        "stale_behaviour": "rollout.sync_interval_updates", "dropout_in_rollout": "policy.dropout",
    }  # fmt: skip
    for name, setting in falling.items():
        found = values(name, setting)
        assert found == sorted(found, reverse=True) and len(set(found)) == 4, name
    for name, setting in (("sharp_optimum", "regularizer.kl_ref_coef"),
                          ("clip_asymmetry", "algorithm.clip_range_high")):  # fmt: skip
        found = values(name, setting)
        assert found == sorted(found) and len(set(found)) == 4, name


def test_the_full_size_is_the_cause_itself() -> None:
    for cause in (CAUSES | COMPOSITES).values():
        assert cause.at_size(FULL) is cause and cause.size == FULL


@pytest.mark.parametrize("name", ["low_precision", "zero_variance_groups", *COMPOSITES])
def test_a_cause_without_sizes_says_so(name: str) -> None:
    with pytest.raises(ValueError, match=f"size is 'half': {name} has no sizes: run it at 'full'"):
        (CAUSES | COMPOSITES)[name].at_size("half")


def test_an_unknown_size_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(
        ValueError,
        match="size is 'thrid': .*'full', 'half', 'third', 'harmless'; did you mean 'third'",
    ):
        CAUSES["kl_trap"].at_size("thrid")
    with pytest.raises(ValueError, match=r"^.{0,400}$"):
        CAUSES["low_precision"].at_size("x" * 10_000)


def test_a_preset_of_a_cause_stays_at_every_size() -> None:
    for size in SIZE_NAMES:
        cause = at("sharp_optimum", size)
        assert cause.config(cured=False, seed=0).preset == cause.shared["preset"]
