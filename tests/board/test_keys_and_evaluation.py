"""The page in a real Chromium as a chess player uses it: keys, listed moves, the evaluation bar, the second board."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from algorithms.evaluation.load_policy import load_policy
from algorithms.evaluation.snapshot_policies import snapshots
from algorithms.playing.position import reached
from algorithms.playing.view import view_of
from chess_env.evaluators import Evaluator
from tests.board.browser import Tab, tab
from tests.board.conftest import Site, Twins
from tests.board.test_command import board_process

pytestmark = pytest.mark.browser

MOVES = ("e2e4", "e7e5", "g1f3")


def says(page: Tab, selector: str, text: str) -> None:
    """Waits until an element says a text, or holds it as its value."""
    page.page.wait_for_function(
        "([selector, text]) => { const one = document.querySelector(selector);"
        "return (one.value ?? one.textContent).includes(text); }",
        arg=[selector, text],
    )


def press(page: Tab, *keys: str) -> None:
    for key in keys:
        page.page.keyboard.press(key)


def test_keys_go_through_the_game_and_flip_the_board(page: Tab, site: Site) -> None:
    page.open(f"policy={site.run}&you=both&moves={','.join(MOVES)}")
    steps = (("ArrowLeft", 2), ("Home", 0), ("ArrowLeft", 0), ("ArrowRight", 1), ("End", 3))
    for key, moves in steps:
        press(page, key)
        says(page, "#fen", reached(None, MOVES[:moves]).board.fen())
    page.square(
        "d8"
    ).click()  # a square that was clicked has the focus: the keys are still the game's
    press(page, "ArrowLeft", "f")
    says(page, "#fen", reached(None, MOVES[:2]).board.fen())
    page.page.wait_for_function(
        "() => document.querySelector('#squares button').dataset.square === 'h1'"
    )


def test_keys_do_nothing_in_a_field_and_single_ones_can_be_switched_off(
    page: Tab, site: Site
) -> None:
    page.open(f"policy={site.run}&you=both&moves={','.join(MOVES)}")
    page.page.focus("#typed-move")
    press(page, "ArrowLeft", "f", "?", "Home")
    assert page.page.input_value("#typed-move") == "f?"
    page.page.click("#open-help")
    page.page.uncheck("#keys")
    press(page, "Escape", "f", "?")
    page.page.wait_for_timeout(200)
    assert page.page.evaluate("location.hash").endswith("&you=both&keys=0")
    assert page.page.locator("#help").is_hidden()


def test_the_help_has_the_focus_and_escape_gives_it_back(page: Tab, site: Site) -> None:
    page.open(f"policy={site.run}&you=both")
    page.page.focus("#turn-board")
    press(page, "?", "f")  # the second one does nothing behind the help
    assert page.page.evaluate("document.activeElement.textContent") == "Close"
    assert "flips the board" in page.text("#help")
    press(page, "Escape")
    assert page.page.evaluate("document.activeElement.id") == "turn-board"
    assert page.page.locator("#help").is_hidden() and "turned" not in page.page.url


def test_a_listed_move_is_played_by_a_click_and_by_enter(page: Tab, site: Site) -> None:
    page.open(f"policy={site.run}&you=both&beside=")
    row = page.page.locator("#moves tbody tr").nth(4)
    first = row.get_attribute("data-uci")
    row.locator("td").nth(2).click(force=True)  # anywhere in the row: its button is over it
    says(page, "#turn", "Black to move")
    page.page.get_by_role("button", name="e5", exact=True).focus()
    press(page, "Enter")
    page.wait_for_plies(2)
    assert page.moves() == [first, "e7e5"]
    assert page.page.evaluate("document.activeElement.closest('#moves') !== null")


def test_the_arrow_of_the_move_under_the_pointer_stands_out(page: Tab, site: Site) -> None:
    page.open(f"policy={site.run}&you=both")
    row = page.page.locator("#moves tbody tr").nth(2)
    move = row.get_attribute("data-uci")
    visible = (
        "() => [...document.querySelectorAll('#picture .arrow')]"
        ".map((arrow) => [arrow.dataset.move, Number(getComputedStyle(arrow).opacity)])"
    )
    before = page.page.evaluate(visible)
    row.hover()
    pointed = page.page.evaluate(visible)
    assert [each for each, opacity in pointed if opacity == 1] == [move]
    assert len(pointed) > 4 and all(opacity < 0.2 for each, opacity in pointed if each != move)
    page.page.mouse.move(0, 0)
    assert page.page.evaluate(visible) == before
    row.locator("button").focus()  # the same for the keyboard
    assert page.page.evaluate(visible) == pointed


def test_what_is_not_pulled_is_said_in_a_sentence_that_explains_itself_or_not_at_all(
    browser: Any, site: Site
) -> None:
    start = ("--port", "0", "--evaluator", "builtin", "example", site.evil)
    with board_process(*start) as (_, url), tab(browser, url) as page:
        page.open("policy=example&you=both&beside=")
        assert page.text("#no-optimum") == ""  # weights alone: there is no run to speak of
        page.page.select_option("#policy", site.evil)
        says(page, "#no-optimum", "What a run’s bonus and KL pull the moves towards is not shown")


def test_it_answers_with_its_most_probable_move_unless_a_drawn_one_is_asked_for(
    page: Tab, site: Site
) -> None:
    page.open(f"policy={site.run}&t=2")
    page.click("e2e4")
    page.wait_for_plies(2)
    policy, place = load_policy(site.run), reached(None, ["e2e4"])
    view = view_of(policy, place, temperature=1.0, evaluator=None, pull=None)
    assert page.moves() == ["e2e4", view.moves[0].uci]
    with page.page.expect_request("**/api/reply") as asked:
        page.page.get_by_label("a drawn move").check()
        page.page.click("#policy-move")
    assert asked.value.post_data_json["draw"] is True and "draw=1" in page.page.url


@pytest.mark.parametrize(
    ("fen", "said"),
    [
        ("rnbqkbnr/pppp1ppp/8/4p3/4P3/8/PPPP1PPP/RNB1KBNR b KQkq - 0 1", ""),
        ("6k1/8/6K1/8/8/8/8/R7 w - - 0 1", "White mates in 1"),
        ("7k/8/6K1/8/8/8/8/R7 b - - 0 1", "White mates in 1"),
        ("r7/8/8/8/8/6k1/8/6K1 b - - 0 1", "Black mates in 1"),
    ],
)
def test_the_bar_is_the_judge_s_score_for_white(
    page: Tab, site: Site, builtin: Evaluator, fen: str, said: str
) -> None:
    page.open(f"policy={site.run}&you=both&fen={fen}")
    position, policy = reached(fen, ()), load_policy(site.run)
    view = view_of(policy, position, temperature=1.0, evaluator=builtin, pull=None)
    white = max(move.score_cp or 0 for move in view.moves) * (1 if position.board.turn else -1)
    said = said or f"−{abs(white) / 100:.2f} pawns for White"
    says(page, "#evaluation", f"{said}, by the built-in evaluator")
    bar = page.page.locator("#bar")
    share = 100 / (1 + math.exp(-0.00368208 * white))
    assert bar.get_attribute("aria-valuetext") == said
    assert bar.get_attribute("aria-valuenow") == f"{share:.0f}"
    whole, part = (each.bounding_box() for each in (bar, bar.locator("div")))
    assert part["height"] / whole["height"] == pytest.approx(share / 100, abs=0.01)
    assert part["y"] + part["height"] == pytest.approx(whole["y"] + whole["height"], abs=2)
    press(page, "f")
    page.page.wait_for_selector("#bar.turned")
    assert bar.locator("div").bounding_box()["y"] == pytest.approx(whole["y"], abs=2)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_letters_of_the_files_can_be_read_on_a_phone(
    browser: Any, site: Site, scheme: str
) -> None:
    view = {"viewport": {"width": 375, "height": 812}, "color_scheme": scheme}
    with tab(browser, site.url, **view) as page:
        page.open(f"policy={site.run}&you=both")
        size, *colours = page.page.evaluate(
            "(() => { const of = getComputedStyle(document.querySelector('.square'));"
            "return [parseFloat(of.fontSize), of.fill, of.stroke]; })()"
        )
        assert size * page.page.locator("#board").bounding_box()["width"] / 360 >= 11
        ink, paper = ([int(part) / 255 for part in each[4:-1].split(",")] for each in colours)
        ink, paper = (
            0.2126 * r**2.2 + 0.7152 * g**2.2 + 0.0722 * b**2.2 for r, g, b in (ink, paper)
        )
        assert (paper + 0.05) / (ink + 0.05) >= 7
        assert page.page.locator("#picture use ~ use[href='#names-white']").count() == 1
        assert (
            page.page.locator("#picture use[href='#names-white'] ~ use").count() == 0
        )  # above the men


@pytest.mark.slow
def test_without_a_judge_there_is_no_bar_and_a_run_alone_is_beside_its_start(
    browser: Any, trained: tuple[Path, Path]
) -> None:
    run, every = str(trained[0]), snapshots(trained[0]).every
    start = ("--port", "0", "--evaluator", "none", run)
    with board_process(*start) as (_, url), tab(browser, url) as page:
        page.open(f"policy={run}&you=both")
        says(page, "#beside-name", "run at its start: ")
        assert page.page.locator("#bar").is_hidden() and page.text("#evaluation") == ""
        for prefix, each in (("", every[-1]), ("beside-", every[0])):
            policy, place = load_policy(str(each.path)), reached(None, ())
            view = view_of(policy, place, temperature=1.0, evaluator=None, pull=None)
            assert page.text(f"#{prefix}entropy") == f"{view.entropy:.2f} nats"
        page.page.fill("#cursor", "0")  # the same policy twice says nothing
        says(page, "#beside-problem", "the policy that is shown already")
        assert page.page.locator("#beside-picture").is_hidden()
        assert page.page.locator("#beside-moves tbody tr").count() == 0


@pytest.mark.slow
def test_the_second_run_is_beside_the_first_and_the_line_says_where_the_slider_stands(
    browser: Any, twins: Twins
) -> None:
    with tab(browser, twins.url) as page:
        page.open("you=both")
        says(page, "#beside-name", "cured: ")
        page.page.fill("#cursor", "1")
        for run in map(Path, (twins.faulty, twins.cured)):
            every = snapshots(run).every
            line = f"{run.name}: update {every[1].update} of {every[-1].update}, {every[1].scored_moves:,} scored moves"
            says(page, "#run-says", f"{line} · mean over the held-out positions")
        page.page.select_option("#policy", twins.cured)
        says(page, "#beside-name", Path(twins.faulty).name)
        assert page.errors == [] and page.elsewhere == []
