"""Won endings played out: by hand, and every game replayed by python-chess."""

from __future__ import annotations

from typing import Any

import chess
import numpy as np
import pytest

from benchmarks.matches.client import ending_of
from chess_env.games.players import FunctionPlayer, RandomPlayer, make_player
from chess_env.matches.won_endings import play_ending
from chess_env.moves import action_to_move
from chess_env.positions.endings import WonPositions, draw_endings
from chess_env.rules.fen import pack_fens

# White mates in one; Black to move is White's pattern with colours swapped.
MATES = ("7k/8/6K1/8/8/8/8/1Q6 w - - 0 1", "1q6/8/8/8/8/6k1/8/7K b - - 0 1")
BLUNDER = "k7/8/8/1Q6/8/8/8/7K w - - 0 1"  # Qb6 is stalemate


def positions(*fens: str, mate_in: int = 1) -> WonPositions:
    return WonPositions("KQ-K", pack_fens(fens), np.full(len(fens), mate_in))


def mating(board: chess.Board, rng: np.random.Generator) -> chess.Move:
    for move in board.legal_moves:
        board.push(move)
        mates = board.is_checkmate()
        board.pop()
        if mates:
            return move
    return chess.Move.from_uci("b5b6")


def test_a_mate_counts_for_the_side_that_moves_first_and_a_stalemate_is_a_draw() -> None:
    player = FunctionPlayer(mating)
    result = play_ending(player, RandomPlayer(), positions(*MATES, BLUNDER), seed=0)
    assert [(game.won, game.ending, game.plies) for game in result.games] == [
        (True, "checkmate", 1),
        (True, "checkmate", 1),
        (None, "stalemate", 1),
    ]
    counts = result.counts()
    assert (counts["wins"], counts["draws"], counts["losses"]) == (2, 1, 0)
    assert counts["draw_causes"] == {"stalemate": 1}
    assert counts["median_plies_to_mate"] == counts["median_plies_of_a_forced_mate"] == 1


def test_a_stronger_side_that_is_mated_has_lost() -> None:
    fen = "7k/8/8/8/8/1r6/r7/7K w - - 0 1"  # Kg1 is the only move; only the name of the ending is wrong
    defender = FunctionPlayer(mating)
    result = play_ending(RandomPlayer(), defender, positions(fen), seed=1)
    assert [(game.won, game.plies) for game in result.games] == [(False, 2)]
    assert result.counts()["median_plies_to_mate"] is None


def test_python_chess_replays_every_game_and_agrees() -> None:
    drawn = draw_endings("KQ-KR", seed=2, count=30)
    result = play_ending(make_player("builtin"), make_player("random"), drawn, seed=2)
    assert result.wins > 0
    for game in result.games:
        board = chess.Board(game.fen)
        strong = board.turn
        for action in game.actions:
            assert ending_of(board) is None
            board.push(action_to_move(action, board))
        assert ending_of(board) == game.ending
        assert game.plies == len(game.actions)
        assert game.won == (None if game.ending != "checkmate" else board.turn != strong)


def test_games_are_seeded_and_do_not_depend_on_each_other() -> None:
    drawn = draw_endings("KP-K", seed=0, count=12)

    def play(which: Any, seed: int) -> list[tuple[int, ...]]:
        some = WonPositions("KP-K", drawn.positions[which], drawn.mate_in[which])
        result = play_ending(make_player("random"), make_player("random"), some, seed=seed)
        return [game.actions for game in result.games]

    assert play(slice(12), 5) == play(slice(12), 5) != play(slice(12), 6)
    assert play(slice(4), 5) == play(slice(12), 5)[:4]


def test_an_illegal_move_names_the_player_and_the_position() -> None:
    class Cheat(RandomPlayer):
        name = "cheat"

        def choose(self, positions: Any, rngs: Any) -> Any:
            return np.zeros(len(positions), np.int64)

    with pytest.raises(RuntimeError, match=r"'cheat' played illegal action 0 in 'k7/"):
        play_ending(Cheat(), RandomPlayer(), positions(BLUNDER), seed=0)
