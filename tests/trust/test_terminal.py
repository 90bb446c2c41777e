"""No text of a stranger is obeyed by the terminal on which a command shows it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
import threading
from typing import Any

import pytest

from algorithms import cli
from algorithms.run_folder import console
from algorithms.run_folder.terminal import visible
from tests.commands.lab import chess_lab
from tests.trust.stranger import Stranger

EVIL = "\x1b]0;owned\x07\x1b[31m\x9b32m\r\u202e"
SEEN = visible(EVIL)


def said(*arguments: Any) -> str:
    """What a command writes where no terminal is."""
    answer = chess_lab(*arguments)
    return answer.out + answer.err


def obeyed(text: str) -> list[str]:
    """The characters that a terminal would obey."""
    return re.findall(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", text)


def add_row(stranger: Stranger, row: str) -> None:
    with (stranger.folder / "metrics.jsonl").open("a") as record:
        record.write(f"{row}\n")


def test_an_escape_sequence_is_shown_as_text() -> None:
    assert SEEN == r"\x1b]0;owned\x07\x1b[31m\x9b32m\r\u202e"
    assert visible("tab\t line\n ♞ é 漢 \udc80") == "tab\t line\n ♞ é 漢 \\udc80"


def test_names_in_a_folder_are_shown_as_text(stranger: Stranger) -> None:
    stranger.says("preset", EVIL)
    trained = said("train", "--resume", stranger.folder, "--total-moves", "32")
    assert r"\x1b[31m\x9b32m" in trained and not obeyed(trained)
    stranger.says("env.cache", EVIL)
    refused = said("train", "--like", stranger.folder)
    assert "writes env.cache" in refused and not obeyed(refused)


def test_a_record_is_shown_as_text(stranger: Stranger) -> None:
    home = stranger.folder.rename(stranger.folder.with_name(f"sent{EVIL}"))
    stranger.folder = home
    stranger.says("preset", EVIL)
    environment = json.loads((home / "environment.json").read_text())
    environment |= {"evaluator": EVIL, "device": EVIL}
    (home / "environment.json").write_text(json.dumps(environment))
    for command in (["report", home], ["diagnose", home], ["diagnose", home, "--json"]):
        shown = said(*command)
        assert shown and not obeyed(shown), command
    add_row(stranger, json.dumps({EVIL: EVIL}))
    for command in ("report", "diagnose"):
        shown = said(command, home)
        assert SEEN in shown and not obeyed(shown), command


@pytest.mark.parametrize(
    "words", [["eval", EVIL], ["diagnose", EVIL], ["report", EVIL], ["compare", EVIL], [EVIL], ["train", EVIL],
              ["pretrain", "--resume", EVIL], ["train", "grpo", f"--{EVIL}"]],
)  # fmt: skip
def test_a_name_on_the_command_line_is_shown_as_text(words: list[str]) -> None:
    answer = chess_lab(*words)
    assert answer.err and not obeyed(answer.out + answer.err)


@pytest.mark.skipif(sys.platform == "win32", reason="a terminal of POSIX")
def test_the_live_table_obeys_no_text_of_a_stranger(
    stranger: Stranger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table is drawn with escape sequences, and what others print while it stands is shown above it."""
    stranger.says("preset", f"{EVIL}\x1b]8;;http://x\x1b\\")
    for name, value in {"COLUMNS": "80", "TERM": "xterm", "NO_COLOR": "1"}.items():
        monkeypatch.setenv(name, value)
    show = console.LiveDisplay.show

    def loud(display: console.LiveDisplay, row: console.Row, status: str) -> None:
        print(EVIL, file=sys.stderr)
        show(display, row, EVIL)

    monkeypatch.setattr(console.LiveDisplay, "show", loud)
    screen, terminal = os.openpty()
    pieces: list[bytes] = []

    def read() -> None:
        with contextlib.suppress(OSError):  # nobody writes to the terminal any more
            while piece := os.read(screen, 4096):
                pieces.append(piece)

    reader = threading.Thread(target=read)
    reader.start()
    with (
        open(terminal, "w", encoding="utf-8") as tty,
        contextlib.redirect_stdout(tty),
        contextlib.redirect_stderr(tty),
    ):
        code = cli.main(["train", "--resume", str(stranger.folder), "--total-moves", "32"])
    reader.join(60)
    os.close(screen)
    shown = b"".join(pieces).decode()
    assert code == 0, shown
    assert (
        shown.count(SEEN.partition("]")[2][:9]) >= 3
    )  # the title, the line above the table and the doctor's
    assert "\x1b]" not in shown and "\x1b[31m" not in shown
    assert not obeyed(re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\r", "", shown))
