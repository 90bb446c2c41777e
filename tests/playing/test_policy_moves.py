"""The moves played are those of the trained policy: same observation, same probabilities, honest sampling."""

from __future__ import annotations

import dataclasses
from collections import Counter

import chess
import numpy as np
import pytest
import torch

from algorithms.networks.policy_net import PolicyNet
from algorithms.playing.conversation import Request
from algorithms.playing.policy_moves import PolicyMoves
from algorithms.playing.position import board_of_gui, reached
from chess_env.evaluators import make_evaluator
from chess_env.move_facts import FACT_INDEX
from chess_env.moves import action_to_move, move_to_action
from chess_env.rules.fen import pack_board
from chess_env.vector_env import ChessSelfPlayVectorEnv
from tests.env.playing import SHUFFLE
from tests.evaluation.policies import small_policy
from tests.networks.facts_net import facts_policy, weight_of

PLAIN = Request(reached(None, ()), temperature=1.0, top_k=0, seed=None, searchmoves=None)
CASTLING = "r3k2r/pPp2ppp/8/3pP3/8/8/PPP2P1P/R3K2R w KQkq d6 0 9"
GAMES = [
    (None, ()),
    (None, ("e2e4", "c7c5", "g1f3")),
    (None, SHUFFLE),
    (None, (*SHUFFLE, *SHUFFLE, "g1f3")),
    (CASTLING, ()),
    (CASTLING, ("b7a8q", "e8d7", "e1g1")),
    ("7k/5Q2/8/8/8/8/8/K7 w - - 98 80", ("f7e6",)),
]


def asked(fen: str | None = None, moves: tuple[str, ...] = (), **changes) -> Request:
    return dataclasses.replace(PLAIN, position=reached(fen, moves), **changes)


@pytest.mark.parametrize(("fen", "moves"), GAMES)
@pytest.mark.parametrize("temperature", [0.3, 1.0, 2.5])
def test_probabilities_are_those_of_the_training_forward_on_the_vector_environment(
    fen: str | None, moves: tuple[str, ...], temperature: float
) -> None:
    policy = small_policy(0)
    vec = ChessSelfPlayVectorEnv(num_envs=1, evaluator="none", threefold=False, fifty_move=False)
    board = chess.Board(fen or chess.STARTING_FEN)
    planes, info = vec.reset(seed=0, options={"fens": [board.fen()]})
    for text in moves:
        move = chess.Move.from_uci(text)
        planes, _, _, _, info = vec.step(np.array([move_to_action(move, board.turn)]))
        board.push(move)
    vec.close()
    legal_ids = info["legal_ids"]
    with torch.no_grad():
        dist = policy.outputs(
            torch.from_numpy(planes), torch.from_numpy(legal_ids), temperature
        ).dist
    expected = {
        action_to_move(int(action), board): float(prob)
        for action, prob in zip(legal_ids[0], dist.probs[0], strict=True)
        if action >= 0
    }
    answer = PolicyMoves(policy)(asked(fen, moves, temperature=temperature))
    given = dict(zip(answer.moves, answer.probs, strict=True))
    assert given == pytest.approx(expected, rel=1e-4, abs=1e-7)
    assert list(answer.probs) == sorted(answer.probs, reverse=True)
    assert answer.best in expected


def test_repetitions_are_counted_with_castling_rights_and_legal_en_passant() -> None:
    # The rook's excursion costs the right to castle, so the first return is a new position.
    rook = ("h1g1", "e8e7", "g1h1", "e7e8")
    fen = "4k3/8/8/8/8/8/8/4K2R w K - 0 1"
    assert [reached(fen, rook * n).repetitions for n in range(3)] == [0, 0, 1]
    # After e2e4 a capture en passant is possible once, in a position that looks the same later.
    fen = "4k3/8/8/8/3p4/8/4P3/4K3 w - - 0 1"
    kings = ("e8e7", "e1e2", "e7e8", "e2e1")
    assert [reached(fen, ("e2e4", *kings * n)).repetitions for n in range(3)] == [0, 0, 1]


def test_temperature_zero_plays_the_most_probable_move_and_shows_probabilities_at_one() -> None:
    moves = PolicyMoves(small_policy(0))
    greedy, plain = moves(asked(temperature=0.0)), moves(asked())
    assert greedy.best == greedy.moves[0]
    assert (greedy.moves, greedy.probs) == (plain.moves, plain.probs)
    seeds = (None, *range(10))
    assert {moves(asked(temperature=0.0, top_k=5, seed=s)).best for s in seeds} == {greedy.best}


def test_moves_are_sampled_with_their_probabilities_within_top_k() -> None:
    moves, draws, kept = PolicyMoves(small_policy(0)), 200, 3
    answer = moves(asked(temperature=0.5, top_k=kept))
    assert sum(answer.probs) == pytest.approx(1.0, abs=1e-5)  # of all moves, not of those kept
    assert len(answer.moves) == 20
    seen = Counter(moves(asked(temperature=0.5, top_k=kept, seed=s)).best for s in range(draws))
    assert seen.keys() <= set(answer.moves[:kept])
    total = sum(answer.probs[:kept])
    for move, prob in zip(answer.moves[:kept], answer.probs, strict=False):
        share = prob / total
        error = (share * (1 - share) / draws) ** 0.5
        assert abs(seen[move] / draws - share) < 4.5 * error


