from __future__ import annotations

from pathlib import Path

import chess
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chess_env.evaluators.uci import (
    MATE_SCORE,
    MAX_CP,
    EngineError,
    Handshake,
    action_of_uci,
    find_stockfish,
    parse_best_move,
    parse_move_scores,
    parse_score,
)
from chess_env.moves import move_to_action

HANDSHAKE = """Stockfish 15.1 by the Stockfish developers (see AUTHORS file)
id name Stockfish 15.1
id author the Stockfish developers

option name Debug Log File type string default
option name Threads type spin default 1 min 1 max 1024
option name Use NNUE type check default true
option name Style type combo default Solid var Solid var Very Risky var Normal
option name Clear Hash type button
option name EvalFile type string default nn-ad9b42354671.nnue
uciok
"""


def info(score: str, depth: int = 4) -> bytes:
    return (
        f"info depth {depth} seldepth 9 multipv 1 score {score} nodes 52 nps 9 pv e2e4\n".encode()
    )


def test_the_last_score_of_a_reply_counts() -> None:
    assert parse_score(b"d2d4\n" + info("cp 11") + info("cp -58")) == -58


def test_a_bound_is_used_only_where_there_is_no_exact_score() -> None:
    assert parse_score(info("cp 11") + info("cp 90 lowerbound") + info("cp 95 lowerbound")) == 11
    assert parse_score(info("cp 90 lowerbound") + info("cp 70 upperbound")) == 70


def test_mates_are_counted_in_moves_from_the_mate_score() -> None:
    assert parse_score(info("mate 1")) == MATE_SCORE - 1
    assert parse_score(info("mate -3")) == -(MATE_SCORE - 3)


def test_no_centipawn_score_reaches_the_mate_scores() -> None:
    assert parse_score(info("cp 20000")) == MAX_CP
    assert parse_score(info("cp -20000")) == -MAX_CP
    assert MATE_SCORE - 123 > MAX_CP, "Stockfish reports mates of up to 123 moves"


@pytest.mark.parametrize(
    "reply",
    [
        b"",
        b"e2e4\n",
        b"info string score cp 12\n",
        b"info depth 4 score cp twelve nodes 1\n",
        b"info depth 4 score cp\n",
        b"info depth 4 score wdl 3\n",
        b"info depth 0 score mate 0\n",
    ],
)
def test_a_reply_without_a_score_is_refused(reply: bytes) -> None:
    with pytest.raises(ValueError):
        parse_score(reply)


@given(st.binary(max_size=300))
def test_arbitrary_bytes_give_a_score_in_range_or_a_value_error(reply: bytes) -> None:
    for text in (
        reply,
        b"info depth 1 score cp " + reply,
        b"info depth 1 multipv 1 score " + reply,
    ):
        try:
            scores = [parse_score(text), *parse_move_scores(text).values()]
        except ValueError:
            continue
        assert all(-MATE_SCORE <= score <= MATE_SCORE for score in scores)


def test_move_scores_come_from_the_last_block_and_count_mates_from_the_child() -> None:
    lines = (
        "info depth 1 multipv 1 score cp 9 nodes 1 pv a2a3\n"
        "info depth 2 multipv 1 score mate 1 nodes 1 pv d1h5\n"
        "info depth 2 multipv 2 score mate 3 nodes 1 pv a2a4 a7a6\n"
        "info depth 2 multipv 3 score cp -30 nodes 1 pv e7e8q\n"
        "info depth 2 multipv 4 score mate -2 nodes 1 pv b2b4\n"
    )
    expected = {b"d1h5": 10_000, b"a2a4": 9_998, b"e7e8q": -30, b"b2b4": -9_998}
    assert parse_move_scores(lines.encode()) == expected


