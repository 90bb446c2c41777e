"""The real W&B and TensorBoard show a run once, however often it was killed, and leave nothing that stops it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from wandb.proto.wandb_internal_pb2 import Record

from algorithms.run_folder.run_log import RunLog
from tests.commands.lab import ENV, chess_lab
from tests.forks import fork

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WANDB_MODE", "WANDB_RUN_ID", "WANDB_PROJECT", "WANDB_NAME", "WANDB_DIR"):
        monkeypatch.delenv(name, raising=False)


def records(path: Path) -> Iterator[Record]:
    """What is in a .wandb file: blocks of 32 KiB of (checksum 4, length 2, kind 1, part of a record)."""
    data, at, whole = path.read_bytes(), 7, b""
    while at + 7 <= len(data):
        if 32768 - at % 32768 < 7:
            at += 32768 - at % 32768
            continue
        size, kind = int.from_bytes(data[at + 4 : at + 6], "little"), data[at + 6]
        if at + 7 + size > len(data):  # it is being written
            return
        whole += data[at + 7 : at + 7 + size]
        at += 7 + size
        if kind in (1, 4):  # whole, or the last part
            yield Record.FromString(whole)
            whole = b""


def at_wandb(run_dir: Path, rows: int) -> list[list[int]]:
    """The steps that W&B has of each of its runs, in the order of its files, once it has so many rows."""
    until = time.monotonic() + 20  # `finish` does not wait for the disk
    while True:
        found: dict[str, list[int]] = {}
        made = run_dir.glob("wandb/offline-run-*/*.wandb")
        for path in sorted(made, key=lambda file: file.stat().st_mtime_ns):
            kept = [each for each in records(path) if each.WhichOneof("record_type") == "history"]
            found.setdefault(path.stem, []).extend(each.history.step.num for each in kept)
        if sum(map(len, found.values())) >= rows or time.monotonic() > until:
            return sorted(found.values())
        time.sleep(0.1)


def at_tensorboard(run_dir: Path) -> list[tuple[int, float]]:
    shown = EventAccumulator(str(run_dir / "tensorboard"), {"scalars": 0}).Reload()
    if "policy/entropy" not in shown.Tags()["scalars"]:  # no row is there yet
        return []
    return [(e.step, e.value) for e in shown.Scalars("policy/entropy")]


def log_rows(run_dir: Path, track: str, steps: range, resume_at: int | None = None) -> None:
    log = RunLog(run_dir, track=track, resume_at=resume_at)
    for step in steps:
        log.write({"step": step, "policy/entropy": step + (resume_at or 0) / 100})
    log.close()


def made_long_ago(run_dir: Path) -> None:
    """Names TensorBoard's files after seconds of 1970: the next one need not wait for one of its own."""
    for second, path in enumerate(sorted((run_dir / "tensorboard").iterdir())):
        path.rename(path.with_name(f"events.out.tfevents.{second:010}.vm.1.0"))


KILLED = """
import os, signal, sys, time
from pathlib import Path
from algorithms.run_folder.run_log import RunLog
log = RunLog(Path(sys.argv[1]), track=sys.argv[2])
for step in range(38):
    log.write({"step": step, "policy/entropy": float(step)})
time.sleep(0.5)
os.kill(os.getpid(), signal.SIGKILL)
"""


def kill_wandb_at_37(run_dir: Path) -> None:
    # A fork of this process would share its W&B.
    command = [sys.executable, "-c", KILLED, str(run_dir), "wandb"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=120)
    assert ended.returncode == -signal.SIGKILL, ended.stderr


def kill_tensorboard_at_37(run_dir: Path) -> None:
    def killed() -> None:
        log = RunLog(run_dir, track="tensorboard")
        for step in range(38):
            log.write({"step": step, "policy/entropy": float(step)})
        while len(at_tensorboard(run_dir)) < 38:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGKILL)

    assert os.waitstatus_to_exitcode(os.waitpid(fork(killed), 0)[1]) == -signal.SIGKILL


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="forks on Linux alone")
def test_after_a_kill_tensorboard_draws_every_update_once(tmp_path: Path) -> None:
    kill_tensorboard_at_37(tmp_path)
    made_long_ago(tmp_path)
    log_rows(tmp_path, "tensorboard", range(21, 41), resume_at=20)
    steps, values = zip(*at_tensorboard(tmp_path), strict=True)
    assert steps == tuple(range(41))
    assert values == pytest.approx([s + 0.2 * (s > 20) for s in steps])
    made_long_ago(tmp_path)
    log_rows(tmp_path, "tensorboard", range(31, 33), resume_at=30)  # and once more
    assert [step for step, _ in at_tensorboard(tmp_path)] == list(range(33))


def test_a_run_that_goes_on_within_a_second_is_read_after_what_it_goes_on_from(
    tmp_path: Path,
) -> None:
    log_rows(tmp_path, "tensorboard", range(38))
    folder = tmp_path / "tensorboard"
    (first,) = folder.iterdir()
    first.rename(
        folder / f"events.out.tfevents.{int(time.time())}.vm.99999999.0"
    )  # a higher process number
    log_rows(tmp_path, "tensorboard", range(21, 41), resume_at=20)
    assert [step for step, _ in at_tensorboard(tmp_path)] == list(range(41))


def test_after_a_kill_wandb_goes_on_with_the_same_run_and_has_every_update_once(
    tmp_path: Path,
) -> None:
    kill_wandb_at_37(tmp_path)
    log_rows(tmp_path, "wandb", range(21, 41), resume_at=20)
    assert at_wandb(tmp_path, 41) == [list(range(41))]


