"""Logs of other trainers become columns: every format, rows of one step, restarts, damage."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from algorithms.foreign import files, read_log
from algorithms.foreign.files import LogError
from algorithms.foreign.trainer import QUANTITIES
from algorithms.foreign.trainers import TRAINERS
from tests.foreign.logs import Rows, csv_table, json_lines, trl_rows, trl_state

SOUND = trl_rows("sound__1")


def same(one: Any, other: Any) -> bool:
    return set(one.columns) == set(other.columns) and all(
        np.allclose(one.columns[name], other.columns[name], rtol=1e-6, equal_nan=True)
        for name in one.columns
    )


def test_a_trainer_state_of_trl_is_guessed_and_its_rows_of_one_step_are_put_together(
    tmp_path: Path,
) -> None:
    log = read_log(trl_state(tmp_path, SOUND))
    assert (log.trainer.name, log.guessed, log.format) == ("trl", True, "json")
    assert log.num_updates == 80 and log.gap == 1 and log.is_one_run and log.notes == ()
    assert len(log.values("eval_reward")) == 5 and log.step[0] == 0
    trained = next(row for row in SOUND if row["step"] == 20 and "reward" in row)
    judged = next(row for row in SOUND if row["step"] == 20 and "eval_reward" in row)
    at = int(np.flatnonzero(log.step == 20)[0])
    assert log.columns["reward"][at] == trained["reward"]
    assert log.columns["eval_reward"][at] == judged["eval_reward"]


def test_the_same_rows_say_the_same_in_every_format(tmp_path: Path) -> None:
    state = read_log(trl_state(tmp_path / "state", SOUND))
    (tmp_path / "history.json").write_text(json.dumps(SOUND))
    for path in (
        tmp_path / "history.json",
        json_lines(tmp_path / "log.jsonl", SOUND),
        csv_table(tmp_path / "log.csv", SOUND),
    ):
        assert same(read_log(path), state), path


def test_a_tensorboard_folder_has_the_names_that_transformers_writes(tmp_path: Path) -> None:
    from torch.utils.tensorboard import SummaryWriter

    writer = SummaryWriter(str(tmp_path / "runs" / "a"))
    for row in SOUND:
        for name, value in row.items():
            tag = f"eval/{name[5:]}" if name.startswith("eval_") else f"train/{name}"
            if name not in ("step", "epoch"):
                writer.add_scalar(tag, value, row["step"])
    writer.close()
    read, state = read_log(tmp_path), read_log(trl_state(tmp_path / "state", SOUND))
    assert read.format == "tensorboard" and read.trainer.name == "trl"
    for name in ("reward", "entropy", "eval_reward", "dead"):
        assert np.allclose(read.values(name), state.values(name), rtol=1e-5)


def test_a_chart_that_wandb_exported_is_read_without_its_bounds_and_of_one_run_alone(
    tmp_path: Path,
) -> None:
    rows: Rows = [
        {"Step": row["step"], "tiny - train/entropy": row["entropy"],
         "tiny - train/entropy__MIN": 0.0, "tiny - train/entropy__MAX": 9.0}
        for row in SOUND if "entropy" in row
    ]  # fmt: skip
    log = read_log(csv_table(tmp_path / "chart.csv", rows), "trl")
    assert log.values("entropy").tolist() == [row["tiny - train/entropy"] for row in rows]
    two = [row | {"other - train/entropy": 1.0} for row in rows]
    with pytest.raises(LogError, match="columns of 2 runs: export the chart of one run"):
        read_log(csv_table(tmp_path / "two.csv", two), "trl")


def test_lines_of_verl_are_unwrapped_and_data_sources_averaged(tmp_path: Path) -> None:
    rows = [
        {"step": 0, "data": {"val-core/gsm8k/acc/mean@1": 0.25, "val-core/aime/24/acc/mean@1": 0.75}},
        *({"step": n, "data": {"critic/score/mean": n / 10, "critic/rewards/mean": -9.0, "actor/entropy": 1.0,
                               "actor/pg_clipfrac": 0.01, "actor/ppo_kl": -0.002}} for n in range(1, 12)),
    ]  # fmt: skip
    log = read_log(json_lines(tmp_path / "run.jsonl", rows))
    assert log.trainer.name == "verl" and log.num_updates == 11
    assert log.values("eval_reward").tolist() == [0.5]
    assert log.values("reward").tolist() == [n / 10 for n in range(1, 12)]


def test_rows_of_one_step_of_prime_rl_go_together(tmp_path: Path) -> None:
    rows: Rows = []
    for n in range(1, 10):
        rows.append({"step": n, "time": 1.0, "train/agg/all/agent/reward/mean": n / 10})
        rows.append({"step": n, "time": 2.0, "entropy/all/mean": 0.5, "mismatch_kl/all/mean": 1e-3})
        rows.append({"step": n, "time": 3.0, "optim/grad_norm": 0.1})
    log = read_log(json_lines(tmp_path / "metrics.jsonl", rows))
    assert log.trainer.name == "prime-rl" and log.num_updates == 9
    assert all(
        len(log.values(name)) == 9 for name in ("reward", "entropy", "mismatch_kl", "grad_norm")
    )


def test_openrlhf_is_known_by_its_names_behind_a_prefix(tmp_path: Path) -> None:
    rows: Rows = [
        {"train/global_step": n, "train/rollout/reward_mean": 0.1 * n, "train/reward": 5.0,
         "train/entropy_loss": 0.7, "train/ppo_clip_ratio": 0.01, "train/ppo_kl": 0.001,
         "eval/eval_math_pass1": 0.3}
        for n in range(1, 10)
    ]  # fmt: skip
    log = read_log(json_lines(tmp_path / "x.jsonl", rows))
    assert log.trainer.name == "openrlhf" and log.values("entropy")[0] == 0.7
    assert log.values("reward")[0] == pytest.approx(0.1) and log.values("eval_reward")[0] == 0.3


def test_what_trl_printed_is_read_between_other_lines_and_its_rows_are_counted(
    tmp_path: Path,
) -> None:
    lines = ["loading weights ...", "  3%|#   | 2/80 [00:01<00:40]\r"]
    for row in SOUND:
        printed = {n: f"{v:.4g}" for n, v in row.items() if n != "step"}
        lines += [f"{printed}", "a warning: {'x'}"]
    (tmp_path / "out.txt").write_text("\n".join(lines))
    log = read_log(tmp_path / "out.txt")
    assert (log.format, log.trainer.name, log.num_updates) == ("console", "trl", 80)
    assert len(log.values("eval_reward")) == 5 and log.uses is None and not log.every_step
    assert "they were counted" in log.notes[0]
    assert np.allclose(
        log.values("reward"), [r["reward"] for r in SOUND if "reward" in r], rtol=1e-3
    )


def test_what_verl_of_2024_printed_is_read_with_its_scaled_rate_and_its_test_score(
    tmp_path: Path,
) -> None:
    color = "\x1b[2m\x1b[36m(main_task pid=7)\x1b[0m "
    lines = [
        f"{color}step:{n} - critic/kl:0.001 - critic/lr(1e-4):0.100 - actor/entropy_loss:{0.5 - n / 100:.3f} - "
        f"actor/lr(1e-4):0.010 - {'val/test_score/of/sums:0.25 - ' if n % 5 == 4 else ''}critic/score/mean:0.{n + 1:02}"
        for n in range(20)
    ]
    (tmp_path / "verl.log").write_text("\n".join(["{'actor_rollout_ref': {'lr': 1e-06,", *lines]))
    log = read_log(tmp_path / "verl.log")
    assert (log.trainer.name, log.num_updates) == ("verl", 20)
    assert np.allclose(log.values("learning_rate"), 1e-6)
    assert log.values("eval_reward").tolist() == [0.25] * 4
    assert log.values("entropy")[-1] == pytest.approx(0.31)


def test_what_verl_printed_is_read(tmp_path: Path) -> None:
    lines = [
        f"(TaskRunner pid=7) step:{n} - actor/entropy:{1 / n:.3f} - critic/score/mean:np.float64({n / 10}) - "
        "actor/ppo_kl:-1.2e-05 - val-core/gsm8k/acc/mean@1:0.5"
        for n in range(1, 12)
    ]
    (tmp_path / "verl.log").write_text("\n".join(["starting", *lines]))
    log = read_log(tmp_path / "verl.log")
    assert (log.format, log.trainer.name, log.num_updates) == ("console", "verl", 11)
    assert log.values("reward")[-1] == 1.1 and log.values("kl_signed")[0] == -1.2e-5
    assert log.values("eval_reward").tolist() == [0.5] * 11 and log.every_step


def test_a_table_of_unknown_names_needs_a_map(tmp_path: Path) -> None:
    rows: Rows = [{"iteration": n, "H": 1.0 - n / 50, "return": float(n)} for n in range(1, 20)]
    path = csv_table(tmp_path / "log.csv", rows)
    with pytest.raises(
        LogError, match=r"no name in it is known \(H, iteration, return\).* step, reward,"
    ):
        read_log(path)
    log = read_log(path, names={"iteration": "step", "H": "entropy", "return": "reward"})
    assert log.num_updates == 19 and log.values("entropy")[0] == pytest.approx(0.98)
    with pytest.raises(ValueError, match="--map H=entrpy: there is no 'entrpy'"):
        read_log(path, names={"H": "entrpy"})
    with pytest.raises(LogError, match="--map names score, and .* there are H, iteration, return"):
        read_log(path, names={"H": "entropy", "score": "reward"})


def test_a_table_says_which_of_its_columns_were_not_read(tmp_path: Path) -> None:
    rows: Rows = [{"step": n, "clip": 0.1, "lr": 0.1, "H": 1.0} for n in range(1, 20)]
    log = read_log(csv_table(tmp_path / "log.csv", rows))
    assert log.trainer.name == "table"
    assert log.notes == ("not read, as no --map says what it is: H, lr",)
    assert read_log(tmp_path / "log.csv", names={"lr": "learning_rate", "H": "entropy"}).notes == ()


def test_every_name_of_a_trainer_is_a_known_quantity() -> None:
    for trainer in TRAINERS.values():
        for column in (*trainer.columns.values(), *trainer.patterns.values()):
            assert column.quantity in QUANTITIES, (trainer.name, column)


def test_a_line_damaged_in_the_middle_is_refused_by_its_number_and_a_cut_last_one_left_out(
    tmp_path: Path,
) -> None:
    path = json_lines(tmp_path / "log.jsonl", SOUND)
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:-1]) + lines[-1][:20])
    assert read_log(path).notes == ("the last line is cut off and was left out",)
    path.write_text("".join([*lines[:40], lines[40][:30] + "\n", *lines[41:]]))
    with pytest.raises(LogError, match="line 41 is damaged"):
        read_log(path)


def test_a_table_cut_in_its_last_number_loses_that_row_and_says_so(tmp_path: Path) -> None:
    path = csv_table(tmp_path / "log.csv", [row for row in SOUND if "reward" in row])
    path.write_bytes(path.read_bytes().rstrip()[:-2])
    log = read_log(path)
    assert log.num_updates == 79 and log.notes == ("the last line has no end and was left out",)
    path.write_text(path.read_text().replace("\n", ",7\n", 30).replace(",7\n", "\n", 29))
    with pytest.raises(LogError, match="line 30 has .* cells, expected"):
        read_log(path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        (
            "hello there",
            "expected JSON, lines of JSON, CSV, what TRL or verl printed, or a TensorBoard",
        ),
        ('{"log_history": [{"step": 1, "rew', "damaged or cut off"),
        ('{\n"rows": 3}', "holds no list of rows"),
        ("[1, 2, 3]", "holds no list of rows"),
        ("[]", "has no rows"),
        ('{"step": 1}\n[2]\n', r"line 2 holds '\[2\]', expected an object"),
    ],
)
def test_what_is_no_log_is_refused_with_a_sentence(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text(text)
    with pytest.raises(LogError, match=said):
        read_log(path)


def test_a_document_too_large_to_be_read_as_a_whole_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "LARGEST_DOCUMENT", 2**10)
    with pytest.raises(LogError, match="write its rows as lines of JSON"):
        read_log(trl_state(tmp_path, SOUND))


def test_the_newest_checkpoint_of_an_output_folder_is_taken(tmp_path: Path) -> None:
    trl_state(tmp_path / "checkpoint-9", SOUND[:9])
    trl_state(tmp_path / "checkpoint-80", SOUND)
    assert read_log(tmp_path).num_updates == 80
    with pytest.raises(LogError, match="holds no trainer_state.json"):
        read_log(
            tmp_path.parent / tmp_path.name / "checkpoint-9" / "..", None
        ) if False else files.find(_empty(tmp_path))


def _empty(folder: Path) -> Path:
    made = folder / "empty"
    made.mkdir()
    return made


def test_of_a_restart_the_later_rows_count_and_two_runs_in_one_file_are_said(
    tmp_path: Path,
) -> None:
    trained = [row for row in SOUND if "reward" in row]
    again = [row | {"reward": 9.0} for row in trained[50:]]
    log = read_log(json_lines(tmp_path / "restart.jsonl", [*trained[:60], *again]))
    assert (
        log.num_updates == 80 and log.is_one_run and "of a restart the later rows" in log.notes[0]
    )
    assert log.values("reward")[50] == 9.0 and log.values("reward")[49] != 9.0
    twice = read_log(json_lines(tmp_path / "twice.jsonl", [*trained, *trained]))
    assert not twice.is_one_run and "more than one run" in twice.notes[0]


def test_missing_cells_and_nulls_are_no_numbers(tmp_path: Path) -> None:
    rows = [row | {"entropy": None} if row["step"] % 2 else row for row in SOUND if "reward" in row]
    log = read_log(json_lines(tmp_path / "log.jsonl", rows))
    assert log.num_updates == 80 and len(log.values("entropy")) == 40
    assert math.isnan(log.columns["entropy"][0])


def test_options_are_read_as_json_and_tell_how_many_steps_a_batch_serves(tmp_path: Path) -> None:
    (tmp_path / "args.json").write_text(
        '{"num_iterations": 2, "steps_per_generation": 6, "x": {"y": 1}}'
    )
    rows = [row for row in SOUND if row["step"] % 5 == 0]
    path = json_lines(tmp_path / "log.jsonl", rows)
    assert read_log(path).uses is None
    assert read_log(path, config=tmp_path / "args.json").uses == 12
    (tmp_path / "args.json").write_text("no JSON")
    with pytest.raises(LogError, match="cannot be read"):
        read_log(path, config=tmp_path / "args.json")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["jsonl", "csv"])
def test_a_log_of_200_mb_is_read_in_less_than_300_mb_of_memory(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"log.{kind}"
    rows = [row for row in SOUND if "reward" in row]
    names = list(rows[0])
    with path.open("w") as file:
        if kind == "csv":
            file.write(",".join(names) + "\n")
        step = 0
        while file.tell() < 200 * 2**20:
            for row in rows:
                step += 1
                values = row | {"step": step}
                file.write(
                    json.dumps(values) + "\n"
                    if kind == "jsonl"
                    else ",".join(str(values.get(name, "")) for name in names) + "\n"
                )
    # Not ru_maxrss: a child has that of the process which it was forked from.
    program = (
        "import sys\nfrom pathlib import Path\nfrom algorithms.foreign import read_log, diagnose_log\n"
        "log = read_log(Path(sys.argv[1])); diagnose_log(log)\n"
        "peak = [line for line in open('/proc/self/status') if line.startswith('VmHWM')]\n"
        "print(log.num_updates, peak[0].split()[1])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True
    )
    updates, peak_kb = map(int, done.stdout.split())
    assert updates == step and peak_kb < 300 * 1024
