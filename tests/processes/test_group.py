"""What processes tell each other arrives as it was, and a process that ends is noticed."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from algorithms.processes import Processes
from algorithms.processes.group import ProcessLostError
from tests.processes.together import together

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="forks on Linux alone")


def test_values_and_tensors_are_gathered_in_the_order_of_ranks() -> None:
    def work(processes: Processes) -> None:
        rank = processes.rank
        for step in range(3):
            value = {"rank": rank, "tensor": torch.full((2, rank), float(step))}
            found = processes.gather(value)
            assert [each["rank"] for each in found] == [0, 1, 2]
            assert [tuple(each["tensor"].shape) for each in found] == [(2, 0), (2, 1), (2, 2)]
            assert all((each["tensor"] == step).all() for each in found)
            turned = torch.arange(6).view(2, 3).t() + 100 * rank
            stacked = processes.gather_tensor(turned)
            assert stacked.tolist() == [(turned - 100 * rank + 100 * r).tolist() for r in range(3)]
            assert processes.gather_tensor(torch.tensor(rank)).tolist() == [0, 1, 2]
            assert processes.gather_tensor(torch.zeros(0, 4)).shape == (3, 0, 4)
            assert processes.any(rank == step) and not processes.any(False)
            stacked += 1  # memory of its own

    together(3, work)


def test_values_of_every_kind_arrive_to_the_bit_in_memory_of_their_own() -> None:
    tensors = {
        "floats": torch.randn(3, 4, 2),
        "turned": torch.randn(3, 4).t(),
        "every second": torch.arange(10)[::2],
        "bits": torch.tensor([True, False]),
        "ids": torch.arange(5, dtype=torch.int16),
        "scalar": torch.tensor(2.5, dtype=torch.float64),
        "empty": torch.zeros(0, 7),
        "half": torch.randn(3).bfloat16(),
    }
    plain = {"list": [1, "zwei ♞", None, 0.1, True], "pair": (1, 2.0), "nothing": {}}

    def work(processes: Processes) -> None:
        sent = {**tensors, **plain, "array": np.arange(3, dtype=np.uint64), 7: float("-inf")}
        for found in processes.gather(sent):
            assert found.keys() == sent.keys() and found[7] == float("-inf")
            assert {name: found[name] for name in plain} == plain
            assert (found["array"] == sent["array"]).all() and found["array"].dtype == np.uint64
            found["array"][0] = 1
            for name, value in tensors.items():
                assert torch.equal(found[name], value) and found[name].dtype == value.dtype, name
                stacked = processes.gather_tensor(value)
                assert stacked.dtype == value.dtype and all(torch.equal(s, value) for s in stacked)
            found["floats"][0] = 0.0
        assert tensors["floats"].all() and sent["array"][0] == 0

    together(2, work)


def test_a_value_that_only_pickle_could_send_is_refused() -> None:
    def work(processes: Processes) -> None:
        with pytest.raises(TypeError, match="'/path' is a PosixPath"):
            processes.gather({"path": Path("x")})

    together(2, work)


def test_a_killed_process_is_noticed_by_the_others_at_once(tmp_path: Path) -> None:
    def work(processes: Processes) -> None:
        if processes.rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        began = time.monotonic()
        with pytest.raises(ProcessLostError, match="has ended"):
            for _ in range(3):
                processes.gather_tensor(torch.zeros(1000))
        assert time.monotonic() - began < 2
        (tmp_path / str(processes.rank)).touch()

    with pytest.raises(AssertionError, match="-9"):
        together(3, work)
    assert {each.name for each in tmp_path.iterdir()} == {"0", "2"}
