"""The table of evaluators on the environment's page is what its benchmark measures."""

from __future__ import annotations

import dataclasses
import json

import pytest

from benchmarks.obvious_moves import CASES, measured
from chess_env.positions.obvious_moves import KINDS, read_obvious
from docs.pages import ROOT
from docs.pages.measured import obvious_moves

RESULT = json.loads((ROOT / "benchmarks/results/obvious_moves.json").read_text(encoding="utf-8"))


def test_the_rows_are_those_of_the_kinds_that_are_there() -> None:
    obvious = read_obvious()
    two = dataclasses.replace(
        obvious, positions=obvious.of_kind("mate_in_1")[:2] + obvious.of_kind("queening")[:1]
    )
    rows, took = measured("builtin-v1", two)
    assert [(row["kind"], row["positions"]) for row in rows] == [
        ("mate_in_1", 2), ("queening", 1), ("all", 3),
    ]  # fmt: skip
    assert all(row["case"] == "builtin-v1" for row in rows)
    assert took["evaluator_id"] == "builtin-v1" and took["reward"] == "win_prob_delta"


def test_the_result_is_of_the_committed_set() -> None:
    obvious = read_obvious()
    of_kind = {kind: len(obvious.of_kind(kind)) for kind in KINDS}
    for case in RESULT["settings"]["cases"]:
        counts = {row["kind"]: row["positions"] for row in RESULT["rows"] if row["case"] == case}
        assert counts.pop("all") == len(obvious)
        assert counts == of_kind


def test_the_recorded_figures_of_the_built_in_evaluator_are_measured_again() -> None:
    obvious = read_obvious()
    kind = dataclasses.replace(obvious, positions=obvious.of_kind("progress_kq_k"))
    rows, _ = measured("builtin-v1", kind)
    recorded = [
        row for row in RESULT["rows"]
        if row["case"] == "builtin-v1" and row["kind"] == "progress_kq_k"
    ]  # fmt: skip
    assert [row for row in rows if row["kind"] == "progress_kq_k"] == recorded


@pytest.mark.parametrize("case", CASES)
def test_the_page_has_a_column_for_each_evaluator(case: str) -> None:
    header, *_ = obvious_moves().splitlines()
    assert f"`{case}`" in header
