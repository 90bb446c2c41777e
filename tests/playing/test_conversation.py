"""What the engine says, and when: the state machine alone, with answers made up here."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import chess
import pytest

from algorithms.playing.conversation import Answer, Conversation, Request, parse

ROOT = Path(__file__).parents[2]
ANSWER = Answer(
    (chess.Move.from_uci("e2e4"), chess.Move.from_uci("d2d4"), chess.Move.from_uci("a2a3")),
    (0.5, 0.3, 0.2),
    chess.Move.from_uci("d2d4"),
)
CHOSEN = "info depth 1 multipv 1 pv d2d4 string p=0.3000, rank 2 of 3"


class Talk:
    """A conversation, by default after the policy was loaded, and the requests that it made."""

    def __init__(self, *, loaded: bool = True) -> None:
        self.requests: list[Request] = []
        self.conversation = Conversation("small", self.requests.append)
        if loaded:
            assert self.conversation.loaded() == []

    def hear(self, *lines: str) -> list[str]:
        return [said for line in lines for said in self.conversation.heard(parse(line.encode()))]

    def answer(self, answer: Answer = ANSWER) -> list[str]:
        return self.conversation.answered(answer)


def test_uci_is_answered_with_name_author_and_options() -> None:
    said = Talk().hear("uci")
    assert said[0] == "id name small"
    assert said[1].startswith("id author ")
    assert "option name Temperature type spin default 0 min 0 max 1000" in said
    assert "option name MultiPV type spin default 1 min 1 max 218" in said
    assert said[-1] == "uciok"
    assert not any("960" in line for line in said)


def test_isready_waits_for_loading_and_never_after_it() -> None:
    talk = Talk(loaded=False)
    assert talk.hear("isready", "isready") == []
    assert talk.conversation.loaded() == ["readyok", "readyok"]
    assert talk.hear("go infinite", "isready") == ["readyok"]


def test_an_isready_that_waits_for_loading_is_still_to_be_answered() -> None:
    talk = Talk(loaded=False)
    talk.hear("uci", "isready")
    assert talk.conversation.busy  # so the end of the input waits for it
    talk.conversation.loaded()
    assert not talk.conversation.busy


def test_what_is_heard_from_position_on_waits_for_loading_and_is_then_obeyed_in_its_order() -> None:
    talk = Talk(loaded=False)
    assert talk.hear("setoption name Temperature value 50") == []
    assert talk.hear("position startpos moves e2e5", "position startpos moves d2d4") == []
    assert talk.hear("go infinite", "setoption name Temperature value 0", "isready", "stop") == []
    assert talk.requests == []
    assert talk.conversation.busy
    bad, ready = talk.conversation.loaded()
    assert bad.startswith("info string no move until the next position: move 1, 'e2e5'")
    assert ready == "readyok"
    (request,) = talk.requests
    assert request.position.board.fen().startswith("rnbqkbnr/pppppppp/8/8/3P4/8/")
    assert request.temperature == 0.5
    assert talk.answer()[-1] == "bestmove d2d4"
    assert not talk.conversation.busy


def test_uci_does_not_wait_for_what_waits_for_loading() -> None:
    talk = Talk(loaded=False)
    talk.hear("position startpos", "go")
    assert talk.hear("uci")[-1] == "uciok"


def test_before_loading_whoever_speaks_does_not_import_the_rules_of_chess() -> None:
    code = """
import sys
from algorithms.playing.conversation import Conversation
from algorithms.playing.conversation import parse
conversation = Conversation("small", print)
for line in (b"uci", b"isready", b"position startpos moves e2e4", b"go searchmoves e7e5", b"stop"):
    conversation.heard(parse(line))
print(sorted({"chess", "numba", "numpy", "torch"} & sys.modules.keys()))
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_a_move_is_said_when_it_is_found() -> None:
    talk = Talk()
    assert talk.hear("go") == []
    assert talk.conversation.busy
    assert talk.answer() == [CHOSEN, "bestmove d2d4"]
    assert not talk.conversation.busy


