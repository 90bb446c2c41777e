"""The set of obvious moves: its size, its kinds, and that right and wrong moves are what they are said to be."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import chess
import numpy as np
import pytest

from benchmarks.positions.obvious_build import GAPS, by_table, graded, position_key, win_prob
from benchmarks.positions.obvious_candidates import attacked_men, hanging_captures
from benchmarks.positions.obvious_proofs import mating_moves
from chess_env.positions.obvious_moves import (
    KINDS,
    OBVIOUS_PATH,
    ObviousPosition,
    read_obvious,
)


def boards(kind: str, every: int = 1) -> list[tuple[ObviousPosition, chess.Board]]:
    """The positions of a kind, every so many, with boards that know their history."""
    found = []
    for position in read_obvious().of_kind(kind)[::every]:
        board = chess.Board(position.start_fen)
        for move in position.history:
            board.push_uci(move)
        found.append((position, board))
    return found


def after(board: chess.Board, move: str) -> chess.Board:
    board = board.copy()
    board.push_uci(move)
    return board


def test_the_set_has_30_positions_of_each_kind_and_half_are_for_white() -> None:
    obvious = read_obvious()
    assert len(obvious) >= 240
    for kind in KINDS:
        of_kind = obvious.of_kind(kind)
        white = sum(chess.Board(each.fen).turn for each in of_kind)
        assert len(of_kind) >= 30 and 2 * white == len(of_kind), kind
    assert "depth 18" in obvious.judge


def test_the_sources_are_mixed_where_positions_are_not_drawn_from_tables() -> None:
    for kind in KINDS:
        sources = Counter(each.source for each in read_obvious().of_kind(kind))
        drawn_only = kind.startswith("progress") or kind == "queening_three_men"
        assert drawn_only or len(sources) >= 2, (kind, sources)


def test_no_position_is_there_twice_nor_with_the_colours_exchanged() -> None:
    keys = [position_key(chess.Board(each.fen)) for each in read_obvious().positions]
    assert len(set(keys)) == len(keys)


def test_the_file_is_small_and_has_a_line_for_each_position() -> None:
    text = OBVIOUS_PATH.read_text(encoding="utf-8")
    assert len(text) < 300_000
    assert len(text.splitlines()) < len(read_obvious()) + 20


@pytest.mark.parametrize("num_moves", [1, 2])
def test_a_sample_of_short_mates_is_proven_again(num_moves: int) -> None:
    for position, board in boards(f"mate_in_{num_moves}", every=4):
        legal = {move.uci() for move in board.legal_moves}
        right = {move for move in legal if forces_mate(board, move, num_moves)}
        assert right == set(position.right)
        assert set(position.wrong) == legal - right
        assert num_moves == 1 or not any(after(board, move).is_checkmate() for move in legal)


def test_the_first_moves_of_mates_in_three_are_proven_again() -> None:
    for position, board in boards("mate_in_3", every=8):
        assert all(forces_mate(board, move, 3) for move in position.right)
        assert not any(forces_mate(board, move, 2) for move in position.right)


def forces_mate(board: chess.Board, move: str, num_moves: int) -> bool:
    """Written again, without the generator's order of moves and shortcuts."""
    child = after(board, move)
    if child.is_checkmate():
        return True
    if num_moves == 1 or child.is_game_over():
        return False
    return all(
        any(forces_mate(reached, follow.uci(), num_moves - 1) for follow in reached.legal_moves)
        for reached in (after(child, reply.uci()) for reply in child.legal_moves)
    )


def test_the_stalemating_moves_are_wrong_and_there_is_one_in_each_position() -> None:
    for position, board in boards("no_stalemate"):
        stalemates = {
            move.uci() for move in board.legal_moves if after(board, move.uci()).is_stalemate()
        }
        assert stalemates and stalemates <= set(position.wrong)


@pytest.mark.parametrize("kind", ["repeat_when_lost", "no_repeat_when_won"])
def test_the_third_occurrence_is_right_when_lost_and_wrong_when_won(kind: str) -> None:
    for position, board in boards(kind):
        third = {
            move.uci() for move in board.legal_moves if after(board, move.uci()).is_repetition(3)
        }
        assert third
        if kind == "repeat_when_lost":
            assert set(position.right) <= third
        else:
            assert third <= set(position.wrong)


