"""The page in a real Chromium: games by mouse and keyboard, the rules' special moves, numbers, hostile texts."""

from __future__ import annotations

import io
from pathlib import Path

import chess.pgn
import pytest

from algorithms.evaluation.load_policy import load_policy
from algorithms.playing.position import reached
from algorithms.playing.pull import load_pull
from algorithms.playing.view import view_of
from chess_env.evaluators import Evaluator
from tests.board.browser import Tab
from tests.board.conftest import EVIL, Site

pytestmark = pytest.mark.browser

CASTLING = "r3k2r/8/8/8/8/8/8/R3K2R w KQkq - 0 1"
EN_PASSANT = "4k3/8/8/8/5p2/8/4P3/4K3 w - - 0 1"
PROMOTION = "8/P6k/8/8/8/8/7K/8 w - - 0 1"
FOOLS_MATE = ["f2f3", "e7e5", "g2g4", "d8h4"]


@pytest.mark.slow
def test_a_whole_game_by_mouse_against_the_policy(page: Tab, site: Site) -> None:
    page.open(f"policy={site.run}&t=0")
    plies = 0
    while page.page.locator("#result").is_hidden():
        best = page.page.locator("#moves tbody tr.best").first.get_attribute("data-uci")
        (page.click if plies % 4 else page.drag)(best)
        if len(best) == 5:
            page.page.locator("#promotion button[aria-label=queen]").click()
        page.page.wait_for_function(
            "count => document.querySelectorAll('#game button').length >= count + 2 "
            "|| !document.getElementById('result').hidden",
            arg=plies,
        )
        plies = len(page.moves())
        assert plies < 400
    game = reached(None, page.moves())
    assert page.text("#result").split(" · ")[0] in ("1-0", "0-1", "1/2-1/2")
    assert page.text("#turn") == "" and page.page.locator("#squares button.own").count() == 0
    assert game.board.fen() == page.page.input_value("#fen")


def keys_to(page: Tab, square: str) -> None:
    """Walks to a square with the arrow keys, with White below."""
    here = page.page.evaluate("document.activeElement.dataset.square")
    across, up = ord(square[0]) - ord(here[0]), int(square[1]) - int(here[1])
    for key, count in (
        ("ArrowRight", across),
        ("ArrowLeft", -across),
        ("ArrowUp", up),
        ("ArrowDown", -up),
    ):
        for _ in range(max(0, count)):
            page.page.keyboard.press(key)
    assert page.page.evaluate("document.activeElement.dataset.square") == square


def test_a_whole_game_by_the_keyboard_alone(page: Tab, site: Site) -> None:
    page.open(f"policy={site.run}&you=both")
    for _ in range(6):  # policies, help, the run beside, positions, then the board
        page.page.keyboard.press("Tab")
        if page.page.evaluate("document.activeElement.dataset.square") is not None:
            break
    for number, move in enumerate(FOOLS_MATE, 1):
        keys_to(page, move[:2])
        page.page.keyboard.press("Enter")
        assert "taken up" in page.square(move[:2]).get_attribute("aria-label")
        keys_to(page, move[2:])
        page.page.keyboard.press("Space")
        page.wait_for_plies(number)
    assert page.moves() == FOOLS_MATE
    assert page.text("#result") == "0-1 · Black wins: checkmate."
    said = page.page.locator("#announce").text_content()
    assert said == "Black played Qh4#. 0-1. Black wins: checkmate."


@pytest.mark.parametrize(
    ("typed", "played"),
    [("e4", "e2e4"), ("Nf3", "g1f3"), ("nf3", "g1f3"), ("g1f3", "g1f3"), ("e2-e4", "e2e4")],
)
def test_a_move_is_typed(page: Tab, site: Site, typed: str, played: str) -> None:
    page.open(f"policy={site.run}&you=both")
    page.page.fill("#typed-move", typed)
    page.page.keyboard.press("Enter")
    page.wait_for_plies(1)
    assert page.moves() == [played]
    page.page.fill("#typed-move", EVIL[:10])
    page.page.keyboard.press("Enter")
    assert page.text("#typed-says") == f"“{EVIL[:10]}” is no legal move here."


def test_castling_en_passant_and_under_promotion_by_mouse(page: Tab, site: Site) -> None:
    page.open(f"policy={site.run}&you=both&fen={CASTLING}")
    page.click("e1g1")
    page.wait_for_plies(1)
    assert (page.man("g1"), page.man("f1"), page.man("h1")) == ("white king", "white rook", "empty")
    page.drag("e8c8")
    page.wait_for_plies(2)
    assert (page.man("c8"), page.man("d8")) == ("black king", "black rook")
    assert page.moves() == ["e1g1", "e8c8"]
    page.open(f"policy={site.run}&you=both&fen={EN_PASSANT}&moves=e2e4")
    page.click("f4e3")
    page.wait_for_plies(2)
    assert (page.man("e4"), page.man("e3")) == ("empty", "black pawn")
    page.open(f"policy={site.run}&you=both&fen={PROMOTION}")
    page.click("a7a8")
    page.page.get_by_role("button", name="Cancel").click()
    assert page.man("a7") == "white pawn" and page.moves() == []
    page.drag("a7a8")
    page.page.get_by_role("button", name="knight").click()
    page.wait_for_plies(1)
    assert (page.man("a8"), page.moves()) == ("white knight", ["a7a8n"])


