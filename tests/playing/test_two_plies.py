"""A look two plies ahead is minimax over python-chess's moves, and the rules and the game so far decide first."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import chess
import pytest

from algorithms.playing.conversation import Answer, Conversation, Line, Request, parse
from algorithms.playing.policy_moves import PolicyMoves
from algorithms.playing.position import board_of_gui, reached
from algorithms.playing.two_plies import look_ahead
from chess_env.evaluators import make_evaluator
from chess_env.moves import legal_actions, move_to_action
from tests.env.playing import SHUFFLE
from tests.evaluation.policies import small_policy

EVALUATOR = make_evaluator("builtin", num_threads=1)
ALL = 218
GREEDY = Request(reached(None, ()), temperature=0.0, top_k=0, seed=None, searchmoves=None)
STALEMATE = "7k/8/8/6Q1/8/8/8/K7 w - - 0 1"  # Qg6 leaves Black without a move
QUEEN_HANGS = "4k3/8/2n5/8/3Q4/8/3P4/4K3 w - - 0 1"
KNIGHTS = ("g1f3", "b8c6", "f3g1", "c6b8")


def lines_of(fen: str | None, moves: Sequence[str] = ()) -> dict[str, Line]:
    position = reached(fen, moves)
    lines = look_ahead(position, legal_actions(position.board).tolist(), EVALUATOR)
    assert [line.score_cp for line in lines] == sorted((e.score_cp for e in lines), reverse=True)
    return {line.moves[0].uci(): line for line in lines}


def by_python_chess(board: chess.Board) -> dict[str, int]:
    """Score of each move by minimax, its rules and repetitions being python-chess's."""
    seen = set()
    copy = board.copy()
    while True:
        seen.add(copy._transposition_key())
        if not copy.move_stack:
            break
        copy.pop()

    def drawn() -> bool:
        over = board.is_stalemate() or board.is_insufficient_material() or board.is_fifty_moves()
        return over or board._transposition_key() in seen

    found = {}
    for move in list(board.legal_moves):
        board.push(move)
        if board.is_checkmate():
            found[move.uci()] = 10_000
        elif drawn():
            found[move.uci()] = 0
        else:
            replies = []
            for reply in list(board.legal_moves):
                board.push(reply)
                if board.is_checkmate():
                    replies.append(-9_999)
                elif drawn():
                    replies.append(0)
                else:
                    score = int(EVALUATOR.evaluate([board.fen()])[0])
                    replies.append(score + (score < -9_000))
                board.pop()
            found[move.uci()] = min(replies)
        board.pop()
    return found


@pytest.mark.parametrize(
    ("fen", "moves"),
    [
        (None, ("e2e4", "c7c5", "g1f3")),
        (None, KNIGHTS),
        (None, (*SHUFFLE, "g1f3")),
        (
            "4k3/pp6/8/8/8/8/PP5N/4K3 w - - 0 1",
            ("e1d1", "e8d8"),
        ),  # Ke1 Ke8 would be the start again
        (STALEMATE, ()),
        ("r3k2r/pPp2ppp/8/3pP3/8/8/PPP2P1P/R3K2R w KQkq d6 0 9", ("b7a8q", "e8d7")),
        ("4k3/3r4/8/8/8/8/R7/4K2R w K - 98 80", ()),
        ("8/8/8/8/8/1k6/8/K1r5 w - - 3 60", ()),
        ("8/2k5/8/8/8/8/1p6/K6N w - - 0 60", ()),
    ],
)
def test_every_move_has_the_score_of_minimax_by_python_chess(
    fen: str | None, moves: tuple[str, ...]
) -> None:
    board = chess.Board() if fen is None else chess.Board(fen)
    for move in moves:
        board.push_uci(move)
    assert {move: line.score_cp for move, line in lines_of(fen, moves).items()} == by_python_chess(
        board
    )


def test_a_line_ends_with_the_reply_that_is_worst_for_the_mover() -> None:
    lines = lines_of(QUEEN_HANGS)
    assert [move.uci() for move in lines["d4a7"].moves] == ["d4a7", "c6a7"]
    best = max(lines.values(), key=lambda line: line.score_cp)
    assert lines["d4a7"].score_cp < best.score_cp - 500


