"""Faults that a real engine cannot be made to show on demand, shown by fake engines (see fake_engine.py)."""

from __future__ import annotations

import os
import signal
import time
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from chess_env.evaluators import CachedEvaluator, EngineError, StockfishEvaluator, make_evaluator
from chess_env.evaluators import pool as pool_module
from chess_env.rules import fen

FakeEngine = Callable[[str], Path]


def expected_scores(positions: np.ndarray) -> list[int]:
    return [zlib.crc32(text) % 1000 - 500 for text in fen.engine_fens(positions)]


def placement(position: np.ndarray) -> str:
    return fen.to_fen(position).split()[0]


def test_a_good_fake_engine_is_scored_right(fake_engine: FakeEngine, positions: np.ndarray) -> None:
    with StockfishEvaluator(fake_engine("good")) as evaluator:
        assert evaluator.id == "stockfish-fake-1;net=nn-0;Hash=1;Threads=1;depth=4;pure;v1"
        assert evaluator.evaluate(positions).tolist() == expected_scores(positions)
        assert evaluator.counters()["engine_restarts"] == 0


@pytest.mark.parametrize("behaviour", ["babbles_once", "floods_once", "answers_twice_once"])
def test_an_engine_that_talks_nonsense_is_replaced_and_all_it_said_is_asked_again(
    fake_engine: FakeEngine, positions: np.ndarray, behaviour: str
) -> None:
    with StockfishEvaluator(fake_engine(behaviour)) as evaluator:
        assert evaluator.evaluate(positions).tolist() == expected_scores(positions)
        assert evaluator.counters()["engine_restarts"] == 1
        assert evaluator.counters()["quarantined"] == 0


@pytest.mark.parametrize(
    "how", ["dies_on", pytest.param("hangs_on", marks=pytest.mark.slow), "drones_on", "babbles_on"]
)
def test_a_position_that_ends_engines_is_given_up_after_three_tries(
    fake_engine: FakeEngine, positions: np.ndarray, how: str
) -> None:
    path = fake_engine(f"{how} {placement(positions[17])}")
    others = np.delete(np.arange(40), 17)
    with StockfishEvaluator(path, deadline_s=0.2) as evaluator:
        with pytest.raises(EngineError, match="1 of 40 positions could not be scored") as error:
            evaluator.evaluate(positions[:40])
        assert list(error.value.failed) == [fen.engine_fens(positions[17:18])[0].decode()]
        answered = np.asarray(error.value.answered)
        assert np.flatnonzero(~answered).tolist() == [17]
        scores = np.asarray(error.value.scores)
        assert scores[answered].tolist() == expected_scores(positions[others])
        assert evaluator.counters()["engine_restarts"] == 3
        assert evaluator.counters()["quarantined"] == 1
        assert evaluator.evaluate(positions[others]).tolist() == expected_scores(positions[others])
        assert evaluator.counters()["engine_restarts"] == 3


@pytest.mark.parametrize(
    ("how", "engines", "restarts"),
    [("stopped_thrice_on", 1, 3), ("killed_thrice_on", 1, 3), ("dies_when_tried_on", 2, 1)],
)
def test_a_position_is_not_given_up_for_what_befalls_its_engines(
    fake_engine: FakeEngine, positions: np.ndarray, how: str, engines: int, restarts: int
) -> None:
    # The last one: the second engine has answered others, and has nothing else to do.
    path = fake_engine(f"{how} {placement(positions[39])}")
    with StockfishEvaluator(path, deadline_s=0.5, num_engines=engines) as evaluator:
        pool = evaluator._pool
        while len(pool._engines) < engines or not all(each.ready for each in pool._engines):
            evaluator.evaluate(positions[40:])
        assert evaluator.evaluate(positions[:40]).tolist() == expected_scores(positions[:40])
        assert evaluator.counters()["engine_restarts"] == restarts
        assert evaluator.counters()["quarantined"] == 0


