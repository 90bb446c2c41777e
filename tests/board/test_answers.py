"""The page's answers are the library's, and what is wrong is said in a sentence."""

from __future__ import annotations

import dataclasses
import math
import re
import xml.etree.ElementTree as ET
from typing import NoReturn

import chess
import pytest
import torch

from algorithms.evaluation.load_policy import load_policy
from algorithms.playing.policy_moves import move_probabilities
from algorithms.playing.position import reached
from algorithms.playing.pull import load_pull
from algorithms.playing.view import view_of
from chess_env.evaluators import EngineError, Evaluator
from tests.board.conftest import Board
from tests.board.served import answer, refusal, serving
from tests.playing.test_view import random_positions

FOOLS_MATE = ["f2f3", "e7e5", "g2g4", "d8h4"]
SHUFFLE = ["g1f3", "g8f6", "f3g1", "f6g8"]


def test_every_number_of_random_positions_is_the_library_s(
    board: Board, builtin: Evaluator
) -> None:
    policy, pull = load_policy(board.run), load_pull(board.run)
    for number, moves in enumerate(random_positions(20, seed=4)):
        temperature = (0.0, 0.3, 1.0, 1.7)[number % 4]
        found = answer(
            board.client, "/api/view", policy=board.run, moves=moves, temperature=temperature
        )
        view = view_of(
            policy, reached(None, moves), temperature=temperature, evaluator=builtin, pull=pull
        )
        wanted = dataclasses.asdict(view) | {"moves": [*map(dataclasses.asdict, view.moves)]}
        assert found["view"] == wanted and found["problem"] == ""
        assert found["view"]["optimum_entropy"] is not None
        assert found["pull"] == {"ent_coef": pull.ent_coef, "kl_ref_coef": pull.kl_ref_coef}


def test_the_position_is_told_in_full(board: Board) -> None:
    found = answer(board.client, "/api/view", policy=board.other, moves=["e2e4", "e7e5"])
    position = found["position"]
    there = chess.Board()
    there.push_san("e4")
    there.push_san("e5")
    assert position["fen"] == there.fen() and position["turn"] == "white"
    assert position["men"][chess.E4] == "white pawn" and position["men"][chess.E2] == ""
    assert {move["uci"] for move in position["legal"]} == {m.uci() for m in there.legal_moves}
    assert {move["san"] for move in position["legal"]} == {there.san(m) for m in there.legal_moves}
    assert (position["last"], position["check"], position["over"]) == ([52, 36], False, None)
    assert found["sans"] == ["e4", "e5"] and found["at"] == 2


def test_an_earlier_place_in_a_game_is_shown_with_all_of_its_moves(board: Board) -> None:
    found = answer(board.client, "/api/view", policy=board.other, moves=FOOLS_MATE, at=1)
    assert found["sans"] == ["f3", "e5", "g4", "Qh4#"]
    assert found["position"]["turn"] == "black" and found["position"]["over"] is None


@pytest.mark.parametrize(
    ("fen", "moves", "result", "reason"),
    [
        ("", FOOLS_MATE, "0-1", "Black wins: checkmate."),
        ("", SHUFFLE * 2, "1/2-1/2", "A draw: the position has occurred three times."),
        ("7k/5Q2/8/8/8/8/8/K7 w - - 98 80", ["f7e6", "h8g7"], "1/2-1/2", "A draw: fifty moves"),
        ("7k/8/5K2/8/8/8/8/6Q1 w - - 0 1", ["g1g6"], "1/2-1/2", "A draw: stalemate."),
        ("7k/8/5K2/6p1/8/8/8/8 w - - 0 1", ["f6g5"], "1/2-1/2", "A draw: neither side can mate."),
    ],
)
def test_the_end_of_a_game_has_its_result_and_reason(
    board: Board, fen: str, moves: list[str], result: str, reason: str
) -> None:
    found = answer(board.client, "/api/view", policy=board.other, fen=fen, moves=moves)
    over = found["position"]["over"]
    assert over["result"] == result and over["reason"].startswith(reason)
    assert found["position"]["legal"] == []
    asked = answer(board.client, "/api/reply", policy=board.other, fen=fen, moves=moves)
    assert asked == found  # no move is made


