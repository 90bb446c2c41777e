"""The report in a real Chromium: zoom, smoothing, log scale, pictures, switches, its height, and what axe finds."""

from __future__ import annotations

import math
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from algorithms.reports.page import PageNotes, build_page
from algorithms.reports.run_files import read_run
from tests.reports.run_folders import config, learning_rows, write_run
from tests.reports.test_page_diagnoses import DIAGNOSIS

pytestmark = [pytest.mark.slow, pytest.mark.browser]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    timed = [row | {"time/wall_s": 1.5 * row["step"]} for row in learning_rows()]
    runs = [
        read_run(write_run(folder / f"{coefficient}", rows, config(ent_coef=coefficient)))
        for coefficient, rows in ((0.1, timed), (0.3, learning_rows()))
    ]
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


def test_a_log_scale_is_drawn_where_all_values_are_above_0(browser: Any, report: Path) -> None:
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto(report.as_uri())
    charts = {
        name: page.locator("figure").filter(has=page.get_by_text(name, exact=True)).first
        for name in ("Held-out regret", "Reward of the moves played")
    }

    def heights(name: str) -> list[float]:
        points = charts[name].locator("polyline").first.get_attribute("points")
        return [float(each.split(",")[1]) for each in points.split()]

    before = {name: heights(name) for name in charts}
    page.check("#log")
    # 400, 340, ... 100 centipawns between the marks 100 and 500, at the bottom and the top
    regret = [268 - 228 * math.log(cp / 100, 5) for cp in range(400, 99, -60)]
    assert heights("Held-out regret") == pytest.approx(regret, abs=0.06)
    shown = charts["Held-out regret"].locator(".chart")
    assert shown.locator("text.up").all_text_contents()[::-1] == ["100", "200", "500"]
    assert shown.locator(".label").first.text_content().endswith("log scale")
    page.fill("#from", "100")  # zoomed besides
    assert heights("Held-out regret") == pytest.approx(regret, abs=0.06)
    page.fill("#from", "")
    reward = charts["Reward of the moves played"]  # below 0
    assert heights("Reward of the moves played") == pytest.approx(
        before["Reward of the moves played"], abs=0.06
    )
    assert "log scale" not in reward.locator(".chart").text_content()
    page.uncheck("#log")
    assert {name: heights(name) for name in charts} == {
        name: pytest.approx(values, abs=0.06) for name, values in before.items()
    }
    page.close()


def test_curves_are_shown_and_saved_over_seconds_and_a_run_without_them_is_named(
    browser: Any, report: Path
) -> None:
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto(report.as_uri())
    page.fill("#from", "100")
    page.select_option("#over", "seconds")
    assert page.input_value("#from") == ""
    figures = page.locator("figure:visible").filter(
        has=page.get_by_role("heading", name="Held-out regret", exact=True)
    )
    assert figures.count() == 1
    figure = figures.first
    assert "seconds of the run" in figure.locator(".chart").text_content()
    assert "time/wall_s is not on record in: grpo, ent_coef 0.3." in figure.text_content()
    points = figure.locator("polyline.line.c0").first.get_attribute("points").split()
    # 0 to 7.5 seconds on an axis to 8
    assert [float(each.split(",")[0]) for each in points] == [66 + 90 * i for i in range(6)]
    with page.expect_download() as saved:
        figure.get_by_text("CSV").click()
    lines = saved.value.path().read_text().splitlines()
    assert lines[0].startswith("name,seconds,") and lines[-1].split(",")[-4] == "7.5"

    figure.scroll_into_view_if_needed()
    box = figure.locator(".chart").bounding_box()
    x, y, width = box["x"], box["y"] + box["height"] / 2, box["width"]
    page.mouse.move(x + width * (66 + 120) / 560, y)
    page.mouse.down()
    page.mouse.move(x + width * (66 + 360) / 560, y)
    page.mouse.up()
    zoomed = float(page.input_value("#from")), float(page.input_value("#to"))
    assert zoomed == pytest.approx((2, 6), abs=0.03)  # a short run is zoomed to parts of a second
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_figure_is_saved_as_a_picture_of_what_is_shown(
    browser: Any, report: Path, scheme: str
) -> None:
    page = browser.new_page(viewport={"width": 1280, "height": 900}, color_scheme=scheme)
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.goto(report.as_uri())
    button = page.get_by_role("button", name="PNG of Held-out regret", exact=True)
    colours = page.evaluate(
        "['.line.c0', '.line.c1'].map((name) => getComputedStyle(document.querySelector(name)).stroke)"
    )

    def picture() -> Counter[tuple[int, ...]]:
        with page.expect_download() as saved:
            button.click()
        assert saved.value.suggested_filename == "Held-out regret.png"
        drawn = Image.open(saved.value.path()).convert("RGB")
        assert drawn.width > 1000
        return Counter(drawn.get_flattened_data())

    first, second = (tuple(map(int, re.findall(r"\d+", colour))) for colour in colours)
    found = picture()
    assert found[first] > 100 and found[second] > 300  # the two lines are one upon the other
    assert (sum(found.most_common(1)[0][0]) < 300) == (scheme == "dark")
    page.locator('.legend li[data-run="k0"] input').first.uncheck()
    found = picture()
    assert found[first] == 0 and found[second] > 300
    assert said == []
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
