"""Every line of a GUI means something or is ignored with a reason; none is an error."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from algorithms.playing.conversation import (
    MOST_MOVES,
    SPINS,
    TEMPERATURE,
    Go,
    Ignored,
    NoPosition,
    Position,
    SetOption,
    Word,
    info_string,
    parse,
    set_value,
)
from chess_env.rules.movegen import MAX_LEGAL

FEN = "4k3/8/8/8/8/8/4P3/4K3 w - - 0 1"


@pytest.mark.parametrize(
    ("line", "command"),
    [
        (b"uci\n", Word.UCI),
        (b"  isready \r\n", Word.IS_READY),
        (b"ucinewgame", Word.NEW_GAME),
        (b"stop now", Word.STOP),
        (b"ponderhit", Word.PONDER_HIT),
        (b"quit", Word.QUIT),
        (b"\xef\xbb\xbfuci\r\n", Word.UCI),
        (b"UCI", Word.UCI),
        (b"SetOption Name Multi PV Value 3", SetOption("Multi PV", "3")),
        (b"POSITION STARTPOS MOVES e2e4", Position(None, ("e2e4",))),
        (b"position\tfen\t" + FEN.replace(" ", "\t").encode() + b"\r\n", Position(FEN, ())),
        (b"GO Infinite SearchMoves E2E4 WTime 5", Go(("wtime",), ("e2e4",), infinite=True)),
        (b"joho stop", Word.STOP),  # the protocol's own rule on words it does not know
        (b"", Ignored("")),
        (b" \t\r\n", Ignored("")),
        (b"debug on", Ignored("")),
        (b"register later", Ignored("")),
        (b"xboard", Ignored("unknown command 'xboard'")),
        (b"\xff\x00go", Ignored("unknown command '\\ufffd\\x00go'")),
        (b"setoption name TopK value 5", SetOption("TopK", "5")),
        (b"setoption name Clear Hash", SetOption("Clear Hash", "")),
        (b"setoption name Move Overhead value 1 0", SetOption("Move Overhead", "1 0")),
        (b"setoption name value", SetOption("", "")),
        (b"position startpos", Position(None, ())),
        (b"position startpos moves", Position(None, ())),
        (b"position startpos moves e2e4 e7e5", Position(None, ("e2e4", "e7e5"))),
        (b"position fen " + FEN.encode(), Position(FEN, ())),
        (b"position fen " + FEN.encode() + b" moves e2e4", Position(FEN, ("e2e4",))),
        (b"go", Go()),
        (b"go infinite", Go(infinite=True)),
        (b"go ponder wtime 1 btime", Go(limits=("wtime", "btime"), ponder=True)),
        (b"go depth x nodes -1 y", Go(limits=("depth", "nodes"))),
        (
            b"go searchmoves e2e4 d2d4 movetime 5",
            Go(limits=("movetime",), searchmoves=("e2e4", "d2d4")),
        ),
        (b"go searchmoves", Go(searchmoves=())),
    ],
)
def test_a_line_means_what_the_protocol_says(line: bytes, command: object) -> None:
    assert parse(line) == command


@pytest.mark.parametrize(
    "line",
    [b"setoption", b"setoption TopK 5", b"position", b"position fen", b"position moves e2e4",
     b"position startpos e2e4", b"position e2e4"],
)  # fmt: skip
def test_a_half_command_is_not_obeyed_and_says_what_was_expected(line: bytes) -> None:
    command = parse(line)
    assert isinstance(command, NoPosition if line.startswith(b"position") else Ignored)
    assert "expected" in command.reason


@given(st.text(max_size=100))
def test_what_is_told_to_people_is_one_printable_line(text: str) -> None:
    line = info_string(text)
    assert line.startswith("info string ")
    assert line.isascii() and line.isprintable()


def test_what_is_printable_is_told_as_it_is() -> None:
    assert info_string(" two\n lines \u2654 ~") == "info string two lines \\u2654 ~"


def test_an_option_is_set_whatever_the_case_of_its_name() -> None:
    options = {TEMPERATURE: TEMPERATURE.default}
    set_value(options, SetOption("tempeRATURE", "100"))
    assert options[TEMPERATURE] == 100


@pytest.mark.parametrize("spin", SPINS, ids=lambda spin: spin.name)
def test_an_option_takes_its_bounds_and_nothing_beyond_them(spin) -> None:
    options = {spin: spin.default}
    for value in (spin.low, spin.high):
        set_value(options, SetOption(spin.name, str(value)))
        assert options[spin] == value
    beyond = str(spin.low - 1), str(spin.high + 1)
    for value in (*beyond, "", "x", "1.5", "1 0", "--1", "+1", "٣"):
        with pytest.raises(ValueError, match=f"{spin.name} stays {spin.high}"):
            set_value(options, SetOption(spin.name, value))
        assert options[spin] == spin.high


def test_an_unknown_option_names_the_known_ones() -> None:
    with pytest.raises(ValueError, match="'Hash' is unknown and ignored; known: Temperature"):
        set_value({}, SetOption("Hash", "16"))


def test_as_many_moves_can_be_shown_as_a_position_can_have() -> None:
    assert MOST_MOVES == MAX_LEGAL
