from __future__ import annotations

from pathlib import Path

from algorithms.reports.page import build_page, group_runs
from tests.reports.run_folders import run_of


def test_seeds_are_one_column_and_settings_set_columns_of_one_label_apart(tmp_path: Path) -> None:
    runs = [
        run_of(tmp_path / "a", seed=2, ent_coef=0.1, run_dir="x"),
        run_of(tmp_path / "b", seed=1, ent_coef=0.1, run_dir="y"),
        run_of(tmp_path / "c", seed=1, ent_coef=0.3),
        run_of(tmp_path / "d", preset="rloo", ent_coef=0.7),
    ]
    columns = group_runs(runs)
    assert [(c.name, c.seeds) for c in columns] == [
        ("grpo, ent_coef 0.1", "1, 2"), ("grpo, ent_coef 0.3", "1"), ("rloo", "1"),
    ]  # fmt: skip
    assert not any(column.repeated_seeds for column in columns)
    twice = group_runs([runs[0], run_of(tmp_path / "e", seed=2, ent_coef=0.1)])
    assert twice[0].repeated_seeds
    assert "two runs have the same seed (2, 2)" in build_page("x", list(twice[0].runs))
