from __future__ import annotations

import chess
import numpy as np
import pytest
import torch

from algorithms.rollouts.collect import start_rollout
from algorithms.rollouts.worker import reference_logprobs
from chess_env.moves import action_to_move, legal_actions
from chess_env.observation import NUM_PLANES, encode_batch
from tests.rollouts.play import play_games, play_positions
from tests.small import VecOf, make_batch, make_policy

PIECES_CP = dict(zip(chess.PIECE_TYPES, (100, 300, 310, 500, 900, 0), strict=True))
MATE_IN_ONE = "6k1/5ppp/8/8/8/8/8/R6K w - - 0 1"


def score_cp(board: chess.Board, color: chess.Color) -> int:
    """Material from one colour's view, or the ending by the rules."""
    if board.is_checkmate():
        return -10_000 if board.turn == color else 10_000
    if board.is_stalemate() or board.is_insufficient_material():
        return 0
    signs = {color: 1, not color: -1}
    return sum(PIECES_CP[man.piece_type] * signs[man.color] for man in board.piece_map().values())


def value(cp: int) -> float:
    return 2 / (1 + np.exp(-0.00368208 * cp)) - 1 if abs(cp) < 9_000 else float(np.sign(cp))


def test_every_sample_of_a_positions_batch_agrees_with_python_chess(vec_of: VecOf) -> None:
    vec, twin, policy = vec_of(5), vec_of(5), make_policy()
    batch, state = play_positions(vec, policy, start_rollout(vec, 7))
    assert batch.rewards.shape == (5, 3, 4)
    obs, _ = twin.reset(seed=7)
    for ply in range(3):
        assert np.array_equal(batch.obs[:, ply].numpy(), obs)
        for row, fen in enumerate(twin.fens()):
            board = chess.Board(fen)
            ids = batch.legal_ids[row, ply]
            assert ids[ids >= 0].tolist() == legal_actions(board).tolist()
            for sample in range(4):
                action = int(batch.actions[row, ply, sample])
                assert action == ids[batch.slots[row, ply, sample]]
                after = board.copy()
                after.push(action_to_move(action, board))
                scored = score_cp(after, board.turn)
                assert batch.score_cp is not None
                assert batch.score_cp[row, ply, sample] == scored
                expected = value(scored) - value(score_cp(board, board.turn))
                assert batch.rewards[row, ply, sample].item() == pytest.approx(expected, abs=1e-5)
            assert batch.side[row, ply] == board.turn
        obs, *_ = twin.step(batch.actions[:, ply, 0].numpy())
    assert np.array_equal(encode_batch(state.positions, state.repetitions), obs)


def test_stored_logprobs_are_those_of_the_policy_at_the_stored_temperature(vec_of: VecOf) -> None:
    vec, policy = vec_of(5), make_policy()
    batch, _ = play_positions(vec, policy, start_rollout(vec, 1))
    assert batch.temperature == 1.3
    for ply in range(3):
        logits = policy(batch.obs[:, ply], batch.legal_ids[:, ply]).detach() / 1.3
        logits = logits.masked_fill(batch.legal_ids[:, ply] < 0, -torch.inf)
        expected = torch.distributions.Categorical(logits=logits)
        torch.testing.assert_close(
            batch.old_legal_logprobs[:, ply].exp(), expected.probs, atol=1e-6, rtol=1e-5
        )
        for sample in range(4):
            own = expected.log_prob(batch.slots[:, ply, sample])
            torch.testing.assert_close(
                batch.old_logprobs[:, ply, sample], own, atol=1e-6, rtol=1e-5
            )


def test_one_forward_pass_and_one_evaluator_call_serve_all_samples_of_a_ply(vec_of: VecOf) -> None:
    vec, policy = vec_of(6), make_policy()
    state = start_rollout(vec, 0)
    rows: list[int] = []
    policy.stem.register_forward_hook(lambda module, args, output: rows.append(len(output)))
    calls_before = vec.evaluator.calls  # type: ignore[union-attr]
    play_positions(vec, policy, state, num_plies=4, group_size=8)
    assert rows == [6] * 4
    assert vec.evaluator.calls - calls_before <= 4 + 4  # type: ignore[union-attr]


def test_two_rollouts_in_a_row_equal_one_long_one(vec_of: VecOf) -> None:
    policy = make_policy()
    vec, twin = vec_of(3), vec_of(3)
    whole, _ = play_positions(vec, policy, start_rollout(vec, 4), num_plies=6)
    generator = torch.Generator().manual_seed(0)
    first, state = play_positions(twin, policy, start_rollout(twin, 4), generator=generator)
    second, _ = play_positions(twin, policy, state, generator=generator)
    assert torch.equal(torch.cat([first.actions, second.actions], 1), whole.actions)
    assert torch.equal(torch.cat([first.rewards, second.rewards], 1), whole.rewards)


