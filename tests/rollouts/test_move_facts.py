"""The facts of moves in a rollout are those of the boards that the moves were drawn on."""

from __future__ import annotations

import dataclasses
from typing import Any

import chess
import pytest
import torch
from torch import Tensor

from algorithms.core.batch import RolloutBatch
from algorithms.rollouts.collect import replace_groups, start_rollout
from algorithms.rollouts.worker import reference_logprobs
from chess_env.move_facts import FACT_INDEX, NUM_MOVE_FACTS
from chess_env.moves import move_to_action
from tests.env.playing import SHUFFLE
from tests.networks.facts_net import facts_policy
from tests.rollouts.play import play_games, play_positions
from tests.small import VecOf, make_policy


def rollout(vec_of: VecOf, form: str, *, seed: int = 0, **settings: Any) -> RolloutBatch:
    policy, vec = (
        facts_policy(critic=True),
        vec_of(4, move_facts=True, max_plies=2, observation="positions"),
    )
    state = start_rollout(vec, seed)
    if form == "games":
        return play_games(vec, policy, group_size=2, num_plies=2, **settings)
    return play_positions(vec, policy, state, **settings)[0]


def from_environment(vec: Any, info: dict[str, Any], actions: Tensor) -> list[Tensor]:
    """The facts of each ply's moves when the boards of `info` play actions `[N, T]`, each `[N, L, F]`."""
    seen = []
    for played in actions.T:
        seen.append(torch.from_numpy(info["move_facts"]))
        *_, info = vec.step(played.numpy())
    return seen


@pytest.mark.parametrize("group_size", [3, None])
def test_the_facts_of_a_ply_are_those_that_the_environment_gives_there(
    vec_of: VecOf, group_size: int | None
) -> None:
    vec, twin = (vec_of(4, move_facts=True, max_plies=3) for _ in range(2))
    policy, state = facts_policy(), start_rollout(vec, 3)
    batch, after = play_positions(vec, policy, state, num_plies=5, group_size=1)
    _, info = twin.reset(seed=3)
    expected = from_environment(twin, info, batch.actions[..., 0])
    assert batch.move_facts is not None and batch.move_facts.dtype == torch.uint8
    assert batch.move_facts.shape == (*batch.legal_ids.shape, NUM_MOVE_FACTS)
    for ply, facts in enumerate(expected):
        width = facts.shape[1]
        assert torch.equal(batch.move_facts[:, ply, :width], facts)
        assert not batch.move_facts[:, ply, width:].any()
    more, _ = play_positions(vec, policy, after, num_plies=2, group_size=group_size)
    assert more.move_facts is not None and more.move_facts.shape[:3] == more.legal_ids.shape
    assert not more.move_facts[more.legal_ids < 0].any() and more.move_facts.any()


def test_the_facts_of_whole_games_are_those_that_the_environment_gives(vec_of: VecOf) -> None:
    starts = [chess.STARTING_FEN, "4k3/8/8/8/8/8/4P3/4K3 w - - 0 1"]
    vec, twin = (vec_of(6, move_facts=True) for _ in range(2))
    batch = play_games(vec, facts_policy(), fens=starts, group_size=3, num_plies=4)
    _, info = twin.reset(options={"fens": [fen for fen in starts for _ in range(3)]})
    expected = from_environment(twin, info, batch.actions.flatten(0, 1))
    assert batch.move_facts is not None
    for ply, facts in enumerate(expected):
        found, width = batch.move_facts[:, :, ply].flatten(0, 1), facts.shape[1]
        assert torch.equal(found[:, :width], facts) and not found[:, width:].any()


def test_a_policy_sees_which_moves_repeat_a_position(vec_of: VecOf) -> None:
    vec = vec_of(1, move_facts=True)
    vec.reset(options={"fens": [chess.STARTING_FEN]})
    board = chess.Board()
    for text in SHUFFLE[:3]:
        move = chess.Move.from_uci(text)
        *_, info = vec.step([move_to_action(move, board.turn)])
        board.push(move)
    back = info["legal_ids"][0, : info["num_legal"][0]] == move_to_action(
        chess.Move.from_uci(SHUFFLE[3]), board.turn
    )
    repeats = info["move_facts"][0, :, FACT_INDEX.repeats]
    assert repeats[back] == 1 and repeats.sum() == 1


