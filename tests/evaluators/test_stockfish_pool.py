"""The pool on real Stockfish processes: faults made by signals, and nothing left behind."""

from __future__ import annotations

import functools
import gc
import os
import signal
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from chess_env.evaluators import EngineError, StockfishEvaluator
from chess_env.rules import fen
from tests.evaluators.processes import children
from tests.forks import fork, kill

pytestmark = pytest.mark.stockfish


def status(pid: int) -> str:
    """The state letter of a process, or "" when it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return ""


def wait_until_gone(pids: list[int], timeout_s: float = 5.0) -> bool:
    end = time.monotonic() + timeout_s
    while any(status(pid) not in ("", "Z", "X") for pid in pids):
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def test_engines_killed_while_they_search_change_no_score_and_leave_nothing(
    stockfish: StockfishEvaluator, positions: np.ndarray
) -> None:
    expected = stockfish.evaluate(positions)
    files = len(os.listdir("/proc/self/fd"))
    processes = set(children())
    with StockfishEvaluator(num_engines=2) as evaluator:
        evaluator.evaluate(positions[:2])
        done = threading.Event()

        def kill_one_engine_after_the_other() -> None:
            for _ in range(2):
                time.sleep(0.03)
                if not done.is_set():
                    os.kill(evaluator.engine_pids()[0], signal.SIGKILL)

        killer = threading.Thread(target=kill_one_engine_after_the_other)
        killer.start()
        while killer.is_alive():
            assert evaluator.evaluate(positions).tolist() == expected.tolist()
        done.set()
        killer.join()
        assert evaluator.evaluate(positions).tolist() == expected.tolist()
        assert 1 <= evaluator.counters()["engine_restarts"] <= 2
        assert evaluator.counters()["quarantined"] == 0
    assert set(children()) == processes
    assert len(os.listdir("/proc/self/fd")) == files


def test_a_stopped_engine_is_replaced_at_the_deadline(
    stockfish: StockfishEvaluator, positions: np.ndarray
) -> None:
    expected = stockfish.evaluate(positions).tolist()
    with StockfishEvaluator(num_engines=2, deadline_s=0.5) as evaluator:
        while len(evaluator.engine_pids()) < 2 or not all(
            e.ready for e in evaluator._pool._engines
        ):
            evaluator.evaluate(positions)
        stopped = evaluator.engine_pids()[1]
        timer = threading.Timer(0.01, os.kill, (stopped, signal.SIGSTOP))
        timer.start()
        start = time.monotonic()
        while stopped in evaluator.engine_pids():
            assert evaluator.evaluate(positions).tolist() == expected
            assert time.monotonic() - start < 10.0
        timer.join()
        assert wait_until_gone([stopped])
        assert evaluator.counters()["engine_restarts"] == 1


def test_engines_that_ended_between_two_batches_are_replaced(
    stockfish: StockfishEvaluator, positions: np.ndarray
) -> None:
    with StockfishEvaluator(num_engines=2) as evaluator:
        expected = evaluator.evaluate(positions[:10]).tolist()
        for pid in evaluator.engine_pids():
            os.kill(pid, signal.SIGKILL)
        assert wait_until_gone(evaluator.engine_pids())
        assert evaluator.evaluate(positions[:10]).tolist() == expected
        assert evaluator.counters()["engine_restarts"] == 2


def test_a_position_that_crashes_the_engine_is_quarantined_and_the_rest_is_kept(
    stockfish: StockfishEvaluator, positions: np.ndarray
) -> None:
    poison = fen.parse_fen("4k3/8/8/8/8/8/PPPPPPPP/4K3 w - - 0 1")
    poison[7] |= np.uint64(
        1
    )  # the right to castle with a rook that is not there: Stockfish dies of it
    expected = stockfish.evaluate(positions[1:30]).tolist()
    batch = np.concatenate([positions[1:20], poison[None], positions[20:30]])
    with StockfishEvaluator(num_engines=2) as evaluator:
        with pytest.raises(EngineError, match=r"1 of 30 positions.*quarantined.*SIGSEGV") as error:
            evaluator.evaluate(batch)
        (failed,) = error.value.failed
        assert failed == fen.engine_fens(poison[None])[0].decode()
        answered = np.asarray(error.value.answered)
        assert answered.sum() == 29 and not answered[19]
        assert np.asarray(error.value.scores)[answered].tolist() == expected
        assert evaluator.counters()["engine_restarts"] == 3
        cpu_s = evaluator.counters()["engine_cpu_s"]
        with pytest.raises(EngineError, match="quarantined"):
            evaluator.evaluate(batch)
        assert evaluator.counters()["engine_restarts"] == 3, "not asked again"
        assert evaluator.evaluate(positions[1:30]).tolist() == expected
        assert evaluator.counters()["engine_cpu_s"] - cpu_s < 0.05, (
            "kept answers are not asked again"
        )


def test_ctrl_c_in_a_batch_leaves_a_usable_evaluator(positions: np.ndarray) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with StockfishEvaluator(num_engines=2) as evaluator:
        expected = evaluator.evaluate(positions).tolist()
        old = signal.signal(signal.SIGALRM, interrupt)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.01)
            with pytest.raises(KeyboardInterrupt):
                while True:
                    evaluator.evaluate(positions)
        finally:
            signal.signal(signal.SIGALRM, old)
        assert evaluator.evaluate(positions).tolist() == expected


def restarts_of_a_second(told: int) -> None:
    """Says when it begins to ask one engine for scores, and at the end how often that was started anew."""
    with StockfishEvaluator(num_engines=1, deadline_s=0.8) as evaluator:
        fens = [
            f"4k3/8/{i}R{7 - i}/8/8/{j}P{7 - j}/8/4K3 w - - 0 1"
            for i in (1, 2, 3, 5, 6)
            for j in range(1, 7)
        ]
        os.write(told, b"ready\n")
        end = time.monotonic() + 1.5
        while time.monotonic() < end:
            evaluator.evaluate(fens)
        os.write(told, b"%d\n" % evaluator.counters()["engine_restarts"])


def test_a_paused_program_does_not_take_its_engines_for_hung() -> None:
    reading, writing = os.pipe()
    program = fork(functools.partial(restarts_of_a_second, writing))
    os.close(writing)
    with open(reading) as said:
        assert said.readline() == "ready\n"
        time.sleep(0.2)
        os.kill(program, signal.SIGSTOP)
        time.sleep(1.0)
        os.kill(program, signal.SIGCONT)
        assert said.read() == "0\n"
    os.waitpid(program, 0)


def test_a_forked_child_uses_engines_of_its_own(
    stockfish: StockfishEvaluator, positions: np.ndarray
) -> None:
    expected = stockfish.evaluate(positions[:20]).tolist()
    parents = set(stockfish.engine_pids())
    child = os.fork()
    if child == 0:
        code = 1
        try:
            same = stockfish.evaluate(positions[:20]).tolist() == expected
            own = not parents & set(stockfish.engine_pids())
            stockfish.close()
            code = 0 if same and own else 2
        finally:
            os._exit(code)
    for _ in range(3):
        assert stockfish.evaluate(positions[:20]).tolist() == expected
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert set(stockfish.engine_pids()) == parents
    assert stockfish.evaluate(positions[:20]).tolist() == expected


def search_for_ever(told: int) -> None:
    """Says which two engines search, and goes on searching."""
    evaluator = StockfishEvaluator(nodes=10**11, num_engines=2)
    start = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1"
    queens = "rnbqkbnr/pppp1ppp/8/4p3/4P3/8/PPPP1PPP/RNBQKBNR w KQkq - 0 2"

    def tell() -> None:
        while len(evaluator.engine_pids()) < 2:
            time.sleep(0.01)
        time.sleep(0.3)
        os.write(told, b"%d %d\n" % tuple(evaluator.engine_pids()))

    threading.Thread(target=tell, daemon=True).start()
    evaluator.evaluate([start, queens])


def test_no_engine_survives_a_parent_killed_in_the_middle_of_a_search_even_where_one_hangs() -> (
    None
):
    assert sys.platform == "linux", "only Linux ends a hung engine: adapt this test"
    reading, writing = os.pipe()
    parent = fork(functools.partial(search_for_ever, writing))
    os.close(writing)
    with open(reading) as said:
        engines = [int(pid) for pid in said.readline().split()]
    assert len(engines) == 2 and all(status(pid) in "RS" for pid in engines)
    os.kill(engines[0], signal.SIGSTOP)
    kill(parent)
    assert wait_until_gone(engines)


def test_a_forgotten_evaluator_ends_its_engines() -> None:
    evaluator = StockfishEvaluator(num_engines=1)
    engines = evaluator.engine_pids()
    assert engines and all(status(pid) for pid in engines)
    del evaluator
    gc.collect()
    assert not any(status(pid) for pid in engines)


def test_a_closed_evaluator_says_so_and_may_be_closed_twice() -> None:
    evaluator = StockfishEvaluator(num_engines=1)
    engines = evaluator.engine_pids()
    evaluator.close()
    evaluator.close()
    assert not any(status(pid) for pid in engines)
    with pytest.raises(EngineError, match="closed"):
        evaluator.evaluate(["rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1"])


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"depth": 0}, "depth=0.*from 1 to"),
        ({"depth": 4, "nodes": 5}, "one limit"),
        ({"nodes": 0}, "nodes=0"),
        ({"depth": True}, "depth=True"),
        ({"depth": 4.0}, "depth=4.0"),
        ({"num_engines": 0}, "num_engines=0"),
        ({"deadline_s": 0.0}, "deadline_s=0.0"),
        ({"hash_mb": 0}, "Hash is 0, expected an integer from 1"),
        ({"options": {"Contempt": 1}}, "no UCI option 'Contempt'"),
        ({"options": {"Threads": 2}}, "irreproducible"),
        ({"options": {"Skill Level": 0}}, "irreproducible"),
        ({"options": {"EvalFile": "nets/missing.nnue"}}, "missing.nnue.*no such file"),
    ],
)
def test_wrong_arguments_name_the_value_and_leave_no_engine(
    arguments: dict[str, object], expected: str
) -> None:
    before = set(children())
    with pytest.raises(ValueError, match=expected):
        StockfishEvaluator(**arguments)  # type: ignore[arg-type]
    assert set(children()) == before


def test_pools_keep_their_engines_while_a_batch_is_smaller_than_the_pool(
    positions: np.ndarray,
) -> None:
    with StockfishEvaluator(num_engines=3) as evaluator:
        evaluator.evaluate(positions[:1])
        assert len(evaluator.engine_pids()) == 1, "engines start when they are needed"
        evaluator.evaluate(positions[:9])
        engines = evaluator.engine_pids()
        assert len(engines) == 3
        evaluator.evaluate(positions[:1])
        assert evaluator.engine_pids() == engines


def test_engines_ask_for_large_pages_and_the_users_own_settings_win(
    monkeypatch: pytest.MonkeyPatch, positions: np.ndarray
) -> None:
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.malloc.hugetlb=0")
    with StockfishEvaluator() as evaluator:
        evaluator.evaluate(positions[:1])
        environment = Path(f"/proc/{evaluator.engine_pids()[0]}/environ").read_bytes()
    # The C library takes the last of two values, and may have parted them in place.
    shown = environment.replace(b"\0", b":")
    assert b":GLIBC_TUNABLES=glibc.malloc.hugetlb=1:glibc.malloc.hugetlb=0:" in b":" + shown
