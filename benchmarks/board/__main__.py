"""Seconds until the page is shown, a move is answered, a slider shows its effect, and a frame of training is there.

    python -m benchmarks.board [--json benchmarks/results/board.json]

A real Chromium on a real server that offers `example`, with the evaluator that the command takes by default, beside a
training run with default settings that goes on all the time (`--alone` leaves it out). Times are those that a user
waits, from the click to the picture on the page. At last three tabs are used for long, and the memory is the server's
own at its highest (Linux). A run with 50 policies is made first, in a minute on two cores; `--run` takes another one.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import statistics
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.board.sliding import POLICIES, frames_s, trained
from benchmarks.board.use import (
    TABS,
    alone,
    engines_memory_mb,
    trained_beside,
    used_long,
)
from benchmarks.records.command_line import command_of, updates_of
from benchmarks.records.report import print_table, save

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
LOADED = "() => document.querySelector('#moves tbody tr') !== null"
PLIES = "(count) => document.querySelectorAll('#game button').length >= count"


@contextmanager
def served(*runs: Path) -> Iterator[tuple[int, str]]:
    """(process id of a server that offers `example` and the runs, address of its page)."""
    command = command_of("board", "example", *map(str, runs))
    command += ["--port", "0", "--no-browser"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.pid, re.findall(r"http://\S+/", process.stdout.readline())[0]
    finally:
        process.terminate()
        process.wait()


def page_s(browser: Any, url: str) -> float:
    """Seconds from nothing to the policy's moves, in a browser that has nothing of the page."""
    page = browser.new_context().new_page()
    start = time.perf_counter()
    page.goto(f"{url}#policy=example&you=both")
    page.wait_for_function(LOADED, polling=5)
    taken = time.perf_counter() - start
    page.context.close()
    return taken


def moves_s(browser: Any, url: str, count: int) -> list[float]:
    """Seconds from the second click of a move to the policy's answer on the page; first moves of many games."""
    page, taken = browser.new_context().new_page(), []
    for number in range(count):
        page.goto(f"{url}#policy=example&t=1.{number:03}")
        page.reload()
        page.wait_for_function(LOADED, polling=5)
        for ply in range(0, 8, 2):
            move = page.locator("#moves tbody tr").first.get_attribute("data-uci")
            page.locator(f'[data-square="{move[:2]}"]').click()
            start = time.perf_counter()
            page.locator(f'[data-square="{move[2:4]}"]').click()
            page.wait_for_function(PLIES, arg=ply + 2, polling=5)
            taken.append(time.perf_counter() - start)
    page.context.close()
    return taken


def slider_s(browser: Any, url: str, count: int) -> list[float]:
    """Seconds from a change of the temperature to another entropy on the page."""
    page, taken = browser.new_context().new_page(), []
    page.goto(f"{url}#policy=example&you=both&moves=e2e4")
    page.wait_for_function(LOADED, polling=5)
    for number in range(count):
        before = page.locator("#entropy").inner_text()
        start = time.perf_counter()
        page.locator("#temperature").fill(str((0.5, 1.5)[number % 2]))
        page.wait_for_function(
            "(before) => document.getElementById('entropy').innerText !== before",
            arg=before,
            polling=5,
        )
        taken.append(time.perf_counter() - start)
    page.context.close()
    return taken


def rows_of(figures: Mapping[str, Sequence[float]]) -> list[dict[str, Any]]:
    """A row for each of {what: seconds}."""
    return [
        {
            "what": what,
            "median_s": round(statistics.median(taken), 3),
            "lowest_s": round(min(taken), 3),
            "highest_s": round(max(taken), 3),
            "times": len(taken),
        }
        for what, taken in figures.items()
    ]


def main() -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.board", description=__doc__)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--positions", type=int, default=20, help="for each tab of the long use")
    parser.add_argument("--run", type=Path, help="with a policy of each of about 50 updates")
    parser.add_argument("--alone", action="store_true", help="without a training run beside it")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    from playwright.sync_api import sync_playwright

    path = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)))
    with TemporaryDirectory() as name, sync_playwright() as playwright:
        folder = Path(name)
        run = options.run.resolve() if options.run else trained(folder, POLICIES)
        twin = Path(shutil.copytree(run, folder / "twin", symlinks=True))
        training = alone() if options.alone else trained_beside(folder)
        with training as beside, served(run, twin) as (pid, url):
            browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
            page_s(browser, url)  # the policy is loaded by then
            figures = {
                "page": [page_s(browser, url) for _ in range(options.repeats)],
                "move answered": moves_s(browser, url, options.repeats),
                "temperature": slider_s(browser, url, options.repeats),
                "frame, its policy loaded": frames_s(browser, url, run, at_once=True),
                "frame, after the curves": frames_s(browser, url, run, at_once=False),
            }
            rows = rows_of(figures)
            print_table(rows)
            memory = used_long(browser, url, (run, twin), pid, options.positions)
            engines = engines_memory_mb(pid)
            browser.close()
            settings = {
                "policies": len(list((run / "snapshots").iterdir())),
                "server_mb": [round(mb) for mb in memory],
                "engine_mb": round(engines),
                "positions": TABS * options.positions,
                "updates_trained_beside": 0 if beside is None else updates_of(beside),
                "load": [round(load, 1) for load in os.getloadavg()],
            }
    print(f"\nmemory of the server at its highest, over long use: {settings['server_mb']} MB")
    save(options.json, "board", rows, **settings)


if __name__ == "__main__":
    main()
