"""Only the server's own page is answered, within bounds, and the browser is told what it may do."""

from __future__ import annotations

import contextlib
import re
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from starlette.testclient import TestClient

import algorithms.board
from algorithms.board import server
from algorithms.board.board_game import MAX_BODY_BYTES
from algorithms.board.policies import MOST_WAITING, BoardPolicies, BusyError
from algorithms.board.server import HEADERS, known_hosts
from tests.board.conftest import Board
from tests.board.served import URL

FOLDER = Path(algorithms.board.__file__).parent
OWN = {"host": "127.0.0.1:8300"}


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8300", "127.0.0.1", "127.0.0.1:80", "127.0.0.1:8300.evil.example", "",
     "127.0.0.1:8300@evil", "192.168.0.1:8300", "localhost.evil:8300"],
)  # fmt: skip
@pytest.mark.parametrize("path", ["/", "/api/policies", "/static/board.js"])
def test_a_foreign_name_of_the_server_is_refused(board: Board, host: str, path: str) -> None:
    response = board.client.get(path, headers={"host": host})
    assert response.status_code == 403
    assert "does not answer to that name" in response.json()["error"]


@pytest.mark.parametrize(
    "host", ["127.0.0.1:8300", "localhost:8300", "LOCALHOST:8300", "[::1]:8300"]
)
def test_the_names_of_this_machine_are_answered(board: Board, host: str) -> None:
    assert board.client.get("/", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:9999"},
        {"origin": "http://localhost:8300"},
        {"origin": "https://127.0.0.1:8300"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site", "sec-fetch-mode": "navigate"},
    ],
)
def test_a_page_of_another_site_is_not_answered(board: Board, headers: dict[str, str]) -> None:
    for response in (
        board.client.get("/api/policies", headers=headers),
        board.client.post("/api/view", json={"policy": board.other}, headers=headers),
    ):
        assert response.status_code == 403 and response.json().keys() == {"error"}


def test_the_own_page_is_answered_and_a_link_from_elsewhere_opens_it(board: Board) -> None:
    own = {"origin": URL, "sec-fetch-site": "same-origin"}
    assert board.client.post("/api/view", json={}, headers=own).status_code == 200
    link = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    assert board.client.get("/", headers=link).status_code == 200


def test_beyond_this_machine_addresses_are_known_and_foreign_names_are_not() -> None:
    known = known_hosts("0.0.0.0", 8300)
    assert known("192.168.0.7:8300") and known("[fe80::1]:8300") and known("localhost:8300")
    assert not known("evil.example:8300") and not known("192.168.0.7:80")
    named = known_hosts("lab.local", 80)
    assert named("lab.local") and named("lab.local:80") and not named("other.local")


def test_every_answer_tells_the_browser_to_load_nothing_from_elsewhere(board: Board) -> None:
    for path in ("/", "/static/board.js", "/nowhere", "/api/policies"):
        response = board.client.get(path)
        assert {name: response.headers[name] for name in HEADERS} == HEADERS
    policy = HEADERS["Content-Security-Policy"]
    assert "unsafe" not in policy and "*" not in policy and "http" not in policy
    assert policy.startswith("default-src 'none';")


def test_the_page_has_no_script_or_style_of_its_own_and_no_address_elsewhere(board: Board) -> None:
    page = board.client.get("/").text
    assert re.findall(r"<script(?![^>]* src=)|<style|\sstyle=|\son\w+=", page) == []
    shipped = {f"/static/{file.name}" for file in (FOLDER / "static").iterdir()}
    assert set(re.findall(r'(?:src|href)="([^"#][^"]*)"', page)) == shipped
    for file in (FOLDER / "static").iterdir():
        text = file.read_text("utf-8").replace("http://www.w3.org/2000/svg", "")
        assert re.findall(r"https?://|innerHTML|outerHTML|insertAdjacent|\beval\b", text) == [], (
            file
        )
        for name in re.findall(r'from "\./([\w.]+)"', text):
            assert (FOLDER / "static" / name).exists()


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", "/nowhere", 404),
        ("GET", "/static/../app.py", 404),
        ("GET", "/static/%2e%2e/app.py", 404),
        ("GET", "/static/..%2fapp.py", 404),
        ("GET", "/static/board.js%00", 404),
        ("GET", "/static/", 404),
        ("GET", "/api/view", 405),
        ("POST", "/", 405),
        ("DELETE", "/api/policies", 405),
    ],
)
def test_what_is_not_there_is_refused_as_json(
    board: Board, method: str, path: str, code: int
) -> None:
    response = board.client.request(method, path)
    assert response.status_code == code, response.text
    assert response.json().keys() == {"error"}


