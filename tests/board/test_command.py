"""`chess-lab board` as a process: it starts, says where, ends on a signal, and says what is wrong."""

from __future__ import annotations

import importlib.util
import json
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
import webbrowser
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from algorithms.board import server
from tests.commands.lab import ENV, chess_lab, usual_signals

ROOT = Path(__file__).parents[2]


@contextmanager
def board_process(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The process, and the address that it says."""
    line = [sys.executable, "-m", "algorithms.cli", "board", "--no-browser", *arguments]
    process = subprocess.Popen(
        line, cwd=ROOT, env=ENV, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=usual_signals,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        said = process.stdout.readline()
        found = re.fullmatch(r"the board: (http://\S+/) \(Ctrl-C ends it\)\n", said)
        assert found, (said, process.stderr and process.stderr.read())
        yield process, found[1]
    finally:
        process.kill()
        process.communicate()


def get(url: str, host: str | None = None) -> tuple[int, bytes]:
    request = urllib.request.Request(url, headers={} if host is None else {"Host": host})
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            return response.status, response.read()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read()


def alone(err: str) -> bool:
    """Whether it says that it was interrupted, and nothing else but that a kernel was compiled."""
    lines = [line for line in err.splitlines() if not line.startswith("chess_env: compiling")]
    return lines == ["interrupted"]


@pytest.mark.slow
def test_the_end_of_the_terminal_inside_a_request_ends_it() -> None:
    with board_process("--port", "0", "--evaluator", "none") as (process, url):
        with ThreadPoolExecutor(4) as pool:
            asked = [pool.submit(get, url + "none", "evil.example") for _ in range(200)]
            time.sleep(0.2)
            process.send_signal(signal.SIGHUP)
            _, err = process.communicate(timeout=60)
            for each in asked:
                each.cancel()
        assert process.returncode == 129 and alone(err)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "code", "runs"), [(signal.SIGINT, 130, []), (signal.SIGTERM, 143, ["warm"])]
)
def test_it_serves_on_this_machine_alone_until_a_signal_comes(
    number: signal.Signals, code: int, runs: list[str]
) -> None:
    with board_process(*runs, "--port", "0", "--evaluator", "none") as (process, url):
        assert url.startswith("http://127.0.0.1:")
        assert get(url)[0] == 200
        status, raw = get(url + "api/policies")
        names = [policy["name"] for policy in json.loads(raw)["policies"]]
        assert status == 200 and names == (runs or ["example"])
        assert get(url, host="evil.example")[0] == 403
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
        assert process.returncode == code and alone(err)


def test_a_port_that_is_taken_is_said_before_anything_is_loaded() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        begun = time.monotonic()
        answer = chess_lab("board", "--no-browser", "--port", port)
        assert answer.code == 1 and time.monotonic() - begun < 10
    assert f"127.0.0.1 port {port} cannot be used (Address already in use)" in answer.err
    assert "--port 0 for any free one" in answer.err


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--port", "http"], 2, "'http' is no port: expected a number from 0 to 65535"),
        (["--port", "70000"], 2, "is no port"),
        (["--port", "0", "--evaluator", "nonsense"], 1, "evaluator 'nonsense' is unknown"),
        (["--port", "0", "--host", "203.0.113.7"], 1, "203.0.113.7 port 0 cannot be used"),
        (["--port", "0", "--host", "no such host"], 1, "no such host port 0 cannot be used"),
    ],
)
def test_what_cannot_be_served_is_an_error(arguments: list[str], code: int, said: str) -> None:
    answer = chess_lab("board", "--no-browser", *arguments)
    assert answer.code == code and said in answer.err


def test_what_is_no_run_is_said_before_anything_is_served(tmp_path: Path) -> None:
    run = tmp_path / "of_runs" / "grpo"
    run.mkdir(parents=True)
    (run / "config.json").touch()
    for source, said in (
        (str(tmp_path / "nope"), "there is no such file, folder or policy"),
        ("exmaple", "did you mean 'example'?"),
        (str(tmp_path), "is no run folder: it has none of config.json"),
        (str(tmp_path), "once its training has begun"),
        (str(run.parent), f"give a run folder, such as {str(run)!r}"),
    ):
        answer = chess_lab("board", "--no-browser", "--port", "0", "example", source)
        assert answer.code == 1 and answer.out == ""
        assert repr(source) in answer.err and said in answer.err


def test_without_the_extra_it_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    answer = chess_lab("board")
    assert answer.code == 1
    assert "starlette and uvicorn cannot be imported" in answer.err and ".[board]" in answer.err


def test_a_browser_is_opened_where_there_is_a_screen_and_unless_it_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(server, "serve", lambda app, listening, *, ready: ready())
    monkeypatch.setattr(webbrowser, "open", opened.append)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    asked = ["board", "--port", "0", "--evaluator", "none"]
    monkeypatch.delenv("DISPLAY", raising=False)
    assert chess_lab(*asked).code == 0 and opened == []
    monkeypatch.setenv("DISPLAY", ":0")
    assert chess_lab(*asked, "--no-browser").code == 0 and opened == []
    answer = chess_lab(*asked)
    assert opened == re.findall(r"http://\S+", answer.out) != []
