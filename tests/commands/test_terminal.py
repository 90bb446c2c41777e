"""What a run shows on a real terminal: 80 columns, NO_COLOR, Ctrl-C."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands.lab import ENV

ROOT = Path(__file__).parents[2]
SMOKE = ["train", "grpo", "--smoke", "--env.evaluator", "builtin", "--device", "cpu"]


@pytest.mark.slow
def test_a_terminal_of_80_columns_without_colours_is_enough(tmp_path: Path) -> None:
    budget = ["--total-moves", "1000000"]
    screen, terminal = os.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "algorithms.cli", *SMOKE, *budget, "--run-dir", "run"],
        cwd=tmp_path, stdin=subprocess.DEVNULL, stdout=terminal, stderr=terminal,
        env=ENV | {"PYTHONPATH": str(ROOT), "COLUMNS": "80", "TERM": "xterm", "NO_COLOR": "1"},
    )  # fmt: skip
    os.close(terminal)
    shown, asked = b"", False
    with contextlib.suppress(OSError):  # the terminal is gone when the process is
        while more := os.read(screen, 4096):
            shown += more
            if not asked and shown.count(b"of 1,000,000 moves") > 3:
                asked = True
                process.send_signal(signal.SIGINT)
    os.close(screen)
    assert process.wait(timeout=60) == 130
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode())
    assert text.startswith("loading ...")
    assert max(len(line.rstrip("\r")) for line in text.splitlines()) <= 80
    assert not re.search(rb"\x1b\[[0-9;]*3[0-7]m", shown)
    assert text.partition("next:")[2].split("#")[0].strip() == "chess-lab train --resume run"
    assert "a last evaluation and a checkpoint" in text
