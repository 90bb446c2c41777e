"""What the benchmarks of networks compute: the rule that chooses settings, and which rows are made again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.networks import by_cpu_time, tuning
from benchmarks.networks.by_cpu_time import Column
from benchmarks.networks.tuning import FIRST, LAST, RATE, best, bonuses


def tried(rate: float, regret_cp: float, entropy: float) -> tuple[dict[str, float], list[Any]]:
    rows = [{"regret_cp": regret_cp + off, "lowest_entropy": entropy + off / 100} for off in (0, 2)]
    return {RATE: rate}, rows


def test_the_lowest_regret_is_chosen_among_what_keeps_its_entropy() -> None:
    sharp, broad, slow = tried(4e-3, 50, 0.29), tried(2e-3, 60, 0.30), tried(1e-3, 70, 0.5)
    assert best([sharp, broad, slow])[RATE] == 2e-3
    assert best([sharp, tried(8e-3, 45, 0.1)])[RATE] == 4e-3  # nothing keeps it: the most


def test_a_preset_without_a_bonus_also_tries_none() -> None:
    assert bonuses("grpo") == [(0.175, 0.045), (0.35, 0.09), (0.7, 0.18)]
    assert bonuses("delightful_pg") == [(0.0, 0.0), (0.015, 0.004), (0.03, 0.008)]


def test_the_step_size_is_widened_while_the_best_is_at_an_edge(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def measured(out: Path, column: Column, minutes: float, seed: int, settings: Any) -> Any:
        # The lowest regret is at a step size of .012 and at twice the bonus.
        off = abs(settings[RATE] / 0.012 - 1) + abs(settings[FIRST] / 0.7 - 1)
        return {"regret_cp": 100 * off, "lowest_entropy": 1.0}

    monkeypatch.setattr(tuning, "measure", measured)
    search = tuning.Search(tmp_path, Column("grpo", "move_net:medium", "builtin"))
    assert search.chosen() == {RATE: 0.012, FIRST: 0.7, LAST: 0.18}
    assert [s[RATE] for s, _ in search.tried] == [0.0015, 0.003, 0.006, 0.012, 0.024, 0.012, 0.012]


def test_rows_of_an_earlier_call_are_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    chosen = [{"algorithm": "grpo", "network": "resnet", "settings": {RATE: 2e-3}}]
    (tmp_path / "tuning.json").write_text(json.dumps({"rows": [], "settings": {"chosen": chosen}}))
    asked: list[tuple[str, float, int]] = []

    def measured(out: Path, column: Column, minutes: float, seed: int, settings: Any) -> Any:
        asked.append((column.network, minutes, seed))
        key = (column.evaluator, column.algorithm, column.network, minutes, seed)
        return dict(zip(by_cpu_time.KEY, key, strict=True)) | dict(settings)

    def run(*arguments: str) -> list[dict[str, Any]]:
        target = tmp_path / "rows.json"
        files = ["--tuning", str(tmp_path / "tuning.json"), "--json", str(target)]
        own = ["x", "--out", str(tmp_path), "--algorithms", "grpo", *files, *arguments]
        monkeypatch.setattr("sys.argv", own)
        by_cpu_time.main()
        rows: list[dict[str, Any]] = json.loads(target.read_text())["rows"]
        return rows

    monkeypatch.setattr(by_cpu_time, "measure", measured)
    run("--networks", "resnet:small", "--seeds", "1", "--minutes", "0.5")
    rows = run("--networks", "resnet:small", "--seeds", "1", "2", "--minutes", "0.5")
    assert [row["seed"] for row in rows] == [1, 2]
    assert asked == [("resnet:small", 0.5, 1), ("resnet:small", 0.5, 2)]
    with pytest.raises(SystemExit, match="no settings for grpo on move_net"):
        run("--networks", "move_net:medium")
