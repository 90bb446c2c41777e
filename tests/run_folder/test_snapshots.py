"""Snapshots are evenly spread, the same after a stop, whole or absent, and change nothing of a run."""

from __future__ import annotations

import hashlib
import itertools
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from algorithms.reports.page import group_runs
from algorithms.reports.run_files import read_run
from algorithms.run_folder import checkpoint
from algorithms.run_folder.atomic_files import RunFolderError
from algorithms.run_folder.checkpoint import directories, read_manifest
from algorithms.run_folder.snapshots import Snapshots
from algorithms.training.trainer import train
from tests.run_folder.test_full_disk import files_up_to
from tests.training.runs import (
    Watcher,
    assert_same,
    final_state,
    rows_without_time,
    stop_at,
    tiny,
)

ROOT = Path(__file__).parents[2]
WEIGHTS = {"w": torch.arange(6.0)}


def kept(run_dir: Path) -> dict[int, str]:
    """Update -> SHA-256 of the weights in its snapshot."""
    return {
        int(path.name[-8:]): hashlib.sha256((path / "model.safetensors").read_bytes()).hexdigest()
        for path in directories(run_dir / "snapshots")
    }


def played(snapshots: Snapshots, moves: list[int]) -> list[bool]:
    """Whether each policy of a run is kept when it is reached."""
    return [
        snapshots.due(before, now, at_end=i in (0, len(moves) - 1), checkpoint=False)
        for i, (before, now) in enumerate(zip([0, *moves[:-1]], moves, strict=True))
    ]


def test_five_of_a_thousand_moves_are_the_first_at_each_quarter() -> None:
    moves = [0, 100, 200, 300, 400, 500, 600, 700, 800, 900, 950]
    found = played(Snapshots(Path(), 5, 1000), moves)
    assert [at for at, due in zip(moves, found, strict=True) if due] == [0, 300, 500, 800, 950]


@given(
    st.integers(2, 30),
    st.integers(1, 3000),
    st.lists(st.integers(1, 400), min_size=1, max_size=80),
)
def test_there_are_never_more_than_asked_for_and_no_gap_is_longer_than_a_part_and_an_update(
    keep: int, total: int, sizes: list[int]
) -> None:
    moves = [0, *np.cumsum(sizes).tolist()]
    dues = played(Snapshots(Path(), keep, total), moves)
    found = [at for at, due in zip(moves, dues, strict=True) if due]
    assert len(found) <= keep and found[0] == 0 and found[-1] == moves[-1]
    part = total / (keep - 1)
    gaps = [b - a for a, b in itertools.pairwise(found) if b < total]
    assert all(gap <= part + max(sizes) for gap in gaps)


def test_what_an_earlier_budget_kept_is_thinned_out_to_that_of_the_larger_one(
    tmp_path: Path,
) -> None:
    first = Snapshots(tmp_path, 5, 400)
    for update in range(5):
        first.write(update, 100 * update, WEIGHTS)
    Snapshots(tmp_path, 5, 800).write(6, 600, WEIGHTS)
    assert list(kept(tmp_path)) == [0, 2, 4, 6]


def test_a_run_is_the_same_to_the_bit_with_and_without_them(tmp_path: Path) -> None:
    for name, keep in (("without", None), ("with", 3)):
        train(tiny(tmp_path / name, checkpoint_keep=keep), display=Watcher())
    assert rows_without_time(tmp_path / "with") == rows_without_time(tmp_path / "without")
    assert_same(final_state(tmp_path / "with"), final_state(tmp_path / "without"))
    assert not (tmp_path / "without" / "snapshots").exists()
    assert list(kept(tmp_path / "with")) == [0, 2, 4]
    last = directories(tmp_path / "with" / "snapshots")[-1]
    assert read_manifest(last)["scored_moves"] == 4 * 64
    newest = checkpoint.load_newest(tmp_path / "with" / "checkpoints").weights
    assert_same(checkpoint.load_weights(last), newest)


def test_a_run_that_was_stopped_and_goes_on_keeps_what_the_straight_one_does(
    tmp_path: Path,
) -> None:
    stopped, straight = tmp_path / "stopped", tmp_path / "straight"
    asked = {"updates": 6, "checkpoint_keep": 3}
    train(tiny(stopped, **asked), display=Watcher(stop_at(1)))
    assert list(kept(stopped)) == [0, 2]  # where it was stopped, until it comes further
    train(tiny(stopped, **asked), resume=True, display=Watcher(stop_at(3)))
    train(tiny(stopped, **asked), resume=True, display=Watcher())
    train(tiny(straight, **asked), display=Watcher())
    assert kept(stopped) == kept(straight)
    assert list(kept(straight)) == [0, 3, 6]
    train(tiny(stopped, **asked), resume=True, display=Watcher())  # a finished run loses none
    assert kept(stopped) == kept(straight)