@pytest.mark.parametrize(
    ("fen", "move", "man", "said"),
    [
        (PROMOTION, "a7a8q", "white queen", "White played a8=Q."),
        (PROMOTION, "a7a8r", "white rook", "White played a8=R."),
        ("k7/8/8/8/8/8/p6K/1B6 b - - 0 1", "a2b1n", "black knight", "Black played axb1=N."),
    ],
)
def test_two_clicks_ask_which_man_a_pawn_becomes_and_the_page_says_it(
    page: Tab, site: Site, fen: str, move: str, man: str, said: str
) -> None:
    page.open(f"policy={site.run}&you=both&fen={fen}")
    page.click(move[:4])
    offered = page.page.locator("#promotion button[aria-label]")
    assert offered.evaluate_all("them => them.map((each) => each.ariaLabel)") == [
        "queen", "rook", "bishop", "knight",
    ]  # fmt: skip
    assert page.moves() == []
    page.page.get_by_role("button", name=man.split()[1]).click()
    page.wait_for_plies(1)
    assert (page.man(move[2:4]), page.moves()) == (man, [move])
    assert page.page.locator("#announce").text_content().startswith(said)


@pytest.mark.slow
def test_black_take_back_new_game_and_steps(page: Tab, site: Site) -> None:
    page.open(f"policy={site.run}&t=0&you=black")
    page.wait_for_plies(1)  # the policy begins
    first = page.square("h1").bounding_box()
    assert first["x"] < page.square("a1").bounding_box()["x"]  # Black is below
    answer = page.page.locator("#moves tbody tr").first.get_attribute("data-uci")
    page.click(answer)
    page.wait_for_plies(3)
    page.page.click("#back")
    page.wait_for_plies(1)
    assert len(page.moves()) == 1
    page.page.click("#previous")
    page.page.wait_for_function(
        "() => document.getElementById('turn').textContent === 'White to move'"
    )
    assert "at=0" in page.page.evaluate("location.hash")
    page.page.click("#new")
    page.wait_for_plies(1)
    page.page.get_by_label("both sides").check()
    page.page.click("#new")
    page.wait_for_plies(0)
    page.page.click("#policy-move")
    page.wait_for_plies(1)


@pytest.mark.slow
def test_a_policy_that_moves_in_the_player_s_place_answers_itself(page: Tab, site: Site) -> None:
    page.open(f"policy={site.run}")
    page.page.click("#policy-move")
    page.wait_for_plies(2)
    assert page.text("#turn") == "White to move" and len(page.moves()) == 2


@pytest.mark.slow
def test_a_second_move_before_the_first_is_shown_is_not_played(page: Tab, site: Site) -> None:
    page.open(f"policy={site.run}&you=both")
    page.page.evaluate(
        "names => names.forEach((name) => document.querySelector(`[data-square=${name}]`).click())",
        ["e2", "e4", "d2", "d4"],
    )
    page.wait_for_plies(1)
    page.click("e7e5")
    page.wait_for_plies(2)
    assert page.moves() == ["e2e4", "e7e5"] and page.page.locator("#problem").is_hidden()


def test_the_numbers_are_the_library_s_and_follow_the_slider(
    page: Tab, site: Site, builtin: Evaluator
) -> None:
    policy, pull, moves = load_policy(site.run), load_pull(site.run), ("e2e4", "e7e5", "g1f3")
    page.open(f"policy={site.run}&you=both&moves={','.join(moves)}")
    assert "its entropy bonus (0.05) and its KL to the reference (0.08)" in page.text("#no-optimum")
    for temperature in (0.7, 0.25, 0.0, 2.0):  # the first is the run's own, and the page's default
        if temperature != 0.7:
            page.page.fill("#temperature", str(temperature))
        page.page.wait_for_timeout(500)
        assert page.text("#temperature-value") == f"{temperature:.2f}"
        view = view_of(
            policy, reached(None, moves), temperature=temperature, evaluator=builtin, pull=pull
        )
        assert page.text("#entropy") == f"{view.entropy:.2f} nats"
        assert page.text("#effective") == f"{view.effective_moves:.1f} of {len(view.moves)} legal"
        assert page.text("#regret") == f"{view.regret_cp:.1f} centipawns"
        assert page.text("#optimum") == f"{view.optimum_entropy:.2f} nats"
        rows = page.page.evaluate(
            "() => [...document.querySelectorAll('#moves tbody tr')]"
            ".map((row) => [...row.cells].map((cell) => cell.textContent))"
        )
        bars = page.page.locator("#moves tbody .bar span").evaluate_all(
            "them => them.map((each) => each.getBoundingClientRect().width)"
        )
        # a bar is as long as the move is probable: none for 0.0 %
        assert all(w <= 0.5 + 600 * m.probability for w, m in zip(bars, view.moves, strict=True))
        for row, move in zip(rows, view.moves, strict=True):
            assert row[0] == move.san
            share = (
                f"{100 * move.probability:.1f} %"
                if move.probability >= 0.0005 or not move.probability
                else "<0.1 %"
            )
            assert row[2] == share
            assert int(row[3].replace("−", "-").replace(",", "")) == move.score_cp
            assert int(row[4].replace(",", "")) == round(move.regret_cp or 0)


