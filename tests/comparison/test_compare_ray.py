"""A comparison on a Ray cluster is that of one machine, also where a node is lost."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from algorithms.comparison.executors import open_executor
from algorithms.comparison.ray_executor import ClusterError
from algorithms.run_folder.atomic_files import read_json

ROOT = Path(__file__).parents[2]
ENV = {"PYTHONPATH": str(ROOT)}
SMOKE = ("--smoke", "--regularization", "none", "--budget-moves", "4096")

pytestmark = [pytest.mark.ray, pytest.mark.slow]


@pytest.fixture
def cluster() -> Iterator[Any]:
    """A node with a CPU, that of the command."""
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 1, "include_dashboard": False, "env_vars": ENV}
    nodes = Cluster(initialize_head=True, head_node_args=head)
    yield nodes
    nodes.shutdown()


def start(out: Path, *asked: str, address: str | None = None) -> subprocess.Popen[str]:
    kept = {k: v for k, v in os.environ.items() if k != "RAY_ADDRESS"}
    env = {**kept, **ENV, **({} if address is None else {"RAY_ADDRESS": address})}
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "algorithms.cli", "compare", "grpo", "rloo", *SMOKE, *asked,
         "--out", str(out)],
        cwd=out.parent, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


def cells(out: Path) -> dict[str, Any]:
    return read_json(out / "runs" / "cells.json")


def processes_of(out: Path) -> list[str]:
    """Command lines that name the folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().decode().split("\0")
        except OSError:
            continue
        if any(str(out) in word for word in words):
            found.append(" ".join(words))
    return found


def wait_until_running(process: subprocess.Popen[str], out: Path, number: int) -> None:
    deadline = time.monotonic() + 120
    while [each["state"] for each in cells(out).values()].count("running") < number:
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_lost_node_costs_its_running_cells_and_the_table_is_that_of_one_machine(
    tmp_path: Path, cluster: Any
) -> None:
    second = cluster.add_node(num_cpus=1, env_vars=ENV)
    whole, lost = tmp_path / "whole", tmp_path / "lost"
    process = start(whole, "--jobs", "2")
    assert process.wait(timeout=300) == 0

    process = start(lost, "--ray", address=cluster.address)
    wait_until_running(process, lost, 2)
    cluster.remove_node(second, allow_graceful=False)
    output, _ = process.communicate(timeout=500)
    assert process.returncode == 0, output
    assert output.count("its node was lost, it runs again") == 1, output
    assert sum(": started on " in line for line in output.splitlines()) == 5
    ours, theirs = (json.loads((out / "comparison.json").read_text()) for out in (lost, whole))
    for part in ("cells", "families", "columns", "broken", "seeds"):
        assert ours[part] == theirs[part]
    assert processes_of(lost) == []
    assert not list(lost.glob(".seen-by-all-nodes-*"))


def test_a_signal_stops_the_cells_everywhere_and_the_same_command_continues(
    tmp_path: Path, cluster: Any
) -> None:
    cluster.add_node(num_cpus=1, env_vars=ENV)
    out = tmp_path / "out"
    process = start(out, "--ray", address=cluster.address)
    wait_until_running(process, out, 2)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 130 and "the same command continues" in output, output
    assert processes_of(out) == []
    assert set(each["state"] for each in cells(out).values()) <= {"stopped", "waiting"}
    process = start(out, "--jobs", "2")
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0 and "0 finished before, 4 to run" in output, output


def test_a_node_with_other_code_is_refused_by_name_before_anything_starts(
    tmp_path: Path, cluster: Any
) -> None:
    copy, out = tmp_path / "copy", tmp_path / "out"
    for package in ("chess_env", "algorithms"):
        shutil.copytree(ROOT / package, copy / package)
    with (copy / "algorithms" / "grpo.py").open("a") as file:
        file.write("# other\n")
    cluster.add_node(num_cpus=1, env_vars={"PYTHONPATH": str(copy)})
    process = start(out, "--ray", address=cluster.address)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 1, output
    assert "has this project's code" in " ".join(output.split()) and not cells(out)


def test_without_a_cluster_the_error_names_the_commands_that_start_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ray

    def none_found(**_: Any) -> None:  # what Ray says; here another test's cluster may run
        raise ConnectionError("Could not find any running Ray instance")

    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(ray, "init", none_found)
    with (
        pytest.raises(ClusterError, match="No Ray cluster was found: .*ray start --head"),
        open_executor(tmp_path, jobs=None, ray=True, cell_cpus=None),
    ):
        pass