def test_the_right_moves_of_queening_promote_to_a_queen() -> None:
    for kind in ("queening", "queening_three_men"):
        for position, board in boards(kind):
            assert all(move.endswith("q") for move in position.right)
            assert board.occupied == board.pawns | board.kings
            assert (chess.popcount(board.pawns) == 1) == (kind == "queening_three_men")


def test_the_right_moves_take_a_hanging_piece_or_bring_an_attacked_one_away() -> None:
    for position, board in boards("take_hanging"):
        assert set(position.right) <= {move.uci() for move in hanging_captures(board)}
        for move in position.right:
            assert board.piece_type_at(chess.parse_square(move[2:4])) in (chess.ROOK, chess.QUEEN)
    for position, board in boards("save_attacked"):
        men = attacked_men(board)
        attackers = {square for man in men for square in board.attackers(not board.turn, man)}
        for move in map(chess.Move.from_uci, position.right):
            assert move.from_square in men or move.to_square in attackers


def test_mates_in_two_of_the_tables_are_those_that_a_search_finds() -> None:
    mate_in_2 = [
        (position, board)
        for kind in ("progress_kq_k", "progress_kr_k")
        for position, board in boards(kind)
        if position.proof.startswith("table: mate in 2,")
    ]
    assert mate_in_2
    for position, board in mate_in_2:
        assert {move.uci() for move in mating_moves(board, 2)} == set(position.right)


def test_the_moves_of_three_men_are_those_of_the_tables() -> None:
    for kind in ("queening_three_men", "progress_kq_k", "progress_kr_k"):
        for position, board in boards(kind):
            found = by_table(board)
            assert [move.uci() for move in found.right] == list(position.right)
            assert [move.uci() for move in found.wrong] == list(position.wrong)
            assert found.proof == position.proof


def test_moves_between_the_gaps_are_neither_right_nor_wrong() -> None:
    right, wrong = graded(np.array([400, 395, 330, 240, -100], np.int32))
    prob = win_prob(np.array([400, 330, 240]))
    assert prob[0] - prob[1] > GAPS["right_within_win_prob"]  # and so 330 is not right
    assert prob[0] - prob[2] > GAPS["wrong_by_win_prob"]
    assert right.tolist() == [True, True, False, False, False]
    assert wrong.tolist() == [False, False, False, True, True]


def test_a_longer_mate_is_wrong_only_where_its_length_counts() -> None:
    score_cp = np.array([9992, 9991, 9989, 9988, 1500], np.int32)
    assert [mask.tolist() for mask in graded(score_cp)] == [[True] * 5, [False] * 5]
    right, wrong = graded(score_cp, by_mate=True)
    assert right.tolist() == [True, True, False, False, False]
    assert wrong.tolist() == [False, False, False, True, True]


def test_a_mate_that_one_reply_prevents_is_no_mate() -> None:
    board = chess.Board("7k/6pp/8/8/8/8/8/R5K1 w - - 0 1")  # back rank
    assert [move.uci() for move in mating_moves(board, 1)] == ["a1a8"]
    board = chess.Board("7k/6p1/7p/8/8/8/8/R5K1 w - - 0 1")  # the king goes to h7
    assert mating_moves(board, 2) == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"right": []}, "no right or no wrong move"),
        ({"right": ["a1a8"], "wrong": ["a1a8"]}, "one twice"),
        ({"wrong": ["a1b8"]}, "a1b8 cannot be played"),
        ({"kind": "mate_in_9"}, "mate_in_9"),
        ({"history": ["g1f1"]}, "the history leads to"),
        ({"fen": "7k/6pp/8/8/8/8/8/R7 w - - 0 1"}, "no legal position"),
    ],
)
def test_a_wrong_entry_is_named(changes: dict, said: str, tmp_path: Path) -> None:
    entry = {
        "kind": "mate_in_1", "fen": "7k/6pp/8/8/8/8/8/R5K1 w - - 0 1", "right": ["a1a8"],
        "wrong": ["a1a7"], "source": "drawn endings", "proof": "rules",
    }  # fmt: skip
    path = tmp_path / "set.json"
    values = {"seed": 1, "judge": "j", "gaps": {}, "positions": [entry]}
    path.write_text(json.dumps(values))
    assert len(read_obvious(path)) == 1
    path.write_text(json.dumps(values | {"positions": [entry | changes]}))
    with pytest.raises(ValueError, match=said):
        read_obvious(path)


def test_a_missing_set_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"none\.json is missing"):
        read_obvious(tmp_path / "none.json")
