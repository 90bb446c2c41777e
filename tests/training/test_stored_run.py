"""A run that was stored when the format of records was last free to change goes on, for ever."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

from algorithms.evaluation.load_policy import load_policy
from algorithms.reports.run_files import read_metrics, read_run
from algorithms.run_folder import checkpoint
from algorithms.training.trainer import train
from tests.commands.lab import chess_lab
from tests.training.runs import Watcher
from tests.training.store_run import MOVES_PER_UPDATE, STORED, UPDATES, config

pytestmark = pytest.mark.usefixtures("whole_heldout")  # the stored run was judged on it


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    """A copy of the stored run, to be continued."""
    shutil.copytree(STORED, tmp_path / "run")
    return tmp_path / "run"


def test_the_stored_run_goes_on_with_its_own_settings(stored: Path) -> None:
    before, then = read_metrics(stored), checkpoint.load_newest(stored / "checkpoints")
    total = (UPDATES + 1) * MOVES_PER_UPDATE
    answer = chess_lab("train", "--resume", stored, "--total-moves", str(total))
    assert answer.code == 0, answer.err

    rows, now = read_metrics(stored), checkpoint.load_newest(stored / "checkpoints")
    assert rows[: UPDATES + 1] == before
    last, new = before[-1], rows[-1]
    assert [row["step"] for row in rows] == [*range(UPDATES + 2)]
    assert new["scored_moves"] == total and new["plies"] == last["plies"] * 3 / 2
    assert {name.partition("/")[0] for name in last} <= {name.partition("/")[0] for name in new}
    # Another processor rounds otherwise, so what is measured is near and not the same.
    for name in (
        "policy/entropy_normalized",
        "reg/ent_coef",
        "train/learning_rate",
        "eval/regret_cp",
    ):
        assert new[name] == pytest.approx(last[name], rel=0.05), name

    progress = now.state["progress"]
    assert progress["update"] == UPDATES + 1 and len(now.state["shards"]) == 2
    assert progress["wall_s"] > then.state["progress"]["wall_s"]
    assert torch.equal(  # the reference does not move
        now.state["reference"]["action_bias"], then.state["reference"]["action_bias"]
    )
    moved = [(now.weights[name] - tensor).abs().max() for name, tensor in then.weights.items()]
    assert 0 < max(moved) < 0.01  # Adam's steps, on weights of before


def test_the_stored_run_goes_on_from_python_and_says_each_default_at_most_once(
    stored: Path,
) -> None:
    display = Watcher()
    result = train(config(stored, UPDATES + 1), resume=True, display=display)
    assert result.updates == UPDATES + 1
    assert sum("older version" in each for each in display.messages) <= 2
    assert result.evaluator == "builtin-v1", "it is rewarded as it began"


def test_the_stored_run_is_read_by_report_diagnose_and_whoever_plays_its_policy(
    stored: Path,
) -> None:
    assert read_run(stored).config["policy"]["network"] == "resnet"
    assert chess_lab("report", stored).code == 0
    assert chess_lab("diagnose", stored).out.startswith("verdict: too short")
    weights = checkpoint.load_newest(stored / "checkpoints").weights
    for name, tensor in load_policy(str(stored)).state_dict().items():
        assert torch.equal(tensor, weights[name]), name
