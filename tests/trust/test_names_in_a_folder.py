"""Nothing that a folder's config.json names is executed unless the user names it too, or says --trust."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import sys
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from algorithms import PRESETS
from algorithms.commands import uci
from algorithms.comparison.grid_runs import GridRun
from algorithms.comparison.readings import read_run
from algorithms.config import files as config_file
from algorithms.config.foreign import LEADING_OUT, NO_TRUST, ForeignName, Trust, require_trust
from algorithms.config.run import TrainConfig
from algorithms.evaluation.load_policy import load_policy
from algorithms.pretraining.config import PretrainConfig
from algorithms.run_folder.atomic_files import UntrustedError
from algorithms.training.trainer import train
from tests.commands.lab import chess_lab
from tests.run_folder.boundaries import begun, ended
from tests.trust.stranger import Stranger, follow, offered

NAMES = [
    ("algorithm.name", "MODULE:Evil"),
    ("policy.network", "MODULE:Evil"),
    ("regularizer.terms", ["MODULE:evil,coef=0.1"]),
    ("env.evaluator", "MODULE:Evil"),
    ("env.evaluator", "stockfish:depth=1,path=PROGRAM"),
    ("env.evaluator", "auto: path = PROGRAM"),
    ("env.reward", "win_prob_delta+0.5*MODULE:evil"),
    ("env.reward", {"MODULE:evil": 1.0}),
    ("env.start_positions", "MODULE:Evil@fixed=3"),
    ("env.start_positions", "0.5*initial+0.5*MODULE:Evil"),
    ("env.start_positions", "0.5*initial+0.5*0.5*MODULE:Evil"),
    ("env.opponent", "engine:nodes=1,path=PROGRAM"),
    ("env.opponent", "MODULE:Evil@random=0.5@random=0.5"),
    ("match.opponents", ["random", "stockfish:path=PROGRAM@random=0.1"]),
    ("match.opponents", ["MODULE:Evil"]),
]


@pytest.mark.parametrize("option", ["--resume", "--like"])
@pytest.mark.parametrize(("setting", "value"), NAMES)
def test_what_a_folder_names_is_refused_and_shown_with_the_command_that_allows_it(
    stranger: Stranger, setting: str, value: Any, option: str
) -> None:
    stranger.says(setting, value)
    answer = chess_lab("train", option, stranger.folder, "--total-moves", "32")
    assert answer.code == 1 and not stranger.got_in
    assert re.search(rf" {setting}\s+'", answer.err)
    assert (stranger.module in answer.err) or (str(stranger.program) in answer.err)
    assert offered(answer)[:3] == ["train", option, str(stranger.folder)]
    assert offered(answer)[-1] == "--trust"
    assert not Path("runs").exists()


@pytest.mark.parametrize("setting", ["env.evaluator", "algorithm.name"])
def test_the_command_that_a_refusal_prints_runs_it(stranger: Stranger, setting: str) -> None:
    stranger.says(setting, "MODULE:Evil")
    refused = chess_lab("train", "--resume", stranger.folder)
    assert not stranger.got_in
    follow(refused)
    assert stranger.got_in


def test_the_same_name_on_the_command_line_needs_no_trust(stranger: Stranger) -> None:
    evaluator = stranger.says("env.evaluator", "stockfish-v2:path=PROGRAM").replace("-v2", "")
    chess_lab("train", "--resume", stranger.folder, "--env.evaluator", evaluator)
    assert stranger.got_in


def test_the_algorithm_in_front_of_the_folder_needs_no_trust(stranger: Stranger) -> None:
    name = stranger.says("algorithm.name", "MODULE:Evil")
    assert "has no Evil" in chess_lab("train", name, "--resume", stranger.folder).err
    assert stranger.got_in


def test_a_setting_of_ones_own_takes_the_place_of_the_stranger_s(stranger: Stranger) -> None:
    stranger.says("match.opponents", ["MODULE:Evil"])
    answer = chess_lab("train", "--resume", stranger.folder, "--match.opponents")
    assert answer.code == 0, answer.err
    assert not stranger.got_in


def test_the_algorithm_in_front_allows_its_name_for_nothing_else(stranger: Stranger) -> None:
    name = stranger.says("algorithm.name", "MODULE:Evil")
    stranger.says("policy.network", "MODULE:Evil")
    answer = chess_lab("train", name, "--resume", stranger.folder)
    assert answer.code == 1 and "policy.network" in answer.err and not stranger.got_in


def test_no_replaced_name_is_followed(stranger: Stranger, tmp_path: Path) -> None:
    for setting, value in [*NAMES, ("env.cache", "MODULE.cache")]:
        if setting != "algorithm.name" and not isinstance(value, dict):
            stranger.says(setting, value)
    mine = {"policy.network": "move_net", "regularizer.terms": None, "env.evaluator": "builtin", "env.opponent": "None",
            "env.reward": "win_prob_delta", "env.start_positions": "initial", "match.opponents": None,
            "env.cache": "memory"}  # fmt: skip
    words = [word for name, own in mine.items() for word in (f"--{name}", own) if word]
    answer = chess_lab("train", "--like", stranger.folder, *words, "--run-dir", tmp_path / "mine")
    assert answer.code == 0, answer.err
    assert not stranger.got_in and not list(tmp_path.glob("*.cache"))


def test_another_setting_on_the_command_line_allows_nothing(stranger: Stranger) -> None:
    stranger.says("env.evaluator", "MODULE:Evil")
    stranger.says("match.opponents", ["MODULE:Evil"])
    answer = chess_lab("train", "--resume", stranger.folder, "--match.opponents", "random")
    assert answer.code == 1 and "env.evaluator" in answer.err and not stranger.got_in
    assert not re.search(r"match.opponents\s+'", answer.err)


def test_a_network_of_the_project_plays_and_is_judged_whatever_else_its_run_names(
    stranger: Stranger, tmp_path: Path
) -> None:
    for setting, value in NAMES:
        if setting != "policy.network":
            stranger.says(setting, value)
    played = chess_lab("eval", stranger.folder, "--games", 2, "--opponents",
                       f"policy:{stranger.folder}/checkpoints/best")  # fmt: skip
    assert played.code == 0, played.err
    for command in ("report", "diagnose"):
        assert "Traceback" not in chess_lab(command, stranger.folder).err
    assert (stranger.folder / "report.html").exists()
    weights = ["--init-from", stranger.folder, "--run-dir", tmp_path / "mine", "--total-moves", 16]
    mine = chess_lab("train", "grpo", "--policy.size", "tiny", "--env.evaluator", "builtin",
                     "--rollout.num-envs", 2, "--rollout.num-plies", 1, "--no-preflight", *weights)  # fmt: skip
    assert mine.code == 0, mine.err
    assert not stranger.got_in


@pytest.mark.parametrize("arguments", [("--positions",), ("--games", "2", "--opponents", "random")])
def test_a_network_that_a_folder_names_is_not_evaluated_without_trust(
    stranger: Stranger, arguments: tuple[str, ...]
) -> None:
    stranger.says("policy.network", "MODULE:Evil")
    answer = chess_lab("eval", stranger.folder, *arguments)
    assert answer.code == 1 and "policy.network" in answer.err and not stranger.got_in
    follow(answer)
    assert stranger.got_in


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="forks on Linux alone")
def test_a_network_that_a_folder_names_is_no_engine_without_trust(
    stranger: Stranger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stranger.says("policy.network", "MODULE:Evil")
    unused, log = os.pipe(), tmp_path / "log"
    with open(unused[0]) as waiting, open(unused[1], "w"):
        monkeypatch.setattr(sys, "stdin", waiting)
        # It ends by itself: there is no policy to play.
        assert ended(begun(["uci", stranger.folder], log)) == 1
    said = log.read_text()
    assert "policy.network" in said and not stranger.got_in
    assert said.splitlines()[-1].endswith(f"uci {stranger.folder} --trust")
    with pytest.raises(ValueError, match="has no Evil"):
        uci._load(str(stranger.folder), trust=True)
    assert stranger.got_in


def test_in_python_a_folder_is_not_trusted_unless_one_says_so(stranger: Stranger) -> None:
    stranger.says("policy.network", "MODULE:Evil")
    path = stranger.folder / "config.json"
    for opening in (lambda: load_policy(str(stranger.folder)), lambda: config_file.load(path)):
        with pytest.raises(UntrustedError, match=r"Trust\(everything=True\)"):
            opening()
    assert not stranger.got_in
    with pytest.raises(ValueError, match="has no Evil"):
        load_policy(str(stranger.folder), Trust(everything=True))
    assert stranger.got_in


def test_a_run_that_is_only_looked_at_or_compared_imports_nothing(stranger: Stranger) -> None:
    mine = dataclasses.replace(
        config_file.load(stranger.folder / "config.json"), run_dir=stranger.folder
    )
    stranger.says("algorithm.name", "MODULE:Evil")
    with pytest.raises(ValueError, match="is of a run of algorithm"):
        train(mine, resume=True)
    (stranger.folder / "result.json").write_text('{"stopped_by": null}')
    grid_run = GridRun("x", ("train", "grpo"), stranger.folder)
    assert read_run(grid_run, "x", 0, None).budget_moves == 16
    with pytest.raises(ValueError, match="is of a run of algorithm"):
        read_run(grid_run, "x", 0, mine)
    assert not stranger.got_in


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("labels.evaluator", "MODULE:Evil"),
        ("labels.evaluator", "stockfish:path=PROGRAM"),
        ("labels.start_positions", "MODULE:Evil"),
        ("policy.network", "MODULE:Evil"),
    ],
)
def test_a_pretraining_run_is_not_continued_with_a_stranger_s_names(
    make_stranger: Callable[[Path], Stranger], pretrained: Path, setting: str, value: Any
) -> None:
    stranger = make_stranger(pretrained)
    stranger.says(setting, value)
    answer = chess_lab("pretrain", "--resume", stranger.folder)
    assert answer.code == 1 and setting in answer.err and not stranger.got_in
    assert offered(answer) == ["pretrain", "--resume", str(stranger.folder), "--trust"]
    follow(answer)
    assert stranger.got_in


def test_old_names_of_settings_are_no_way_around(stranger: Stranger) -> None:
    path = stranger.folder / "config.json"
    values = json.loads(path.read_text())
    del values["env"]["evaluator"]
    values["env.evaluator"] = f"{stranger.module}:Evil"
    path.write_text(json.dumps(values))
    assert chess_lab("train", "--resume", stranger.folder).code == 1
    assert not stranger.got_in


def texts(config: Any, prefix: str = "") -> Iterator[str]:
    """Dotted names of the settings of a dataclass that may hold any text or path."""
    hints = typing.get_type_hints(type(config))
    for field in dataclasses.fields(config):
        value, kinds = getattr(config, field.name), [hints[field.name]]
        kinds += typing.get_args(kinds[0])
        if dataclasses.is_dataclass(value):
            yield from texts(value, f"{prefix}{field.name}.")
        elif {str, Path, tuple[str, ...]} & {kind for kind in kinds if not isinstance(kind, str)}:
            yield prefix + field.name


HARMLESS = {
    "checkpoint_keep": 'a number or "all"',
    "init_from": "weights are read from it",
    "run_dir": "the folder that was opened takes its place",
    "preset": "a label",
    "cause": "a label",
    "optimizer.frozen_layers": "names of layers",
    "policy.facts": "names of groups of facts",
    "labels.pgn": "games are read from it",
}


def test_of_every_setting_that_holds_text_it_is_known_whether_it_leads_out() -> None:
    found = {*texts(TrainConfig(*PRESETS["grpo"])), *texts(PretrainConfig())}
    assert found | {"algorithm.name"} == {*LEADING_OUT, *HARMLESS}


def test_of_many_names_from_outside_ten_are_listed() -> None:
    names = [ForeignName("match.opponents", f"module_{i}:Name", "imports") for i in range(1000)]
    with pytest.raises(UntrustedError, match="and 990 more names") as refused:
        require_trust(Path("config.json"), names, NO_TRUST)
    assert "module_9:Name" in str(refused.value) and len(str(refused.value)) < 1000
