"""The comparison of four algorithms runs the same on both networks, and its tuning runs are read."""

from __future__ import annotations

from pathlib import Path

import pytest

from algorithms.comparison import compare as comparing
from algorithms.comparison.compare import compare
from algorithms.comparison.plan import Plan
from algorithms.config.run import TrainConfig
from benchmarks.learning.four_algorithms import FOLDERS, command, plan, tuning_runs
from tests.comparison.fake_grid import Curve, FakeGrid


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
