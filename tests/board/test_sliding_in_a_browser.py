"""Sliding through training in a real Chromium: a faulty run and its cured twin, a run that is trained, a phone."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest

from algorithms.evaluation.snapshot_policies import SnapshotPolicies, aligned, last_at, snapshots
from algorithms.playing.over_training import recorded_probes
from algorithms.playing.position import probe_set, reached
from algorithms.playing.view import view_of, view_of_recorded
from chess_env.evaluators import Evaluator
from chess_env.rules.fen import to_fen
from tests.board.browser import Tab, tab
from tests.board.conftest import EVIL, MOVES, Twins, lab
from tests.board.test_command import ROOT, board_process
from tests.commands.lab import ENV

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture
def page(browser: Any, twins: Twins) -> Iterator[Tab]:
    with tab(browser, twins.url) as opened:
        yield opened
        opened.page.wait_for_timeout(100)
        assert opened.errors == [] and opened.elsewhere == []


def drawn(page: Tab, runs: int) -> None:
    """Waits until the curves of so many runs are there."""
    page.page.wait_for_function(
        "runs => document.querySelectorAll('#charts figure:first-child polyline').length === runs",
        arg=runs,
    )


def slide(page: Tab, index: int, text: str) -> None:
    """Moves the slider and waits until the page says where it is and has asked for it."""
    page.page.fill("#cursor", str(index))
    page.page.wait_for_function(
        "text => document.getElementById('cursor-value').textContent === text", arg=text
    )
    page.page.wait_for_timeout(400)


def test_every_frame_of_a_faulty_run_and_its_cured_twin_is_the_library_s(
    page: Tab, twins: Twins, builtin: Evaluator
) -> None:
    runs = [snapshots(Path(name)).every for name in (twins.faulty, twins.cured)]
    moves = [[each.scored_moves for each in run] for run in runs]
    frames, policies, position = aligned(*moves), SnapshotPolicies(), reached(None, MOVES)
    assert len(frames) >= 3
    page.open(twins.opened())
    drawn(page, 2)
    assert page.page.get_attribute("#cursor", "max") == str(len(frames) - 1)
    for index, (cursor, places) in enumerate(frames):
        stops = [runs[i][last_at(moves[i], cursor) or 0] for i in (0, 1)]
        slide(page, index, f"{cursor:,} scored moves, update {stops[0].update:,}")
        assert places[0] == runs[0].index(stops[0])
        for stop, prefix in zip(stops, ("", "beside-"), strict=True):
            view = view_of(policies(stop), position, temperature=1.0, evaluator=builtin, pull=None)
            assert page.text(f"#{prefix}entropy") == f"{view.entropy:.2f} nats"
            assert page.text(f"#{prefix}regret") == f"{view.regret_cp:.1f} centipawns"
            first = page.page.locator(f"#{prefix}moves tbody tr").first
            assert first.get_attribute("data-uci") == view.moves[0].uci
            assert page.page.locator(f"#{prefix}moves tbody tr").count() == len(view.moves)
    names = [page.page.locator(name).text_content() for name in ("#main-name", "#beside-name")]
    assert EVIL in names[0] and names[1].startswith("cured: ")
    assert (
        page.page.locator("#beside-picture svg")
        .get_attribute("aria-label")
        .startswith("White to move: ")
    )
    rows = page.page.locator("#curve-table tbody tr")
    assert rows.count() == sum(map(len, runs))
    said = page.page.locator("#charts svg").first.get_attribute("aria-label")
    assert said.startswith("Entropy in nats against scored moves. faulty") and "cured: " in said


def test_the_policy_s_answer_is_shown_under_both_runs_and_in_the_curves(
    page: Tab, twins: Twins
) -> None:
    page.open(twins.opened(moves="", you="white"))
    drawn(page, 2)
    page.click("e2e4")
    page.wait_for_plies(2)
    page.page.wait_for_function(
        "() => new Set(['#picture', '#beside-picture'].map((place) => "
        "[...document.querySelectorAll(`${place} use`)].map((man) => man.outerHTML).sort().join())).size === 1"
    )
    page.page.wait_for_function(  # the row of the run's last policy has its likeliest move
        """(name) => [...document.querySelectorAll("#curve-table tbody tr")].findLast((row) =>
        row.cells[0].textContent === name).cells[3].textContent ===
        document.querySelector("#moves tbody tr td").textContent""",
        arg=Path(twins.faulty).name,
    )
    played = page.moves()
    for prefix, run in (("", twins.faulty), ("beside-", twins.cured)):
        best = page.page.locator(f"#{prefix}moves tbody tr").first.get_attribute("data-uci")
        policy = SnapshotPolicies()(snapshots(Path(run)).every[-1])
        view = view_of(policy, reached(None, played), temperature=1.0, evaluator=None, pull=None)
        assert best == view.moves[0].uci


def test_a_link_shows_the_same_frame_and_the_keyboard_moves_it(page: Tab, twins: Twins) -> None:
    page.open(twins.opened())
    drawn(page, 2)
    last = int(page.page.get_attribute("#cursor", "max"))
    page.page.focus("#cursor")
    page.page.keyboard.press("Home")
    page.page.wait_for_function(
        "() => document.getElementById('cursor-value').textContent.startsWith('0 scored')"
    )
    page.page.wait_for_timeout(300)
    entropy, link = page.text("#entropy"), page.page.evaluate("location.hash")
    assert "cursor=0" in link and "beside=" in link
    page.page.keyboard.press("End")
    page.page.wait_for_function("before => location.hash !== before", arg=link)
    assert page.page.input_value("#cursor") == str(last) and "cursor" not in page.page.evaluate(
        "location.hash"
    )
    page.page.keyboard.press("ArrowLeft")
    assert page.page.input_value("#cursor") == str(last - 1)
    other = Tab(page.page.context.new_page(), twins.url)
    other.open(link.lstrip("#"))
    drawn(other, 2)
    assert other.text("#entropy") == entropy and other.page.input_value("#cursor") == "0"
    assert other.page.get_attribute("#cursor", "aria-valuetext") == "0 scored moves, update 0"
    assert other.errors == [] and other.elsewhere == []


def test_training_is_played_and_saved(page: Tab, twins: Twins, tmp_path: Path) -> None:
    page.open(twins.opened())
    drawn(page, 2)
    last = page.page.get_attribute("#cursor", "max")
    page.page.click("#play-training")
    page.page.wait_for_function("() => document.getElementById('cursor').value === '0'")
    assert page.text("#play-training") == "Stop"
    page.page.wait_for_function(
        "last => document.getElementById('cursor').value === last", arg=last
    )
    page.page.wait_for_function(
        "() => document.getElementById('play-training').textContent !== 'Stop'"
    )
    with page.page.expect_download() as download:
        page.page.click("#save-animation")
    assert download.value.suggested_filename == "training.svg"
    svg = Path(download.value.path()).read_text(encoding="utf-8")
    assert svg.startswith("<svg") and "&lt;img" in svg and "<img" not in svg and "cured" in svg


@pytest.mark.parametrize(("kind", "count"), [("probe", "26"), ("heldout", "1,472")])
def test_positions_are_stepped_through_by_what_changed_most(
    page: Tab, twins: Twins, kind: str, count: str
) -> None:
    page.open(twins.opened(moves=""))
    page.page.select_option("#set", kind)
    page.page.wait_for_selector("#set-steps:not([hidden])", timeout=60_000)
    changes = []
    for number in (1, 2, 3):
        said = f"{number} of {count}: "
        page.page.wait_for_function(
            "said => document.getElementById('set-says').textContent.startsWith(said)", arg=said
        )
        changes.append(float(page.text("#set-says").split()[-2]))
        assert f"set={kind}&n={number - 1}" in page.page.evaluate("location.hash")
        page.page.click("#set-next")
    assert changes == sorted(changes, reverse=True)
    page.page.click("#set-previous")
    page.page.wait_for_function("() => location.hash.includes('n=2')")
    link = page.page.evaluate("location.hash").lstrip("#")
    page.open(link)
    page.page.wait_for_selector("#set-steps:not([hidden])", timeout=60_000)
    assert page.text("#set-says").startswith(f"3 of {count}: ")
    assert page.page.input_value("#fen") == parse_qs(link)["fen"][0]


def test_what_a_run_recorded_of_a_probe_is_on_the_slider(
    browser: Any, trained: tuple[Path, Path]
) -> None:
    run = trained[1]  # it has checkpoints alone
    on_disk = snapshots(run).every
    row = 3
    position = reached(to_fen(probe_set().positions[row]), ())
    curves = recorded_probes(run, 1.0).only(row)
    assert curves.updates.tolist() == [0, 1, 2, 3] and len(on_disk) < 4
    with (
        board_process("--port", "0", "--evaluator", "none", str(run)) as (_, url),
        tab(browser, url) as page,
    ):
        page.open(f"policy={run}&you=both&set=probe&fen={position.board.fen()}")
        drawn(page, 1)
        assert page.page.get_attribute("#cursor", "max") == "3"
        hollow = page.page.locator("#charts figure:first-child circle.recorded")
        assert hollow.count() == 4 - len(on_disk)
        slide(page, 0, "0 scored moves, update 0")
        view = view_of_recorded(curves.logprobs[0, 0], position, temperature=1.0, evaluator=None)
        assert page.text("#entropy") == f"{view.entropy:.2f} nats"
        assert page.page.locator("#moves tbody tr").count() == len(view.moves)
        page.page.click("#new")
        page.page.wait_for_function(
            "last => document.getElementById('cursor').max === last", arg=str(len(on_disk) - 1)
        )
        page.page.wait_for_timeout(500)
        assert page.page.locator("#problem").is_hidden()
        assert page.page.locator("#moves tbody tr").count() == 20
        assert page.errors == [] and page.elsewhere == []


def test_a_run_beside_that_is_not_offered_is_said(page: Tab, twins: Twins) -> None:
    page.open(twins.opened(beside=EVIL))
    page.page.wait_for_selector("#training-says:not(:empty)")
    assert EVIL in page.text("#training-says") and page.page.locator("#beside-run").is_hidden()
    page.page.select_option("#beside", twins.cured)
    page.page.wait_for_selector("#beside-moves tbody tr")
    page.page.select_option("#beside", "")
    page.page.wait_for_selector("#beside-run", state="hidden")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [375, 1200])
def test_two_runs_fit_a_phone_and_axe_finds_nothing(
    browser: Any, twins: Twins, scheme: str, width: int
) -> None:
    from axe_playwright_python.sync_playwright import Axe

    levels = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
    view = {"viewport": {"width": width, "height": 900}, "color_scheme": scheme}
    with tab(browser, twins.url, **view) as page:
        page.open(twins.opened(cursor="0"))
        drawn(page, 2)
        page.page.click("#curves summary")
        assert page.page.evaluate("document.documentElement.scrollWidth") == width
        boards = [page.page.locator(name).bounding_box() for name in ("#board", "#beside-picture")]
        if width == 375:
            assert boards[1]["y"] > boards[0]["y"] + boards[0]["height"]
        else:
            assert abs(boards[0]["y"] - boards[1]["y"]) < 2 and boards[1]["x"] > boards[0]["x"]
            assert abs(boards[0]["width"] - boards[1]["width"]) < 2
        found = Axe().run(page.page, options={"runOnly": {"type": "tag", "values": levels}})
        assert found.violations_count == 0, found.generate_report()
        assert page.errors == [] and page.elsewhere == []


def test_a_run_that_is_trained_appears_on_the_page(browser: Any, tmp_path: Path) -> None:
    run = tmp_path / "live"
    run.mkdir()
    (run / "config.json").touch()  # the board refuses a folder with nothing of a run
    with (
        board_process("--port", "0", "--evaluator", "builtin", str(run)) as (_, url),
        tab(browser, url) as page,
    ):
        page.open(f"policy={run}&you=both")
        assert page.page.locator("#training").is_hidden()
        (run / "config.json").unlink()
        more = ("--smoke", "--checkpoint-keep", "all", "--checkpoint-interval-updates", "1")
        training = subprocess.Popen(
            lab("train", "grpo", *more, "--run-dir", str(run)), cwd=ROOT, env=ENV,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            page.page.wait_for_selector("#training:not([hidden])", timeout=120_000)
            page.page.wait_for_selector("#moves tbody tr", timeout=60_000)
            assert training.wait(timeout=300) == 0
        finally:
            training.kill()
            training.wait()
        every = snapshots(run).every
        page.page.wait_for_function(
            "last => document.getElementById('cursor').max === last", arg=str(len(every) - 1)
        )
        end = f"{every[-1].scored_moves:,} scored moves, update {every[-1].update:,}"
        page.page.wait_for_function(
            "end => document.getElementById('cursor-value').textContent === end", arg=end
        )
        assert (
            f"live: update {every[-1].update} of {every[-1].update}, {every[-1].scored_moves:,} scored moves"
            in page.text("#run-says")
        )
        drawn(page, 1)
        assert page.errors == [] and page.elsewhere == []