@pytest.mark.parametrize("track", ["wandb", "tensorboard"])
def test_a_tracker_that_is_named_when_a_run_goes_on_has_all_of_it(
    tmp_path: Path, track: str
) -> None:
    log = RunLog(tmp_path)
    for step in range(400):  # more than may wait for a tracker
        log.write({"step": step, "policy/entropy": step, "eval/regret_cp": float("nan")})
    log.close()
    log_rows(tmp_path, track, range(300, 302), resume_at=299)
    if track == "wandb":
        assert at_wandb(tmp_path, 302) == [list(range(302))]
    else:
        assert [step for step, _ in at_tensorboard(tmp_path)] == list(range(302))


def test_a_copy_of_a_run_is_another_run_at_wandb_and_a_moved_one_is_the_same(
    tmp_path: Path,
) -> None:
    first, copy, moved = tmp_path / "a run, ü", tmp_path / "copy", tmp_path / "moved"
    log_rows(first, "wandb", range(2))
    (first / "config.json").write_text(f'{{"run_dir": "{first}"}}')
    assert at_wandb(first, 2) == [[0, 1]]
    shutil.copytree(first, copy, symlinks=True)
    log_rows(copy, "wandb", range(2, 4), resume_at=1)
    assert at_wandb(copy, 6) == [[0, 1], [0, 1, 2, 3]]
    shutil.rmtree(copy)
    first.rename(moved)
    (made,) = moved.glob("wandb/offline-run-*")
    # W&B's folders are named by the second: this one would be used again.
    made.rename(made.with_name(f"offline-run-20200101_000000-{made.name.rpartition('-')[2]}"))
    log_rows(moved, "wandb", range(2, 4), resume_at=1)
    assert at_wandb(moved, 4) == [[0, 1, 2, 3]]


def test_wandb_that_is_disabled_or_cannot_start_is_no_riddle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_MODE", "disabled")
    log_rows(tmp_path, "wandb", range(2))
    monkeypatch.setenv("WANDB_MODE", "oflfine")
    with pytest.raises(RuntimeError, match="(?s)--track wandb does not start .*--track None"):
        log_rows(tmp_path, "wandb", range(2, 4), resume_at=1)
    monkeypatch.setenv("WANDB_MODE", "online")
    for name in ("HOME", "WANDB_CONFIG_DIR"):  # where a key may be kept
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    with pytest.raises(RuntimeError, match="API key.* set WANDB_MODE=offline, or say --track None"):
        log_rows(tmp_path, "wandb", range(2, 4), resume_at=1)
    monkeypatch.setenv("WANDB_MODE", "")
    log_rows(tmp_path, "wandb", range(2, 4), resume_at=1)
    assert at_wandb(tmp_path, 4) == [[0, 1, 2, 3]]


@pytest.mark.slow
def test_ctrl_c_ends_a_run_whose_wandb_reaches_no_server(tmp_path: Path) -> None:
    run = tmp_path / "run"
    nowhere = {
        "WANDB_MODE": "online",
        "WANDB_BASE_URL": "http://127.0.0.1:9",
        "WANDB_API_KEY": "0" * 40,
    }
    command = [sys.executable, "-m", "chess_lab", "train", "grpo", "--smoke", "--env.evaluator", "builtin",
               "--track", "wandb", "--run-dir", str(run)]  # fmt: skip
    with subprocess.Popen(command, cwd=ROOT, env=ENV | nowhere, stderr=-1, text=True) as begun:
        until = time.monotonic() + 60
        while not list(run.glob("wandb/run-*/logs")) and time.monotonic() < until:
            time.sleep(0.1)
        time.sleep(2)
        begun.send_signal(signal.SIGINT)
        try:
            assert begun.wait(15) == 130
        finally:
            begun.kill()


FOREIGN = (".DS_Store", "Thumbs.db", ".metrics.jsonl.swp", "checkpoints/.DS_Store",
           "metrics (conflicted copy 2026-11-25).jsonl", "config.sync-conflict-20261125-1.json",
           "checkpoints/update-00000001 (conflicted copy)/model.safetensors",
           "probes/00000000 (conflicted copy).npz", "snapshots/._update-00000001", "mlruns/0/meta.yaml",
           "tensorboard/events.out.tfevents.1.other.1.0")  # fmt: skip


def test_a_tracked_run_goes_on_among_the_files_of_others(tmp_path: Path) -> None:
    run, elsewhere = tmp_path / "run", tmp_path / "elsewhere"
    begun = chess_lab("train", "grpo", "--smoke", "--env.evaluator", "builtin", "--run-dir", run,
                      "--rollout.num-envs", "8", "--rollout.num-plies", "2", "--algorithm.group-size", "4",
                      "--total-moves", "128", "--track", "wandb")  # fmt: skip
    assert begun.code == 0, begun.err
    (made,) = run.glob("wandb/offline-run-*")
    # As W&B names it where another was made in the same second.
    made.rename(made.with_name(f"{made.name}-1"))
    for name in FOREIGN:
        (run / name).parent.mkdir(parents=True, exist_ok=True)
        (run / name).write_bytes(b"of somebody else")
    elsewhere.mkdir()
    (run / "latest_tracker_run").symlink_to(elsewhere)
    for moves in ("256", "384"):
        goes_on = chess_lab("train", "--resume", run, "--total-moves", moves)
        assert goes_on.code == 0, goes_on.err
    assert at_wandb(run, 7) == [list(range(7))]
    assert chess_lab("report", run).code == 0 and not any(elsewhere.iterdir())
