"""The names `ray:...`, and what is said where there is no Ray or no cluster."""

from __future__ import annotations

import socket
import subprocess
import sys
import textwrap

import pytest

from chess_env.evaluators import is_evaluator_name, is_foreign_evaluator, make_evaluator
from chess_env.evaluators.cluster import NodeReport, _check_answers, check_same
from chess_env.evaluators.uci import EngineError


@pytest.mark.parametrize(
    "name",
    ["ray", "ray:", "ray:auto", "ray:ray:builtin", "ray:builtin:nodes=4", "ray:stokfish:depth=4"],
)
def test_a_name_that_no_node_could_make_is_refused_before_ray_is_looked_for(name: str) -> None:
    with pytest.raises(ValueError, match="unknown"):
        make_evaluator(name)


def test_a_wrong_setting_is_refused_under_the_whole_name() -> None:
    with pytest.raises(ValueError, match="expected 0 to 3"):
        make_evaluator("ray:builtin:depth=4")
    with pytest.raises(
        ValueError, match="'ray:stockfish:depth=x': depth is 'x', expected a number"
    ):
        make_evaluator("ray:stockfish:depth=x")


def test_names_on_a_cluster_are_as_foreign_as_the_evaluator_behind_them() -> None:
    assert is_evaluator_name("ray:stockfish:depth=4") and is_evaluator_name("ray:mine:Mine")
    assert not is_evaluator_name("ray:nothing")
    assert not is_foreign_evaluator("ray:stockfish:depth=4")
    assert is_foreign_evaluator("ray:stockfish:path=/x/stockfish")
    assert is_foreign_evaluator("ray:mine:Mine")


def test_without_ray_the_error_names_the_command_and_nothing_is_started() -> None:
    script = textwrap.dedent("""
        import sys
        sys.modules["ray"] = None  # what an import finds where the package is not installed
        import subprocess
        subprocess.Popen = None  # no engine may be started
        from chess_env.evaluators import EngineError, make_evaluator
        try:
            make_evaluator("ray:stockfish:depth=4")
        except EngineError as error:
            print(error)
    """)
    said = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert 'pip install -e ".[ray]"' in said.stdout and "needs Ray" in " ".join(said.stdout.split())


@pytest.mark.parametrize("address", ["ray://10.0.0.1:10001", "10.0.0.1", "local", "host:port"])
def test_an_address_of_another_form_is_refused(address: str) -> None:
    with pytest.raises(EngineError, match=r"expected HOST:PORT of the cluster's head"):
        _check_answers(address)


def test_an_address_where_nobody_listens_is_said_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(EngineError, match=r"No Ray cluster answers at .*ray start --head"):
        _check_answers(f"127.0.0.1:{port}")


def test_another_server_at_the_address_is_told_from_a_cluster() -> None:
    script = (
        "import socket; s = socket.create_server(('127.0.0.1', 0)); print(s.getsockname()[1], flush=True); "
        "c, _ = s.accept(); c.recv(9); c.sendall(b'HTTP/1.0 400 Bad request'); c.recv(99)"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        port = int(server.stdout.readline())
        with pytest.raises(EngineError, match="is no Ray cluster"):
            _check_answers(f"127.0.0.1:{port}")
        server.kill()


GOOD = NodeReport("stockfish-15.1;v1", True, "0123456789ab")


@pytest.mark.parametrize(
    ("report", "says"),
    [
        (NodeReport("stockfish-16;v1", True, "0123456789ab"), "another engine: 'stockfish-16;v1', and A has"),
        (NodeReport("stockfish-15.1;v1", True, "ba9876543210"), "another version of this project"),
        (NodeReport("", True, "0123456789ab", "No Stockfish found."), "cannot score: No Stockfish found."),
        (NodeReport("stockfish-15.1;v1", False, "0123456789ab"), "leave pure=False out"),
    ],
)  # fmt: skip
def test_a_node_that_would_score_otherwise_is_refused(report: NodeReport, says: str) -> None:
    check_same(GOOD, GOOD, "B", "A")
    with pytest.raises(EngineError) as error:
        check_same(report, GOOD, "B", "A")
    assert says in str(error.value)
