"""Runs are recorded, stopped, killed and continued without losing or changing a move."""

from __future__ import annotations

import ast
import dataclasses
import json
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import chess
import numpy as np
import pytest
import torch

from algorithms import ALGORITHMS, cli
from algorithms.config import files as config_file
from algorithms.config.run import EnvConfig, OptimizerConfig, RolloutConfig
from algorithms.regularization import RegularizerConfig
from algorithms.reports.run_files import read_metrics
from algorithms.reports.statistics import percent_interval
from algorithms.run_folder import checkpoint
from algorithms.run_folder.atomic_files import RunFolderError
from algorithms.training.session import Session
from algorithms.training.trainer import train
from chess_env.moves import move_to_action
from chess_env.rules.rules import ONGOING, TWOFOLD
from tests.env.playing import SHUFFLE
from tests.forks import fork, kill
from tests.training.runs import (
    MOVES_PER_UPDATE,
    Watcher,
    assert_same,
    final_state,
    rows_without_time,
    stop_at,
    tiny,
)

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("twofold", [False, True])
def test_the_second_occurrence_ends_the_games_of_a_run_that_asks_for_it(
    twofold: bool, tmp_path: Path
) -> None:
    env = EnvConfig(evaluator="builtin", start_positions="initial", max_plies=9, twofold=twofold)
    session, board = Session(tiny(tmp_path, env=env)), chess.Board()
    try:
        vec = session.worker.parts[0].vec
        vec.reset(seed=0)
        for uci in SHUFFLE:
            move = chess.Move.from_uci(uci)
            actions = np.full((vec.num_envs, 1), move_to_action(move, board.turn))
            _, status = vec.games.look_ahead(actions)
            vec.step(actions[:, 0])
            board.push(move)
    finally:
        session.close()
    assert (status == (TWOFOLD if twofold else ONGOING)).all()


