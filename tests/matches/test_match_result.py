"""What is counted in a match, by hand, and its games as PGN."""

from __future__ import annotations

import io
from typing import Any

import chess
import chess.pgn
import numpy as np
import pytest

from chess_env.games.players import make_player
from chess_env.matches.arena import play_match
from chess_env.matches.match_result import Game, MatchResult, VoidPair, to_pgn
from chess_env.moves import action_to_move, move_to_action
from chess_env.positions.start_positions import make_start_positions
from chess_env.rules.fen import pack_fens, to_fen

START = pack_fens([chess.STARTING_FEN])[0]


def game(points: float, ending: str, plies: int = 10, **more: Any) -> Game:
    values: dict[str, Any] = {
        "pair": 0,
        "attempt": 0,
        "opening": START,
        "first_is_white": True,
        "actions": np.zeros(plies, np.int16),
        "final_lead_cp": 0,
        "first_best_lead_cp": 0,
        "second_best_lead_cp": 0,
    }
    return Game(points=points, ending=ending, **(values | more))


def leads(lead_cp: int, *, led: int, trailed: int) -> dict[str, int]:
    won = {"led_and_won": 2, "trailed_and_lost": 1}
    return {"lead_cp": lead_cp, "led": led, "trailed": trailed, **won}


def test_everything_is_counted_from_the_first_players_view() -> None:
    games = (
        game(1.0, "checkmate", plies=30, first_best_lead_cp=1000),
        game(
            0.5, "stalemate", first_best_lead_cp=1000, second_best_lead_cp=1000, final_lead_cp=1800
        ),
        game(0.0, "checkmate", plies=20, second_best_lead_cp=1000),
        game(0.5, "threefold_repetition", final_lead_cp=-200),
        game(1.0, "checkmate", first_best_lead_cp=1000, second_best_lead_cp=1000),
        game(0.5, "stalemate", first_best_lead_cp=899, second_best_lead_cp=300, final_lead_cp=100),
    )
    match = MatchResult("a", "b", games, (VoidPair(1, 0, "died"),), 4)
    assert match.pair_points() == [1.5, 0.5, 1.5]
    assert match.counts() == {
        "games": 6,
        "wins": 2,
        "draws": 3,
        "losses": 1,
        "draw_causes": {"stalemate": 2, "threefold_repetition": 1},
        "led": 3,
        "led_and_won": 2,
        "conversion": 2 / 3,
        "trailed": 3,
        "trailed_and_lost": 1,
        "leads": [
            leads(300, led=4, trailed=4),
            leads(500, led=4, trailed=3),
            leads(900, led=3, trailed=3),
            leads(1000, led=3, trailed=3),
        ],
        "mean_plies": 15.0,
        "median_lead_in_draws_cp": 100.0,
        "void_pairs": 1,
        "engine_restarts": 4,
    }


def test_without_leads_and_draws_their_shares_are_none() -> None:
    counts = MatchResult("a", "b", (game(1.0, "checkmate"),) * 2, (), 0).counts()
    assert counts["conversion"] is None
    assert counts["median_lead_in_draws_cp"] is None


@pytest.mark.parametrize(
    ("points", "first_is_white", "result"),
    [(1.0, True, "1-0"), (1.0, False, "0-1"), (0.0, True, "0-1"), (0.5, False, "1/2-1/2")],
)
def test_the_result_is_written_for_white(points: float, first_is_white: bool, result: str) -> None:
    assert game(points, "checkmate", first_is_white=first_is_white).result == result


def test_python_chess_reads_every_game_back_from_its_pgn() -> None:
    players = make_player("material"), make_player("random")
    match = play_match(
        *players,
        openings=make_start_positions("random_plies:2-40"),
        pairs=3,
        seed=0,
        max_plies=60,
    )
    file = io.StringIO("".join(to_pgn(match, "a match")))
    for number, played in enumerate(match.games):
        read = chess.pgn.read_game(file)
        assert read is not None
        assert read.errors == []
        names = ("material", "random") if played.first_is_white else ("random", "material")
        assert (read.headers["White"], read.headers["Black"]) == names
        assert read.headers["Event"] == "a match"
        assert read.headers["Round"] == f"{number // 2 + 1}.{number % 2 + 1}"
        assert read.headers["Result"] == played.result
        assert read.headers["Termination"] == played.ending
        board = read.board()
        assert board.fen() == to_fen(played.opening)
        moves = list(read.mainline_moves())
        assert len(moves) == len(played.actions)
        for move, action in zip(moves, played.actions.tolist(), strict=True):
            assert move == action_to_move(action, board)
            board.push(move)
    assert chess.pgn.read_game(file) is None


def test_a_name_puts_no_tag_and_no_move_into_the_pgn() -> None:
    name = 'runs/x"]\n[FEN "8/8/8/8/8/8/8/8 w - - 0 1"]\n\n1. e4 {\r\u2028'
    played = game(1.0, "checkmate", plies=0)
    match = MatchResult(name, "b\x00", (played,), (), 0)
    file = io.StringIO("".join(to_pgn(match, name)))
    read = chess.pgn.read_game(file)
    assert read is not None and read.errors == [] and read.board().fen() == to_fen(played.opening)
    shown = r"runs/x\"]?[FEN \"8/8/8/8/8/8/8/8 w - - 0 1\"]??1. e4 {??"
    assert read.headers["White"] == read.headers["Event"] == shown and read.headers["Black"] == "b?"
    assert chess.pgn.read_game(file) is None


def test_the_lines_of_a_long_game_are_short_and_a_backslash_is_written_twice() -> None:
    out, back = (move_to_action(chess.Move.from_uci(uci), chess.WHITE) for uci in ("g1f3", "f3g1"))
    actions = np.array([out, out, back, back] * 75, np.int16)
    played = game(0.5, "ply_limit", actions=actions)
    text = "".join(to_pgn(MatchResult("a\\" * 300, "b", (played,), (), 0), "event"))
    assert max(map(len, text.splitlines())) <= 255
    assert '[White "a\\\\a\\\\' in text
    read = chess.pgn.read_game(io.StringIO(text))
    assert read is not None and len(list(read.mainline_moves())) == len(played.actions)
