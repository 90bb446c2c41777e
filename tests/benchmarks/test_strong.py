"""What the benchmark of strong play computes from its runs."""

from __future__ import annotations

import hashlib
from pathlib import Path

from algorithms.networks.build import ship
from benchmarks.learning import strong


def test_a_curve_keeps_the_evaluations_and_the_matches_played_at_them(tmp_path: Path) -> None:
    rows = [
        '{"step": 0, "scored_moves": 0, "eval/regret_cp": 384.0, "eval/entropy": 3.3}',
        '{"step": 1, "scored_moves": 64, "policy/entropy": 3.2}',
        '{"step": 2, "scored_moves": 128, "eval/regret_cp": 300.123469, "match/random/score": 0.5,'
        ' "match/random/conversion": null}',
    ]
    (tmp_path / "metrics.jsonl").write_text("\n".join(rows) + "\n")
    assert strong.curve_of(tmp_path) == [
        {"scored_moves": 0, "eval/regret_cp": 384.0, "eval/entropy": 3.3},
        {"scored_moves": 128, "eval/regret_cp": 300.1235, "match/random/score": 0.5},
    ]


def test_shipping_a_policy_writes_its_hash_beside_it(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    target = ship(tmp_path / "model.safetensors", "example", tmp_path / "shipped")
    assert target.read_bytes() == b"weights"
    digest = hashlib.sha256(b"weights").hexdigest()
    assert target.with_suffix(".sha256").read_text() == f"{digest}  example.safetensors\n"