def test_the_policy_replies_with_its_most_probable_move_or_one_drawn_at_the_temperature(
    board: Board,
) -> None:
    policy = load_policy(board.other)
    view = view_of(policy, reached(None, ()), temperature=1.0, evaluator=None, pull=None)
    asked = {"policy": board.other, "moves": []}

    def played(**more: object) -> str:
        reply = answer(board.client, "/api/reply", **asked, **more)
        assert reply["view"]["temperature"] == more["temperature"]  # of the numbers in any case
        return str(reply["moves"][0])

    best = view.moves[0].uci
    assert {played(temperature=5) for _ in range(10)} == {best}
    assert {played(temperature=0, draw=True) for _ in range(5)} == {best}
    warm = {played(temperature=5, draw=True) for _ in range(40)}
    assert len(warm) > 3 and warm <= {move.uci for move in view.moves}


def test_the_line_of_play_has_the_most_probable_move_each_time_up_to_six_plies(
    board: Board,
) -> None:
    policy, there = load_policy(board.run), chess.Board()
    there.push_san("e4")
    wanted = []
    for _ in range(6):
        best = next(iter(move_probabilities(policy, None, [m.uci() for m in there.move_stack])))
        wanted.append(there.san(chess.Move.from_uci(best)))
        there.push_uci(best)
    asked = {"policy": board.run, "moves": ["e2e4", "a7a6"], "at": 1}
    found = answer(board.client, "/api/line", **asked, temperature=5.0, draw=True)
    assert found == {"line": wanted}


def test_the_line_of_play_ends_with_the_game_and_is_empty_where_the_policy_cannot_move(
    board: Board,
) -> None:
    def line(policy: str, **asked: object) -> list[str]:
        found: list[str] = answer(board.client, "/api/line", policy=policy, **asked)["line"]
        return found

    assert line(board.other, moves=FOOLS_MATE) == []
    assert len(line(board.other, fen="7k/5Q2/8/8/8/8/8/K7 w - - 98 80")) <= 2  # of fifty moves
    assert line(board.empty, moves=["e2e4"]) == line("nobody", update=3) == []
    assert "is not legal" in refusal(board.client, "/api/line", 400, moves=["e2e5"])


def test_the_picture_has_the_men_and_an_arrow_for_each_likely_move(board: Board) -> None:
    asked = {"policy": board.other, "moves": ["e2e4"], "temperature": 1.0}
    found = answer(board.client, "/api/view", **asked)
    svg = ET.fromstring(found["picture"])
    shares = [move["probability"] for move in found["view"]["moves"]]
    arrows = [one for one in svg.iter("g") if one.get("class") == "arrow"]
    assert len(arrows) == min(12, sum(share >= 0.01 for share in shares))
    assert sum(one.get("href", "").startswith("#white-") for one in svg.iter("use")) == 16
    turned = answer(board.client, "/api/view", **asked, below="black")["picture"]
    assert "#names-black" in turned and "#names-white" in found["picture"]


def test_promotions_between_two_squares_are_one_arrow(board: Board) -> None:
    found = answer(
        board.client, "/api/view", policy=board.other, fen="8/P6k/8/8/8/8/7K/8 w - - 0 1",
        temperature=5.0,
    )  # fmt: skip
    (title,) = re.findall(r"<title>(a7a8[^<]*)</title>", found["picture"])
    share = sum(m["probability"] for m in found["view"]["moves"] if m["uci"].startswith("a7a8"))
    assert title.count("a7a8") == 4 and title.endswith(f" {share:.1%}")


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("empty", "no intact checkpoint"),
        ("damaged", "model.safetensors is damaged: "),
        ("own_network", "names what is not part of this project"),
        ("newer", "open it with the version of the project that wrote it"),
    ],
)
def test_a_run_that_cannot_be_opened_says_so_and_the_board_still_works(
    board: Board, name: str, why: str
) -> None:
    source = getattr(board, name)
    states = {
        state["name"]: state for state in board.client.get("/api/policies").json()["policies"]
    }
    assert states[source]["state"] == "failed" and why in states[source]["says"]
    assert states[board.run]["state"] == "ready"
    found = answer(board.client, "/api/view", policy=source, moves=["e2e4"])
    assert found["view"] is None and why in found["problem"]
    assert len(found["position"]["legal"]) == 20 and found["sans"] == ["e4"]
    assert why in refusal(board.client, "/api/reply", 409, policy=source, moves=["e2e4"])