def test_a_question_is_json_and_bounded(board: Board) -> None:
    post = board.client.post
    assert (
        post("/api/view", content=b"{}", headers={"content-type": "text/plain"}).status_code == 415
    )
    assert post("/api/view", data={"policy": "x"}).status_code == 415
    head = {"content-type": "application/json"}
    large = b'{"fen": "' + b"x" * MAX_BODY_BYTES + b'"}'
    assert post("/api/view", content=large, headers=head).status_code == 413
    assert post("/api/view", content=iter([large]), headers=head).status_code == 413
    for body in (
        b"",
        b"[]",
        b"{",
        b"\xff",
        b"[" * 100_000,
        b'{"at": 1e999}',
    ):
        response = post("/api/view", content=body, headers=head)
        assert response.status_code == 400 and response.json().keys() == {"error"}, body[:20]


def test_too_many_questions_at_once_are_refused(board: Board) -> None:
    policies = BoardPolicies(["warm"], None)
    try:
        held = threading.Event()
        waiting = [policies.ask(held.wait) for _ in range(MOST_WAITING)]
        with pytest.raises(BusyError, match="ask again in a moment"):
            policies.ask(held.wait)
        held.set()
        assert all(future.result(10) for future in waiting)
        assert policies.ask(lambda: 1).result(10) == 1
    finally:
        policies.close()


def test_an_unexpected_failure_shows_no_trace(
    board: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError("secret")

    monkeypatch.setattr("algorithms.board.app.picture", fail)
    client = TestClient(board.client.app, base_url=URL, raise_server_exceptions=False)
    response = client.post("/api/view", json={"policy": board.other})
    assert response.status_code == 500 and "secret" not in response.text
    assert response.json()["error"].startswith("The server failed at this question")
    assert response.headers["X-Content-Type-Options"] == "nosniff"


def test_a_run_s_own_network_is_named_with_what_allows_it(board: Board) -> None:
    state = next(each for each in board.policies.states() if each["name"] == board.own_network)
    assert "tests.networks.facts_net" in state["says"] and "--trust" in state["says"]


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET / HTTP/1.1\r\nHost: ",
        b"POST /api/view HTTP/1.1\r\nHost: 127.0.0.1:%d\r\ncontent-type: application/json\r\n"
        b"Content-Length: 9\r\n\r\n{",
    ],
)
def test_70_connections_that_owe_their_request_keep_nobody_out(
    board: Board, sent: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    with listening(board.client.app) as port:
        silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(70)]
        for each in silent:
            with contextlib.suppress(OSError):  # some are closed already, for those after them
                each.sendall(sent.replace(b"%d", b"%d" % port))
        until = time.monotonic() + 5.0
        while asked(port) != 200:  # a busy machine takes a while to close those that are too many
            assert time.monotonic() < until
        for each in silent:
            each.close()
    assert capfd.readouterr().err == ""


def test_a_header_ends_in_time_and_size(board: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_HEADER_S", 0.3)
    with listening(board.client.app) as port:
        slow = socket.create_connection(("127.0.0.1", port), timeout=10)
        began = time.monotonic()
        with contextlib.suppress(OSError):
            while time.monotonic() - began < 5:
                slow.sendall(b"G")
                time.sleep(0.05)
        assert time.monotonic() - began < 5
        large, sent = socket.create_connection(("127.0.0.1", port), timeout=10), 0
        with contextlib.suppress(OSError):
            large.sendall(b"GET / HTTP/1.1\r\nX: ")
            while sent < 400 << 20:
                sent += large.send(b"a" * 65536)
        assert sent < 32 << 20  # what the sockets hold and one header's bound
        assert asked(port) == 200


def asked(port: int) -> int:
    """The status of the answer to a question for the policies."""
    try:
        with urllib.request.urlopen(
            f"http://localhost:{port}/api/policies", timeout=10
        ) as response:
            return int(response.status)
    except urllib.error.HTTPError as refused:
        return int(refused.code)


@contextlib.contextmanager
def listening(app: Any) -> Iterator[int]:
    """The application behind its own server; the port."""
    bound = server.bound("127.0.0.1", 0)
    port = bound.getsockname()[1]
    app._known = known_hosts("127.0.0.1", port)
    running = uvicorn.Server(server.config_of(app))
    thread = threading.Thread(target=lambda: running.run(sockets=[bound]))
    thread.start()
    try:
        yield port
    finally:
        app._known = known_hosts("127.0.0.1", 8300)
        running.should_exit = True
        thread.join(20)
