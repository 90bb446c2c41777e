"""The page names all of its scripts, so that a browser fetches them at once."""

from __future__ import annotations

import re
from pathlib import Path

from starlette.testclient import TestClient

from algorithms.board import app
from tests.board.conftest import Board

STATIC = Path(app.__file__).parent / "static"


def test_every_script_is_named_in_the_page_and_served(board: Board) -> None:
    client: TestClient = board.client
    named = re.findall(r'(?:href|src)="(/static/\w+\.js)"', client.get("/").text)
    assert sorted(named) == sorted(f"/static/{path.name}" for path in STATIC.glob("*.js"))
    assert all(
        client.get(path).headers["content-type"].startswith("text/javascript") for path in named
    )
