"""The files and commands of docs/extending.md, copied out of the page and run."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
FILE = re.compile(r"^```python\n# (\w+\.py)\n(.*?)^```", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^chess-lab ((?!\w+:).*)$", re.MULTILINE)
"""A line that is typed. `chess-lab train: ...` is what the program answers."""
ENV = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the page's files."""
    there = tmp_path_factory.mktemp("extending")
    for name, code in FILE.findall(PAGE):
        (there / name).write_text(code)
    return there


def run(folder: Path, *arguments: str, timeout: int = 280) -> str:
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=ENV, capture_output=True, text=True, timeout=timeout
    )  # fmt: skip
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


@pytest.mark.slow
def test_every_example_keeps_its_contract(folder: Path) -> None:
    files = dict(FILE.findall(PAGE))
    assert set(files) == {"my_algorithm.py", "my_evaluator.py", "my_reward.py", "my_positions.py",
                          "my_network.py", "my_term.py", "check_mine.py"}  # fmt: skip
    run(folder, "check_mine.py")


def test_the_table_names_parts_that_are_in_the_files(folder: Path) -> None:
    named = set(re.findall(r"(my_\w+):(\w+)", PAGE))
    assert len(named) == 6
    for module, name in named:
        assert re.search(rf"^(class|def) {name}\b", (folder / f"{module}.py").read_text(), re.M)


@pytest.mark.slow
def test_a_run_trains_on_all_six_parts(folder: Path) -> None:
    (train,) = (command for command in COMMAND.findall(PAGE) if command.endswith("--smoke") and
                command.startswith("train"))  # fmt: skip
    options = dict(re.findall(r"`(--[\w.-]+) (my_\w+:\w+|win_prob_delta\+\S+)`", PAGE))
    assert len(options) == 5
    own = [word for option in options.items() for word in option]
    small = ["--total-moves", "32", "--rollout.num-envs", "4", "--rollout.num-plies", "1",
             "--diagnostics-interval-updates", "9", "--device", "cpu", "--run-dir", "r"]  # fmt: skip
    run(folder, "-m", "algorithms.cli", *shlex.split(train), *own, *small)
    assert '"name": "my_algorithm:SignPG"' in (folder / "r" / "config.json").read_text()


@pytest.mark.slow
def test_a_comparison_runs_in_small(folder: Path) -> None:
    # That of the algorithm is run by tests/test_documented_runs.py.
    (term,) = [c for c in COMMAND.findall(PAGE) if c.startswith("compare") and "tsallis" in c]
    few = ["--seeds", "1", "--regularization", "none", "--smoke"]
    said = run(folder, "-m", "algorithms.cli", *shlex.split(term), *few, timeout=900)
    assert "tsallis" in said