@pytest.mark.parametrize(
    ("go", "deaf_to", "releases"),
    [
        ("go infinite", ["ponderhit", "isready", "ucinewgame"], "stop"),
        ("go ponder", ["isready"], "ponderhit"),
        ("go ponder", [], "stop"),
        ("go ponder infinite", ["ponderhit"], "stop"),
    ],
)
@pytest.mark.parametrize("answer_first", [True, False])
def test_a_held_move_comes_after_the_word_that_releases_it(
    go: str, deaf_to: list[str], releases: str, answer_first: bool
) -> None:
    talk = Talk()
    talk.hear(go)
    if answer_first:
        assert talk.answer() == [CHOSEN]
        assert not any(line.startswith("bestmove") for line in talk.hear(*deaf_to))
        assert talk.hear(releases) == ["bestmove d2d4"]
    else:
        talk.hear(*deaf_to)
        assert talk.hear(releases) == []
        assert talk.answer() == [CHOSEN, "bestmove d2d4"]
    assert talk.hear("stop", "ponderhit") == []


def test_a_second_go_ends_the_first_and_each_gets_its_move_in_order() -> None:
    talk = Talk()
    talk.hear("go infinite")
    talk.answer()
    assert talk.hear("go") == ["bestmove d2d4"]
    assert talk.hear("go infinite", "go") == []
    other = Answer(ANSWER.moves, ANSWER.probs, ANSWER.moves[0])
    assert [talk.answer(a)[-1] for a in (ANSWER, other, ANSWER)] == [
        "bestmove d2d4", "bestmove e2e4", "bestmove d2d4",
    ]  # fmt: skip


def test_limits_are_ignored_and_that_is_said_once() -> None:
    talk = Talk()
    first, second = talk.hear("go wtime 1 btime 1"), talk.hear("go depth 3")
    assert first == ["info string limits are ignored (wtime, btime): a move takes one forward pass"]
    again = Talk().hear("go" + 60 * " movetime 1")
    assert again == ["info string limits are ignored (movetime): a move takes one forward pass"]
    assert second == []


def test_several_moves_are_listed_by_their_probability_after_the_chosen_one() -> None:
    talk = Talk()
    talk.hear("setoption name MultiPV value 2", "go")
    assert talk.answer() == [
        "info string chosen d2d4: p=0.3000, rank 2 of 3",
        "info depth 1 multipv 1 pv e2e4 string p=0.5000",
        "info depth 1 multipv 2 pv d2d4 string p=0.3000",
        "bestmove d2d4",
    ]


def test_without_a_legal_move_the_best_move_is_none() -> None:
    talk = Talk()
    talk.hear("go")
    assert talk.answer(Answer((), (), None)) == [
        "info string no legal move: the game is over",
        "bestmove (none)",
    ]


@pytest.mark.parametrize(
    "bad",
    [
        "position startpos moves e2e5",
        "position startpos moves e2e4 e2e4",
        "position startpos moves d2d4 oops g8f6",
        "position startpos moves 0000",
        "position startpos moves e2e4 \u2654",
        "position startpos e2e4",
        "position",
        "position fen",
        "position 4k3/8/8/8/8/8/8/4K3 w - - 0 1",
        "position fen 8/8/8/8/8/8/8/8 w - - 0 1",
        "position fen 4k3/8/8/8/8/8/8/8 w - - 0 1",
        "position fen 4k3/8/8/8/8/8/8/3KK3 w - - 0 1",
        "position fen 4k3/8/8/8/8/8/8/4R2K w - - 0 1",
        "position fen \u2654",
        "position fen rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR x KQkq - 0 1",
        "position fen 4k3/8/8/8/8/8/8/4K3 w - - 0 1 2",
        "position fen 4k3/8/8/8/8/8/8/4K3 w - - zero 1",
    ],
)
@pytest.mark.parametrize("between", [[], ["ucinewgame", "isready"]])
def test_after_a_position_that_is_refused_no_move_is_played_for_another_board(
    bad: str, between: list[str]
) -> None:
    talk = Talk()
    talk.hear("position startpos moves d2d4")
    (said,) = talk.hear(bad)
    assert said.startswith("info string no move until the next position: ")
    assert said.isascii()
    assert talk.hear(*between, "go")[-1] == "bestmove (none)"
    assert talk.hear("go infinite") == [] and talk.hear("stop") == ["bestmove (none)"]
    assert talk.requests == [] and not talk.conversation.busy
    talk.hear("position startpos moves d2d4", "go")
    assert talk.requests[0].position.board.fen() == (
        "rnbqkbnr/pppppppp/8/8/3P4/8/PPP1PPPP/RNBQKBNR b KQkq - 0 1"
    )


