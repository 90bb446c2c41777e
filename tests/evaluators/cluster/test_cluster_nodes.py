"""Nodes that would give other scores are refused by name, before anything starts."""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import chess_env
from chess_env.evaluators import EngineError, Evaluator, make_evaluator
from tests.evaluators.cluster.nodes_here import nodes_here, pids_of

pytestmark = [pytest.mark.ray, pytest.mark.stockfish, pytest.mark.slow]

NAME = "ray:stockfish:depth=4"
CLUSTER = """
import os
from tests.evaluators.cluster.nodes_here import nodes_here
with nodes_here([{"num_cpus": 1}]):
    print(os.environ["RAY_ADDRESS"], flush=True)
    os.read(0, 1)  # until the test closes it
"""
HEAD = {"num_cpus": 1, "node_name": "head"}


def ending(name: str) -> contextlib.closing[Evaluator]:
    return contextlib.closing(make_evaluator(name, 1))


def refusal(env_vars: dict[str, str]) -> str:
    """What is said of a second node whose processes have these variables; no worker may have been started."""
    with nodes_here([HEAD, {"num_cpus": 1, "node_name": "second", "env_vars": env_vars}]):
        with pytest.raises(EngineError) as error:
            make_evaluator(NAME, 1)  # it could do without the second node: that is refused too
        assert pids_of("ray::Worker") == []
    return str(error.value)


def test_another_engine_build_is_refused_with_both_ids(fake_engine: Callable[[str], Path]) -> None:
    with ending("stockfish:depth=4") as local:
        ours = local.id
    said = refusal({"STOCKFISH_PATH": str(fake_engine("good"))})
    assert "(second, id " in said and "has another engine: 'stockfish-fake-1;" in said
    assert f"(head, id {said.partition('(head, id ')[2][:8]}) has {ours!r}" in said
    assert "install the same build" in said


def test_a_node_without_an_engine_is_refused(tmp_path: Path) -> None:
    said = refusal({"STOCKFISH_PATH": str(tmp_path / "nothing")})
    assert "(second, id " in said and "cannot score: No Stockfish at STOCKFISH_PATH" in said
    assert "--num-cpus=0" in said


def test_another_version_of_the_project_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(
        Path(chess_env.__file__).parent,
        tmp_path / "chess_env",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    with (tmp_path / "chess_env" / "moves.py").open("a") as file:
        file.write("# another version\n")
    monkeypatch.chdir(tmp_path.parent)  # Ray's workers look into this folder first
    said = refusal({"PYTHONPATH": str(tmp_path)})
    assert "(second, id " in said and "another version of this project" in said


def test_a_node_without_the_project_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "chess_env").mkdir()
    (tmp_path / "chess_env" / "__init__.py").write_text("")
    monkeypatch.chdir(tmp_path.parent)
    said = refusal({"PYTHONPATH": str(tmp_path)})
    assert "(second, id " in said and "it has not this project" in said


def test_an_unreachable_cluster_is_said_within_ten_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    monkeypatch.setenv("RAY_ADDRESS", f"127.0.0.1:{port}")
    begun = time.monotonic()
    with pytest.raises(EngineError, match="No Ray cluster answers at RAY_ADDRESS"):
        make_evaluator(NAME, 2)
    assert time.monotonic() - begun < 10.0


def test_no_cluster_is_said_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    def init(address: str, **_: Any) -> None:
        assert address == "auto"
        raise ConnectionError("Could not find any running Ray instance.")  # as where none runs

    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(ray, "init", init)  # this machine may belong to one
    with pytest.raises(EngineError, match="No Ray cluster was found: .*ray start --head"):
        make_evaluator(NAME, 2)


def test_a_cluster_that_asks_for_another_token_is_said_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script = (
        "from chess_env.evaluators import make_evaluator\n"
        "try:\n    make_evaluator('ray:builtin', 1)\n"
        "except RuntimeError as error:\n    print(error)"
    )
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setenv("RAY_AUTH_TOKEN", "a" * 64)
    # Ray reads its mode once, so the cluster and the program are processes of their own.
    with subprocess.Popen(
        [sys.executable, "-c", CLUSTER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as cluster:
        assert cluster.stdin is not None and cluster.stdout is not None
        monkeypatch.setenv("RAY_ADDRESS", cluster.stdout.readline().strip())
        run = [sys.executable, "-c", script]
        assert subprocess.run(run, capture_output=True, text=True, check=True).stdout == ""
        monkeypatch.setenv("RAY_AUTH_TOKEN", "b" * 64)
        said = subprocess.run(run, capture_output=True, text=True, check=True).stdout
        cluster.stdin.close()
    assert "RAY_AUTH_MODE=token" in said and "lets no program in" in said


def test_an_engine_that_a_new_node_has_otherwise_is_not_taken_for_a_lost_one(
    fake_engine: Callable[[str], Path],
) -> None:
    other = {"num_cpus": 1, "env_vars": {"STOCKFISH_PATH": str(fake_engine("good"))}}
    with nodes_here([{**HEAD, "num_cpus": 0}, {"num_cpus": 1}]) as cluster, ending(NAME) as spread:
        (lost,) = cluster.worker_nodes
        cluster.add_node(**other)
        cluster.remove_node(lost)
        for _ in range(2):  # nor does it score when it is asked again
            with pytest.raises(EngineError, match="has another engine"):
                spread.evaluate(["8/8/4k3/8/8/3K4/4P3/8 w - - 0 1"])