@pytest.mark.parametrize("form", ["positions", "games"])
def test_stored_states_give_the_distribution_that_was_sampled_from(
    vec_of: VecOf, form: str
) -> None:
    batch = rollout(vec_of, form)
    found = reference_logprobs(facts_policy(), batch, minibatch_size=3)
    torch.testing.assert_close(found.exp(), batch.old_legal_logprobs.exp())
    flat = batch.flat()
    assert flat.move_facts is not None and batch.move_facts is not None
    assert torch.equal(flat.move_facts, batch.move_facts.flatten(0, batch.obs.dim() - 4))
    assert torch.equal(flat.select(torch.tensor([2, 0])).move_facts, flat.move_facts[[2, 0]])  # type: ignore[arg-type]
    assert torch.equal(flat.select(slice(1, 3)).move_facts, flat.move_facts[1:3])  # type: ignore[arg-type]


def test_the_values_of_last_positions_are_made_from_their_own_facts(vec_of: VecOf) -> None:
    policy, vec, twin = (
        facts_policy(critic=True),
        *(vec_of(5, move_facts=True, max_plies=2, observation="positions") for _ in range(2)),
    )
    batch, _ = play_positions(vec, policy, start_rollout(vec, 1), num_plies=3, group_size=1)
    assert batch.next_values is not None and batch.truncated.any()
    twin.reset(seed=1)
    for ply in range(3):
        *_, info = twin.step(batch.actions[:, ply, 0].numpy())
        cut = batch.truncated[:, ply]
        boards = [info["final_info"], info] if cut.any() else [info]
        values = [
            policy.values(
                batch.obs[:, ply],  # of which it reads nothing
                torch.from_numpy(seen["legal_ids"][:, : seen["move_facts"].shape[1]]),
                torch.from_numpy(seen["move_facts"]),
            )
            for seen in boards
        ]
        expected = torch.where(cut, values[0], values[-1])  # type: ignore[arg-type]
        expected = torch.where(batch.terminated[:, ply, 0], 0.0, expected)
        torch.testing.assert_close(batch.next_values[:, ply], expected.detach())
        if cut.any():
            assert not torch.allclose(values[0], values[1])  # type: ignore[arg-type]


@pytest.mark.parametrize("form", ["positions", "games"])
def test_a_group_that_is_replaced_brings_its_facts_along(vec_of: VecOf, form: str) -> None:
    batch, source = rollout(vec_of, form), rollout(vec_of, form, seed=1)
    assert batch.move_facts is not None and source.move_facts is not None
    assert batch.legal_ids.shape != source.legal_ids.shape
    mixed = replace_groups(batch, source, torch.tensor([0]), torch.tensor([1]))
    assert mixed.move_facts is not None
    assert mixed.move_facts.shape == (*mixed.legal_ids.shape, NUM_MOVE_FACTS)
    axes = 2 if form == "positions" else 1
    for number, into, origin in ((1, 0, source), (1, 1, batch)):
        there, here = (
            one.move_facts.reshape(-1, *one.move_facts.shape[axes:])[at]  # type: ignore[union-attr]
            for one, at in ((origin, number), (mixed, into))
        )
        cut = there.shape[-2]
        assert torch.equal(here[..., :cut, :], there) and not here[..., cut:, :].any()


@pytest.mark.parametrize("form", ["positions", "games"])
def test_a_policy_that_reads_no_facts_has_none_stored(vec_of: VecOf, form: str) -> None:
    batches = []
    for move_facts in (False, True):
        vec, policy = vec_of(4, move_facts=move_facts), make_policy()
        state = start_rollout(vec, 0)
        assert (state.move_facts is None) is not move_facts
        if form == "games":
            batches.append(play_games(vec, policy, group_size=2))
        else:
            batches.append(play_positions(vec, policy, state)[0])
    for field in dataclasses.fields(RolloutBatch):
        one, other = (getattr(batch, field.name) for batch in batches)
        assert torch.equal(one, other) if isinstance(one, Tensor) else one == other, field.name
    assert batches[0].move_facts is None and batches[0].flat().move_facts is None


def test_boards_without_facts_are_refused_by_a_policy_that_reads_them(vec_of: VecOf) -> None:
    vec = vec_of(2)
    with pytest.raises(ValueError, match="move_facts=True"):
        play_positions(vec, facts_policy(), start_rollout(vec, 0))
