"""The page in a real Chromium when its server is lost, on a phone, in the dark, and for screen readers."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from tests.board.browser import tab
from tests.board.conftest import Site, Twins
from tests.board.screenshots import FOLDER, take, take_training
from tests.board.test_command import board_process
from tests.board.test_in_a_browser import FOOLS_MATE, PROMOTION

pytestmark = pytest.mark.browser


@pytest.mark.slow
def test_a_lost_server_is_said_and_the_page_goes_on_when_it_is_back(
    browser: Any, site: Site
) -> None:
    start = ("--evaluator", "none", site.run)
    with board_process("--port", "0", *start) as (process, url), tab(browser, url) as page:
        page.open(f"policy={site.run}&you=both")
        page.click("e2e4")
        page.wait_for_plies(1)
        process.send_signal(signal.SIGKILL)
        process.wait()
        page.page.wait_for_selector("#lost:not([hidden])")
        assert "The server does not answer" in page.text("#lost")
        page.click("e7e5")  # while it is away
        with board_process("--port", url.rstrip("/").rpartition(":")[2], *start):
            page.page.wait_for_selector("#lost", state="hidden")
            page.wait_for_plies(2)
            assert page.moves() == ["e2e4", "e7e5"] and page.man("e5") == "black pawn"
            page.page.wait_for_selector("#moves tbody tr")
        unexpected = [each for each in page.errors if "Failed to load resource" not in each]
        assert unexpected == [] and page.elsewhere == []


@pytest.mark.slow
def test_positions_that_are_asked_for_while_the_server_is_away_come_when_it_is_back(
    browser: Any, trained: tuple[Path, Path]
) -> None:
    run = str(trained[0])
    start = ("--evaluator", "none", run)
    with board_process("--port", "0", *start) as (process, url), tab(browser, url) as page:
        page.open(f"policy={run}&you=both")
        page.page.wait_for_selector("#charts figure")
        process.send_signal(signal.SIGKILL)
        process.wait()
        page.page.select_option("#set", "probe")
        page.page.wait_for_selector("#lost:not([hidden])")
        assert page.page.locator("#set-steps").is_hidden()
        with board_process("--port", url.rstrip("/").rpartition(":")[2], *start):
            page.page.wait_for_selector("#set-steps:not([hidden])", timeout=60_000)
            page.page.wait_for_function(
                "() => document.getElementById('set-says').textContent.startsWith('1 of 26: ')"
            )
            assert page.page.locator("#training-says").text_content() == ""
            page.page.wait_for_selector("#moves tbody tr")
            assert page.page.locator("#problem").is_hidden()


@pytest.mark.slow
def test_what_takes_long_is_shown_while_it_does(browser: Any, site: Site) -> None:
    with tab(browser, site.url) as page:
        page.open(f"policy={site.run}&you=both")
        busy = page.page.locator("#busy")
        assert busy.is_hidden()

        def slowly(route: Any) -> None:
            page.page.wait_for_timeout(1500)
            route.continue_()

        page.page.route("**/api/view", slowly)
        page.click("e2e4")
        busy.wait_for(state="visible", timeout=1400)
        assert page.text("#busy-text") == "computing …"
        page.wait_for_plies(1)
        busy.wait_for(state="hidden")


@pytest.mark.slow
def test_a_policy_that_is_still_loaded_is_waited_for(browser: Any, site: Site) -> None:
    with (
        board_process("--port", "0", "--evaluator", "builtin", "example") as (_, url),
        tab(browser, url) as page,
    ):
        page.page.goto(url)
        page.page.wait_for_selector("#squares button[aria-label='e2, white pawn']")
        # How far the server has come by now is not known.
        assert page.text("#policy") in ("example (loading …)", "example")
        assert page.text("#problem") in ("The policy is being loaded.", "")
        page.page.wait_for_selector("#moves tbody tr")
        assert page.page.locator("#problem").is_hidden() and page.text("#policy") == "example"
        assert page.errors == []


def test_a_phone_shows_all_of_it_and_takes_taps(browser: Any, site: Site) -> None:
    phone = {"viewport": {"width": 375, "height": 667}, "has_touch": True, "is_mobile": True}
    with tab(browser, site.url, **phone) as page:
        page.open(f"policy={site.run}&you=both")
        assert page.page.evaluate("document.documentElement.scrollWidth") == 375
        inside = "(list) => list.scrollWidth - list.clientWidth"
        assert (
            page.page.locator(".policy .scroll").evaluate(inside) == 0
        )  # all columns of the list are seen
        board, moves, game = (
            page.page.locator(each).bounding_box()["y"] for each in ("#board", "#moves", "#game")
        )
        assert board < moves < game
        page.square("e2").tap()
        page.square("e4").tap()
        page.wait_for_plies(1)
        assert page.moves() == ["e2e4"] and page.square("a1").bounding_box()["width"] > 40
        page.page.click("#files summary")
        assert page.page.evaluate("document.documentElement.scrollWidth") == 375
        small = page.page.evaluate(
            "[...document.querySelectorAll('button, select, input, summary')].filter((one) => one.offsetParent "
            "&& one.getBoundingClientRect().height < 24 && one.type !== 'radio').map((one) => one.id)"
        )
        assert small == [] and page.errors == []


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [375, 1200])
def test_axe_finds_no_violation_of_level_a_or_aa(
    browser: Any, site: Site, scheme: str, width: int
) -> None:
    from axe_playwright_python.sync_playwright import Axe

    levels = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
    options = {"runOnly": {"type": "tag", "values": levels}}
    view = {"viewport": {"width": width, "height": 900}, "color_scheme": scheme}
    with tab(browser, site.url, **view) as page:
        page.open(f"policy={site.run}&you=both&moves=e2e4")
        background = page.page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (sum(map(int, background[4:-1].split(","))) < 200) == (scheme == "dark")

        def check(what: str) -> None:
            found = Axe().run(page.page, options=options)
            assert found.violations_count == 0, f"{what}: {found.generate_report()}"
            assert len(found.response["passes"]) > 8

        check("a game")
        page.page.click("#files summary")
        page.page.fill("#fen", "x")
        page.page.get_by_role("button", name="Set the position").click()
        page.page.wait_for_selector("#files-say:not(:empty)")
        check("a refusal")
        page.open(f"policy={site.run}&you=both&moves={','.join(FOOLS_MATE)}")
        check("a finished game")
        page.open(f"policy={site.run}&you=both&fen={PROMOTION}")
        page.square("a7").click()
        check("a man taken up")
        page.square("a8").click()
        check("a promotion")
        page.open(f"policy={site.broken}&you=both")
        check("a policy that cannot be opened")
        page.page.route("**/api/reply", lambda route: None)  # the policy thinks
        page.open(f"policy={site.run}")
        page.page.evaluate("Object.defineProperty(navigator, 'clipboard', {value: undefined})")
        page.click("e2e4")
        page.page.wait_for_selector("#squares.early")
        page.click("g1f3")
        page.page.wait_for_selector("#squares .planned")
        check("a premove")
        page.page.click("#share")
        page.page.wait_for_selector("#link:not([hidden])")
        check("a link to copy")
        page.page.click("#open-help")
        check("the help")


@pytest.mark.slow
def test_the_pictures_of_the_page_are_taken_and_small(
    browser: Any, twins: Twins, tmp_path: Path
) -> None:
    with board_process("--port", "0", "--evaluator", "builtin", "example") as (_, url):
        written = take(browser, url, tmp_path)
    written.append(take_training(browser, twins.url, (twins.faulty, twins.cured), tmp_path))
    assert {path.name for path in written} == {path.name for path in FOLDER.glob("*.png")}
    sizes = {path.name: path.stat().st_size for path in (*written, *FOLDER.glob("*.png"))}
    assert all(10_000 < size < 250_000 for size in sizes.values()), sizes
