"""The report in a real Chromium: zoom, smoothing, switches, its height, and what axe finds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from algorithms.reports.page import PageNotes, build_page
from tests.board.browser import chromium
from tests.reports.run_folders import run_of
from tests.reports.test_page_diagnoses import DIAGNOSIS

pytestmark = [pytest.mark.slow, pytest.mark.browser]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    runs = [run_of(folder / f"{coefficient}", ent_coef=coefficient) for coefficient in (0.1, 0.3)]
    notes = PageNotes(diagnoses={str(run.path): DIAGNOSIS for run in runs})
    (folder / "report.html").write_text(build_page("two runs", runs, notes), encoding="utf-8")
    return folder / "report.html"


def test_curves_are_zoomed_smoothed_hidden_and_shown_again(browser: Any, report: Path) -> None:
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda said: errors.append(said.text))
    page.goto(report.as_uri())
    chart = page.locator("svg[data-x]").first
    line = chart.locator("polyline").first

    def points() -> list[list[float]]:
        return [list(map(float, each.split(","))) for each in line.get_attribute("points").split()]

    whole = points()
    assert [x for x, _ in whole] == [66 + 96 * place for place in range(6)]  # 0 to 500 moves
    page.fill("#from", "100")
    page.fill("#to", "300")
    assert [x for x, _ in points()] == [66 + 240 * (place - 1) for place in range(6)]
    assert chart.locator("text.over").all_text_contents()[::-1] == [
        "100",
        "150",
        "200",
        "250",
        "300",
    ]
    page.click("#all")
    assert points() == whole

    page.locator("#smoothing").fill("0.5")
    (_, first), (_, second) = whole[:2]
    assert points()[1][1] == pytest.approx((0.25 * first + 0.5 * second) / 0.75, abs=0.06)
    page.locator("#smoothing").fill("0")

    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    x, y, width = box["x"], box["y"] + box["height"] / 2, box["width"]
    page.mouse.move(x + width * (66 + 96) / 560, y)
    page.mouse.down()
    page.mouse.move(x + width * (66 + 384) / 560, y)
    page.mouse.up()
    assert (
        abs(int(page.input_value("#from")) - 100) <= 1
        and abs(int(page.input_value("#to")) - 400) <= 1
    )
    page.mouse.dblclick(x + width / 2, y)
    assert page.input_value("#from") == "" and points() == whole

    box = page.locator('.legend li[data-run="k0"] input').first
    box.uncheck()
    assert line.is_hidden() and chart.locator("polyline").nth(1).is_visible()
    assert page.locator('.legend li[data-run="k0"] input:checked').count() == 0
    box.check()
    assert line.is_visible()
    assert errors == []
    page.close()


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (1280, "dark"), (375, "light")])
def test_the_report_of_two_runs_is_short_fits_and_axe_finds_nothing(
    browser: Any, report: Path, width: int, scheme: str
) -> None:
    from axe_playwright_python.sync_playwright import Axe

    page = browser.new_page(
        viewport={"width": width, "height": 900}, color_scheme=scheme, bypass_csp=True
    )
    page.goto(report.as_uri())
    height, reach = page.evaluate(
        "[document.body.scrollHeight, document.documentElement.scrollWidth]"
    )
    assert reach <= width and (width < 1280 or height <= 6000)
    page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
    levels = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
    found = Axe().run(page, options={"runOnly": {"type": "tag", "values": levels}})
    assert found.violations_count == 0, found.generate_report()
    assert len(found.response["passes"]) > 8
    page.close()
