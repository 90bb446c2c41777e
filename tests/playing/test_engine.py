"""The engine between its threads: it survives any bytes, never keeps a GUI waiting, and ends when it should."""

from __future__ import annotations

import io
import signal
import threading
import time
from collections.abc import Sequence

import chess
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from algorithms.playing import position, uci_threads
from algorithms.playing.conversation import SPINS, Answer, Go, Request, Word, parse
from algorithms.playing.policy_moves import PolicyMoves
from algorithms.playing.uci_threads import serve
from tests.env.playing import SHUFFLE
from tests.evaluation.policies import small_policy
from tests.playing.wire import Wire

THINKER = PolicyMoves(small_policy(0))
ANSWER = Answer((chess.Move.from_uci("e2e4"),), (1.0,), chess.Move.from_uci("e2e4"))


def at_once(request: Request) -> Answer:
    return ANSWER


VOCABULARY = (
    "uci isready ucinewgame stop ponderhit position startpos fen moves go infinite ponder depth 3 wtime -1 "
    "searchmoves e2e4 e7e5 g1f3 e1g1 a7a8q 0000 setoption name value Temperature TopK Seed MultiPV 0 50 999 "
    "debug on 8/8/8/8/8/8/8/8 w - KQkq 4k3/8/8/8/8/8/4P3/4K3 \u2654 \x00"
)
WORDS = st.sampled_from(VOCABULARY.split(" "))
SPOKEN = st.lists(WORDS, max_size=12).map(lambda words: " ".join(words).encode())
OPTION = st.builds(
    lambda name, value: f"setoption name {name} value {value}".encode(),
    st.sampled_from([spin.name for spin in SPINS]),
    st.integers(-2, 1001),
)
SENSIBLE = st.sampled_from(
    [
        b"position startpos moves e2e4 e7e5",
        b"position startpos moves " + " ".join(SHUFFLE * 3).encode(),
        b"position fen 7k/5Q2/6K1/8/8/8/8/8 b - - 0 1",
        b"position fen 8/P7/8/8/8/8/8/k1K5 w - - 149 200 moves a7a8n",
        *(b"go", b"go infinite", b"go ponder", b"stop", b"ponderhit"),
    ]
)
JUNK = st.binary(max_size=60).map(lambda raw: raw.replace(b"\n", b"\r"))
LINES = st.lists(st.one_of(SPOKEN, OPTION, SENSIBLE, SENSIBLE, JUNK), max_size=15)


@settings(max_examples=60)
@given(LINES)
def test_no_stream_of_lines_stops_the_engine_and_every_go_gets_one_move(lines: list[bytes]) -> None:
    commands = [parse(line) for line in lines]
    if Word.QUIT in commands:
        lines = [
            line for line, command in zip(lines, commands, strict=True) if command is not Word.QUIT
        ]
    searches = sum(isinstance(command, Go) for command in commands)
    ready = 1 + commands.count(Word.IS_READY)
    with Wire(lambda: THINKER) as wire:
        wire.send(*lines, b"isready", b"stop")
        wire.wait_for("readyok", ready)
        wire.wait_for("bestmove", searches)
        said = wire.end()
    assert all(line.isascii() and line.isprintable() for line in said)
    assert sum(line.startswith("bestmove ") for line in said) == searches
    assert said.count("readyok") == ready


def test_the_input_may_end_anywhere() -> None:
    script = (
        b"uci\nisready\nsetoption name TopK value 3\nposition startpos moves e2e4\n"
        b"go depth 3\ngo infinite\nstop\nquit\n"
    )
    for end in range(0, len(script) + 1, 3):
        sink = io.BytesIO()
        began = time.monotonic()
        serve("small", lambda: at_once, io.BytesIO(script[:end]), sink)
        assert time.monotonic() - began < 2.0  # half a second, and what a busy machine adds
        complete = script[:end].split(b"\n")
        asked = sum(line.startswith(b"go") for line in complete)
        assert sink.getvalue().count(b"bestmove") == asked


def test_isready_is_answered_while_a_move_is_being_thought_of() -> None:
    thinking, go_on = threading.Event(), threading.Event()

    def slow(request: Request) -> Answer:
        thinking.set()
        assert go_on.wait(20)
        return ANSWER

    with Wire(lambda: slow) as wire:
        wire.send(b"isready", b"go")
        wire.wait_for("readyok")
        assert thinking.wait(20)
        wire.send(b"isready", b"uci")
        wire.wait_for("readyok", 2)
        said = wire.wait_for("uciok")
        assert not any(line.startswith("bestmove") for line in said)
        go_on.set()
        assert wire.wait_for("bestmove")[-1] == "bestmove e2e4"


