from __future__ import annotations

from pathlib import Path

import pytest

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


@pytest.mark.parametrize(
    ("coefficients", "shown"),
    [
        ((0.5402657583388303, 0.03), ["0.5403", "0.03"]),
        ((0.5402657583388303, 0.5402657583388304), ["0.5402657583388303", "0.5402657583388304"]),
    ],
)
def test_a_name_shows_four_digits_of_a_number_where_they_tell_columns_apart(
    tmp_path: Path, coefficients: tuple[float, float], shown: list[str]
) -> None:
    runs = [run_of(tmp_path / f"{at}", ent_coef=value) for at, value in enumerate(coefficients)]
    names = [column.name for column in group_runs(runs)]
    assert names == [f"grpo, ent_coef {text}" for text in shown]


def test_a_name_has_as_few_settings_as_tell_columns_apart_and_counts_the_others(
    tmp_path: Path,
) -> None:
    settings = [
        {"device": "cpu", "ent_coef": 0.1, "a": {"x": 1}, "b": {"x": None}, "long": "p" * 60},
        {"device": "cuda", "ent_coef": 0.2, "a": {"x": 2}, "b": {"x": True}, "long": "q" * 60},
        {"device": "cuda", "ent_coef": 0.3, "a": {"x": 2}, "b": {"x": True}, "long": "q" * 60},
    ]
    runs = [run_of(tmp_path / f"{at}", **values) for at, values in enumerate(settings)]
    names = [column.name for column in group_runs(runs)]
    assert names == [f"grpo, ent_coef {text}, +4 more" for text in ("0.1", "0.2", "0.3")]
    pair = [{"a": {"x": 1}, "b": {"x": None}}, {"a": {"x": 2}, "b": {"x": True}}]
    runs = [run_of(tmp_path / f"pair{at}", **values) for at, values in enumerate(pair)]
    assert [c.name for c in group_runs(runs)] == ["grpo, a.x 1, b.x none", "grpo, a.x 2, b.x on"]
    runs = [run_of(tmp_path / f"long{at}", long=letter * 60) for at, letter in enumerate("pq")]
    assert [c.name for c in group_runs(runs)] == [
        f"grpo, long {letter * 27}…" for letter in "pq"
    ]  # fmt: skip
