"""docs/metrics.md defines exactly the metrics that runs write: none missing, none invented."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from algorithms.grpo import GRPO
from algorithms.regularization import RegularizerConfig
from algorithms.training.config import EnvConfig, RolloutConfig, TrainConfig
from algorithms.training.policy import PolicyConfig
from algorithms.training.run_log import read_rows
from algorithms.training.trainer import train

PAGE = Path(__file__).parents[1] / "docs" / "metrics.md"
SLICES = re.compile(r"^eval/(middlegame|endgame|decided)/")
COLUMNS = ["name", "formula", "unit", "coefficient", "aggregated over"]


class Silent:
    def start(self, title: str, facts: Mapping[str, str]) -> None: ...
    def show(self, row: Mapping[str, float]) -> None: ...
    def say(self, message: str) -> None: ...
    def stop(self) -> None: ...


def table_rows() -> list[list[str]]:
    """Cells of every table row of the page; a \\| inside a cell is part of it."""
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def defined_names() -> list[str]:
    return [
        name for cells in table_rows() for name in re.findall(r"`([^`]+)`", cells[0])
    ]  # fmt: skip


@pytest.fixture(scope="module")
def written_names(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    names: set[str] = set()
    for form in ("positions", "games"):
        run_dir = tmp_path_factory.mktemp(form)
        config = TrainConfig(
            algorithm=GRPO(group_size=2),
            regularizer=RegularizerConfig(ent_coef=0.1, kl_ref_coef=0.1),
            policy=PolicyConfig(channels=8, blocks=1, head_dim=8),
            rollout=RolloutConfig(form=form, num_envs=4, num_plies=2),  # type: ignore[arg-type]
            env=EnvConfig(evaluator="builtin"),
            total_moves=16,
            device="cpu",
            run_dir=run_dir,
        )
        train(config, display=Silent())
        for row in read_rows(run_dir / "metrics.jsonl"):
            names.update(row)
    return {SLICES.sub("eval/<slice>/", name) for name in names}


def test_the_page_defines_exactly_what_runs_write(written_names: set[str]) -> None:
    defined = set(defined_names())
    assert written_names - defined == set(), "written but not defined"
    assert defined - written_names == set(), "defined but not written"


def test_no_name_is_defined_twice() -> None:
    names = defined_names()
    assert len(names) == len(set(names)) > 50


def test_every_definition_has_all_its_columns_filled() -> None:
    for cells in table_rows():
        assert len(cells) == len(COLUMNS), cells
        assert all(cells), cells
    assert sum(cells == COLUMNS for cells in table_rows()) >= 6
