"""What a pretraining run leaves behind is evaluated, played, reported, and trained on."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
import torch

from algorithms import cli
from algorithms.config import files as config_file
from algorithms.evaluation.load_policy import load_policy, run_temperature
from algorithms.run_folder import checkpoint
from algorithms.training.session import Session
from algorithms.training.trainer import train
from tests.commands.lab import chess_lab
from tests.pretraining.runs import SMALL
from tests.training.runs import Watcher, tiny


def test_the_policy_is_loaded_with_its_network_and_temperature(pretrained: Path) -> None:
    newest = checkpoint.load_newest(pretrained / "checkpoints").weights
    for source in (pretrained, pretrained / "checkpoints" / "best"):
        assert load_policy(str(source)).config == SMALL
        assert run_temperature(str(source)) == 1.0
    weights = load_policy(str(pretrained)).state_dict()
    assert all(torch.equal(weights[name], value) for name, value in newest.items())


@pytest.mark.slow
def test_a_run_is_evaluated_in_games_and_on_single_moves(pretrained: Path) -> None:
    code, out, _ = chess_lab("eval", pretrained, "--positions")
    assert code == 0 and "regret cp" in out
    code, out, _ = chess_lab("eval", pretrained, "--opponents", "random", "--games", "4")
    assert code == 0 and "random" in out


def test_a_run_is_reported_on_a_page(pretrained: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    assert cli.main(["report", str(pretrained), "--out", str(page)]) == 0
    assert "pretrain" in page.read_text()


def test_reinforcement_learning_starts_from_a_pretrained_policy_and_refers_to_it(
    pretrained: Path, tmp_path: Path
) -> None:
    config = tiny(tmp_path / "rl", updates=1, policy=SMALL, init_from=str(pretrained))
    weights = load_policy(str(pretrained)).state_dict()
    regularizer = type(config.regularizer)(kl_ref_coef=0.1)
    config = dataclasses.replace(config, regularizer=regularizer)
    session = Session(config)
    try:
        assert session.worker.reference is not None
        for policy in (session.policy, session.worker.reference):
            own = policy.state_dict()
            assert all(torch.equal(own[name], value) for name, value in weights.items())
    finally:
        session.close()
    assert train(config, display=Watcher()).updates == 1


def test_train_does_not_continue_a_pretraining_run_nor_the_other_way_round(
    pretrained: Path, tmp_path: Path
) -> None:
    code, _, err = chess_lab("train", "--resume", pretrained)
    assert code == 1 and "continue it with `chess-lab pretrain --resume`" in err
    config_file.save(tiny(tmp_path), tmp_path / "config.json")
    code, _, err = chess_lab("pretrain", "--resume", tmp_path)
    assert code == 1 and "`chess-lab train --resume`" in err


def test_the_command_runs_smokes_and_continues(tmp_path: Path) -> None:
    run_dir, target = tmp_path / "run", tmp_path / "result.json"
    smoke = ["pretrain", "--smoke", "--evaluator", "builtin", "--device", "cpu"]
    sizes = ["--num-positions", "256", "--shard-size", "128", "--policy.channels", "8"]
    arguments = [*smoke, *sizes, "--run-dir", str(run_dir), "--json", str(target)]
    code, out, _ = chess_lab(*arguments, "--target", "best")
    result = json.loads(target.read_text())
    assert (result["steps"], result["labelled_positions"]) == (40, 256)
    assert code == 0 and f"best checkpoint: {run_dir}/checkpoints/best" in out
    more = ["pretrain", "--resume", str(run_dir), "--total-steps", "50", "--json", str(target)]
    assert cli.main(more) == 0
    assert json.loads(target.read_text())["steps"] == 50


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--resume", "nowhere"], 1, "nowhere/config.json"),
        (["--target", "sofd"], 2, "did you mean 'soft'"),
        (["--num-positions", "0"], 2, "num_positions is 0"),
    ],
)
def test_a_mistake_is_answered_in_one_paragraph(
    arguments: list[str], code: int, message: str, tmp_path: Path
) -> None:
    folder = [] if "--resume" in arguments else ["--run-dir", str(tmp_path / "run")]
    answer = chess_lab("pretrain", "--smoke", *arguments, *folder)
    error = " ".join(answer.err.replace("│", " ").split())
    assert answer.code == code and message in error and "Traceback" not in error
