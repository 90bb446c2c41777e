from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from algorithms.comparison.analysis import MAX_COLUMNS, compare_found
from algorithms.reports.run_files import RunRecord
from tests.reports.run_folders import config, learning_rows


def run(preset: str, seed: int, end: float = 100.0, **settings: Any) -> RunRecord:
    own = config(preset, seed, **{"total_moves": 500, **settings})
    return RunRecord(Path("x"), f"{preset}-{seed}", learning_rows(end), own)


def column(preset: str, end: float, seeds: int = 8) -> list[RunRecord]:
    return [run(preset, seed, end + seed) for seed in range(seeds)]


def test_a_difference_that_all_seeds_agree_on_may_be_claimed() -> None:
    family = compare_found({"grpo": column("grpo", 200.0), "rloo": column("rloo", 100.0)})
    assert family is not None
    regret = family["quantities"][1]
    assert regret["comparisons"][0]["difference"] == pytest.approx(25.0)  # percent of the start
    assert regret["claims"][0].startswith("1 of 1 differences in final held-out regret")
    assert family["left_out"] == []
    assert family["seeds"] == list(range(8))


def changed(record: RunRecord, **values: Any) -> RunRecord:
    return dataclasses.replace(record, **values)


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (run("rloo", 1, total_moves=900), "its record ends at 500 of its 900 scored moves"),
        (changed(run("rloo", 1), config=config("rloo", 1)), "its budget is not on record"),
        (run("rloo", 1, total_moves=10**400), "its budget is not on record"),
        (changed(run("rloo", 1), config=config("rloo", 1) | {"seed": None}), "seed is not on"),
        (changed(run("rloo", 1), rows=learning_rows()[:1]), "its record ends at 0 of its 500"),
        (changed(run("rloo", 1), rows=[{"step": 0}, {"step": 1}]), "its record ends at nan"),
        (
            changed(run("rloo", 1), rows=[*learning_rows()[:5],
                                          {"step": 5, "scored_moves": 500.0}]),
            "it was not evaluated at its end",
        ),
        (
            changed(run("rloo", 1), rows=[r | {"eval/entropy": None} for r in learning_rows()]),
            "eval/entropy is not a number",
        ),
    ],
)  # fmt: skip
def test_a_run_that_cannot_be_compared_is_named_and_its_seed_left_out(
    broken: RunRecord, reason: str
) -> None:
    rloo = [run("rloo", 0), broken, run("rloo", 2)]
    family = compare_found({"grpo": column("grpo", 100.0, 3), "rloo": rloo})
    assert family is not None
    assert family["left_out"][0].startswith("rloo-1 is left out: ")
    assert reason in family["left_out"][0]
    assert family["seeds"] == [0, 2]
    assert "seeds [1] are left out of all columns" in family["left_out"][1]


def test_a_budget_counts_as_spent_where_no_further_rollout_fits() -> None:
    family = compare_found({"grpo": [run("grpo", s, total_moves=599) for s in range(2)],
                            "rloo": [run("rloo", s, total_moves=599) for s in range(2)]})  # fmt: skip
    assert family is not None and family["left_out"] == []


def test_a_seed_that_ran_twice_in_a_column_does_not_count_twice() -> None:
    twice = [run("grpo", 0), run("grpo", 0), run("grpo", 1), run("grpo", 2)]
    family = compare_found({"grpo": twice, "rloo": column("rloo", 100.0, 3)})
    assert family is not None
    assert family["left_out"][0] == "grpo-0 is left out: seed 0 ran 2 times in grpo"
    assert family["seeds"] == [1, 2]


def test_one_column_one_seed_and_too_many_columns_are_not_compared() -> None:
    assert compare_found({"grpo": column("grpo", 100.0)}) is None
    assert compare_found({name: column(name, 100.0, 1) for name in ("grpo", "rloo")}) is None
    assert compare_found({str(i): column("grpo", 100.0, 2) for i in range(MAX_COLUMNS + 1)}) is None


def test_columns_without_a_common_seed_carry_no_claim() -> None:
    family = compare_found({"grpo": [run("grpo", 0), run("grpo", 1)],
                            "rloo": [run("rloo", 2), run("rloo", 3)]})  # fmt: skip
    assert family is not None
    assert all(each["claims"][0].startswith("nothing: ") for each in family["quantities"])