def test_a_run_leaves_its_folder_complete_and_keeps_to_its_budget(tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    config = tiny(run_dir, updates=4, total_moves=4 * MOVES_PER_UPDATE + 63)
    result = train(config, display=Watcher())
    assert (result.updates, result.scored_moves, result.plies) == (4, 256, 64)
    assert result.evaluator.startswith("builtin")
    assert result.evaluations >= result.engine_queries > 0
    assert result.stopped_by is None and result.cpu_s > 0
    low, high = result.percent_of_start_interval
    assert low <= result.percent_of_start <= high
    assert config_file.load(run_dir / "config.json") == config.settled()
    recorded = json.loads((run_dir / "environment.json").read_text())["git"] or {"commit": ""}
    head = subprocess.run(
        ["git", "-C", str(ROOT), "rev-parse", "HEAD"], capture_output=True, text=True
    ).stdout
    assert recorded["commit"] == head.strip()  # "" outside a clone
    rows = read_metrics(run_dir)
    assert [row["step"] for row in rows] == [0, 1, 2, 3, 4]
    for row in rows:
        assert {"plies", "scored_moves", "time/cpu_s"} <= row.keys()
    for row in rows[1:]:
        assert {"policy/entropy", "policy/entropy_normalized", "time/plies_per_s"} <= row.keys()
    assert [row["step"] for row in rows if "eval/regret_cp" in row] == [0, 2, 4]
    assert rows[0]["eval/regret_cp"] == result.regret_cp_start
    assert rows[-1]["eval/regret_cp"] == result.regret_cp_end
    best = checkpoint.load(run_dir / "checkpoints" / "best")
    assert best.state["progress"]["best_regret_cp"] == result.regret_cp_best
    assert min(row["eval/regret_cp"] for row in rows if "eval/regret_cp" in row) == pytest.approx(
        result.regret_cp_best
    )


def test_equal_seeds_give_equal_runs_and_another_seed_another(tmp_path: Path) -> None:
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        train(tiny(tmp_path / name, updates=2, seed=seed), display=Watcher())
    assert rows_without_time(tmp_path / "a") == rows_without_time(tmp_path / "b")
    assert rows_without_time(tmp_path / "a") != rows_without_time(tmp_path / "c")


def test_a_killed_run_continues_as_if_nothing_had_happened(tmp_path: Path) -> None:
    killed = tmp_path / "killed"
    process = fork(lambda: train(tiny(killed, updates=10_000), display=Watcher()))
    metrics = killed / "metrics.jsonl"
    deadline = time.monotonic() + 90
    while not metrics.exists() or metrics.read_text().count("\n") < 4:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    kill(process)
    done = checkpoint.load_newest(killed / "checkpoints").state["progress"]["update"]
    total = (done // 2 + 1) * 2  # an even number, so that both runs evaluate at the same updates
    train(tiny(killed, updates=total), resume=True, display=Watcher())
    straight = tmp_path / "straight"
    train(tiny(straight, updates=total), display=Watcher())
    assert_same(final_state(killed), final_state(straight))
    ends = [
        [row for row in rows_without_time(folder) if row["step"] < total]
        for folder in (killed, straight)
    ]
    assert ends[0] == ends[1]


def test_a_signal_lets_the_update_finish_and_the_run_continues_exactly(tmp_path: Path) -> None:
    number = signal.SIGTERM  # SIGINT: tests.training.runs.stopped_and_straight
    regularizer = RegularizerConfig(ent_coef=0.1, ent_coef_final=0.0, kl_ref_coef=0.1)
    changes: dict[str, Any] = {
        "regularizer": regularizer,
        "checkpoint_interval_updates": 100,
        "rollout": RolloutConfig(form="games", num_envs=4, num_plies=4, temperature=1.3),
        "optimizer": OptimizerConfig(minibatch_size=8, warmup_updates=3, lr_final=1e-4),
    }
    stopped, straight = tmp_path / "stopped", tmp_path / "straight"
    before = signal.getsignal(number)  # a shell ignores SIGINT in what it runs in the background
    first = train(tiny(stopped, 3, **changes), display=Watcher(stop_at(1, number=number)))
    assert first.stopped_by == number.name and first.updates < 3
    assert signal.getsignal(number) is before
    newest = checkpoint.load_newest(stopped / "checkpoints")
    assert newest.state["progress"]["update"] == first.updates
    second = train(tiny(stopped, 3, **changes), resume=True, display=Watcher())
    train(tiny(straight, 3, **changes), display=Watcher())
    assert second.stopped_by is None
    assert_same(final_state(stopped), final_state(straight))


def test_a_damaged_checkpoint_costs_an_update_and_not_the_run(tmp_path: Path) -> None:
    train(tiny(tmp_path, updates=3), display=Watcher())
    newest = tmp_path / "checkpoints" / "latest" / "model.safetensors"
    data = bytearray(newest.read_bytes())
    data[-1] ^= 1
    newest.write_bytes(bytes(data))
    with pytest.warns(UserWarning, match="falling back"):
        result = train(tiny(tmp_path, updates=4), resume=True, display=Watcher())
    assert result.updates == 4
    assert [row["step"] for row in rows_without_time(tmp_path)] == [0, 1, 2, 3, 4]
    seconds = [row["time/wall_s"] for row in read_metrics(tmp_path)]
    assert all(np.diff(seconds) > 0)  # those of the update that was lost are not counted


def test_resuming_a_finished_run_changes_nothing(tmp_path: Path) -> None:
    first = train(tiny(tmp_path, updates=2), display=Watcher())
    rows = read_metrics(tmp_path)
    second = train(tiny(tmp_path, updates=2), resume=True, display=Watcher())
    assert second.regret_cp_end == first.regret_cp_end
    assert read_metrics(tmp_path) == rows


def test_a_run_that_lost_its_checkpoints_keeps_its_record(tmp_path: Path) -> None:
    train(tiny(tmp_path, updates=1), display=Watcher())
    shutil.rmtree(tmp_path / "checkpoints")
    rows = read_metrics(tmp_path)
    with pytest.raises(checkpoint.CheckpointError, match="it holds none"):
        train(tiny(tmp_path, updates=2), resume=True, display=Watcher())
    assert read_metrics(tmp_path) == rows


def test_a_run_killed_before_its_first_checkpoint_begins_anew_and_says_so(tmp_path: Path) -> None:
    whole, run_dir = tmp_path / "whole", tmp_path / "run"
    train(tiny(whole, updates=1), display=Watcher())
    run_dir.mkdir()
    config_file.save(tiny(run_dir, updates=1).settled(), run_dir / "config.json")
    first, rest = (whole / "metrics.jsonl").read_text().splitlines(keepends=True)
    for record in ("", first, first + rest[:30]):
        (run_dir / "metrics.jsonl").write_text(record)
        shutil.rmtree(run_dir / "checkpoints", ignore_errors=True)
        display = Watcher()
        train(tiny(run_dir, updates=1), resume=True, display=display)
        assert display.messages[0].endswith("the run begins anew from its config.json")
        assert rows_without_time(run_dir) == rows_without_time(whole)


def test_a_run_is_not_continued_with_other_settings_or_another_evaluator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train(tiny(tmp_path, updates=1), display=Watcher())
    with pytest.raises(ValueError, match="seed 0 -> 1"):
        train(tiny(tmp_path, seed=1), resume=True, display=Watcher())
    with pytest.raises(RunFolderError, match="--resume"):
        train(tiny(tmp_path), display=Watcher())
    load = checkpoint.load_newest

    def rewarded_by_another(folder: Path) -> checkpoint.Checkpoint:
        found = load(folder)
        return dataclasses.replace(found, state={**found.state, "evaluator": "stockfish-99"})

    monkeypatch.setattr(checkpoint, "load_newest", rewarded_by_another)
    rows = read_metrics(tmp_path)
    with pytest.raises(ValueError, match="was rewarded by 'stockfish-99'"):
        train(tiny(tmp_path, updates=2), resume=True, display=Watcher())
    assert read_metrics(tmp_path) == rows


def test_a_run_whose_fault_is_in_no_setting_is_not_continued(tmp_path: Path) -> None:
    made = tiny(tmp_path, updates=1, cause="temperature_mismatch")
    train(made, display=Watcher())
    rows = read_metrics(tmp_path)
    saved = config_file.load(tmp_path / "config.json")
    assert saved.cause == "temperature_mismatch"
    longer = dataclasses.replace(saved, total_moves=2 * MOVES_PER_UPDATE)
    with pytest.raises(ValueError, match="causes run temperature_mismatch` and cannot be cont"):
        train(longer, resume=True, display=Watcher())
    with pytest.raises(ValueError, match="cause 'temperature_mismatch' -> None"):
        train(dataclasses.replace(longer, cause=None), resume=True, display=Watcher())
    assert cli.main(["train", "--resume", str(tmp_path)]) == 1
    assert read_metrics(tmp_path) == rows


def test_who_watches_sees_every_row_of_the_record_and_the_display_shows_what_they_say(
    tmp_path: Path,
) -> None:
    seen: list[dict[str, float]] = []
    shown: list[str] = []

    def watch(row: Mapping[str, float]) -> str:
        seen.append(dict(row))
        return f"update {row['step']:.0f} looks well"

    display = Watcher()
    display.show = lambda row, status: shown.append(status)  # type: ignore[method-assign]
    train(tiny(tmp_path, updates=2), display=display, watch=watch)
    assert seen == read_metrics(tmp_path)
    assert shown == [f"update {step} looks well" for step in range(3)]
    train(tiny(tmp_path, updates=3), resume=True, display=display)
    assert shown[3:] == [""]


def test_what_who_watches_raises_passes_through_and_the_run_goes_on_from_there(
    tmp_path: Path,
) -> None:
    class PrunedError(Exception):
        pass

    def watch(row: Mapping[str, float]) -> str:
        if row["step"] == 2:
            raise PrunedError("fell behind")
        return ""

    with pytest.raises(PrunedError, match="fell behind"):
        train(tiny(tmp_path / "ended"), display=Watcher(), watch=watch)
    assert len(read_metrics(tmp_path / "ended")) == 3
    train(tiny(tmp_path / "ended"), resume=True, display=Watcher())
    train(tiny(tmp_path / "straight"), display=Watcher())
    assert_same(final_state(tmp_path / "ended"), final_state(tmp_path / "straight"))


def test_a_budget_below_one_rollout_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="total_moves is 63, one rollout scores up to 64"):
        train(tiny(tmp_path, total_moves=63), display=Watcher())


def test_a_full_disk_in_mid_run_is_said_and_the_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save = checkpoint.save

    def fail_once(folder: Path, update: int, **arguments: Any) -> Path:
        if update == 1:
            raise checkpoint.CheckpointError("No space left on device")
        return save(folder, update, **arguments)

    monkeypatch.setattr(checkpoint, "save", fail_once)
    watcher = Watcher()
    assert train(tiny(tmp_path, updates=2), display=watcher).updates == 2
    assert any("No space left" in message for message in watcher.messages)


def test_cuda_is_asked_for_in_vain_with_a_clear_error(tmp_path: Path) -> None:
    if torch.cuda.is_available():
        assert train(tiny(tmp_path, updates=1, device="cuda"), display=Watcher()).updates == 1
    else:
        with pytest.raises(ValueError, match="sees no CUDA device"):
            train(tiny(tmp_path, device="cuda"), display=Watcher())


def test_nothing_that_trains_knows_an_algorithm_by_name() -> None:
    for path in (ROOT / "algorithms" / "training").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom):
                names = [f"{node.module}.{alias.name}" for alias in node.names]
                found = [n for n in names for name in ALGORITHMS if n.split(".")[1] == name]
                assert not found, path
            elif isinstance(node, ast.Constant):
                assert node.value not in ALGORITHMS, (path, node.lineno)


def test_the_interval_of_the_share_pairs_the_positions() -> None:
    rng = torch.Generator().manual_seed(0)
    start = (torch.rand(200, generator=rng) * 500 + 100).double().numpy()
    low, high = percent_interval(start, start * 0.25)
    assert low == pytest.approx(25) and high == pytest.approx(25)
    low, high = percent_interval(start, start[::-1] * 0.25)
    assert low < 25 < high
