"""Training does what it did: 10 updates of every preset on stored rollouts, against stored curves."""

from __future__ import annotations

import pytest
import torch

from algorithms import PRESETS
from tests.golden import batches, curves

ADVICE = "If the change is meant, run `make golden` and say in the commit why the curves changed."


@pytest.mark.parametrize("preset", PRESETS)
def test_the_curves_of_a_preset_are_the_stored_ones(preset: str, device: torch.device) -> None:
    path = curves.path_of(preset)
    assert path.exists(), f"{preset} has no golden curves: run `make golden ARGS={preset}`"
    stored, computed = curves.load(preset), curves.compute(preset, device)
    assert {form: list(c) for form, c in computed.items()} == {
        form: list(c) for form, c in stored.items()
    }, f"{preset} reports other curves than {path} holds. {ADVICE}"
    for form, by_metric in stored.items():
        for name, values in by_metric.items():
            assert len(values) == curves.UPDATES
            assert computed[form][name] == pytest.approx(values, rel=1e-4, abs=1e-9), (
                f"{preset}, {form}, {name}: not the curve in {path}. {ADVICE}"
            )


def test_every_stored_curve_belongs_to_a_preset() -> None:
    assert curves.stored() <= set(PRESETS)


@pytest.mark.parametrize("preset", PRESETS)
def test_stored_curves_move(preset: str) -> None:
    # A batch on which nothing is learned would make a golden curve of zeros.
    for form, by_metric in curves.load(preset).items():
        assert sum(value > 1e-3 for value in by_metric["train/grad_norm"]) > 5, form
        first, last = by_metric["reg/entropy"][0], by_metric["reg/entropy"][-1]
        assert abs(last - first) > 5e-4, form


def test_the_stored_rollouts_hold_what_the_curves_are_meant_to_cover() -> None:
    assert batches.PATH.stat().st_size < 200_000
    stored = batches.load_batches()
    assert set(stored) == set(batches.FORMS)
    games, everything = stored["games"], stored["all_moves"]
    assert 0 < int((~games.valid).sum()) < games.valid.numel(), "games of unequal length"
    assert bool(games.terminated.any())
    assert torch.equal(everything.valid, everything.legal_ids >= 0)
    for batch in stored.values():
        assert batch.values is not None and bool((batch.values != 0).any())
        assert batch.next_values is not None
        assert float(batch.rewards.std()) > 0
    assert stored["positions"].slots.shape == (4, 2, 4)
