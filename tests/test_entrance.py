"""The command runs this project's packages, or says whose come first."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from algorithms.comparison.executors import COMMAND
from tests.commands.lab import unwrapped

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    ("package", "command", "works"),
    [
        (False, ["-m", "algorithms.cli", "--help"], True),
        (True, ["-m", "algorithms.cli", "--help"], False),
        (True, [*COMMAND[1:], "--help"], True),
    ],
)
def test_a_folder_of_the_same_name_is_not_taken_for_the_package_or_fails_loudly(
    tmp_path: Path, package: bool, command: list[str], works: bool
) -> None:
    other = tmp_path / "algorithms"
    other.mkdir()
    (other / ("__init__.py" if package else "sorting.py")).touch()
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        [sys.executable, *command],
        cwd=tmp_path,
        env=kept,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode == 0) == works, done.stderr
    assert works or re.search("No module named '?algorithms.cli", done.stderr)
    assert not works or "usage: chess-lab" in done.stdout


def entrance(path: list[Path]) -> subprocess.CompletedProcess[str]:
    """What the script `chess-lab` does with `--version`, with these folders on PYTHONPATH."""
    code = "import sys; sys.argv[:] = ['chess-lab', '--version']; import chess_lab; sys.exit(chess_lab.main())"
    return subprocess.run(
        [sys.executable, "-P", "-c", code],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path))},
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip


@pytest.mark.parametrize("file", ["algorithms/__init__.py", "algorithms/cli.py", "algorithms.py"])
def test_the_command_names_another_package_that_comes_first(tmp_path: Path, file: str) -> None:
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).touch()
    done = entrance([tmp_path, ROOT])
    if file == "algorithms/cli.py":  # a folder without __init__.py does not come before a package
        assert (done.returncode, done.stderr) == (0, "")
        return
    assert (done.returncode, done.stdout) == (1, "")
    assert max(len(line) for line in done.stderr.splitlines() if " " in line.strip()) <= 80
    said = unwrapped(done.stderr)
    assert f"`import algorithms` finds {tmp_path}" in said
    assert f"not {ROOT / 'algorithms'}: take the folder" in said


def test_the_command_runs_where_nothing_comes_first() -> None:
    done = entrance([ROOT])
    assert done.returncode == 0 and done.stdout.startswith("chess-lab ")
