"""The page of a stranger's runs in a real browser: nothing of theirs runs, nothing is fetched."""

from __future__ import annotations

import http.server
import json
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.commands.lab import chess_lab
from tests.reports.run_folders import ENVIRONMENT, config, learning_rows, row, write_run

pytestmark = [pytest.mark.slow, pytest.mark.chromium]

BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), ""
)


class Server:
    """Attributes: what it is called, and the paths that it was asked for."""

    def __init__(self) -> None:
        asked = self.asked = list[str]()

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                asked.append(self.path)
                self.send_response(404)
                self.end_headers()

            def log_message(self, *_: object) -> None: ...

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def server() -> Iterator[Server]:
    opened = Server()
    yield opened
    opened.close()


def attacks(url: str) -> list[str]:
    """Texts that run a script, or fetch something, in a page that takes one of them as it is."""
    script = "document.title=`got in`"
    return [
        f"<script>{script}</script>",
        f"</script></style></title></svg><script>{script}</script>",
        f'"><img src="{url}/image" onerror="{script}">',
        f"'><svg onload={script}><use href='{url}/use#x'/></svg>",
        f"</text></svg><iframe src='{url}/frame'></iframe><link rel=stylesheet href={url}/style>",
        f"<style>*{{background:url({url}/background)}}</style>",
        f"<meta http-equiv=refresh content='0;url={url}/moved'>",
        f"{{{{7*7}}}} {{% for x in [].__class__.__mro__ %}}{script}{{% endfor %}}",
        f"javascript:{script}",
        f"&lt;script&gt;{script}&lt;/script&gt; &#60;script&#62;{script}&#60;/script&#62;",
        f"\u2028<script>{script}</script>\x00\x1b]0;x\x07",
    ]


class Page(HTMLParser):
    """What the browser made of a page. Attributes: title, tags, and the addresses that elements name."""

    def __init__(self, dom: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.addresses: list[str] = []
        self.handlers: list[str] = []
        self.title = (re.search(r"<title>(.*?)</title>", dom, re.DOTALL) or ["", ""])[1]
        self.feed(dom)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        for name, value in attrs:
            if name in ("src", "href", "xlink:href", "action", "data"):
                self.addresses.append(value or "")
            if name.startswith("on") or name == "style":
                self.handlers.append(name)


def opened(path: Path, profile: Path) -> Page:
    """The page as the browser has it after its scripts, if any, have run."""
    answer = subprocess.run(
        [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
         f"--user-data-dir={profile}", "--virtual-time-budget=3000", "--dump-dom", path.as_uri()],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert answer.returncode == 0 and "<html" in answer.stdout, answer.stderr
    return Page(answer.stdout)


def test_the_attacks_get_into_a_page_that_takes_them_as_they_are(
    tmp_path: Path, server: Server
) -> None:
    body = "".join(attacks(server.url)[:6])
    (tmp_path / "open.html").write_text(f"<!doctype html><title>x</title><body>{body}")
    page = opened(tmp_path / "open.html", tmp_path / "profile")
    assert page.title == "got in" and "script" in page.tags
    assert {"/image", "/frame", "/background"} <= {*server.asked}


def test_nothing_of_a_stranger_s_runs_is_run_or_fetched(tmp_path: Path, server: Server) -> None:
    root, evil = tmp_path / "runs", attacks(server.url)
    for number, text in enumerate(evil):
        others = {f"{kind}/{text}": 0.5 for kind in ("grad_share", "loss_share", "match", "eval")}
        rows = [row(0, **others), *learning_rows()[1:], row(6, **{text: 1.0, **others})]
        name = re.sub(r"[/\x00]", "\N{DIVISION SLASH}", text)[:80]
        write_run(
            root / f"{number} {name}",
            rows,
            config(text, cause=text, env={"evaluator": text, "reward": {text: 1.0}}, **{text: text}),
            {**ENVIRONMENT, "evaluator": text, "command": [text], "packages": {text: text},
             "git": {"commit": text, "dirty": text}, "started": text, "cpu": text},
        )  # fmt: skip
    family = {"seeds": [0], "columns": [{"name": text} for text in evil], "left_out": evil,
              "quantities": [{"quantity": text, "claims": [text], "not_compared": [text],
                              "comparisons": [], "higher_is_better": True} for text in evil]}  # fmt: skip
    (root / "comparison.json").write_text(
        json.dumps({"families": {text: family for text in evil}, "mixed": evil, "tuning_says": evil[0],
                    "broken": [{"cell": text, "reason": text} for text in evil],
                    "controls": [{"sentence": text} for text in evil]})
    )  # fmt: skip
    answer = chess_lab("report", root)
    assert answer.code == 0 and answer.out.startswith(f"{len(evil)} runs"), answer.err
    text = (root / "report.html").read_text()
    assert text.count("document.title") > 5 * len(evil)  # they are on the page
    page = opened(root / "report.html", tmp_path / "profile")
    assert page.title != "got in" and server.asked == []
    assert {"iframe", "img", "link", "object", "embed", "base", "form"}.isdisjoint(page.tags)
    assert page.handlers == [] and all(
        address.startswith(("#", "data:text/csv;")) for address in page.addresses
    )