def test_the_handshake_is_understood() -> None:
    handshake = Handshake.parse(HANDSHAKE)
    assert handshake.name == "Stockfish 15.1"
    assert handshake.options["threads"].maximum == 1024
    assert handshake.options["evalfile"].default == "nn-ad9b42354671.nnue"
    assert handshake.options["style"].choices == ("Solid", "Very Risky", "Normal")
    assert handshake.commands({"threads": 2, "Use NNUE": False}) == (
        b"setoption name Threads value 2\nsetoption name Use NNUE value false\n"
    )


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("Contempt", 3, "no UCI option 'Contempt'"),
        ("Threads", 0, "from 1 to 1024"),
        ("Threads", 5000, "from 1 to 1024"),
        ("Threads", "abc", "from 1 to 1024"),
        ("Use NNUE", "maybe", "True or False"),
        ("Style", "Mad", "Very Risky"),
        ("EvalFile", "x\nquit", "one line"),
    ],
)
def test_wrong_options_are_refused_by_name_value_and_range(
    name: str, value: object, expected: str
) -> None:
    with pytest.raises(ValueError, match=expected):
        Handshake.parse(HANDSHAKE).commands({name: value})


def test_a_given_path_that_is_no_executable_is_an_error_and_not_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(EngineError, match="does not exist"):
        find_stockfish(tmp_path / "stockfish")
    (tmp_path / "notes.txt").write_text("no engine")
    monkeypatch.setenv("STOCKFISH_PATH", str(tmp_path / "notes.txt"))
    with pytest.raises(
        EngineError, match=r"STOCKFISH_PATH=.*not an executable file.*apt-get install"
    ):
        find_stockfish()


def test_the_argument_goes_before_the_variable_and_the_variable_before_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("argument", "variable", "path"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "stockfish").write_text("#!/bin/sh\n")
        (tmp_path / folder / "stockfish").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.delenv("STOCKFISH_PATH", raising=False)
    assert find_stockfish() == tmp_path / "path" / "stockfish"
    monkeypatch.setenv("STOCKFISH_PATH", str(tmp_path / "variable" / "stockfish"))
    assert find_stockfish() == tmp_path / "variable" / "stockfish"
    assert (
        find_stockfish(tmp_path / "argument" / "stockfish") == tmp_path / "argument" / "stockfish"
    )


def test_the_best_move_is_the_first_of_the_last_line() -> None:
    reply = (
        b"\ninfo depth 1 seldepth 1 multipv 1 score cp 12 nodes 20 pv d2d4"
        b"\ninfo depth 2 seldepth 3 multipv 1 score cp 40 lowerbound nodes 90 pv e7e8q e8e1"
    )
    assert parse_best_move(reply) == b"e7e8q"
    for nothing in (b"", b"\ninfo depth 0 score mate 0", b"\ninfo depth 1 score cp 1 pv "):
        with pytest.raises(ValueError, match="no ` pv ` line"):
            parse_best_move(nothing)


def test_moves_in_uci_are_actions_of_their_colour() -> None:
    for turn in (chess.WHITE, chess.BLACK):
        table = action_of_uci(turn == chess.BLACK)
        board = chess.Board("r3k2r/P6p/8/8/8/8/p6P/R3K2R w KQkq - 0 1")
        board.turn = turn
        for move in board.legal_moves:
            assert table[move.uci().encode()] == move_to_action(move, turn)


@pytest.mark.parametrize("score", ["mate 200", "mate -200", f"mate -{10**12}", f"mate {'9' * 30}"])
def test_a_mate_beyond_every_search_is_no_score(score: str) -> None:
    assert parse_score(info("mate 199")) == MATE_SCORE - 199 > MAX_CP
    for reader in (parse_score, parse_move_scores):
        with pytest.raises(ValueError, match="a mate in more moves than any search sees"):
            reader(info(score))


@pytest.mark.parametrize("bound", ["x", "1e3", "9" * 5000])
def test_a_bound_of_an_option_that_is_no_number_is_none(bound: str) -> None:
    said = f"id name Stockfish 15\noption name Hash type spin default 1 min {bound} max 5\n"
    handshake = Handshake.parse(said)
    assert handshake.options["hash"].minimum is None and handshake.options["hash"].maximum == 5
    assert handshake.commands({"Hash": 3}) == b"setoption name Hash value 3\n"


def test_of_an_engine_s_long_names_a_message_repeats_the_beginning() -> None:
    said = f"id name {'n' * 900}\noption name {'o' * 900} type combo default a var {'v' * 900}\n"
    for options in ({"Hash": 1}, {"O" * 900: "b"}):
        with pytest.raises(ValueError) as refused:
            Handshake.parse(said).commands(options)
        assert "n" * 201 not in str(refused.value) and "v" * 201 not in str(refused.value)
