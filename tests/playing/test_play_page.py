"""docs/play.md says what the engine says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from algorithms.evaluation.load_policy import load_policy
from algorithms.playing.conversation import SPINS, Conversation, Request, parse
from algorithms.playing.policy_moves import PolicyMoves
from chess_env.evaluators import make_evaluator

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "play.md").read_text()


def test_the_table_of_options_is_that_of_the_engine() -> None:
    section = PAGE.partition("\n## Options\n")[2].partition("\n## ")[0]
    rows = [tuple(cell.strip() for cell in line.split("|")[1:-1]) for line in section.splitlines()]
    named = [row for row in rows if row and re.fullmatch(r"`\w+`", row[0])]
    assert named == [
        (f"`{s.name}`", str(s.default), f"{s.low} to {s.high}", s.meaning) for s in SPINS
    ]


def test_the_transcript_is_what_the_engine_says() -> None:
    (transcript,) = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)
    requests: list[Request] = []
    conversation = Conversation("chess-lab warm", requests.append)
    conversation.loaded()
    moves = PolicyMoves(load_policy("warm"), make_evaluator("builtin"))
    said = []
    for line in transcript.splitlines():
        if line.startswith("> "):
            said += [line, *conversation.heard(parse(line[2:].encode()))]
            while requests:
                said += conversation.answered(moves(requests.pop()))
    assert said == transcript.splitlines()


@pytest.mark.slow
def test_the_python_code_of_the_page_runs(tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    code = "\n".join(textwrap.dedent(block) for block in blocks)
    command = tmp_path / "chess-lab"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m algorithms.cli "$@"\n')
    command.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert len(re.findall(r"^\w{4,5} p=[01]\.\d{4}$", done.stdout, re.MULTILINE)) == 3
