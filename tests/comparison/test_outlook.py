"""What a comparison says before it runs."""

from __future__ import annotations

import dataclasses

from algorithms.comparison.outlook import outlook
from algorithms.comparison.plan import Plan

PLAN = Plan(("grpo", "rloo"), treatments=("none",), budget_moves=100_000)


def said(columns: int, **changes: object) -> str:
    plan = dataclasses.replace(PLAN, **changes)  # type: ignore[arg-type]
    return " ".join(outlook(plan, {"none": columns}, 2))


def test_what_allows_no_claim_is_said_with_the_way_out() -> None:
    assert said(1).startswith("nothing can be claimed: there is one column; name another algorithm")
    few = (
        "nothing can be claimed of 5 seeds: 2 columns make 1 pair, which takes 6 seeds (--seeds 6)"
    )
    assert said(2, num_seeds=5).startswith(few)
    assert "4 columns make 6 pairs, which takes 8 seeds" in said(4, num_seeds=7)
    assert "of 1 seed: 2 columns" in said(2, num_seeds=1)
    short = said(2, budget_moves=16_000)
    assert "--budget-moves is 16,000: with fewer than 16,384" in short
    assert "nothing can be claimed about entropy" in short


def test_a_comparison_that_can_claim_something_has_its_time_alone() -> None:
    # 16 runs x 100,000 moves / 7,000 a second / 2 at a time = 114 s
    assert outlook(PLAN, {"none": 2}, 2) == ["16 runs of 100,000 moves: about 2 min on free cores"]
    assert outlook(dataclasses.replace(PLAN, evaluator="stockfish"), {"none": 2}, 2) == []
