"""What a rollout records beyond its samples: all legal moves, scores before, hashes, teachers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from algorithms.config.run import RolloutConfig
from algorithms.rollouts.collect import start_rollout
from chess_env.rules.rules import hash_batch
from chess_env.vector_env import ChessSelfPlayVectorEnv
from tests.rollouts.play import play_games, play_positions
from tests.small import VecOf, make_policy


def test_all_legal_moves_are_scored_and_padding_is_empty(vec_of: VecOf) -> None:
    vec, twin, policy = vec_of(5), vec_of(5), make_policy()
    batch, _ = play_positions(vec, policy, start_rollout(vec, 7), group_size=None)
    legal = batch.legal_ids >= 0
    assert batch.rewards.shape == legal.shape
    assert torch.equal(batch.valid, legal)
    places = torch.arange(legal.shape[-1]).expand(legal.shape)
    assert torch.equal(batch.slots, torch.where(legal, places, 0))
    assert torch.equal(batch.actions, batch.legal_ids.long())
    assert torch.equal(batch.old_logprobs[legal], batch.old_legal_logprobs[legal])
    assert batch.score_cp is not None
    for column in (batch.rewards, batch.score_cp, batch.terminated):
        assert (column[~legal] == 0).all()
    assert batch.scored_moves == int(legal.sum())
    twin.reset(seed=7)
    for ply in range(3):
        for move in range(int(legal[:, ply].sum(-1).min())):
            scored = twin.score_actions(batch.actions[:, ply, move : move + 1].numpy())
            assert np.array_equal(batch.rewards[:, ply, move].numpy(), scored["rewards"][:, 0])
            assert np.array_equal(batch.score_cp[:, ply, move].numpy(), scored["score_cp"][:, 0])
        if ply < 2:  # which move was played on is seen in the next position
            following = batch.obs[:, ply + 1]
            twin.step(_played(twin, batch.legal_ids[:, ply], following))


def _played(vec: ChessSelfPlayVectorEnv, legal_ids: torch.Tensor, following: Any) -> Any:
    """The action of each board after which it shows the planes `following`."""
    state, actions = vec.get_state(), []
    for row in range(len(legal_ids)):
        for action in legal_ids[row][legal_ids[row] >= 0].tolist():
            vec.set_state(state)
            tried = legal_ids[:, 0].numpy().astype(np.int64)
            tried[row] = action
            obs, *_ = vec.step(tried)
            if np.array_equal(obs[row], following[row].numpy()):
                actions.append(action)
                break
    vec.set_state(state)
    assert len(actions) == len(legal_ids)
    return np.array(actions)


def test_the_move_that_is_played_on_is_drawn_from_the_policy(vec_of: VecOf) -> None:
    policy, vec = make_policy(), vec_of(6)
    batch, state = play_positions(vec, policy, start_rollout(vec, 1), group_size=None, num_plies=1)
    first, _ = play_positions(
        twin := vec_of(6), policy, start_rollout(twin, 1), group_size=1, num_plies=1
    )
    # The same stream of random numbers draws the same moves as a rollout with one sample.
    assert torch.equal(batch.obs, first.obs)
    assert np.array_equal(state.positions, twin.positions)


def test_the_score_before_a_move_is_that_after_the_move_before_it(vec_of: VecOf) -> None:
    vec = vec_of(5)
    batch, _ = play_positions(vec, make_policy(), start_rollout(vec, 2))
    assert batch.before_cp is not None and batch.score_cp is not None
    ended = batch.truncated | batch.terminated[..., 0]
    assert not ended.any()
    assert torch.equal(batch.before_cp[:, 1:], -batch.score_cp[:, :-1, 0])
    bare, _ = play_positions(
        vec := vec_of(2, evaluator="none"), make_policy(), start_rollout(vec, 0)
    )
    assert bare.before_cp is None


def test_a_rollout_carries_the_hashes_of_its_positions(vec_of: VecOf) -> None:
    vec, twin = vec_of(4), vec_of(4)
    batch, _ = play_positions(vec, make_policy(), start_rollout(vec, 5))
    twin.reset(seed=5)
    assert batch.position_hash is not None
    hashes = hash_batch(twin.positions).view(np.int64)
    assert batch.position_hash[:, 0].tolist() == hashes.tolist()


def test_a_teacher_plays_the_evaluator_s_best_move_on_the_opponent_s_plies_only(
    vec_of: VecOf,
) -> None:
    vec = vec_of(8)
    start_rollout(vec, 3)
    queries = vec.evaluator.counters()["queries"]  # type: ignore[union-attr]
    batch = play_games(vec, make_policy(), train_sides="start", teacher_fraction=1.0, num_plies=4)
    assert vec.evaluator.counters()["queries"] > queries  # type: ignore[union-attr]
    assert batch.scored_moves == 8 * 2 and batch.score_cp is not None
    twin = vec_of(1)
    checked = 0
    for start in range(2):
        for game in range(4):
            for ply in (1, 3):
                fen = _fen_before(batch, start, game, ply, vec_of)
                best = twin.evaluator.score_moves([fen])[0].max()  # type: ignore[union-attr]
                assert batch.score_cp[start, game, ply] == best
                checked += 1
    assert checked == 16
    gathered = batch.old_legal_logprobs.gather(-1, batch.slots[..., None])[..., 0]
    torch.testing.assert_close(batch.old_logprobs, gathered)


def _fen_before(batch: Any, start: int, game: int, ply: int, vec_of: VecOf) -> str:
    """The position a game was in, found by replaying it from its start."""
    vec = vec_of(8)
    start_rollout(vec, 3)
    vec.reset()
    fen = vec.fens()[::4][start]
    vec.reset(options={"fens": [fen] * 8})
    for action in batch.actions[start, game, :ply].tolist():
        vec.step(np.full(8, action))
    return vec.fens()[0]


def test_a_teacher_is_refused_where_both_sides_learn() -> None:
    with pytest.raises(ValueError, match=r"teacher_fraction is 0\.5.*train_sides to start"):
        RolloutConfig(form="games", teacher_fraction=0.5)
