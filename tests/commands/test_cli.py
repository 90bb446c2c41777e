"""The command line is quick to help, clear in error, and honest in its exit codes."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import pytest

from algorithms import PRESETS, cli
from algorithms.commands.parser import flags_ending_in
from algorithms.commands.run_options import options_of
from algorithms.comparison.variants import values_of
from algorithms.config import files as config_file
from algorithms.config.names import NAMES, named_run
from algorithms.config.run import TrainConfig
from tests.commands.lab import ENV, chess_lab

SMOKE = ["train", "grpo", "--smoke", "--env.evaluator", "builtin", "--device", "cpu"]


def test_a_smoke_run_writes_its_result_and_the_plain_log_is_plain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", ENV["PATH"])
    target, run_dir = tmp_path / "out" / "result.json", tmp_path / "run"
    done = chess_lab(*SMOKE, "--run-dir", run_dir, "--json", target)
    assert done.code == 0, done.err
    result = json.loads(target.read_text())
    assert result["evaluator"].startswith("builtin") and result["engine_queries"] > 0
    assert result["evaluator"] not in done.out and "the built-in evaluator" in done.out
    assert result["run_dir"] == str(run_dir) and result["scored_moves"] == 2048
    assert "\x1b" not in done.out
    assert "eval/regret_cp on random_2_40" in done.out
    assert f"next:\n  chess-lab train grpo\n  chess-lab report {run_dir}\n" in done.out
    beside = [line for line in done.out.splitlines() if str(run_dir) not in line]
    assert max(map(len, beside)) <= 80
    assert str(run_dir) in done.out
    assert (
        json.loads((run_dir / "environment.json").read_text())["evaluator"] == result["evaluator"]
    )


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["trian"], 2, "unknown command 'trian': did you mean 'train'?"),
        (["train", "grpo", "--resume", "x", "--like", "y"], 1, "leave one of them out"),
        (["train", "grpo", "--trust"], 1, "needs --resume or --like"),
        (["train", "grpo", "--match.games", "4"], 1, "give --match.opponents"),
        (["train", "grpo", "--num-processes", "0"], 1, "--num-processes is 0"),
        (["pretrain", "--min-rating", "1800"], 1, "--min-rating is of games: it needs --pgn"),
        (["pretrain", "--pgn", "x.pgn", "--walk-plies", "3"], 1, "--walk-plies labels positions"),
        (["pretrain", "--target", "best", "--target-clip-cp", "9"], 1, "the target is best"),
        (["diagnose", "x", "--json", "--ruled-out"], 2, "leave --ruled-out out"),
        (["train", "--resume", "nowhere"], 1, "nowhere/config.json"),
        (["train", "grpo", "--resume", "nowhere", "--smoke"], 1, "nowhere/config.json"),
        (["train", "grpo", "--env.evaluator", "none"], 2, "training needs scores"),
        (["train", "grpo", "--algorithm.group-size", "1"], 2, "group_size is 1"),
        (["train", "grpo", "--total-mvoes", "1"], 2, "--total-moves"),
        (["train", "grpo", "--wandb"], 2, "did you mean --track wandb?"),
        (["train", "grpo", "--gpu"], 2, "did you mean --device cuda?"),
        (["train", "grpo", "--batch-size", "8"], 2, "did you mean --optimizer.minibatch-size?"),
        (["train", "grpo", "--kl-coef", "1"], 2, "--regularizer.kl-old-coef or"),
        (["train", "grpo", "--n-steps", "8"], 2, "--rollout.num-plies or --total-moves?"),
        (["train", "grpo", "--name", "x"], 2, "did you mean --run-dir?"),
        (["train", "grpo", "--no-cuda"], 2, "did you mean --device cpu?"),
        (["train", "grpo", "--no-wandb"], 2, "off unless it is asked for, as in --track wandb"),
        (["train", "grpo", "-lr", "1e-3"], 2, "did you mean --optimizer.learning-rate?"),
        (["train", "grpo", "--compile=true"], 2, "--compile is a switch and takes no value"),
        (["train", "grpo", "--smoke", "true"], 2, "takes no value: leave 'true' out"),
        (["train", "grpo", "--ent-coef", "-1e-3"], 2, "ent_coef is -0.001"),
        (["train", "grpo", "ppo"], 1, "a run has one NAME: `chess-lab compare grpo ppo"),
        (
            ["train", "--algo", "GRPO"],
            2,
            "the NAME comes first, before any option: `chess-lab train grpo`",
        ),
        (["train", "exact", "--strong"], 2, "did you mean --preset strong?"),
        (["compare", "grpo", "--lr", "1e-3", "--out", "/no/x"], 2, "did you mean --grid?"),
        (["compare", "grpo", "--steps", "9", "--out", "/no/x"], 2, "did you mean --budget-moves?"),
        (["play"], 2, "did you mean 'board'?"),
        (
            ["train", "grpo", "--preflight"],
            2,
            "is on without a flag, and --no-preflight turns it off",
        ),
        (["train", "grpo", "--no-smoke"], 2, "leave --smoke out"),
        (["train", "grpo", "--size", "tiny"], 2, "--algorithm.group-size or --policy.size or"),
        (["train", "grpo", "--total-moves", "1.5"], 2, "'1.5' is no whole number"),
        (["train", "grpo", "--total-moves", "1e400"], 2, "'1e400' is no whole number"),
        (["train", "grpo", "--lr", "fast"], 2, "'fast' is no number"),
        (["train", "grpo", "--seed"], 2, "expected one argument"),
        (["train", "dr_grop"], 2, "did you mean 'dr_grpo'?"),
        (["train", "zzzz"], 2, "'flowrl', 'exact'"),
        (["eval", "exmaple", "--positions"], 1, "did you mean 'example'?"),
        (["causes", "show", "temprature_mismatch"], 2, "did you mean 'temperature_mismatch'?"),
        (["causes", "run", "kl_trap", "--curd"], 2, "did you mean --cured?"),
        (
            ["compare", "--causes", "kl_trap", "--form", "games", "--out", "/no/x"],
            1,
            "--form is of",
        ),
        (
            ["compare", "grpo", "--grad-share", ".1", "--regularization", "none", "--out", "/no/x"],
            1,
            "--grad-share is of share",
        ),
        (["train", "grpo", "--rollout.num_evns", "4"], 2, "--rollout.num-envs"),
        (["train", "grpo", "--total_moves", "10"], 1, "total_moves is 10"),
        (["eval", "warm", "--num_threads=x"], 2, "argument --num-threads: 'x' is no whole number"),
        (["train", "exact", "--rollout.form", "games"], 1, "set rollout.form to positions"),
        (["train", "grpo", "--rollout.teacher-fraction", "0.5"], 2, "set rollout.form to games"),
        (["train", "grpo", "--optimizer.frozen-layers", "hedd"], 1, "did you mean 'head'?"),
        (["train", "grpo", "--policy.head-dtype", "x"], 2, "did you mean --precision.head-dtype?"),
        (["train", "grpo", "--algorithm.advantage-scale", "grup"], 2, "did you mean 'group'"),
        (["train", "grpo", "--regularizer.ent-estimator=sampld"], 2, "did you mean 'sampled'"),
        ([*SMOKE[:3], "--env.evaluator", "stockfish:depth=4,path=/no-engine"], 1, "no-engine"),
    ],
)
def test_a_mistake_is_answered_in_one_paragraph(
    arguments: list[str], code: int, message: str
) -> None:
    answer = chess_lab(*arguments)
    error = " ".join(answer.err.replace("│", " ").split())
    assert answer.code == code and message in error and "Traceback" not in error


def test_the_value_of_a_flag_keeps_its_underscores(
    tmp_path: Path, asked: list[TrainConfig]
) -> None:
    named = ["--env.start_positions=random_plies:2-9", "--run_dir", str(tmp_path / "a_run")]
    assert cli.main(["train", "grpo", *named]) == 1
    (config,) = asked
    assert config.env.start_positions == "random_plies:2-9"
    assert config.run_dir == tmp_path / "a_run"


@pytest.mark.parametrize(
    ("words", "setting", "value"),
    [
        ("GRPO --lr 1e-3", "optimizer.learning_rate", 1e-3),
        ("grpo --learning_rate=0.1", "optimizer.learning_rate", 0.1),
        ("grpo --optimizer.learning-rate None", "optimizer.learning_rate", None),
        ("grpo --ent-coef 0.1", "regularizer.ent_coef", 0.1),
        ("grpo --Regularizer.Ent_Coef 0.1", "regularizer.ent_coef", 0.1),
        ("Dr-GRPO --group-size 4", "algorithm.group_size", 4),
        ("grpo --total-moves 1e5", "total_moves", 100_000),
        ("grpo --total-moves 100_000", "total_moves", 100_000),
        ("grpo --form GAMES", "rollout.form", "games"),
        ("grpo --device CPU", "device", "cpu"),
        ("grpo --device gpu", "device", "cuda"),
        ("grpo --track TB", "track", "tensorboard"),
        ("grpo --track w&b", "track", "wandb"),
        ("grpo --track tensor-board", "track", "tensorboard"),
        ("DrGRPO --num_envs=1e1", "rollout.num_envs", 10),
        ("Dr.GRPO --head-dtype fp16", "precision.head_dtype", "float16"),
        ("grpo --evaluator builtin", "env.evaluator", "builtin-v2"),
        ("grpo --reward None", "env.reward", "win_prob_delta+mate_delta"),
        ("grpo --opponents random material", "match.opponents", ("random", "material")),
        ("grpo --checkpoint-keep 4", "checkpoint_keep", 4),
        ("grpo --checkpoint-keep all", "checkpoint_keep", "all"),
        ("grpo --no-preflight", "preflight", False),
        ("dapo --no-live-groups", "algorithm.live_groups", False),
    ],
)  # fmt: skip
def test_a_setting_is_understood(
    words: str, setting: str, value: Any, asked: list[TrainConfig]
) -> None:
    answer = chess_lab("train", *words.split())
    assert "chess-lab train: nothing is trained here" in answer.err
    (config,) = asked
    assert values_of(config)[setting] == value


def test_the_end_of_every_setting_is_understood_where_it_is_of_one_alone() -> None:
    flags = [each.flag for each in options_of(named_run("grpo"))]
    understood = 0
    for flag in flags:
        last = "--" + flag.removeprefix("--").rpartition(".")[2].replace("-", "_")
        found = flags_ending_in(last, flags)
        # A whole flag, such as --num-threads, stands for itself.
        assert flag in found or found == [last.replace("_", "-")]
        understood += found == [flag]
    assert understood > len(flags) - 8


def test_what_an_end_would_turn_round_is_not_understood() -> None:
    assert flags_ending_in("--preflight", ["--no-preflight"]) == []
    assert flags_ending_in("--groups", ["--algorithm.no-live-groups"]) == []
    assert flags_ending_in("--no-live-groups", ["--algorithm.no-live-groups"]) != []


def test_a_run_that_keeps_policies_is_continued_without_a_warning(
    tmp_path: Path, asked: list[TrainConfig]
) -> None:
    old = _saved(tmp_path / "old", checkpoint_keep=4)
    for which in ("--like", "--resume"):
        (old / "metrics.jsonl").touch()
        error = chess_lab("train", which, old).err
        assert (
            error.startswith("chess-lab train: nothing is trained here") and error.count("\n") == 1
        )
    assert [config.checkpoint_keep for config in asked] == [4, 4]


def test_the_help_shows_what_people_change_and_all_on_request() -> None:
    few, every = (chess_lab("train", "grpo", flag).out for flag in ("--help", "--help-all"))
    settings = re.findall(r"^  (--[a-z.-]+)", few.partition("\nsettings:\n")[2], re.MULTILINE)
    assert len(settings) == 12 and "--optimizer.learning-rate" in settings
    assert all(each.flag in every for each in options_of(named_run("grpo")))


def test_train_without_a_name_lists_the_names() -> None:
    code, out, _ = chess_lab("train")
    listed = out.split("NAME: ")[1].split("`")[0]
    assert code == 2 and listed.split() == list(NAMES)
    assert cli.main(["train", "--help"]) == 0


@pytest.mark.parametrize("command", [["check"], ["train", "grpo", "--smoke"]])
def test_a_json_path_that_cannot_be_written_is_named_before_anything_runs(
    command: list[str], tmp_path: Path
) -> None:
    run_dir = ["--run-dir", str(tmp_path / "run")] if "train" in command else []
    code, out, err = chess_lab(*command, *run_dir, "--json", tmp_path)
    assert code == 1 and not out
    assert str(tmp_path) in err
    assert "path of a file" in err
    assert not (tmp_path / "run").exists()


def test_a_run_that_is_refused_leaves_the_result_of_another_where_json_says(tmp_path: Path) -> None:
    result = tmp_path / "result.json"
    result.write_text("1", encoding="utf-8")
    run = ["--run-dir", tmp_path / "run", "--compile"]  # that needs a GPU
    code, _, _ = chess_lab("train", "grpo", "--smoke", *run, "--device", "cpu", "--json", result)
    assert code == 1 and result.read_text(encoding="utf-8") == "1"


def _saved(folder: Path, **changes: Any) -> Path:
    """A run folder with nothing but its settings, of a cause and with a fault that is in no setting."""
    settings: dict[str, Any] = {"total_moves": 4_096, "seed": 7, "cause": "temperature_mismatch",
                                "preflight": False, "run_dir": folder}  # fmt: skip
    folder.mkdir()
    algorithm, regularizer = PRESETS["dr_grpo"]
    config = TrainConfig(algorithm, regularizer, preset="dr_grpo", **{**settings, **changes})
    config_file.save(config, folder / "config.json")
    return folder


def test_a_run_like_another_has_its_settings_but_not_its_folder_its_label_and_its_fault(
    tmp_path: Path, asked: list[TrainConfig]
) -> None:
    old = _saved(tmp_path / "old")
    assert cli.main(["train", "--like", str(old)]) == 1
    (config,) = asked
    changed = config_file.differences(config_file.load(old / "config.json"), config)
    assert changed == {
        "cause": ("temperature_mismatch", None),
        "preflight": (False, True),
        "run_dir": (str(old), None),
    }
    assert config.label == "dr_grpo"


def test_a_run_like_another_takes_the_changes_given(
    tmp_path: Path, asked: list[TrainConfig]
) -> None:
    old, new = _saved(tmp_path / "old"), tmp_path / "new"
    changes = ["--regularizer.ent-coef", "0.25", "--algorithm.update-epochs", "3"]
    arguments = ["train", f"--like={old}", *changes, "--seed", "8", "--run-dir", str(new)]
    assert cli.main([*arguments, "--no-preflight"]) == 1
    (config,) = asked
    changed = config_file.differences(config_file.load(old / "config.json"), config)
    assert changed == {
        "cause": ("temperature_mismatch", None),
        "regularizer.ent_coef": (0.03, 0.25),
        "algorithm.update_epochs": (1, 3),
        "seed": (7, 8),
        "run_dir": (str(old), str(new)),
    }


def test_a_run_like_one_that_is_not_there_or_damaged_is_named(
    tmp_path: Path, asked: list[TrainConfig]
) -> None:
    damaged = _saved(tmp_path / "damaged")
    (damaged / "config.json").write_text("{")
    for folder in (tmp_path / "nowhere", damaged):
        code, _, error = chess_lab("train", "--like", folder)
        assert (
            code == 1 and f"{folder / 'config.json'} is not a readable run configuration" in error
        )
        assert ("no run has begun there" in " ".join(error.split())) == (folder != damaged)
    old = _saved(tmp_path / "old")
    code, _, error = chess_lab("train", "--like", old, "--regularizer.ent-estimator", "sampld")
    assert code == 2 and "did you mean 'sampled'" in error
    assert asked == []


def test_a_run_like_another_with_another_algorithm_keeps_all_else(
    tmp_path: Path, asked: list[TrainConfig]
) -> None:
    old = _saved(tmp_path / "old", total_moves=12_345, seed=7)
    for name in ("ppo", "kl-cov", "rloo", "exact"):
        chess_lab("train", name, "--like", old, "--ent-coef", "0.5", "--init-from", "warm")
    for config, name in zip(asked, ("ppo", "kl_cov", "rloo", "exact"), strict=True):
        own = named_run(name)
        assert config.preset == name and config.algorithm == own.algorithm
        assert (config.total_moves, config.seed, config.init_from) == (12_345, 7, "warm")
        assert config.regularizer == dataclasses.replace(own.regularizer, ent_coef=0.5)


def test_another_algorithm_cannot_continue_a_run_but_begin_one_from_its_weights(
    tmp_path: Path,
) -> None:
    old = _saved(tmp_path / "old")
    answer = chess_lab("train", "ppo", "--resume", old)
    assert f"`chess-lab train ppo --like {old} --init-from {old}`" in answer.err


@pytest.mark.parametrize(
    ("words", "near"),
    [
        ("causes rnu", "run"),
        ("causes shwo loss_budget", "show"),
        ("completion bsh", "bash"),
        ("board exmaple --no-browser --port 0", "example"),
        ("train grpo --evaluator builtin --env.start-positions phase_mx", "phase_mix"),
        ("train grpo --evaluator builtin --env.start-positions 0.5*decidd+0.5*initial", "decided"),
        ("train grpo --smoke --env.evaluator stokfish:nodes=5", "stockfish"),
        ("train grpo --smoke --env.evaluator ray:bultin", "builtin"),
        ("train grpo --smoke --env.reward win_prob_dleta", "win_prob_delta"),
    ],
)
def test_a_slip_is_answered_with_the_nearest_name(words: str, near: str) -> None:
    answer = chess_lab(*words.split())
    assert answer.code in (1, 2)
    assert f"did you mean {near!r}?" in answer.err