def test_a_move_that_is_thought_of_comes_before_the_none_of_a_refused_position() -> None:
    talk = Talk()
    talk.hear("go")
    assert not any("bestmove" in line for line in talk.hear("position fen x", "go"))
    assert talk.answer()[1:] == ["bestmove d2d4", "bestmove (none)"]


@pytest.mark.parametrize(
    ("fen", "played"),
    [
        ("4k3/8/8/8/8/8/4P3/4K3 w KQ - 0 1", "4k3/8/8/8/8/8/4P3/4K3 w - - 0 1"),
        ("4k2r/8/8/8/8/8/8/R3K3 w kqKQ - 5 9", "4k2r/8/8/8/8/8/8/R3K3 w Qk - 5 9"),
        ("r3k3/8/8/8/8/8/8/4K2R w Ha - 0 1", "r3k3/8/8/8/8/8/8/4K2R w Kq - 0 1"),
        ("4k3/8/8/8/4P3/8/8/4K3 b - e3 0 1", "4k3/8/8/8/4P3/8/8/4K3 b - - 0 1"),
        ("4k3/8/8/8/4P3/8/8/4K3 b - e4 0 1", "4k3/8/8/8/4P3/8/8/4K3 b - - 0 1"),
        ("4k3/8/8/8/8/8/8/4K3 w - e6 0 1", "4k3/8/8/8/8/8/8/4K3 w - - 0 1"),
        ("4k3/8/8/8/8/8/8/4K3", "4k3/8/8/8/8/8/8/4K3 w - - 0 1"),
        ("4k3/8/8/8/8/8/8/4K3 B - - - -", "4k3/8/8/8/8/8/8/4K3 b - - 0 1"),
        ("4k3/8/8/8/8/8/8/4K3 w - - 99999 0", "4k3/8/8/8/8/8/8/4K3 w - - 32767 1"),
    ],
)
def test_a_position_that_a_board_editor_leaves_is_played(fen: str, played: str) -> None:
    talk = Talk()
    assert talk.hear(f"position fen {fen}", "go") == []
    assert talk.requests[0].position.board.fen() == played


def test_without_a_position_the_initial_one_is_played() -> None:
    talk = Talk()
    talk.hear("go")
    assert talk.requests[0].position.board == chess.Board()


def test_a_request_has_the_options_of_its_time() -> None:
    talk = Talk()
    talk.hear("go", "setoption name Temperature value 50", "setoption name TopK value 4")
    talk.hear("setoption name Seed value 0", "go", "setoption name Temperature value 0", "go")
    settings = [(r.temperature, r.top_k, r.seed) for r in talk.requests]
    assert settings == [(0.0, 0, None), (0.5, 4, 0), (0.0, 4, 0)]


def test_searchmoves_are_those_that_are_legal_and_all_where_none_is() -> None:
    talk = Talk()
    assert talk.hear("go searchmoves e2e4 e2e5 a2a3") == []
    said = talk.hear("go searchmoves 0000")
    assert said == ["info string searchmoves '0000' are ignored: none of them is legal here"]
    legal = tuple(map(chess.Move.from_uci, ("e2e4", "a2a3")))
    assert [r.searchmoves for r in talk.requests] == [legal, None]


@pytest.mark.parametrize(
    ("score", "said"),
    [
        (-31, "score cp -31"),
        (9000, "score cp 9000"),
        (10000, "score mate 1"),  # the move mates
        (9998, "score mate 3"),
        (-9999, "score mate -1"),  # the opponent mates at once
    ],
)
def test_a_move_s_score_is_said_as_uci_counts(score: int, said: str) -> None:
    talk = Talk()
    talk.hear("go")
    scores = (0, score, 0)
    line, _ = talk.answer(Answer(ANSWER.moves, ANSWER.probs, ANSWER.best, scores))
    assert line == f"info depth 1 multipv 1 {said} pv d2d4 string p=0.3000, rank 2 of 3"
