"""What processes tell each other arrives as it was."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from algorithms.processes.packing import bytes_of, packed, unpacked


def sent_and_received(value: Any) -> Any:
    return unpacked(memoryview(b"".join(packed(value))).toreadonly())


def test_tensors_of_every_kind_arrive_as_they_were() -> None:
    sent = {
        "floats": torch.randn(3, 4, 2),
        "turned": torch.randn(3, 4).t(),
        "every second": torch.arange(10)[::2],
        "bits": torch.tensor([True, False]),
        "ids": torch.arange(5, dtype=torch.int16),
        "scalar": torch.tensor(2.5, dtype=torch.float64),
        "empty": torch.zeros(0, 7),
        "half": torch.randn(3).bfloat16(),
        "learned": torch.ones(2, requires_grad=True),
        "array": np.arange(3),
        "plain": [1, "two", None],
    }
    found = sent_and_received(sent)
    assert found.keys() == sent.keys() and found["plain"] == sent["plain"]
    assert (found["array"] == sent["array"]).all()
    for name, value in sent.items():
        if isinstance(value, torch.Tensor):
            assert torch.equal(found[name], value) and found[name].dtype == value.dtype, name
            assert found[name].requires_grad == value.requires_grad


def test_what_arrives_has_memory_of_its_own_that_may_be_written_to() -> None:
    sent = {"tensor": torch.zeros(3), "array": np.zeros(3)}
    found = sent_and_received(sent)
    found["tensor"][0], found["array"][0] = 1.0, 1.0
    assert not sent["tensor"].any() and not sent["array"].any()


def test_the_bytes_of_a_tensor_are_its_own_memory_and_in_the_order_of_its_entries() -> None:
    numbers = torch.arange(6, dtype=torch.int16).view(2, 3)
    bytes_of(numbers)[:2] = b"\x07\x00"
    assert numbers[0, 0] == 7
    turned = np.frombuffer(bytes_of(numbers.t()), np.int16)
    assert turned.tolist() == [7, 3, 1, 4, 2, 5]
    assert bytes(bytes_of(torch.tensor(True))) == b"\x01"
    assert len(bytes_of(torch.zeros(0, 5))) == 0
