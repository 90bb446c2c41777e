"""A real Chromium on a real `chess-lab board`: what tests and the pictures of the page have in common.

Playwright is imported where it is used: the tests are collected where it is not installed.
"""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_SHOWN = """() => {
  const seen = (id) => !document.getElementById(id).hidden;
  const says = document.getElementById("problem").textContent;
  const refused = seen("problem") && !says.includes("being loaded");
  return document.querySelector("#moves tbody tr") || seen("result") || refused;
}"""
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


@contextmanager
def chromium() -> Iterator[Any]:
    """The browser of this machine, driven by Playwright."""
    from playwright.sync_api import sync_playwright

    path = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=path, args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        )
        yield browser
        browser.close()


@dataclasses.dataclass
class Tab:
    """A page with what it said and asked for.

    Attributes:
        page: Playwright's.
        url: of the server.
        errors: of the console and of scripts.
        elsewhere: addresses that it asked for beyond its server.
    """

    page: Any
    url: str
    errors: list[str] = dataclasses.field(default_factory=list)
    elsewhere: list[str] = dataclasses.field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.on("console", lambda said: self._said(said.type, said.text))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("request", lambda request: self._asked(request.url))

    def _said(self, kind: str, text: str) -> None:
        if kind in ("error", "warning"):
            self.errors.append(text)

    def _asked(self, url: str) -> None:
        if not url.startswith((self.url, f"blob:{self.url}")):
            self.elsewhere.append(url)

    def open(self, state: str = "") -> None:
        """Opens the page in a state, and waits until it is shown."""
        self.page.goto(f"{self.url}#{state}")
        self.page.reload()  # a change of the part behind # alone loads nothing anew
        self.settled()

    def settled(self) -> None:
        """Waits until the page shows what its address says."""
        self.page.wait_for_selector("#squares button[aria-label]")
        self.page.wait_for_function(_SHOWN)

    def square(self, name: str) -> Any:
        """The button of a square."""
        return self.page.locator(f'#squares button[data-square="{name}"]')

    def man(self, square: str) -> str:
        """What stands on a square."""
        label = self.square(square).get_attribute("aria-label")
        return str(label).split(", ")[1]

    def click(self, move: str) -> None:
        """Moves by two clicks."""
        self.square(move[:2]).click()
        self.square(move[2:4]).click()

    def drag(self, move: str) -> None:
        """Moves by dragging."""
        start, end = (self.square(name).bounding_box() for name in (move[:2], move[2:4]))
        mouse = self.page.mouse
        mouse.move(start["x"] + start["width"] / 2, start["y"] + start["height"] / 2)
        mouse.down()
        mouse.move(end["x"] + end["width"] / 2, end["y"] + end["height"] / 2, steps=4)
        mouse.up()

    def moves(self) -> list[str]:
        """The moves in the address."""
        found = re.search(r"moves=([^&]*)", self.page.evaluate("location.hash"))
        return found[1].split(",") if found else []

    def wait_for_plies(self, count: int) -> None:
        """Waits until so many plies are played and shown."""
        self.page.wait_for_function(
            "count => document.querySelectorAll('#game button').length === count", arg=count
        )

    def text(self, selector: str) -> str:
        """What an element says."""
        return str(self.page.locator(selector).inner_text())


@contextmanager
def tab(browser: Any, url: str, **context: Any) -> Iterator[Tab]:
    """A new tab in a context of its own."""
    own = browser.new_context(**({"viewport": {"width": 1200, "height": 900}} | context))
    own.set_default_timeout(20_000)
    try:
        yield Tab(own.new_page(), url)
    finally:
        own.close()