def test_a_run_that_goes_on_may_change_how_many_and_a_report_does_not_tell_runs_apart_by_it(
    tmp_path: Path,
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    train(tiny(first, updates=2), display=Watcher())
    train(tiny(first, checkpoint_keep=3), resume=True, display=Watcher())
    assert list(kept(first)) == [4]  # the mark at half of the budget was passed without it
    train(tiny(second, checkpoint_keep="all"), display=Watcher())
    (column,) = group_runs([read_run(first), read_run(second)])
    assert len(column.runs) == 2


def test_no_run_begins_among_the_snapshots_of_another(tmp_path: Path) -> None:
    Snapshots(tmp_path, 2, 100).write(7, 50, WEIGHTS)
    with pytest.raises(RunFolderError, match="holds a run already"):
        train(tiny(tmp_path, checkpoint_keep=2), display=Watcher())
    assert list(kept(tmp_path)) == [7]


def test_those_after_the_checkpoint_that_a_run_goes_on_from_are_written_again(
    tmp_path: Path,
) -> None:
    train(tiny(tmp_path, updates=4, checkpoint_keep="all"), display=Watcher())
    whole = kept(tmp_path)
    assert list(whole) == [0, 1, 2, 3, 4]
    (tmp_path / "checkpoints" / "update-00000004" / "manifest.json").write_bytes(b"damaged")
    (tmp_path / "snapshots" / "update-00000004" / "model.safetensors").write_bytes(b"damaged")
    with pytest.warns(UserWarning, match="falling back"):
        train(tiny(tmp_path, updates=4, checkpoint_keep="all"), resume=True, display=Watcher())
    assert kept(tmp_path) == whole


def test_a_run_that_goes_on_keeps_no_snapshot_of_the_very_next_update(tmp_path: Path) -> None:
    snapshots = Snapshots(tmp_path, "all", 100)
    for update in (3, 4, 9):
        snapshots.write(update, 10 * update, WEIGHTS)
    snapshots.resume(3)
    assert list(kept(tmp_path)) == [3]


def test_a_full_disk_names_the_snapshot_and_the_run_goes_on(tmp_path: Path) -> None:
    snapshots = Snapshots(tmp_path, "all", 100)
    snapshots.write(0, 0, WEIGHTS)
    large = {"w": torch.zeros(100_000)}
    with (
        files_up_to(4096),
        pytest.raises(
            checkpoint.CheckpointError, match=r"snapshot .*update-00000001 .* needs 400,\d+ bytes"
        ),
    ):
        snapshots.write(1, 10, large)
    assert list(kept(tmp_path)) == [0]
    assert not list((tmp_path / "snapshots").glob("partial-*"))
    run_dir = tmp_path / "run"
    run_dir.mkdir()
    (run_dir / "snapshots").write_text("in the way")
    watcher = Watcher()
    assert train(tiny(run_dir, updates=2, checkpoint_keep=2), display=watcher).updates == 2
    assert sum("WARNING: snapshot" in said for said in watcher.messages) == 2
    assert checkpoint.load_newest(run_dir / "checkpoints").state["progress"]["update"] == 2


@pytest.mark.parametrize("value", [1, 0, -3, True, "some", 2.0])
def test_another_value_is_refused_by_name(tmp_path: Path, value: object) -> None:
    with pytest.raises(ValueError, match=r'checkpoint_keep is .*: it must be "all" or a number'):
        tiny(tmp_path, checkpoint_keep=value)


WRITER = """
import sys, torch
from pathlib import Path
from algorithms.run_folder.snapshots import Snapshots
snapshots = Snapshots(Path(sys.argv[1]), 10, 1_000_000)
for update in range(100_000):
    snapshots.write(update, update, {"w": torch.full((200_000,), float(update))})
    if update == 0:
        print("ready", flush=True)
"""


@pytest.mark.slow
def test_a_kill_at_any_instant_leaves_every_snapshot_intact(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    for attempt in range(3):
        run_dir = tmp_path / str(attempt)
        process = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(run_dir)], cwd=ROOT, stdout=subprocess.PIPE
        )
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(float(rng.uniform(0.05, 0.3)))
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        found = directories(run_dir / "snapshots")
        assert found[0].name == "update-00000000"
        for path in found:
            assert float(checkpoint.load_weights(path)["w"][0]) == int(path.name[-8:])
        Snapshots(run_dir, 10, 1_000_000).write(100_001, 900_000, WEIGHTS)
        assert not list((run_dir / "snapshots").glob("partial-*"))
        assert len(directories(run_dir / "snapshots")) == 2


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="forks on Linux alone")
@pytest.mark.parametrize(
    ("what", "torn"),
    [
        ("mkdir snapshots/partial-", False),
        ("write snapshots/model.safetensors", True),
        ("write snapshots/manifest.json", True),
        ("replace snapshots/update-", False),
        ("replace checkpoints/update-", False),
    ],
)
def test_a_run_killed_around_a_snapshot_goes_on_and_has_the_same_in_the_end(
    tmp_path: Path, what: str, torn: bool
) -> None:
    from tests.run_folder.boundaries import (
        Kill,
        changes,
        command,
        gone_on,
        killed,
        outcome,
        straight,
    )

    def asked(run_dir: Path) -> list[str]:
        return [*command(run_dir, updates=2), "--checkpoint-keep", "3"]

    whole, counted, run_dir = (tmp_path / name for name in ("whole", "counted", "run"))
    straight(asked(whole))
    found = changes(asked(counted), counted)
    start, slash, end = what.rpartition("/")
    numbers = [
        number
        for number, each in enumerate(found, start=1)
        if each.startswith(start) and f"{slash}{end}" in each
    ]
    killed(asked(run_dir), run_dir, Kill(numbers[-1], torn=torn))
    gone_on(asked(run_dir), run_dir)
    assert outcome(run_dir) == outcome(whole)
    assert kept(run_dir) == kept(whole) and len(kept(whole)) == 3


@pytest.mark.slow
def test_of_several_processes_one_writes_what_a_single_one_would(tmp_path: Path) -> None:
    from tests.commands.lab import chess_lab

    for number in (1, 2):
        chess_lab(
            "train", "grpo", "--smoke", "--env.evaluator", "builtin", "--device", "cpu",
            "--num-shards", "2", "--num-processes", number, "--checkpoint-keep", "3",
            "--run-dir", tmp_path / str(number),
        )  # fmt: skip
    assert kept(tmp_path / "1") == kept(tmp_path / "2") and len(kept(tmp_path / "1")) == 3
    config = json.loads((tmp_path / "2" / "config.json").read_text())
    assert config["checkpoint_keep"] == 3
