"""Material counted by hand and against python-chess, and the player that looks no further."""

from __future__ import annotations

import chess
import numpy as np

from chess_env.games.players import MaterialPlayer, material_cp
from chess_env.moves import action_to_move, move_to_action
from chess_env.positions.start_positions import make_start_positions
from chess_env.rules.fen import pack_fens, to_fen
from tests.env.replay import lead_cp


def moves_of(fen: str, tries: int = 200) -> set[str]:
    rng = np.random.default_rng(0)
    boards = np.repeat(pack_fens([fen]), tries, axis=0)
    board = chess.Board(fen)
    actions = MaterialPlayer().choose(boards, [rng] * tries)
    return {action_to_move(int(action), board).uci() for action in actions}


def test_the_balance_is_that_of_the_men_for_the_side_to_move() -> None:
    queen_and_pawn_for_rook = "4k3/8/8/3r4/3Q4/8/4P3/4K3 {} - - 0 1"
    fens = [queen_and_pawn_for_rook.format(side) for side in "wb"]
    assert material_cp(pack_fens(fens)).tolist() == [500, -500]


def test_the_balance_is_that_of_python_chess() -> None:
    source, rng = make_start_positions("phase_mix"), np.random.default_rng(0)
    positions = np.array([source.sample(rng) for _ in range(200)])
    boards = [chess.Board(to_fen(position)) for position in positions]
    assert material_cp(positions).tolist() == [lead_cp(board, board.turn) for board in boards]


def test_the_player_mates_takes_the_most_and_spares_a_stalemate() -> None:
    assert moves_of("6k1/5ppp/8/8/8/8/8/R3K3 w - - 0 1") == {"a1a8"}
    assert moves_of("4k3/8/8/3r4/3Q3p/6P1/8/4K3 w - - 0 1") == {"d4d5"}
    assert moves_of("4k3/8/8/3r4/3Q4/8/8/4K3 b - - 0 1") == {"d5d4"}
    assert "b2b6" not in moves_of("k7/8/8/8/8/8/1Q6/7K w - - 0 1")


def test_equal_moves_are_drawn_evenly() -> None:
    boards = np.repeat(pack_fens([chess.STARTING_FEN]), 4000, axis=0)
    rng = np.random.default_rng(0)
    counts = np.bincount(MaterialPlayer().choose(boards, [rng] * 4000), minlength=1858)
    assert (counts > 0).sum() == 20
    assert abs(counts[counts > 0] - 200).max() < 70  # five standard deviations


def test_a_promotion_counts_as_the_queen_it_makes() -> None:
    push = move_to_action(chess.Move.from_uci("a7a8q"), chess.WHITE)
    boards = pack_fens(["8/P6k/8/8/8/8/8/K7 w - - 0 1"])
    assert MaterialPlayer().choose(boards, [np.random.default_rng(0)]).tolist() == [push]
