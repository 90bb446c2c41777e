"""The settings `strong`: for exact and grpo, changed by flags like any others, and kept by a continued run."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from algorithms import cli
from algorithms.config import files as config_file
from algorithms.config.names import STRONG_FOR, named_run, strong
from algorithms.networks.build import build_policy
from tests.commands.lab import chess_lab
from tests.small import CPU

LEAST = ("--smoke", "--total-moves", "256", "--rollout.num-envs", "2", "--rollout.num-plies", "1",
         "--diagnostics-interval-updates", "100", "--device", "cpu")  # fmt: skip
SMOKE = ("--preset", "strong", *LEAST)


@pytest.mark.parametrize("name", STRONG_FOR)
def test_the_command_line_runs_the_settings_with_the_changes_given(
    name: str, tmp_path: Path
) -> None:
    arguments = ["--match.opponents", "--rollout.greedy-fraction", "0.25", "--run-dir"]
    assert cli.main(["train", name, *SMOKE, *arguments, str(tmp_path / "run")]) == 0
    kept, wanted = (config_file.load(tmp_path / "run" / "config.json"), strong(named_run(name)))
    assert kept.algorithm == wanted.algorithm and kept.regularizer == wanted.regularizer
    assert kept.env == wanted.env and kept.optimizer == wanted.optimizer
    assert kept.rollout.greedy_fraction == 0.25 and kept.match.opponents == ()
    assert kept.label == name


def test_a_smoke_run_that_starts_from_weights_keeps_their_network(tmp_path: Path) -> None:
    arguments = ["--match.opponents", "--init-from", "example", "--run-dir", str(tmp_path / "run")]
    assert cli.main(["train", "exact", *SMOKE, *arguments]) == 0
    kept = config_file.load(tmp_path / "run" / "config.json")
    assert kept.policy == strong(named_run("exact")).policy
    again = ["--like", str(tmp_path / "run"), "--run-dir", str(tmp_path / "again")]
    assert cli.main(["train", "exact", *LEAST, *again]) == 0


def test_a_smoke_run_starts_from_a_smoke_run(tmp_path: Path) -> None:
    sizes = ["--policy.network", "move_net", "--num-positions", "64", "--total-steps", "2"]
    first = ["--smoke", *sizes, "--run-dir", str(tmp_path / "first")]
    assert cli.main(["pretrain", *first]) == 0
    start = ["--init-from", str(tmp_path / "first"), "--policy.facts", "--match.opponents"]
    arguments = [*start, "--run-dir", str(tmp_path / "run")]
    assert cli.main(["train", "exact", *SMOKE, *arguments]) == 0
    kept = config_file.load(tmp_path / "run" / "config.json")
    assert kept.policy.size == "tiny"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "ppo", "--preset", "strong"], "made for exact and grpo"),
        (["train", "grpo", "--preset=stronger"], "did you mean 'strong'"),
    ],
)
def test_another_algorithm_and_an_unknown_preset_are_errors(
    arguments: list[str], message: str
) -> None:
    code, _, err = chess_lab(*arguments)
    assert code == 1 and message in err


@pytest.mark.parametrize("name", STRONG_FOR)
def test_its_policy_fits_into_two_megabytes(name: str) -> None:
    policy = build_policy(strong(named_run(name)).policy, seed=0, device=CPU)
    # It is shipped in 16 bits a number; a safetensors header is some kilobytes.
    assert 2 * policy.num_parameters < 2_000_000 - 10_000


def test_it_changes_nothing_that_names_the_run() -> None:
    base = dataclasses.replace(named_run("grpo"), seed=7, run_dir=Path("runs/mine"))
    assert strong(base).seed == 7 and strong(base).run_dir == Path("runs/mine")
    assert strong(base).preset == "grpo"