def test_hostile_texts_are_shown_as_text(page: Tab, site: Site) -> None:
    page.open(f"policy={site.evil}&you=both")
    assert EVIL in page.text("#policy") and page.page.locator("#value").is_visible()
    page.page.select_option("#policy", site.broken)
    page.page.wait_for_selector("#problem:not([hidden])")
    page.settled()
    assert EVIL in page.text("#problem") and page.page.locator("#squares button.own").count() == 10
    page.page.click("#files summary")
    for field, button, text in (
        ("#fen", "Set the position", EVIL),
        ("#pgn", "Load the game", f'[FEN "{EVIL}"]\n\n1. e4 *'),
        ("#pgn", "Load the game", EVIL),
    ):
        page.page.fill(field, text)
        page.page.get_by_role("button", name=button).click()
        page.page.wait_for_selector("#files-say:not(:empty)")
        assert page.page.locator("#files-say *").count() == 0
        page.errors[:] = [each for each in page.errors if "status of 400" not in each]
    for state in (
        f"policy={EVIL}&fen={EVIL}",
        f"moves={EVIL},e2e4&t=NaN&at=-1&you={EVIL}",
        "%00%ff&=&t=1e999",
    ):
        page.page.goto(f"{site.url}#{state}")
        page.page.reload()
        page.page.wait_for_timeout(500)
        page.errors[:] = [each for each in page.errors if "status of 400" not in each]
        page.page.fill("#typed-move", "e4")
        page.page.keyboard.press("Enter")
        page.page.click("#new")
        page.page.get_by_label("both sides").check()
        page.page.wait_for_selector("#squares button.own")
        assert (EVIL in page.text("#problem")) == (f"policy={EVIL}" in state)
    assert page.page.locator("img, iframe, object, embed").count() == 0


@pytest.mark.slow
def test_a_game_is_saved_and_loaded(page: Tab, site: Site) -> None:
    page.open(f"policy={site.run}&you=both&moves={','.join(FOOLS_MATE)}")
    page.page.click("#files summary")
    with page.page.expect_download() as download:
        page.page.click("#save-pgn")
    text = Path(download.value.path()).read_text()
    game = chess.pgn.read_game(io.StringIO(text))
    assert game is not None and game.headers["Result"] == "0-1"
    assert [move.uci() for move in game.mainline_moves()] == FOOLS_MATE
    page.page.click("#new")
    page.wait_for_plies(0)
    page.page.set_input_files("#pgn-file", download.value.path())
    page.page.wait_for_function("text => document.getElementById('pgn').value === text", arg=text)
    page.page.set_input_files("#pgn-file", [])  # the choice is given up
    page.page.get_by_role("button", name="Load the game").click()
    page.wait_for_plies(4)
    page.page.get_by_role("button", name="First position").click()
    page.page.wait_for_function(
        "() => document.getElementById('turn').textContent === 'White to move'"
    )
    page.page.fill("#fen", CASTLING)
    page.page.get_by_role("button", name="Set the position").click()
    page.wait_for_plies(0)
    assert page.man("h8") == "black rook" and page.man("d1") == "empty"


@pytest.mark.slow
def test_two_tabs_have_two_games(page: Tab, site: Site) -> None:
    other = Tab(page.page.context.new_page(), site.url)
    page.open(f"policy={site.run}&you=both")
    other.open(f"policy={site.run}&you=both")
    page.click("e2e4")
    page.wait_for_plies(1)
    other.click("d2d4")
    other.wait_for_plies(1)
    assert (page.moves(), other.moves()) == (["e2e4"], ["d2d4"])
    assert other.errors == [] and other.elsewhere == []
    other.page.goto(page.page.url)  # a link shows the same place
    other.page.reload()
    other.settled()
    other.wait_for_plies(1)
    assert other.man("e4") == "white pawn"
