"""What processes tell each other arrives as it was."""

from __future__ import annotations

import io
import pickle

import numpy as np
import torch

from algorithms.processes.group import _Pickler


def test_tensors_of_every_kind_arrive_as_they_were() -> None:
    sent = {
        "floats": torch.randn(3, 4, 2),
        "turned": torch.randn(3, 4).t(),
        "bits": torch.tensor([True, False]),
        "ids": torch.arange(5, dtype=torch.int16),
        "scalar": torch.tensor(2.5, dtype=torch.float64),
        "empty": torch.zeros(0, 7),
        "half": torch.randn(3).bfloat16(),
        "learned": torch.ones(2, requires_grad=True),
        "array": np.arange(3),
        "plain": [1, "two", None],
    }
    written = io.BytesIO()
    _Pickler(written, protocol=5).dump(sent)
    found = pickle.loads(written.getvalue())
    assert found.keys() == sent.keys() and found["plain"] == sent["plain"]
    assert (found["array"] == sent["array"]).all()
    for name, value in sent.items():
        if isinstance(value, torch.Tensor):
            assert torch.equal(found[name], value) and found[name].dtype == value.dtype, name
            assert found[name].requires_grad == value.requires_grad
    found["floats"][0] = 1.0  # memory of its own, that may be written to
    assert not torch.equal(found["floats"], sent["floats"])