def test_the_list_says_what_pulls_and_what_is_not_known(board: Board) -> None:
    found = board.client.get("/api/policies").json()
    states = {state["name"]: state for state in found["policies"]}
    assert found["evaluator"].startswith("builtin")
    assert found["judge"].startswith("the built-in evaluator (v")
    run, other = states[board.run], states[board.other]
    assert run["temperature"] == 0.7 and run["label"] == "run" and run["no_optimum"] == ""
    assert other["no_optimum"].startswith("grpo divides")


class Failing:
    """An evaluator whose engine has died."""

    id = "dead"

    def evaluate(self, positions: object) -> NoReturn:
        raise EngineError("the engine ended")

    def close(self) -> None: ...


def test_where_the_evaluator_fails_the_policy_is_shown_without_scores(board: Board) -> None:
    with serving([board.run], Failing()) as (policies, client):
        assert policies.states()[0]["state"] == "ready"
        found = answer(client, "/api/view", policy=board.run, moves=["e2e4"])
        assert found["problem"] == "No scores: the evaluator failed (the engine ended)."
        move = found["view"]["moves"][0]
        assert move["probability"] > 0 and move["score_cp"] is None
        assert found["view"]["optimum_entropy"] is None


def test_a_policy_whose_probabilities_are_not_finite_is_a_sentence(
    board: Board, builtin: Evaluator
) -> None:
    with serving([board.other], builtin) as (policies, client):
        with torch.no_grad():
            policies.loaded(board.other).policy.action_bias.fill_(math.nan)
        found = answer(client, "/api/view", policy=board.other, moves=[])
        assert found["view"] is None and "use another checkpoint" in found["problem"]
        assert found["position"]["turn"] == "white"
        said = refusal(client, "/api/reply", 409, policy=board.other, moves=[])
        assert "its probabilities are not finite" in said


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ({"fen": "8/8/8/8/8/8/8/8 w - - 0 1"}, "illegal FEN"),
        ({"fen": "<script>alert(1)</script>"}, "illegal FEN"),
        ({"fen": "k" * 5000}, "a FEN has at most"),
        ({"fen": 3}, "expected a text"),
        ({"moves": ["e2e5"]}, "move 1, 'e2e5', is not legal"),
        ({"moves": ["0000"]}, "is not legal"),
        ({"moves": ["e2e4", "<b>"]}, "move 2, '<b>', is not legal"),
        ({"moves": "e2e4"}, "moves is no list"),
        ({"moves": ["g1f3"] * 1001}, "at most 1,000 are shown"),
        ({"at": 1}, "expected a number of plies, 0 to 0"),
        ({"at": True}, "expected a number of plies"),
        ({"moves": ["e2e4"], "at": 0, "temperature": -1}, "expected a number from 0 to 5"),
        ({"temperature": True}, "expected a number from 0 to 5"),
        ({"temperature": "1"}, "expected a number from 0 to 5"),
    ],
)
def test_what_makes_no_sense_is_refused_with_the_value(
    board: Board, question: dict[str, object], said: str
) -> None:
    found = refusal(board.client, "/api/view", 400, policy=board.other, **question)
    assert said in found and len(found) < 500


def test_the_reply_is_asked_at_the_end_of_the_game(board: Board) -> None:
    said = refusal(board.client, "/api/reply", 400, policy=board.other, moves=["e2e4"], at=0)
    assert "moves at the end of the game alone" in said
    said = refusal(board.client, "/api/reply", 400, policy=board.other, draw="no")
    assert said == "draw is 'no': expected true or false."
    assert "no policy" in refusal(board.client, "/api/reply", 409, policy="<b>x</b>", moves=[])
