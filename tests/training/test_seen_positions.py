from __future__ import annotations

import numpy as np
import pytest
import torch

from algorithms.training import session
from algorithms.training.session import SeenPositions


def test_a_position_counts_from_its_second_state_on() -> None:
    seen = SeenPositions()
    assert seen.fraction(torch.tensor([1, 2, 3, 4])) == 0.0
    assert seen.fraction(torch.tensor([[1, 5], [5, 5]])) == 3 / 4
    assert seen.fraction(torch.tensor([1, 2, 3, 4, 5])) == 1.0


def test_the_order_of_the_states_in_a_call_does_not_matter() -> None:
    hashes = torch.tensor([7, 7, -1, 2, 2, 2, 2**62])
    fractions = {
        SeenPositions().fraction(hashes[torch.randperm(7, generator=torch.manual_seed(seed))])
        for seed in range(5)
    }
    assert fractions == {3 / 7}


def test_positions_older_than_the_window_are_new_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "WINDOW", 4)
    seen = SeenPositions()
    seen.fraction(torch.tensor([1, 2, 3]))
    assert seen.fraction(torch.tensor([1, 4])) == 1 / 2  # states: 2 3 1 4
    assert seen.fraction(torch.tensor([2])) == 1.0  # 3 1 4 2
    assert seen.fraction(torch.tensor([5, 6])) == 0.0  # 4 2 5 6
    assert seen.fraction(torch.tensor([1, 3, 4])) == 1 / 3


def test_a_window_of_many_calls_equals_a_plain_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "WINDOW", 16)
    rng = np.random.default_rng(0)
    seen, reloaded, states = SeenPositions(), SeenPositions(), []
    for size in [5] * 60 + [1, 16, 17, 40, 3, 5, 0, 7]:
        batch = rng.integers(-12, 13, size).tolist()
        known = set(states[-16:])
        expected = 1 - len(set(batch) - known) / size if size else np.nan
        for each in (seen, reloaded):
            assert each.fraction(torch.tensor(batch)) == pytest.approx(expected, nan_ok=True)
        states += batch
        assert seen.to_array().tolist() == reloaded.to_array().tolist() == states[-16:]
        reloaded = SeenPositions.from_array(reloaded.to_array())
    longer = SeenPositions.from_array(np.array(states[-40:]))  # of a version with a larger window
    assert longer.to_array().tolist() == states[-16:]


def test_no_state_has_no_fraction() -> None:
    assert np.isnan(SeenPositions().fraction(torch.zeros(0, dtype=torch.int64)))