def test_uci_is_answered_before_the_policy_is_loaded_and_isready_after() -> None:
    load_now = threading.Event()

    def load():
        assert load_now.wait(20)
        return at_once

    with Wire(load) as wire:
        wire.send(b"isready", b"uci", b"go")
        assert wire.wait_for("uciok")[-1] == "uciok"
        load_now.set()
        said = wire.wait_for("bestmove")
        assert said.index("uciok") < said.index("readyok") < said.index("bestmove e2e4")


def test_the_end_of_the_input_does_not_wait_for_ever_for_a_policy_that_is_not_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(uci_threads, "LAST_ANSWERS_S", 0.2)
    never = threading.Event()
    began = time.monotonic()
    sink = io.BytesIO()
    serve("small", lambda: never.wait(20) and at_once, io.BytesIO(b"go\n"), sink)
    never.set()
    assert time.monotonic() - began < 1.0
    assert b"the input ended before the policy could answer" in sink.getvalue()


@pytest.mark.parametrize("last", [b"quit", None])
def test_a_position_that_takes_long_to_replay_does_not_hold_up_the_end(
    last: bytes | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    replaying, go_on = threading.Event(), threading.Event()

    def slow(fen: str | None, moves: Sequence[str], **_: object) -> None:
        replaying.set()
        go_on.wait(20)
        raise ValueError("too late")

    monkeypatch.setattr(position, "reached", slow)
    monkeypatch.setattr(uci_threads, "LAST_WORDS_S", 0.1)
    wire = Wire(lambda: at_once)
    wire.send(b"position startpos moves e2e4")
    try:
        assert replaying.wait(20)
        began = time.monotonic()
        if last is None:
            wire.end()
        else:
            wire.send(last)
            wire.outcome()
        assert time.monotonic() - began < 1.5  # a tenth of a second and what a busy machine adds
    finally:
        go_on.set()


def test_a_gui_that_does_not_read_does_not_hold_up_the_end() -> None:
    writing, go_on = threading.Event(), threading.Event()

    class Full:
        def write(self, text: bytes) -> None:
            writing.set()
            go_on.wait(20)

        def flush(self) -> None:
            pass

    began = time.monotonic()
    try:
        serve("small", lambda: at_once, io.BytesIO(b"uci\n"), Full())
        assert writing.is_set()
        assert time.monotonic() - began < 1.5  # LAST_WORDS_S and what a busy machine adds
    finally:
        go_on.set()


def test_a_move_asked_for_while_loading_is_said_at_the_end_of_the_input() -> None:
    lines = b"position startpos moves e2e4\ngo infinite\nisready\n"
    sink = io.BytesIO()

    def load():
        time.sleep(0.1)  # the end is heard first
        return at_once

    serve("small", load, io.BytesIO(lines), sink)
    said = [line.split()[0] for line in sink.getvalue().decode().splitlines()]
    assert said == ["readyok", "info", "bestmove"]


def test_a_policy_that_cannot_be_loaded_ends_the_engine_with_its_error() -> None:
    def load():
        raise ValueError("'nowhere'\ncannot be read")

    wire = Wire(load)
    with pytest.raises(ValueError, match="cannot be read"):
        wire.outcome()
    assert wire.said() == ["info string 'nowhere' cannot be read"]


def test_an_error_of_the_thinker_is_not_swallowed() -> None:
    def broken(request: Request) -> Answer:
        raise RuntimeError("out of memory")

    wire = Wire(lambda: broken)
    wire.send(b"go")
    with pytest.raises(RuntimeError, match="out of memory"):
        wire.outcome()


def test_a_gui_that_is_gone_ends_the_engine() -> None:
    class Gone:
        def write(self, text: bytes) -> None:
            raise BrokenPipeError

        def flush(self) -> None:
            pass

    serve("small", lambda: at_once, io.BytesIO(b"uci\n"), Gone())


def test_a_signal_that_does_not_wake_the_waiting_caller_ends_it_soon() -> None:
    class Ended(Exception):
        pass

    def end(number: int, frame: object) -> None:
        raise Ended

    class Signalled:
        def readline(self) -> bytes:
            time.sleep(
                0.1
            )  # by now the caller waits; a signal that another thread gets does not wake it
            signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)
            time.sleep(20)
            return b""

    before = signal.signal(signal.SIGUSR1, end)
    try:
        began = time.monotonic()
        with pytest.raises(Ended):
            serve("small", lambda: at_once, Signalled(), io.BytesIO())
        assert time.monotonic() - began < 10
    finally:
        signal.signal(signal.SIGUSR1, before)
