"""Draws by repetition when winning: whose error, by hand, and the position before the last move by python-chess."""

from __future__ import annotations

from typing import Any

import chess
import numpy as np
import pytest

from chess_env.games.players import make_player
from chess_env.matches.arena import play_match
from chess_env.matches.drawn_when_winning import (
    before_last_moves,
    drawn_when_winning,
    last_mover_is_white,
)
from chess_env.matches.match_result import Game, MatchResult
from chess_env.moves import action_to_move, move_to_action
from chess_env.positions.start_positions import make_start_positions
from chess_env.rules.fen import parse_fen, to_fen
from tests.env.material import MaterialEvaluator

QUEEN_UP = "6k1/5pp1/7p/8/8/8/5PPP/3Q2K1 w - - 0 1"
LEVEL = "6k1/5pp1/7p/8/8/8/5PPP/6K1 w - - 0 1"
CYCLE = ("g1f1", "g8f8", "f1g1", "f8g8")


def game(fen: str, ucis: tuple[str, ...], *, first_is_white: bool, **more: Any) -> Game:
    board, actions = chess.Board(fen), []
    for uci in ucis:
        actions.append(move_to_action(chess.Move.from_uci(uci), board.turn))
        board.push_uci(uci)
    values: dict[str, Any] = {
        "pair": 0, "attempt": 0, "opening": parse_fen(fen), "first_is_white": first_is_white,
        "actions": np.array(actions, np.int16), "points": 0.5, "ending": "threefold_repetition",
        "final_lead_cp": 0, "first_best_lead_cp": 0, "second_best_lead_cp": 0,
    }  # fmt: skip
    return Game(**(values | more))


@pytest.mark.parametrize("first_is_white", [True, False])
@pytest.mark.parametrize(("plies", "white_moves_last"), [(8, False), (9, True)])
def test_the_side_that_was_winning_is_charged_whoever_made_the_last_move(
    first_is_white: bool, plies: int, white_moves_last: bool
) -> None:
    drawn = game(QUEEN_UP, (*CYCLE, *CYCLE, "g1f1")[:plies], first_is_white=first_is_white)
    found = drawn_when_winning(MatchResult("a", "b", (drawn,), (), 0), MaterialEvaluator())
    (thrown,) = found.games
    assert thrown.score_cp == 900 and found.evaluator_id == "test-material"
    assert thrown.by_first == first_is_white  # White has the queen
    assert thrown.by_own_move == white_moves_last
    side = {"games": 1, "by_own_move": int(white_moves_last), "median_score_cp": 900.0}
    none = {"games": 0, "by_own_move": 0, "median_score_cp": None}
    values = found.to_dict()
    assert (values["first"], values["second"]) == ((side, none) if first_is_white else (none, side))


def test_level_games_and_other_endings_are_nobodys_error() -> None:
    level = game(LEVEL, CYCLE * 2, first_is_white=True)
    mated = game(QUEEN_UP, CYCLE * 2, first_is_white=True, ending="checkmate", points=1.0)
    cut_off = game(QUEEN_UP, CYCLE * 2, first_is_white=True, ending="ply_limit")
    fifty = game(QUEEN_UP, CYCLE * 2, first_is_white=False, ending="fifty_moves")
    match = MatchResult("a", "b", (level, mated, cut_off, fifty), (), 0)
    found = drawn_when_winning(match, MaterialEvaluator())
    assert found.drawn == 2
    assert [(each.ending, each.by_first) for each in found.games] == [("fifty_moves", False)]
    nothing = drawn_when_winning(MatchResult("a", "b", (mated,), (), 0), MaterialEvaluator())
    assert (nothing.drawn, nothing.games) == (0, ())


def test_python_chess_agrees_on_the_position_before_the_last_move() -> None:
    match = play_match(
        make_player("material"),
        make_player("random"),
        openings=make_start_positions("phase_mix"),
        pairs=10,
        seed=1,
        max_plies=80,
    )
    for played, position in zip(match.games, before_last_moves(match.games), strict=True):
        board = chess.Board(to_fen(played.opening))
        for action in played.actions[:-1].tolist():
            board.push(action_to_move(action, board))
        assert to_fen(position) == board.fen(en_passant="legal")
        assert last_mover_is_white(played) == board.turn
