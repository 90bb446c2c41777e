"""What ships with the package has its hash beside it."""

from __future__ import annotations

import hashlib
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from benchmarks.learning.ship import ship


def test_shipping_a_policy_writes_its_hash_beside_it(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    target = ship(tmp_path / "model.safetensors", "example", tmp_path / "shipped")
    assert target.read_bytes() == b"weights"
    digest = hashlib.sha256(b"weights").hexdigest()
    assert target.with_suffix(".sha256").read_text() == f"{digest}  example.safetensors\n"


def test_a_policy_that_is_shipped_in_half_the_size_keeps_its_numbers_to_three_digits(
    tmp_path: Path,
) -> None:
    weights = {"w": torch.linspace(-4.0, 4.0, 1001)}
    save_file(weights, tmp_path / "model.safetensors")
    found = load_file(ship(tmp_path / "model.safetensors", "example", tmp_path / "on", half=True))
    assert found["w"].dtype == torch.float16
    torch.testing.assert_close(found["w"].float(), weights["w"], rtol=5e-4, atol=1e-6)
