"""The line of play and the opening's name in a real Chromium."""

from __future__ import annotations

import pytest

from algorithms.evaluation.load_policy import load_policy
from algorithms.playing.policy_moves import move_probabilities
from algorithms.playing.position import reached
from tests.board.browser import Tab
from tests.board.conftest import Site
from tests.board.test_keys_and_evaluation import says

pytestmark = pytest.mark.browser

CARO_KANN = "e2e4,c7c6,d2d4,d7d5,e4e5"


def test_the_opening_is_named_at_each_place_of_a_game_from_the_usual_position(
    page: Tab, site: Site
) -> None:
    page.open(f"policy={site.run}&you=both&moves={CARO_KANN}")
    says(page, "#opening", "B12 Caro-Kann Defence, Advance Variation")
    page.page.keyboard.press("ArrowLeft")
    says(page, "#opening", "B10 Caro-Kann Defence")
    fen = reached(None, ("e2e4",)).board.fen()
    page.open(f"policy={site.run}&you=both&fen={fen}&moves=e7e5")
    assert page.text("#opening") == ""


def test_the_line_of_play_follows_the_place_and_is_asked_for_after_it_is_shown(
    page: Tab, site: Site
) -> None:
    asked: list[str] = []
    page.page.on("request", lambda request: asked.append(request.url.rpartition("/api/")[2]))
    page.page.on(
        "response", lambda response: asked.append(response.url.rpartition("/api/")[2] + "!")
    )
    page.open(f"policy={site.run}&you=both&moves=e2e4")

    policy = load_policy(site.run)

    def wanted(moves: list[str], line: str) -> str:
        for number in range(6):
            best = next(iter(move_probabilities(policy, None, moves)))
            board = reached(None, moves).board
            numbered = f" {board.fullmove_number}." if board.turn and number else ""
            line += f"{numbered} {board.san(board.parse_uci(best))}"
            moves = [*moves, best]
        return line

    says(page, "#line", wanted(["e2e4"], "Line of play: 1…"))
    asked.clear()
    page.click("e7e5")
    says(page, "#line", wanted(["e2e4", "e7e5"], "Line of play: 2."))
    assert asked.count("line") == 1
    of_board = asked[: asked.index("line")]
    assert of_board.count("view") <= of_board.count("view!")  # none is waited for
    page.page.fill("#temperature", "1.5")  # the most probable moves are the same
    says(page, "#temperature-value", "1.50")
    page.page.click("#first")
    page.page.wait_for_function(
        "() => !document.getElementById('line').textContent.includes(': 2.')"
    )
    page.page.click("#last")
    says(page, "#line", wanted(["e2e4", "e7e5"], "Line of play: 2."))


LISTEN = """
  window.tones = [];
  window.AudioContext = class extends AudioContext {
    createOscillator() {
      const tone = super.createOscillator();
      const start = tone.start.bind(tone);
      tone.start = (when) => { window.tones.push(tone.frequency.value); start(when); };
      return tone;
    }
  };
"""


def test_moves_sound_when_that_is_switched_on_and_the_browser_remembers_it(
    page: Tab, site: Site
) -> None:
    page.page.add_init_script(LISTEN)
    page.open(f"policy={site.run}&you=both")

    def tones() -> list[float]:
        found: list[float] = page.page.evaluate("window.tones.splice(0)")
        return found

    page.click("e2e4")
    page.wait_for_plies(1)
    assert tones() == []  # as long as nobody asks for it
    page.page.click("#open-help")
    box = page.page.get_by_label("A quiet click for each move")
    assert not box.is_checked()
    box.check()
    (quiet,) = tones()
    page.page.keyboard.press("Escape")
    page.click("d7d5")
    page.wait_for_plies(2)
    assert tones() == [quiet]
    page.click("e4d5")
    page.wait_for_plies(3)
    (loud,) = tones()
    assert loud > quiet
    page.page.fill("#temperature", "1.5")  # no move
    says(page, "#temperature-value", "1.50")
    page.page.click("#first")
    says(page, "#turn", "White to move")
    assert tones() == [] and "sound" not in page.page.url
    page.open(f"policy={site.run}")
    assert page.page.locator("#sound").is_checked()
    page.click("e2e4")  # the player's move at once, and the policy's answer
    page.wait_for_plies(2)
    assert len(tones()) == 2
    page.page.click("#open-help")
    page.page.locator("#sound").uncheck()
    page.open(f"policy={site.run}")
    assert not page.page.locator("#sound").is_checked()


def test_a_link_is_copied_that_opens_the_same_place(page: Tab, site: Site) -> None:
    page.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.open(f"policy={site.run}&you=both&t=0.5&moves={CARO_KANN}&at=2")
    page.page.get_by_role("button", name="Copy link").click()
    says(page, "#share-says", "The link is copied.")
    assert page.page.locator("#share-says").is_visible() and page.page.locator("#link").is_hidden()
    link = page.page.evaluate("navigator.clipboard.readText()")
    assert link.startswith(f"{site.url}#policy=")
    other = Tab(page.page.context.new_page(), site.url)
    other.page.goto(link)
    other.settled()
    other.wait_for_plies(5)
    assert other.moves() == CARO_KANN.split(",") and other.text("#turn") == "White to move"
    assert other.man("c6") == "black pawn" and other.man("d4") == "empty" and other.errors == []
    page.page.keyboard.press("End")  # then the link is of another place
    says(page, "#turn", "Black to move")
    assert page.text("#share-says") == ""


@pytest.mark.parametrize(
    "clipboard", ["undefined", "{writeText: async () => { throw new DOMException('no'); }}"]
)
def test_a_link_that_the_browser_does_not_copy_is_shown_selected(
    page: Tab, site: Site, clipboard: str
) -> None:
    page.page.add_init_script(
        f"Object.defineProperty(navigator, 'clipboard', {{value: {clipboard}}})"
    )
    page.open(f"you=both&moves={CARO_KANN}")
    page.page.get_by_role("button", name="Copy link").click()
    says(page, "#share-says", "copy the link here")
    field = page.page.get_by_label("Link to this position and its moves")
    selected = "(one) => document.activeElement === one && one.value.slice(one.selectionStart, one.selectionEnd)"
    link = field.evaluate(selected)
    assert link.startswith(site.url) and link.endswith(f"&moves={CARO_KANN}&you=both")
    page.page.click("#first")
    says(page, "#turn", "White to move")
    assert field.is_hidden()
