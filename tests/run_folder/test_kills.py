"""A run killed at a change of a file of its folder goes on and comes to what it would have come to."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.run_folder.boundaries import (
    Kill,
    changes,
    command,
    gone_on,
    killed,
    outcome,
    straight,
)

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="forks on Linux alone")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run of one update that nobody killed."""
    run_dir = tmp_path_factory.mktemp("runs") / "whole"
    straight(command(run_dir, updates=1))
    return run_dir


@pytest.fixture(scope="module")
def found(whole: Path) -> list[str]:
    """What that run changed in its folder, in order."""
    return changes(command(whole.with_name("counted"), updates=1), whole.with_name("counted"))


def test_every_kind_of_change_is_counted(found: list[str]) -> None:
    kinds = {what.partition(" ")[0] for what in found}
    assert kinds == {"mkdir", "open", "truncate", "write", "fsync", "unlink", "replace", "symlink"}
    assert sum(what == "write metrics.jsonl" for what in found) == 2
    assert sum("partial" in what for what in found) > 30
    # A row is there before the checkpoint that it belongs to, and the checkpoint before its name.
    assert found.index("write metrics.jsonl") < found.index("mkdir checkpoints")


@pytest.mark.parametrize(
    ("what", "torn"),
    [
        ("write metrics.jsonl", True),
        ("replace config.json", False),  # a record without a row
        ("replace checkpoints/update-00000000", False),  # a row, and no checkpoint
        pytest.param("replace checkpoints/update-00000001", False, marks=pytest.mark.slow),
        pytest.param("replace checkpoints/latest", False, marks=pytest.mark.slow),
        pytest.param("write checkpoints/manifest.json", True, marks=pytest.mark.slow),
    ],
)
def test_a_run_killed_at_a_change_of_a_file_goes_on(
    whole: Path, found: list[str], tmp_path: Path, what: str, torn: bool
) -> None:
    start, slash, end = what.rpartition("/")
    numbers = [
        number
        for number, each in enumerate(found, start=1)
        if each.startswith(start) and f"{slash}{end}" in each
    ]
    run_dir = tmp_path / "run"
    killed(command(run_dir, updates=1), run_dir, Kill(numbers[-1], torn=torn))
    gone_on(command(run_dir, updates=1), run_dir)
    assert outcome(run_dir) == outcome(whole)
