"""docs/metrics.md defines exactly the metrics that runs write: none missing, none invented."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest

from algorithms import PRESETS
from algorithms.config.run import (
    EnvConfig,
    MatchConfig,
    OptimizerConfig,
    RolloutConfig,
    TrainConfig,
)
from algorithms.core.algorithm import Algorithm
from algorithms.networks.settings import NetworkConfig
from algorithms.pretraining.loop import pretrain
from algorithms.regularization import RegularizerConfig
from algorithms.reports.run_files import read_metrics
from algorithms.run_folder.console import Display
from algorithms.training.trainer import train
from tests.pretraining.runs import Quiet
from tests.pretraining.runs import tiny as tiny_pretraining

PAGE = Path(__file__).parents[1] / "docs" / "metrics.md"
COLUMNS = ["name", "formula", "unit", "aggregated over"]

# Names that differ only in a part are defined once: what the page writes for that part.
FAMILIES = {
    r"^match/material/": "match/<opponent>/",
    r"^(eval)/(middlegame|endgame|decided)/": r"\1/<slice>/",
    r"^(reg/kl_old|reg/kl_ref)_(k1|k2|k3|weighted_k3)(?=$|_reward$)": r"\1_<estimator>",
    r"^(clip/up|clip/down)_p_(below_01|01_10|10_50|50_90|above_90)$": r"\1_<bin>",
    r"^(grad_share|grad_cosine|loss_share)/[a-z_]+?(?=$|_norm$)": r"\1/<term>",
}


def algorithm(preset: str) -> Algorithm:
    """A preset's algorithm with groups of two."""
    instance: Any = PRESETS[preset][0]
    if instance.needs().all_moves:
        return instance
    return dataclasses.replace(instance, group_size=max(1, min(2, instance.group_size)))


# Small runs that together write every metric there is: (preset, form, regulariser).
RUNS = {
    "positions": (
        "grpo",
        "positions",
        RegularizerConfig(ent_coef=0.1, kl_old_coef=0.1, kl_ref_coef=0.1),
    ),
    "games": ("rloo", "games", RegularizerConfig()),
    "critic, controllers": (
        "ppo",
        "positions",
        RegularizerConfig(
            ent_coef=0.1,
            ent_controller="adaptive",
            clip_controller="adapo",
            repo_r_coef=0.001,
            repo_r_controller="doubling",
        ),
    ),
    "all moves": ("exact", "positions", RegularizerConfig(kl_ref_coef=0.1)),
    "sampled estimators": (
        "delightful_pg",
        "positions",
        RegularizerConfig(
            ent_coef=0.1,
            ent_estimator="sampled",
            kl_old_coef=0.1,
            kl_old_estimator="k3",
            kl_ref_coef=0.1,
            kl_ref_estimator="weighted_k3",
        ),
    ),
    "tempered samples": ("aepo", "positions", RegularizerConfig()),
    "live groups, KL in the reward": (
        "dapo",
        "positions",
        RegularizerConfig(
            kl_old_coef=0.1,
            kl_old_estimator="k1",
            kl_old_placement="reward",
            kl_ref_coef=0.1,
            kl_ref_estimator="k2",
            kl_ref_placement="reward",
            kl_cov_coef=0.1,
        ),
    ),
}


def table_rows() -> list[list[str]]:
    """Cells of every row of the tables of definitions; a \\| inside a cell is part of it."""
    tables = re.findall(r"^\| name \|.*\n(?:\|.*\n)+", PAGE.read_text(), re.MULTILINE)
    lines = [line for table in tables for line in table.splitlines()]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def defined_names() -> list[str]:
    return [
        name for cells in table_rows() for name in re.findall(r"`([^`]+)`", cells[0])
    ]  # fmt: skip


def family(name: str) -> str:
    """The name under which the page defines a metric."""
    for pattern, definition in FAMILIES.items():
        name = re.sub(pattern, definition, name)
    return name


@pytest.fixture(scope="module")
def written_by(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """Names in the rows of each run."""
    written: dict[str, set[str]] = {}
    for title, (preset, form, regularizer) in RUNS.items():
        run_dir = tmp_path_factory.mktemp("run")
        config = TrainConfig(
            algorithm=algorithm(preset),
            regularizer=regularizer,
            policy=NetworkConfig(network="resnet", channels=8, blocks=1, head_dim=8),
            rollout=RolloutConfig(form=form, num_envs=12, num_plies=2),  # type: ignore[arg-type]
            env=EnvConfig(evaluator="builtin", start_positions="phase_mix"),
            match=MatchConfig(opponents=("material",) if title == "games" else (), games=2),
            optimizer=OptimizerConfig(sampler_correction="tis" if title == "games" else "none"),
            total_moves=1_000 if preset == "exact" else 50,
            diagnostics_interval_updates=1,
            device="cpu",
            run_dir=run_dir,
        )
        train(config, display=Display())
        rows = read_metrics(run_dir)
        written[title] = {name for row in rows for name in row}
    run_dir = tmp_path_factory.mktemp("pretraining")
    pretrain(tiny_pretraining(run_dir), display=Quiet())
    written["pretraining"] = {n for row in read_metrics(run_dir) for n in row}
    return written


@pytest.fixture(scope="module")
def written_names(written_by: dict[str, set[str]]) -> set[str]:
    return {family(name) for names in written_by.values() for name in names}


def test_the_page_defines_exactly_what_runs_write(written_names: set[str]) -> None:
    defined = set(defined_names())
    assert written_names - defined == set(), "written but not defined"
    assert defined - written_names == set(), "defined but not written"


def test_no_name_is_defined_twice() -> None:
    names = defined_names()
    assert len(names) == len(set(names))


def test_every_definition_has_all_its_columns_filled() -> None:
    for cells in table_rows():
        assert len(cells) == len(COLUMNS), cells
        assert all(cells), cells
    assert sum(cells == COLUMNS for cells in table_rows()) >= 6


def test_every_loss_term_of_the_page_is_looked_at_in_some_run(
    written_by: dict[str, set[str]],
) -> None:
    names = set[str]().union(*written_by.values())
    terms = {name.removeprefix("loss_share/") for name in names if name.startswith("loss_share/")}
    assert terms >= {"policy", "entropy", "kl_old", "kl_ref", "kl_cov", "value"}
    for term in terms:
        assert f"`{term}`" in PAGE.read_text()


def test_what_a_run_does_not_have_is_absent_from_its_rows(written_by: dict[str, set[str]]) -> None:
    assert "rollout/regret_reward" in written_by["all moves"]
    assert "rollout/regret_reward" not in written_by["positions"]
    assert "rollout/distinct_moves_mean" not in written_by["all moves"]
    assert "train/value_loss" not in written_by["positions"]
    assert "policy/kl_ref" not in written_by["games"]
    assert "policy/gate_mean" not in written_by["positions"]
