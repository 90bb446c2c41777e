"""What ships with the package has its hash beside it."""

from __future__ import annotations

import hashlib
from pathlib import Path

from benchmarks.learning.ship import ship


def test_shipping_a_policy_writes_its_hash_beside_it(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    target = ship(tmp_path / "model.safetensors", "example", tmp_path / "shipped")
    assert target.read_bytes() == b"weights"
    digest = hashlib.sha256(b"weights").hexdigest()
    assert target.with_suffix(".sha256").read_text() == f"{digest}  example.safetensors\n"
