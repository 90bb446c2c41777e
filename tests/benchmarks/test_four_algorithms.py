"""The claims on four algorithms are judged as the comparison itself judges them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from algorithms.comparison import compare as comparing
from algorithms.comparison.compare import compare
from algorithms.comparison.plan import Plan
from algorithms.config.run import TrainConfig
from benchmarks.learning.four_algorithms import FOLDERS, command, plan
from benchmarks.records.four_algorithms import (
    CLAIMS,
    Claim,
    Judgement,
    judge,
    stands_on,
    tuning_runs,
)
from docs.pages import result
from tests.comparison.fake_grid import Curve, FakeGrid

LEVELS = ("70", "60", "50", "40", "35")


def cells(column: str, entropy: list[float], *, deepest: int = 35) -> list[dict[str, Any]]:
    """A run for each value, on seeds 1, 2, ..., with that entropy at every level down to `deepest`."""
    return [
        {
            "column": column,
            "seed": seed,
            "percent_of_start": 10 * value,
            "entropy": [3.4, value],
            "entropy_at_percent": {at: value if int(at) >= deepest else None for at in LEVELS},
        }
        for seed, value in enumerate(entropy, start=1)
    ]


def comparison(*columns: list[dict[str, Any]]) -> dict[str, Any]:
    return {"seeds": [1, 2, 3, 4], "cells": [cell for column in columns for cell in column]}


def test_a_claim_holds_is_reversed_or_cannot_be_told() -> None:
    values = comparison(cells("a", [2.0, 2.1, 2.2, 2.3]), cells("b", [1.0, 1.2, 1.1, 1.4]))
    more = Claim("a keeps more than b", "no bonus", "entropy_end", {"a": 1.0, "b": -1.0})
    found = judge(more, values)
    # Differences 1, .9, 1.1, .9: the interquartile mean is the mean of .9 and 1.
    assert found.verdict == "holds" and found.margin == pytest.approx(0.95)
    assert found.low is not None and 0 < found.low < 0.95
    less = Claim("b keeps more than a", "no bonus", "entropy_end", {"a": -1.0, "b": 1.0})
    assert judge(less, values).verdict == "reversed"
    nearly = Claim("by 0.95", "no bonus", "entropy_end", {"a": 1.0, "b": -1.0}, above=0.95)
    assert judge(nearly, values).verdict == "cannot tell"
    regret = Claim("a ends at more", "no bonus", "regret_end", {"a": 1.0, "b": -1.0})
    assert judge(regret, values).margin == pytest.approx(9.5)


def test_entropy_is_read_at_the_deepest_level_that_all_runs_reach() -> None:
    ours, theirs = [2.0, 2.1, 2.2, 2.3], [1.0, 1.2, 1.1, 1.4]
    claim = Claim("a keeps more than b", "no bonus", "entropy", {"a": 1.0, "b": -1.0})
    values = comparison(cells("a", ours, deepest=50), cells("b", theirs))
    assert judge(claim, values).level == 50
    values["cells"][2]["entropy_at_percent"]["50"] = None
    assert judge(claim, values).level == 60
    never = comparison(cells("a", ours, deepest=99), cells("b", theirs))
    assert judge(claim, never) == Judgement("cannot tell")


def test_a_claim_on_a_lead_is_not_compared_where_there_is_none() -> None:
    lead = Claim("a leads", "no bonus", "entropy_end", {"a": 1.0, "b": -1.0})
    gone = Claim("it is gone", "a bonus", "entropy_end", {"c": -1.0}, above=-9.0, presumes=lead)
    high, low, rest = [2.0, 2.1, 2.2, 2.3], [1.0, 1.2, 1.1, 1.4], cells("c", [1.0, 1.1, 1.2, 1.3])
    assert judge(gone, comparison(cells("a", high), cells("b", low), rest)).verdict == "holds"
    assert judge(gone, comparison(cells("a", low), cells("b", high), rest)) == Judgement(
        "cannot tell"
    )


def test_a_seed_that_broke_in_one_column_is_left_out_of_the_claim() -> None:
    claim = Claim("a keeps more than b", "no bonus", "entropy", {"a": 1.0, "b": -1.0})
    values = comparison(cells("a", [2.0, 2.0, 2.0, 9.0]), cells("b", [1.0, 1.0, 1.0]))
    assert judge(claim, values).margin == pytest.approx(1.0)
    assert judge(claim, comparison(cells("a", [2.0]), cells("b", [1.0]))).verdict == "cannot tell"


def test_a_claim_stands_where_it_holds() -> None:
    holds, turned, open_ = (Judgement(v) for v in ("holds", "reversed", "cannot tell"))  # type: ignore[arg-type]
    assert stands_on({"resnet": holds, "move_net": holds}) == "both"
    assert stands_on({"resnet": open_, "move_net": holds}) == "only on move_net"
    assert stands_on({"resnet": holds, "move_net": turned}) == "only on resnet"
    assert stands_on({"resnet": turned, "move_net": open_}) == "neither"


def test_a_claim_about_two_columns_has_the_margin_that_the_comparison_reports() -> None:
    recorded = result("four_algorithms")
    reported = [
        (each["ours"].split()[0], each["theirs"].split()[0], each["difference"], each["interval"])
        for family in recorded["families"].values()
        for each in family["quantities"][0]["comparisons"]
    ]
    pairs = [claim for claim in CLAIMS if claim.quantity == "entropy" and len(claim.weights) == 2]
    assert len(pairs) == len(reported) == 18
    for claim in pairs:
        found = judge(claim, recorded)
        ((difference, interval),) = [
            (claim.weights[ours] * value, ends)
            for ours, theirs, value, ends in reported
            if {ours, theirs} == set(claim.weights)
        ]
        assert found.margin == pytest.approx(difference, abs=1e-5)
        assert found.low is not None and found.high is not None
        assert found.high - found.low == pytest.approx(interval["high"] - interval["low"], abs=1e-5)


def test_the_tuning_runs_are_read_where_they_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def curve(name: str, config: TrainConfig) -> Curve:
        return [(400.0, 3.0), (100.0, 1000 * config.optimizer.learning_rate)]

    grid = FakeGrid(curve, out=tmp_path)
    grid.breaks = frozenset({"rloo+learning_rate=0.002/seed-1001"})
    monkeypatch.setattr(comparing, "run_grid", grid)
    asked = Plan(("grpo", "rloo"), treatments=("none",), num_seeds=2, tune=True)
    compare(asked, tmp_path, say=lambda line: None)
    found = tuning_runs(tmp_path / "tuning", (2e-3, 4e-3))
    assert [run["seed"] for run in found["grpo"]["0.002"]] == [1000, 1001]
    assert [run["seed"] for run in found["rloo"]["0.002"]] == [1000]
    (run, _) = found["rloo"]["0.004"]
    assert run["entropy_end"] == pytest.approx(4.0) and run["percent_of_start"] == 25.0
    # Half the regret lies at 200 cp, two thirds of the way from 3 nats to 4.
    assert run["entropy_at_percent"]["50"] == pytest.approx(3 + 2 / 3)
    assert found["ppo"] == {"0.002": [], "0.004": []}


def test_both_networks_are_compared_with_the_same_runs() -> None:
    first, second = (plan(network) for network in FOLDERS)
    assert (first.network, second.network) == ("resnet", "move_net")
    for name in ("presets", "seeds", "budget_moves", "treatments", "tune", "evaluator"):
        assert getattr(first, name) == getattr(second, name)
    assert command("move_net").endswith("--out runs/four_move_net --network move_net")