def test_the_ply_limit_truncates_without_terminating_and_the_stream_goes_on(vec_of: VecOf) -> None:
    vec = vec_of(4, start_positions="initial", max_plies=2)
    batch, _ = play_positions(vec, make_policy(), start_rollout(vec, 0), num_plies=5, group_size=2)
    assert batch.ply[0].tolist() == [0, 1, 0, 1, 0]
    assert batch.truncated[0].tolist() == [False, True, False, True, False]
    assert not batch.terminated.any()
    assert batch.valid.all()
    assert (batch.scored_moves, batch.plies) == (4 * 5 * 2, 4 * 5)


def test_without_an_evaluator_there_are_outcome_rewards_and_no_scores(vec_of: VecOf) -> None:
    vec = vec_of(4, evaluator="none", start_positions="initial")
    batch, _ = play_positions(vec, make_policy(), start_rollout(vec, 0))
    assert batch.score_cp is None
    assert (batch.rewards == 0).all()


def test_all_games_of_a_group_start_from_the_same_position(vec_of: VecOf) -> None:
    vec = vec_of(8)
    start_rollout(vec, 3)
    batch = play_games(vec, make_policy(), num_plies=5)
    assert batch.rewards.shape == (2, 4, 5)
    assert batch.obs.shape == (2, 4, 5, NUM_PLANES, 8, 8)
    assert (batch.obs[:, :, 0] == batch.obs[:, :1, 0]).all()
    assert not torch.equal(batch.obs[0, 0, 0], batch.obs[1, 0, 0])
    assert (batch.obs[0, :, -1] != batch.obs[0, :1, -1]).any()


def test_a_games_batch_replays_move_by_move_in_python_chess(vec_of: VecOf) -> None:
    fens = [chess.STARTING_FEN, MATE_IN_ONE]
    batch = play_games(vec_of(8), make_policy(), fens=fens, num_plies=12)
    replayed = 0
    for start, fen in enumerate(fens):
        for game in range(4):
            board = chess.Board(fen)
            for ply in range(batch.rewards.shape[2]):
                over = board.is_game_over() or board.can_claim_draw()
                assert bool(batch.valid[start, game, ply]) == (not over)
                if over:
                    break
                ids = batch.legal_ids[start, game, ply]
                assert ids[ids >= 0].tolist() == legal_actions(board).tolist()
                mover, before = board.turn, score_cp(board, board.turn)
                board.push(action_to_move(int(batch.actions[start, game, ply]), board))
                expected = value(score_cp(board, mover)) - value(before)
                reward = batch.rewards[start, game, ply].item()
                assert reward == pytest.approx(expected, abs=1e-5)
                replayed += 1
    assert replayed == batch.scored_moves == batch.plies


def test_after_mate_the_rest_of_the_game_is_not_valid_and_a_finished_batch_stops(
    vec_of: VecOf,
) -> None:
    policy = make_policy(spread=0.0)
    vec = vec_of(4)
    start_rollout(vec, 0)
    board = chess.Board(MATE_IN_ONE)
    mate = next(
        int(a) for a in legal_actions(board) if board.san(action_to_move(int(a), board))[-1] == "#"
    )
    with torch.no_grad():
        policy.action_bias[mate] = 100.0
    batch = play_games(vec, policy, fens=[MATE_IN_ONE], num_plies=9)
    assert batch.rewards.shape == (1, 4, 1)
    assert batch.terminated.all()
    assert (batch.actions == mate).all()
    assert batch.score_cp is not None
    assert (batch.score_cp == 10_000).all()


def test_training_the_start_player_only_leaves_every_second_ply(vec_of: VecOf) -> None:
    fens = [chess.STARTING_FEN, chess.STARTING_FEN.replace(" w ", " b ")]
    batch = play_games(vec_of(8), make_policy(), fens=fens, train_sides="start", num_plies=4)
    assert (batch.valid == torch.tensor([True, False, True, False])).all()
    assert (batch.side[1, :, 0] == 0).all()


@pytest.mark.parametrize("form", ["positions", "games"])
def test_the_reference_of_the_sampling_policy_is_the_behaviour_distribution(form: str) -> None:
    batch = make_batch(form, temperature=0.7)
    reference = reference_logprobs(make_policy(), batch, minibatch_size=5)
    torch.testing.assert_close(
        reference.exp(), batch.old_legal_logprobs.exp(), atol=1e-6, rtol=1e-5
    )
    assert batch.with_reference(reference).flat().ref_legal_logprobs is not None
