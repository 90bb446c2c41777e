from __future__ import annotations

import dataclasses

import pytest
import torch

from tests.core.conftest import make_batch


def test_a_positions_batch_flattens_to_states_with_k_actions() -> None:
    batch = make_batch("positions")
    flat = batch.flat()
    assert flat.num_states == 3 * 2
    assert flat.slots.shape == (6, 4)
    assert batch.group_axis == -1
    # Row-major: state (start 1, ply 0) is row 2.
    assert torch.equal(flat.slots[2], batch.slots[1, 0])
    assert torch.equal(flat.old_legal_logprobs[2], batch.old_legal_logprobs[1, 0])
    assert torch.equal(batch.flatten(batch.rewards)[2], batch.rewards[1, 0])
    assert torch.equal(flat.legal, flat.legal_ids >= 0)


def test_a_games_batch_flattens_to_states_with_one_action() -> None:
    batch = make_batch("games")
    flat = batch.flat()
    assert flat.num_states == 3 * 4 * 2
    assert flat.slots.shape == (24, 1)
    assert batch.group_axis == 1
    assert flat.slots[2 * 4 + 3 * 2 + 1, 0] == batch.slots[1, 3, 1]


def test_scored_moves_and_plies_count_only_what_is_valid() -> None:
    batch = make_batch("positions")
    assert (batch.scored_moves, batch.plies) == (24, 6)
    valid = batch.valid.clone()
    valid[0, 0] = False
    valid[0, 1, 2] = False
    batch = dataclasses.replace(batch, valid=valid)
    assert (batch.scored_moves, batch.plies) == (19, 5)
    games = make_batch("games")
    assert (games.scored_moves, games.plies) == (24, 24)


def test_selecting_states_keeps_their_actions_together() -> None:
    batch = make_batch("positions")
    batch = batch.with_reference(batch.old_legal_logprobs - 1)
    flat = batch.flat()
    part = flat.select(torch.tensor([5, 0]))
    assert torch.equal(part.slots, flat.slots[[5, 0]])
    assert part.ref_legal_logprobs is not None
    assert torch.equal(part.ref_legal_logprobs, part.old_legal_logprobs - 1)


def test_a_field_of_the_wrong_shape_is_named() -> None:
    batch = make_batch("positions")
    with pytest.raises(ValueError, match=r"rewards has shape \(3, 4\)"):
        dataclasses.replace(batch, rewards=torch.zeros(3, 4))
    with pytest.raises(ValueError, match="form is 'plies'"):
        dataclasses.replace(batch, form="plies")  # type: ignore[arg-type]


def test_every_state_knows_its_game() -> None:
    positions, games = make_batch("positions").flat(), make_batch("games").flat()
    assert positions.games.tolist() == list(range(6))
    assert games.games.tolist() == [game for game in range(12) for _ in range(2)]


def test_values_go_with_their_states() -> None:
    batch = make_batch("games")
    batch = dataclasses.replace(batch, values=torch.arange(24.0).reshape(3, 4, 2))
    part = batch.flat().select(torch.tensor([23, 1]))
    assert part.old_values is not None and part.old_values.tolist() == [23.0, 1.0]
    with pytest.raises(ValueError, match=r"values has shape \(3, 4\)"):
        dataclasses.replace(batch, values=torch.zeros(3, 4))