@pytest.mark.parametrize("woken_first", ["engine", pytest.param("program", marks=pytest.mark.slow)])
def test_a_suspended_machine_costs_no_engine(
    fake_engine: FakeEngine, positions: np.ndarray, tmp_path: Path, woken_first: str
) -> None:
    path = fake_engine(f"works_on {placement(positions[17])}")
    reading, writing = os.pipe()
    program = os.fork()
    if program == 0:
        try:
            with StockfishEvaluator(path, deadline_s=1.0) as evaluator:
                os.write(writing, f"{evaluator.engine_pids()[0]}\n".encode())
                scores = evaluator.evaluate(positions[:40]).tolist()
                os.write(writing, repr((scores, evaluator.counters()["engine_restarts"])).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with open(reading) as said:
        everything = [int(said.readline()), program]
        while not (tmp_path / "marker").exists():  # the engine works on the position
            assert os.waitpid(program, os.WNOHANG) == (0, 0)
        time.sleep(0.05)  # the program has the answers before it, and waits for this one
        for pid in everything:
            os.kill(pid, signal.SIGSTOP)
        time.sleep(1.1)  # the deadline passes
        for pid in everything if woken_first == "engine" else reversed(everything):
            os.kill(pid, signal.SIGCONT)
            time.sleep(0.05)  # a program that judged its engine now would take it for hung
        (tmp_path / "marker_done").touch()
        assert said.read() == repr((expected_scores(positions[:40]), 0))
    os.waitpid(program, 0)


def test_a_position_that_was_given_up_is_asked_again_when_its_time_is_over(
    fake_engine: FakeEngine, positions: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = fake_engine(f"dies_once_in_a_while_on {placement(positions[3])}")
    with StockfishEvaluator(path) as evaluator:
        for _ in range(2):  # the second time it is not asked
            with pytest.raises(EngineError, match="1 of 10 positions could not be scored"):
                evaluator.evaluate(positions[:10])
            assert evaluator.counters()["engine_restarts"] == 3
        assert evaluator.counters()["quarantined"] == 1
        later = time.monotonic() + pool_module.QUARANTINE_S
        monkeypatch.setattr(time, "monotonic", lambda: later)
        assert evaluator.evaluate(positions[:10]).tolist() == expected_scores(positions[:10])
        assert evaluator.counters()["quarantined"] == 0


@pytest.mark.parametrize("command", ["uci", "setoption", "isready"])
def test_an_engine_that_is_killed_during_its_first_handshake_is_replaced(
    fake_engine: FakeEngine, positions: np.ndarray, command: str
) -> None:
    with StockfishEvaluator(fake_engine(f"killed_at_first_{command}")) as evaluator:
        assert evaluator.counters()["engine_restarts"] == 2
        assert evaluator.evaluate(positions).tolist() == expected_scores(positions)


def test_the_cache_keeps_the_answers_of_a_batch_with_a_poisoned_position(
    fake_engine: FakeEngine, positions: np.ndarray
) -> None:
    inner = StockfishEvaluator(fake_engine(f"dies_on {placement(positions[3])}"))
    with CachedEvaluator(inner) as evaluator:
        evaluator.evaluate(positions[:2])
        with pytest.raises(EngineError) as error:
            evaluator.evaluate(positions[:10])
        assert np.flatnonzero(~np.asarray(error.value.answered)).tolist() == [3]
        asked = inner.counters()["queries"]
        rest = np.delete(positions[:10], 3, axis=0)
        assert evaluator.evaluate(rest).tolist() == expected_scores(rest)
        assert inner.counters()["queries"] == asked


@pytest.mark.parametrize(
    ("behaviour", "expected"),
    [
        ("dies_at_start", "exit code 127.*cannot open libfancy.so.6"),
        ("other_engine", "calls itself 'GNU Chess 6'"),
        ("silent", "did not answer `uci` within 0.3 s"),
    ],
)
def test_a_wrong_binary_is_explained_in_one_paragraph(
    fake_engine: FakeEngine, monkeypatch: pytest.MonkeyPatch, behaviour: str, expected: str
) -> None:
    monkeypatch.setattr(pool_module, "HANDSHAKE_TIMEOUT_S", 0.3 if behaviour == "silent" else 10.0)
    path = fake_engine(behaviour)
    with pytest.raises(EngineError, match=expected) as error:
        make_evaluator(f"stockfish:path={path}")
    assert str(path) in str(error.value) and "apt-get install stockfish" in str(error.value)
    assert "\n" not in str(error.value)


def test_a_file_the_system_cannot_run_is_explained(tmp_path: Path) -> None:
    path = tmp_path / "stockfish"
    path.write_bytes(b"\x7fELF not really")
    path.chmod(0o755)
    with pytest.raises(EngineError, match=r"cannot run .*stockfish"):
        make_evaluator(f"stockfish:path={path}")


def test_engines_that_end_at_every_start_are_not_started_for_ever(
    fake_engine: FakeEngine, positions: np.ndarray
) -> None:
    with StockfishEvaluator(fake_engine("dies_at_later_starts"), num_engines=2) as evaluator:
        start = time.monotonic()
        with pytest.raises(EngineError, match="5 engines did not start"):
            while True:
                evaluator.evaluate(positions)
        assert time.monotonic() - start < 10


def test_engines_that_never_answer_anything_are_not_started_for_ever(
    fake_engine: FakeEngine, positions: np.ndarray
) -> None:
    with (
        StockfishEvaluator(fake_engine("dies_always")) as evaluator,
        pytest.raises(EngineError, match="12 engines in a row gave no answer"),
    ):
        evaluator.evaluate(positions)


def test_a_binary_that_changes_during_a_run_is_noticed(
    fake_engine: FakeEngine, positions: np.ndarray
) -> None:
    with (
        StockfishEvaluator(fake_engine("updated")) as evaluator,
        pytest.raises(EngineError, match="'Stockfish Fake 1' and is now 'Stockfish Fake 2'"),
    ):
        while True:
            evaluator.evaluate(positions)


@pytest.mark.parametrize("how", ["renamed into place", "overwritten"])
def test_a_binary_that_is_replaced_by_one_of_the_same_name_is_noticed(
    fake_engine: FakeEngine, positions: np.ndarray, how: str
) -> None:
    path = fake_engine("good")
    with StockfishEvaluator(path, num_engines=1) as evaluator:
        evaluator.evaluate(positions[:5])
        other = path.read_text().replace("% 1000 - 500", "% 1000 - 499")
        if how == "overwritten":
            path.write_text(other)
        else:
            path.with_name("new").write_text(other)
            path.with_name("new").chmod(0o755)
            path.with_name("new").replace(path)
        os.kill(evaluator.engine_pids()[0], signal.SIGKILL)
        with pytest.raises(EngineError, match=rf"{path} changed while it was in use"):
            evaluator.evaluate(positions)


def test_a_network_that_is_replaced_during_a_run_is_noticed(
    fake_engine: FakeEngine, positions: np.ndarray, tmp_path: Path
) -> None:
    net = tmp_path / "my.nnue"
    net.write_bytes(b"one")
    path = fake_engine("good")
    with StockfishEvaluator(path, num_engines=1, options={"EvalFile": str(net)}) as evaluator:
        evaluator.evaluate(positions[:5])
        net.write_bytes(b"two")
        os.kill(evaluator.engine_pids()[0], signal.SIGKILL)
        with pytest.raises(EngineError, match=rf"{net} changed while it was in use"):
            evaluator.evaluate(positions)


def test_the_same_binary_installed_again_is_the_same(
    fake_engine: FakeEngine, positions: np.ndarray
) -> None:
    path = fake_engine("good")
    with StockfishEvaluator(path, num_engines=1) as evaluator:
        expected = evaluator.evaluate(positions).tolist()
        content = path.read_text()
        path.unlink()
        path.write_text(content)
        path.chmod(0o755)
        os.kill(evaluator.engine_pids()[0], signal.SIGKILL)
        assert evaluator.evaluate(positions).tolist() == expected
