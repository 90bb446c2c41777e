"""A policy in a match plays what it would have played in training."""

from __future__ import annotations

from typing import Any

import chess
import numpy as np
import pytest
import torch

from algorithms.evaluation.load_policy import load_policy
from algorithms.evaluation.policy_player import GREEDY, PolicyPlayer
from algorithms.networks.policy_net import PolicyNet
from chess_env.games.players import Player, RandomPlayer
from chess_env.games.reference_game import observation
from chess_env.matches.arena import play_match
from chess_env.matches.match_result import MatchResult
from chess_env.moves import action_to_move, legal_actions
from chess_env.observation import encode_batch
from chess_env.positions.start_positions import make_start_positions
from chess_env.rules.fen import pack_fens, to_fen
from chess_env.rules.rules import legal_actions_batch
from tests.small import make_policy


def player(policy: PolicyNet, temperature: float) -> PolicyPlayer:
    return PolicyPlayer(policy, temperature=temperature, label="tiny")


def match(first: PolicyPlayer, max_boards: int = 512) -> MatchResult:
    settings = {"pairs": 3, "seed": 1, "max_plies": 36, "max_boards": max_boards}
    openings = make_start_positions("random_plies:2-40")
    return play_match(first, RandomPlayer(), openings=openings, **settings)


def generators(count: int) -> list[np.random.Generator]:
    return [np.random.default_rng(seed) for seed in range(count)]


def seen_by_python_chess(policy: PolicyNet, board: chess.Board) -> tuple[np.ndarray, np.ndarray]:
    """(legal actions, their probabilities) from the readable environment's observation, without a batch."""
    key = board._transposition_key()
    earlier, past = 0, board.copy()
    while past.move_stack:
        past.pop()
        earlier += past._transposition_key() == key
    actions = legal_actions(board)
    planes = torch.from_numpy(observation(board, earlier))[None]
    with torch.no_grad():
        dist = policy.outputs(planes, torch.from_numpy(actions)[None], 1.0).dist
    return actions, dist.probs[0].numpy()


def test_a_greedy_policy_plays_the_most_probable_move_of_what_training_sees() -> None:
    policy = make_policy(3, spread=2.0)
    games = match(player(policy, GREEDY)).games
    compared = 0
    for game in games:
        board = chess.Board(to_fen(game.opening))
        first = chess.WHITE if game.first_is_white else chess.BLACK
        for action in game.actions.tolist():
            if board.turn == first:
                actions, probs = seen_by_python_chess(policy, board)
                chosen = probs[np.flatnonzero(actions == action)[0]]
                assert chosen == pytest.approx(probs.max(), rel=1e-5)
                compared += 1
            board.push(action_to_move(action, board))
    assert compared > 80


def test_repetitions_change_what_a_policy_sees() -> None:
    policy = make_policy(3)
    with torch.no_grad():  # the plane of repetitions moves the logits, as training may have taught
        policy.stem.weight[:, 17] += 3.0
    boards = np.repeat(pack_fens([chess.STARTING_FEN]), 3, axis=0)
    one = player(policy, GREEDY)
    assert isinstance(one, Player)
    probs = one._probs
    seen: list[np.ndarray] = []
    one._probs = lambda *inputs: seen.append(inputs[0]) or probs(*inputs)  # type: ignore[method-assign]
    one.choose_with_history(boards, np.array([0, 1, 2]), [])
    assert seen[0][:, 17].max(axis=(1, 2)).tolist() == [0, 1, 2]
    np.testing.assert_array_equal(
        one.choose(boards, []), one.choose_with_history(boards, np.zeros(3, np.int64), [])
    )


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_moves_are_drawn_with_the_policys_probabilities(temperature: float) -> None:
    policy = make_policy(5)
    boards = np.repeat(pack_fens(["4k3/8/8/8/8/8/4P3/4K3 w - - 0 1"]), 1000, axis=0)
    rng = np.random.default_rng(0)
    drawn = player(policy, temperature).choose(boards, [rng] * 1000)
    board = chess.Board("4k3/8/8/8/8/8/4P3/4K3 w - - 0 1")
    actions, probs = seen_by_python_chess(policy, board)
    expected = probs ** (1 / temperature) / (probs ** (1 / temperature)).sum()
    counts = np.array([(drawn == action).sum() for action in actions])
    assert counts.sum() == 1000
    errors = np.sqrt(1000 * expected * (1 - expected))
    assert (abs(counts - 1000 * expected) < 4.5 * errors + 1).all()


@pytest.mark.parametrize("count", [1, 8, 31, 32, 75])
def test_a_board_gets_the_same_bits_however_many_others_there_are(count: int) -> None:
    policy = load_policy("warm")
    source, rng = make_start_positions("random_plies:2-40"), np.random.default_rng(count)
    boards = np.array([source.sample(rng) for _ in range(count)])
    planes, (legal_ids, _) = encode_batch(boards), legal_actions_batch(boards)
    one = player(policy, 1.0)
    together = one._probs(planes, legal_ids)
    assert together.shape == (count, 218)
    for row in (0, count // 2, count - 1):
        alone = one._probs(planes[row : row + 1], legal_ids[row : row + 1])
        np.testing.assert_array_equal(alone[0], together[row])


def test_large_passes_are_left_out_where_their_bits_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    policy, sizes = make_policy(), []
    outputs = policy.outputs

    def rounded_by_size(obs: torch.Tensor, ids: torch.Tensor, temperature: float, _: None) -> Any:
        sizes.append(len(obs))
        return outputs(obs, ids, temperature * (1 + 1e-6 * len(obs)))

    monkeypatch.setattr(policy, "outputs", rounded_by_size)
    one = player(policy, 1.0)
    sizes.clear()
    boards = np.repeat(pack_fens([chess.STARTING_FEN]), 70, axis=0)
    one.choose(boards, generators(70))
    assert sizes == [8] * 9
    monkeypatch.undo()
    monkeypatch.setattr(
        policy, "outputs", lambda *inputs: sizes.append(len(inputs[0])) or outputs(*inputs)
    )
    two = player(policy, 1.0)
    sizes.clear()
    two.choose(boards, generators(70))
    assert sizes in ([32, 32, 8], [8] * 9)  # as this machine rounds


@pytest.mark.parametrize("temperature", [-1.0, float("nan"), float("inf")])
def test_a_temperature_that_is_none_is_refused(temperature: float) -> None:
    with pytest.raises(ValueError, match="temperature of at least 0"):
        player(make_policy(), temperature)


def test_a_policy_that_gives_no_numbers_is_refused() -> None:
    policy = make_policy()
    with torch.no_grad():
        policy.action_bias[:] = float("nan")
    with pytest.raises(ValueError, match="not finite"):
        player(policy, 1.0).choose(pack_fens([chess.STARTING_FEN]), generators(1))
