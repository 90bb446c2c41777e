"""The critic's values in a rollout are those of the positions they are said to be of."""

from __future__ import annotations

from collections import Counter
from typing import Any

import chess
import numpy as np
import torch
from torch import Tensor

from algorithms.networks.build import build_policy
from algorithms.networks.policy_net import PolicyNet
from algorithms.networks.settings import NetworkConfig
from algorithms.rollouts.collect import start_rollout
from chess_env.moves import action_to_move, legal_actions
from chess_env.observation import encode_batch
from chess_env.rules.fen import pack_fens
from chess_env.rules.rules import legal_actions_batch
from chess_env.vector_env import ChessSelfPlayVectorEnv
from tests.rollouts.play import play_games, play_positions
from tests.small import CPU, VecOf

MATE_IN_ONE = "6k1/5ppp/8/8/8/8/8/R6K w - - 0 1"


def critic() -> PolicyNet:
    """A small network whose values differ from position to position."""
    policy = build_policy(
        NetworkConfig(network="resnet", channels=8, blocks=1), seed=0, device=CPU, critic=True
    )
    assert policy.value_head is not None
    with torch.no_grad():
        last: Any = policy.value_head[-1]
        last.weight.normal_(generator=torch.Generator().manual_seed(1))
        last.bias.fill_(0.3)
    return policy.eval()


def value_of(policy: PolicyNet, board: chess.Board, seen: Counter[Any]) -> float:
    """V of a position, its planes made from the FEN and the game's own count of repetitions."""
    repetitions = np.array([seen[board._transposition_key()]], np.uint8)
    positions = pack_fens([board.fen()])
    legal_ids, _ = legal_actions_batch(positions)
    planes = torch.from_numpy(encode_batch(positions, repetitions))
    with torch.no_grad():
        values = policy.values(planes, torch.from_numpy(legal_ids))
    assert values is not None
    return float(values[0])


def replayed(policy: PolicyNet, starts: list[list[str]], actions: Tensor) -> list[list[float]]:
    """V after each action `[rows, T]`; `starts[t][row]` is the position it was made in."""
    rows: list[list[float]] = []
    for row in range(actions.shape[0]):
        board, seen, found = chess.Board(), Counter[Any](), []
        for ply in range(actions.shape[1]):
            now = chess.Board(starts[ply][row])
            if board._transposition_key() != now._transposition_key():  # a new game
                board, seen = now, Counter[Any]()
            seen[board._transposition_key()] += 1
            board.push(action_to_move(int(actions[row, ply]), board))
            found.append(value_of(policy, board, seen))
        rows.append(found)
    return rows


def positions(vec_of: VecOf) -> ChessSelfPlayVectorEnv:
    """Four boards as a run makes them, whose games are cut after two plies."""
    return vec_of(4, max_plies=2, observation="positions")


def test_next_values_are_those_of_the_positions_after_the_played_moves_across_restarts(
    vec_of: VecOf,
) -> None:
    policy, vec, twin = critic(), positions(vec_of), positions(vec_of)
    state = start_rollout(vec, 3)
    batch, state = play_positions(vec, policy, state, num_plies=5, group_size=3)
    twin.reset(seed=3)
    starts = []
    for ply in range(5):
        starts.append(twin.fens())
        twin.step(batch.actions[:, ply, 0].numpy())
    expected = torch.tensor(replayed(policy, starts, batch.actions[..., 0]))
    assert batch.next_values is not None and batch.values is not None
    assert batch.truncated.sum() == 8 and not batch.terminated[..., 0].any()
    torch.testing.assert_close(batch.next_values, expected, atol=1e-5, rtol=1e-5)
    goes_on = ~batch.truncated[:, :-1]
    assert torch.equal(batch.next_values[:, :-1][goes_on], batch.values[:, 1:][goes_on])
    assert batch.flat().old_values is not None


def test_after_a_mate_there_is_no_value_and_a_cut_game_has_its_last_position_s(
    vec_of: VecOf,
) -> None:
    policy = critic()
    board = chess.Board(MATE_IN_ONE)
    mate = next(
        int(a) for a in legal_actions(board) if board.san(action_to_move(int(a), board))[-1] == "#"
    )
    with torch.no_grad():
        policy.action_bias[mate] = 2.0
    vec = vec_of(24)
    batch = play_games(vec, policy, fens=[MATE_IN_ONE] * 3, num_plies=3, group_size=8)
    assert batch.next_values is not None and batch.values is not None
    ended = batch.terminated & batch.valid
    assert ended.any() and not ended[batch.valid].all()
    assert (batch.next_values[ended] == 0).all()
    survivors = ~ended.any(-1)
    assert survivors.any()
    games = batch.actions[survivors]
    starts = []
    for ply in range(3):
        fens = []
        for game in games:
            board = chess.Board(MATE_IN_ONE)
            for action in game[:ply]:
                board.push(action_to_move(int(action), board))
            fens.append(board.fen())
        starts.append(fens)
    expected = torch.tensor(replayed(policy, starts, games))
    torch.testing.assert_close(batch.next_values[survivors], expected, atol=1e-5, rtol=1e-5)


def test_without_a_critic_there_are_no_values(vec_of: VecOf) -> None:
    policy = build_policy(NetworkConfig(network="resnet", channels=8, blocks=1), seed=0, device=CPU)
    batch, _ = play_positions(vec := vec_of(2), policy, start_rollout(vec, 0))
    assert batch.values is None and batch.next_values is None
