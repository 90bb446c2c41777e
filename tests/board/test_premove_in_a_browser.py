"""Premoves in a real Chromium: made while the policy thinks, played at once if they are legal then, or taken back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import chess
import pytest

from tests.board.browser import Tab
from tests.board.conftest import Site

pytestmark = pytest.mark.browser


@contextmanager
def thinking(page: Tab, move: str) -> Iterator[Callable[[str], None]]:
    """The player moves, and the policy thinks until the block ends; what is given makes it answer with another move."""
    held: list[Any] = []
    page.page.route("**/api/reply", lambda route: held.append(route), times=1)
    page.click(move)
    page.page.wait_for_selector("#squares.early")
    chosen: list[str] = []
    yield chosen.append
    page.page.wait_for_function("() => true")
    (route,) = held
    asked = route.request.post_data_json
    if chosen:  # the policy's answer is the server's for the game with that move
        asked = asked | {"moves": [*asked["moves"], *chosen], "at": len(asked["moves"]) + 1}
        answer = page.page.request.post(f"{page.url}api/view", data=asked)
        route.fulfill(json=answer.json())
    else:
        route.continue_()


def premoved(page: Tab) -> list[str]:
    """The squares of the planned move, as a screen reader has them."""
    names = "them => them.map((each) => each.dataset.square)"
    drawn = page.page.locator("#squares button.planned").evaluate_all(names)
    said = page.page.locator("#squares button[aria-label$=premove]").evaluate_all(names)
    assert drawn == said
    return sorted(drawn)


def test_a_premove_is_shown_and_played_at_once_when_it_is_legal(page: Tab, site: Site) -> None:
    page.open(f"policy={site.run}")
    with thinking(page, "e2e4") as answer:
        assert page.man("e4") == "white pawn" and page.man("e2") == "empty"  # at once, too
        assert page.text("#turn") == "Black to move"
        assert page.page.locator("#picture [href='#white-pawn'][x='180'][y='180']").count() == 1
        assert page.page.locator("#picture .arrow").count() == 0
        page.square("g1").click()
        reached = page.page.locator("#squares button.target").evaluate_all(
            "them => them.map((each) => each.dataset.square)"
        )
        assert sorted(reached) == ["e2", "f3", "h3"]
        page.square("f3").click()
        assert premoved(page) == ["f3", "g1"] and page.man("g1") == "white knight"
        said = page.page.locator("#announce").text_content()
        assert said == "Premove from g1 to f3." and page.moves() == ["e2e4"]
        answer("e7e5")
    page.wait_for_plies(4)
    assert page.moves()[:3] == ["e2e4", "e7e5", "g1f3"] and premoved(page) == []


def test_a_premove_that_is_not_legal_then_is_dropped(page: Tab, site: Site) -> None:
    page.open(f"policy={site.run}")
    with thinking(page, "e2e4") as answer:
        page.drag("e4d5")
        assert premoved(page) == ["d5", "e4"]
        answer("e7e5")
    page.wait_for_plies(2)
    assert premoved(page) == [] and page.moves() == ["e2e4", "e7e5"]
    assert page.text("#turn") == "White to move" and page.man("e4") == "white pawn"
    with thinking(page, "g1f3") as answer:  # a man of one's own may have been taken by then
        page.drag("d1f3")
        answer("b8c6")
    page.wait_for_plies(4)
    assert page.moves()[2:] == ["g1f3", "b8c6"] and page.man("f3") == "white knight"


@pytest.mark.parametrize("how", ["Escape", "right", "square", "page"])
def test_a_premove_is_taken_back(page: Tab, site: Site, how: str) -> None:
    page.open(f"policy={site.run}")
    with thinking(page, "e2e4") as answer:
        page.click("d2d4")
        assert premoved(page) == ["d2", "d4"]
        if how == "Escape":
            page.page.keyboard.press("Escape")
        elif how == "right":
            page.square("d5").click(button="right")
        elif how == "square":
            page.square("d5").click()
        else:
            page.page.click("h1")
        assert premoved(page) == []
        answer("e7e5")
    page.wait_for_plies(2)
    assert page.moves() == ["e2e4", "e7e5"]


def test_a_premove_is_made_by_the_keyboard_and_a_pawn_becomes_a_queen(
    page: Tab, site: Site
) -> None:
    page.open(f"policy={site.run}&fen=8/P6k/8/8/8/8/7K/8 w - - 0 1")
    with thinking(page, "h2g2") as answer:
        for key in ("Enter", "ArrowUp", "Enter"):  # on the square that was clicked last
            page.page.keyboard.press(key)
        assert premoved(page) == ["g2", "g3"]
        page.page.keyboard.press("Escape")
        assert premoved(page) == []
        page.click("a7a8")
        answer("h7h6")
    page.page.wait_for_function("() => location.hash.includes('h7h6,a7a8q')")
    assert page.page.locator("#promotion").is_hidden()


def test_a_man_that_is_held_when_the_answer_comes_moves_then(page: Tab, site: Site) -> None:
    page.open(f"policy={site.run}")
    with thinking(page, "e2e4") as answer:
        page.square("d2").click()
        answer("e7e5")
    page.wait_for_plies(2)
    page.square("d4").click()
    page.page.wait_for_function("() => location.hash.includes('e2e4,e7e5,d2d4')")


def test_take_back_while_the_policy_thinks_takes_one_move_and_the_premove(
    page: Tab, site: Site
) -> None:
    page.open(f"policy={site.run}")
    with thinking(page, "e2e4"):
        page.click("d2d4")
        page.page.click("#back")
        assert page.moves() == []
    page.page.wait_for_function(
        "() => document.getElementById('turn').textContent === 'White to move'"
    )
    assert page.man("e2") == "white pawn" and premoved(page) == []
    page.page.wait_for_timeout(300)
    assert page.moves() == []


def test_there_is_no_premove_for_a_player_of_both_sides(page: Tab, site: Site) -> None:
    page.open(f"policy={site.run}&you=both")
    held: list[Any] = []
    page.page.route("**/api/view", lambda route: held.append(route), times=1)
    page.click("e2e4")
    page.page.wait_for_function("() => location.hash.includes('e2e4')")
    page.click("d2d4")
    assert premoved(page) == [] and page.moves() == ["e2e4"]
    held[0].continue_()
    page.wait_for_plies(1)


@pytest.mark.parametrize(
    ("fen", "moves"),
    [
        ("r3k2r/8/8/8/8/8/8/R3K2R w KQkq - 0 1", ["e1g1", "e1c1", "a1a8", "e1e2"]),
        ("r3k2r/8/8/8/8/8/8/R3K2R b KQkq - 0 1", ["e8g8", "e8c8"]),
        ("4k3/8/8/4Pp2/8/8/8/4K3 w - f6 0 1", ["e5f6", "e5e6"]),
        ("1r6/P6k/8/8/8/8/7K/8 w - - 0 1", ["a7a8n", "a7b8q"]),
    ],
)
def test_the_men_that_are_shown_before_the_answer_are_those_after_the_move(
    page: Tab, site: Site, fen: str, moves: list[str]
) -> None:
    page.open(f"policy={site.run}&you=both")
    board = chess.Board(fen)

    def men(board: chess.Board) -> list[str]:
        pieces = [board.piece_at(square) for square in chess.SQUARES]
        return [
            f"{chess.COLOR_NAMES[p.color]} {chess.piece_name(p.piece_type)}" if p else ""
            for p in pieces
        ]

    for text in moves:
        move = chess.Move.from_uci(text)
        assert move in board.legal_moves
        kind = chess.piece_name(move.promotion) if move.promotion else None
        asked = [men(board), {"from": move.from_square, "to": move.to_square, "promotion": kind}]
        after = page.page.evaluate(
            "async ([men, move]) => (await import('/static/moves.js')).menAfter(men, move)", asked
        )
        there = board.copy()
        there.push(move)
        assert after == men(there)
        planned = page.page.evaluate(
            "async ([men, colour]) => (await import('/static/moves.js')).plannable(men, colour)",
            [men(board), chess.COLOR_NAMES[board.turn]],
        )
        pairs = {(each["from"], each["to"]) for each in planned}
        assert {(each.from_square, each.to_square) for each in board.legal_moves} <= pairs
