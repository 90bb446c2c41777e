"""Players: legal choices, seeded, independent of the batch, and clear errors."""

from __future__ import annotations

from typing import Any

import chess
import chess.engine
import numpy as np
import pytest

from chess_env.games.players import (
    GreedyPlayer,
    MixedPlayer,
    Player,
    RandomPlayer,
    ask,
    make_player,
)
from chess_env.moves import move_to_action
from chess_env.positions.start_positions import make_start_positions
from chess_env.rules.fen import pack_fens, to_fen
from chess_env.rules.rules import legal_actions_batch
from tests.env.material import MaterialEvaluator

MATE_IN_ONE = "6k1/5ppp/8/8/8/8/8/R3K3 w - - 0 1"
BLACK_WINS_A_QUEEN = "4k3/8/8/3r4/3Q4/8/8/4K3 b - - 0 1"


def positions(count: int) -> Any:
    source = make_start_positions("random_plies:2-40")
    rng = np.random.default_rng(0)
    return np.array([source.sample(rng) for _ in range(count)])


def generators(count: int) -> list[np.random.Generator]:
    return [np.random.default_rng(seed) for seed in range(count)]


@pytest.mark.parametrize("name", ["random", "greedy", "material", "mixed"])
def test_choices_are_legal_seeded_and_independent_of_the_batch(name: str) -> None:
    greedy = GreedyPlayer(MaterialEvaluator())
    player: Player = {
        "random": RandomPlayer(),
        "greedy": greedy,
        "material": make_player("material"),
        "mixed": MixedPlayer(greedy, 0.5),
    }[name]
    boards = positions(40)
    actions = player.choose(boards, generators(40))
    legal_ids, _ = legal_actions_batch(boards)
    assert all(action in ids for action, ids in zip(actions, legal_ids, strict=True))
    singly = [player.choose(boards[k : k + 1], [rng])[0] for k, rng in enumerate(generators(40))]
    np.testing.assert_array_equal(actions, singly)


def test_the_greedy_player_mates_and_captures_for_either_colour() -> None:
    boards = pack_fens([MATE_IN_ONE, BLACK_WINS_A_QUEEN])
    actions = GreedyPlayer(MaterialEvaluator()).choose(boards, generators(2))
    assert actions.tolist() == [
        move_to_action(chess.Move.from_uci("a1a8"), chess.WHITE),
        move_to_action(chess.Move.from_uci("d5d4"), chess.BLACK),
    ]


def test_the_random_player_spreads_over_all_moves_evenly() -> None:
    boards = np.repeat(pack_fens([chess.STARTING_FEN]), 4000, axis=0)
    rng = np.random.default_rng(0)
    counts = np.bincount(RandomPlayer().choose(boards, [rng] * 4000), minlength=1858)
    assert (counts > 0).sum() == 20
    assert abs(counts[counts > 0] - 200).max() < 70  # five standard deviations


def test_a_mixed_player_plays_randomly_as_often_as_it_says() -> None:
    boards = np.repeat(pack_fens([MATE_IN_ONE]), 2000, axis=0)
    player = MixedPlayer(GreedyPlayer(MaterialEvaluator()), 0.4)
    rng = np.random.default_rng(0)
    mate = move_to_action(chess.Move.from_uci("a1a8"), chess.WHITE)
    share = (player.choose(boards, [rng] * 2000) == mate).mean()
    num_legal = len(list(chess.Board(MATE_IN_ONE).legal_moves))
    assert share == pytest.approx(0.6 + 0.4 / num_legal, abs=0.04)


def test_names_make_players_that_say_what_they_are() -> None:
    assert make_player("random").name == "random"
    mixed = make_player("random@random=0.25")
    assert mixed.name == "random@random=0.25"
    assert make_player(MaterialEvaluator()).name == "greedy(test-material)"
    assert make_player(mixed) is mixed


@pytest.mark.stockfish
def test_stockfish_at_one_node_mates_in_one() -> None:
    player = make_player("stockfish:nodes=1")
    try:
        assert player.name.startswith("greedy(stockfish")
        action = player.choose(pack_fens([MATE_IN_ONE]), generators(1))[0]
    finally:
        player.close()
    assert action == move_to_action(chess.Move.from_uci("a1a8"), chess.WHITE)


@pytest.mark.stockfish
def test_the_engine_player_makes_the_move_that_the_engine_announces() -> None:
    source, rng = make_start_positions("phase_mix"), np.random.default_rng(1)
    boards = np.array([source.sample(rng) for _ in range(25)])
    player = make_player("engine:nodes=200")
    try:
        actions = player.choose(boards, generators(25))
        path = str(player.evaluator.path)
    finally:
        player.close()
    assert player.name.startswith("engine(stockfish")
    with chess.engine.SimpleEngine.popen_uci(path) as engine:
        engine.configure({"Hash": 1, "Threads": 1})
        for position, action in zip(boards, actions, strict=True):
            board = chess.Board(to_fen(position))
            board.halfmove_clock, board.fullmove_number = 0, 1  # as our engines are asked
            played = engine.play(board, chess.engine.Limit(nodes=200), game=object())
            assert played.move is not None
            assert move_to_action(played.move, board.turn) == action


def test_repetitions_reach_the_player_behind_a_mixed_one() -> None:
    class Counting(RandomPlayer):
        seen: Any = None

        def choose_with_history(self, boards: Any, repetitions: Any, rngs: Any) -> Any:
            self.seen = repetitions.tolist()
            return self.choose(boards, rngs)

    player, boards = Counting(), positions(3)
    ask(MixedPlayer(player, 0.0), boards, np.array([0, 1, 2]), generators(3))
    assert player.seen == [0, 1, 2]
    # A player that does not look at them is asked without.
    plain = ask(RandomPlayer(), boards, np.array([0, 1, 2]), generators(3))
    np.testing.assert_array_equal(plain, RandomPlayer().choose(boards, generators(3)))


def test_a_function_plays_from_a_python_chess_board() -> None:
    def last_move(board: chess.Board, rng: np.random.Generator) -> chess.Move:
        return sorted(board.legal_moves, key=str)[-1]

    player = make_player(last_move)
    assert player.name == "last_move"
    action = player.choose(pack_fens([chess.STARTING_FEN]), generators(1))[0]
    assert action == move_to_action(chess.Move.from_uci("h2h4"), chess.WHITE)


def test_a_function_that_returns_an_illegal_move_is_named() -> None:
    player = make_player(lambda board, rng: chess.Move.from_uci("e2e5"))
    with pytest.raises(ValueError, match=r"<lambda>.*e2e5.*legal_moves"):
        player.choose(pack_fens([chess.STARTING_FEN]), generators(1))


@pytest.mark.parametrize(
    ("player", "message"),
    [
        ("none", "opponent=None"),
        ("rndom", "expected 'random', 'material', .*did you mean 'random'"),
        ("materiel@random=0.5", "did you mean 'material'"),
        ("engin:nodes=10", "did you mean 'engine:nodes=1'"),
        ("builtn", "did you mean 'builtin'"),
        ("stokfish:nodes=1", "did you mean 'stockfish:nodes=1'"),
        ("random@random=2", "probability behind '@random='"),
        ("random@random=x", "probability behind '@random='"),
        (12, "player is 12"),
    ],
)
def test_what_is_no_player_is_an_error(player: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_player(player)