def test_the_same_seed_plays_the_same_move_whatever_came_before() -> None:
    one, other = PolicyMoves(small_policy(0, spread=0.3)), PolicyMoves(small_policy(0, spread=0.3))
    requests = [asked(None, moves, seed=7) for fen, moves in GAMES if fen is None]
    forward = [one(request).best for request in requests]
    for _ in range(3):
        one(asked())
    assert [other(request).best for request in reversed(requests)] == forward[::-1]
    seeds = {one(asked(seed=seed)).best for seed in range(30)}
    assert len(seeds) > 5
    without = {one(asked()).best for _ in range(30)}
    assert len(without) > 5


def test_only_searchmoves_are_chosen_and_their_probabilities_stay() -> None:
    moves = PolicyMoves(small_policy(0))
    everywhere = moves(asked())
    plain = dict(zip(everywhere.moves, everywhere.probs, strict=True))
    allowed = tuple(map(chess.Move.from_uci, ("a2a3", "h2h4")))
    for temperature in (0.0, 1.0):
        answer = moves(asked(temperature=temperature, searchmoves=allowed))
        assert set(answer.moves) == set(allowed)
        assert answer.best in allowed
        assert answer.probs == tuple(plain[move] for move in answer.moves)


@pytest.mark.parametrize(("fen", "moves"), GAMES)
def test_a_policy_that_reads_move_facts_is_given_those_of_the_vector_environment(
    fen: str | None, moves: tuple[str, ...]
) -> None:
    vec = ChessSelfPlayVectorEnv(
        num_envs=1, evaluator="none", threefold=False, fifty_move=False, move_facts=True
    )
    board = chess.Board(fen or chess.STARTING_FEN)
    _, info = vec.reset(seed=0, options={"fens": [board.fen()]})
    for text in moves:
        move = chess.Move.from_uci(text)
        *_, info = vec.step(np.array([move_to_action(move, board.turn)]))
        board.push(move)
    vec.close()
    policy = facts_policy()
    with torch.no_grad():  # whether a position repeats decides, were it only by this
        weight_of(policy)[FACT_INDEX.repeats] = 5.0
        facts = torch.from_numpy(info["move_facts"])
        ids = torch.from_numpy(info["legal_ids"][:, : facts.shape[1]])
        facts[..., FACT_INDEX.rule50_limit] = 0  # at 150 half-moves there, at 100 in a match
        probs = policy.outputs(ids, ids, 1.0, facts).dist.probs[0]
    answer = PolicyMoves(policy)(asked(fen, moves, temperature=1.0))
    given = dict(zip(answer.moves, answer.probs, strict=True))
    expected = {
        action_to_move(int(action), board): float(prob)
        for action, prob in zip(ids[0], probs, strict=True)
    }
    assert given == pytest.approx(expected, rel=1e-4, abs=1e-7)


def test_the_line_of_a_position_begins_at_the_last_irreversible_move() -> None:
    assert [len(reached(None, moves).line) for moves in ((), ("e2e4",), SHUFFLE)] == [1, 1, 5]  # type: ignore[arg-type]
    late = reached("4k3/8/8/8/8/8/8/4K2R w K - 30 60", ("h1g1", "e8e7"))
    assert late.line is not None and late.line.shape == (3, 8)
    assert np.array_equal(late.line[-1], pack_board(late.board))


ODD = [
    "QQQQQQBk/Q6B/Q6Q/Q6Q/Q6Q/Q6Q/Q6Q/KQQQQQQQ w - - 0 1",  # 265 moves: the kernels have room for 218
    "QQQQQQBk/Q6B/Q6Q/Q6Q/Q2p3Q/Q6Q/Q6Q/KQQQQQQQ b - - 0 1",  # the replies are more
    "4k3/8/8/PPPPPPPP/PPPPPPPP/PPPPPPPP/8/4K3 w - - 0 1",
    "k7/8/8/8/8/8/8/Pp1QQQQK b - - 0 1",  # pawns on their own and on the other back rank
    "k7/8/1QRB4/8/8/8/2q5/4K3 b - - 3 9",
    "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBQQ w KQkq - 0 1",
]


@pytest.mark.parametrize("fen", ODD)
@pytest.mark.parametrize("policy", [small_policy(0), facts_policy()], ids=["plain", "facts"])
def test_a_board_that_no_game_reaches_is_played_by_a_gui(fen: str, policy: PolicyNet) -> None:
    position = reached(fen, (), read=board_of_gui)
    moves = PolicyMoves(policy, make_evaluator("builtin"))
    answer = moves(dataclasses.replace(PLAIN, position=position))
    assert set(answer.moves) == set(chess.Board(fen).legal_moves)
    assert answer.best in answer.moves and sum(answer.probs) == pytest.approx(1.0, abs=1e-4)


def test_the_scores_are_the_evaluator_s_of_the_moves_in_their_order() -> None:
    answer = PolicyMoves(small_policy(0), make_evaluator("builtin"))(
        asked(CASTLING, ("b7a8q", "e8d7"))
    )
    board = reached(CASTLING, ("b7a8q", "e8d7")).board
    with make_evaluator("builtin") as judge:
        for move, score in zip(answer.moves, answer.scores_cp, strict=True):
            board.push(move)
            assert score == -judge.evaluate([board.fen()])[0]
            board.pop()