def test_only_the_first_moves_of_the_policy_are_looked_at_and_without_a_search_none() -> None:
    thinker = PolicyMoves(small_policy(0), EVALUATOR)
    plain = thinker(GREEDY)
    assert plain.lines is None and plain.best == plain.moves[0]
    for search in (1, 3, ALL):
        answer = thinker(dataclasses.replace(GREEDY, search=search, temperature=0.0))
        assert answer.lines is not None
        assert {line.moves[0] for line in answer.lines} == set(plain.moves[:search])
        assert answer.best == answer.lines[0].moves[0]
        assert (answer.moves, answer.probs) == (plain.moves, plain.probs)
    allowed = (plain.moves[5], plain.moves[9])
    answer = thinker(dataclasses.replace(GREEDY, search=1, searchmoves=allowed, temperature=1.0))
    assert answer.best == allowed[0]


def test_of_equal_moves_the_more_probable_one_is_played() -> None:
    bare = reached("8/8/4k3/8/8/3K4/8/8 w - - 0 1", ())  # a draw whatever is played
    for order in (1, -1):
        actions = legal_actions(bare.board).tolist()[::order]
        lines = look_ahead(bare, actions, EVALUATOR)
        assert [move_to_action(line.moves[0], chess.WHITE) for line in lines] == actions


def talk(*lines: str, thinker: PolicyMoves | None = None) -> list[str]:
    requests: list[Request] = []
    conversation = Conversation("small", requests.append)
    conversation.loaded()
    thinker, said = thinker or PolicyMoves(small_policy(0), EVALUATOR), []
    for line in lines:
        said += conversation.heard(parse(line.encode()))
        while requests:
            said += conversation.answered(thinker(requests.pop()))
    return said


def test_a_gui_is_told_depth_score_and_both_moves_and_the_played_one_stands_first() -> None:
    position = f"position fen {QUEEN_HANGS}"
    said = talk("setoption name Search value 218", "setoption name MultiPV value 2", position, "go")
    assert len(said) == 3
    for number, line in enumerate(said[:2], 1):
        words = line.split()
        assert words[:6] == ["info", "depth", "2", "multipv", str(number), "score"]
        assert words[6] == "cp"
        board = chess.Board(QUEEN_HANGS)
        first, reply, string = words[words.index("pv") + 1 : words.index("pv") + 4]
        assert board.parse_uci(first) in board.legal_moves
        board.push_uci(first)
        assert board.parse_uci(reply) in board.legal_moves
        assert string == "string"
    assert said[2] == f"bestmove {said[0].split()[9]}"


def test_mates_are_told_in_the_moves_of_the_side_that_mates() -> None:
    search = "setoption name Search value 218"
    mates = talk(search, "position fen 6k1/5ppp/8/8/8/8/8/3R2K1 w - - 0 1", "go")
    assert mates[0].startswith("info depth 2 multipv 1 score mate 1 pv d1d8 string p=")
    mated = talk(search, "position fen 1r4k1/2r5/8/8/8/8/8/K7 w - - 0 1", "go")
    assert mated[0].startswith("info depth 2 multipv 1 score mate -1 pv a1a2 c7a7 string p=")


@pytest.mark.parametrize("value", ["-1", "219", "all", "", "1.5"])
def test_a_search_that_is_none_is_refused_and_nothing_changes(value: str) -> None:
    (said,) = talk(f"setoption name Search value {value}")
    assert said.startswith("info string option Search stays 0: ")
    assert said.endswith("is not a whole number from 0 to 218")


def test_a_board_that_no_game_reaches_is_played_by_the_policy_and_that_is_said() -> None:
    fen = "QQQQQQBk/Q6B/Q6Q/Q6Q/Q6Q/Q6Q/Q6Q/KQQQQQQQ w - - 0 1"
    said = talk("setoption name Search value 4", f"position fen {fen}", "go")
    assert said[0] == "info string Search is left out: no game can reach this board"
    thinker = PolicyMoves(small_policy(0), EVALUATOR)
    position = reached(fen, (), read=board_of_gui)
    best = thinker(dataclasses.replace(GREEDY, position=position)).best
    assert best is not None and said[-1] == f"bestmove {best.uci()}"


def test_an_answer_without_a_move_needs_no_search() -> None:
    mate = reached(None, ("f2f3", "e7e5", "g2g4", "d8h4"))
    answer = PolicyMoves(small_policy(0), EVALUATOR)(
        dataclasses.replace(GREEDY, position=mate, search=4)
    )
    assert answer == Answer((), (), None)
