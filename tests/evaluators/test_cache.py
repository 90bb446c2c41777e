"""The cache changes no score, shares its file between processes, and survives whatever happens to the file."""

from __future__ import annotations

import functools
import multiprocessing
import os
import resource
import signal
import sqlite3
import warnings
from pathlib import Path

import numpy as np
import pytest

from chess_env.evaluators import CachedEvaluator
from chess_env.rules import fen, rules
from tests.evaluators.hashing import Hashing
from tests.forks import fork


def asked(evaluator: CachedEvaluator) -> int | float:
    return evaluator.inner.counters()["queries"]


def test_scores_are_equal_with_and_without_cache_and_are_asked_once(
    positions: np.ndarray, tmp_path: Path
) -> None:
    expected = Hashing().evaluate(positions).tolist()
    with CachedEvaluator(Hashing(), path=tmp_path / "scores.sqlite") as cached:
        order = np.random.default_rng(0).permutation(len(positions))
        assert cached.evaluate(positions[:50]).tolist() == expected[:50]
        assert cached.evaluate(positions[order]).tolist() == [expected[i] for i in order]
        assert cached.evaluate(fen.to_fens(positions)).tolist() == expected
        assert asked(cached) == len(positions)
        assert cached.counters()["cache_hits"] == 50 + len(positions)
    with CachedEvaluator(Hashing(), path=tmp_path / "scores.sqlite") as cached:
        assert cached.evaluate(positions).tolist() == expected
        assert asked(cached) == 0
        assert cached.counters()["cache_file_hits"] == len(positions)


def test_evaluators_and_kinds_of_question_are_kept_apart(
    positions: np.ndarray, tmp_path: Path
) -> None:
    path = tmp_path / "scores.sqlite"
    for salt in (0, 1):
        with CachedEvaluator(Hashing(salt), path=path) as cached:
            scores = cached.evaluate(positions[:9]).tolist()
            assert scores == Hashing(salt).evaluate(positions[:9]).tolist()
            moves = cached.score_moves(positions[:2])
            assert moves[1].tolist() == Hashing(salt).score_moves(positions[:2])[1].tolist()


def test_castling_rights_and_turn_are_part_of_the_key_and_clocks_are_not() -> None:
    texts = [
        "r3k2r/8/8/8/8/8/8/R3K2R w KQkq - 0 1",
        "r3k2r/8/8/8/8/8/8/R3K2R w KQ - 0 1",
        "r3k2r/8/8/8/8/8/8/R3K2R b KQkq - 0 1",
        "r3k2r/8/8/8/8/8/8/R3K2R w KQkq - 40 77",
    ]
    cached = CachedEvaluator(Hashing())
    cached.evaluate(texts)
    assert cached.counters()["cache_entries"] == 3


def test_memory_keeps_what_was_used_last(positions: np.ndarray) -> None:
    cached = CachedEvaluator(Hashing(), memory_entries=10)
    cached.evaluate(positions[:10])
    cached.evaluate(positions[:5])
    cached.evaluate(positions[10:15])
    before = asked(cached)
    cached.evaluate(positions[:5])
    assert asked(cached) == before
    cached.evaluate(positions[5:10])
    assert asked(cached) == before + 5
    assert cached.counters()["cache_entries"] == 10


def test_a_batch_larger_than_the_memory_is_answered(positions: np.ndarray) -> None:
    cached = CachedEvaluator(Hashing(), memory_entries=3)
    assert cached.evaluate(positions).tolist() == Hashing().evaluate(positions).tolist()


def damage_header(path: Path) -> None:
    path.write_bytes(b"not a database, not at all" + path.read_bytes()[26:])


def damage_pages(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[4096:] = b"\xa5" * (len(content) - 4096)
    path.write_bytes(content)


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2 + 100)


def empty(path: Path) -> None:
    path.write_bytes(b"")


def other_schema(path: Path) -> None:
    path.unlink()
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE scores (fen TEXT, cp INTEGER)")
    connection.execute(f"PRAGMA application_id = {0x43535053}")  # ours, of another time
    connection.close()


def newer_schema(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()


@pytest.mark.parametrize(
    "damage", [damage_header, damage_pages, truncate, other_schema, newer_schema, empty]
)
def test_a_damaged_file_is_moved_aside_and_rebuilt_and_scores_stay_right(
    damage, positions: np.ndarray, tmp_path: Path
) -> None:
    path = tmp_path / "scores.sqlite"
    expected = Hashing().evaluate(positions).tolist()
    with CachedEvaluator(Hashing(), path=path) as cached:
        cached.evaluate(positions)
    damage(path)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with CachedEvaluator(Hashing(), path=path) as cached:
            assert cached.evaluate(positions).tolist() == expected
            assert asked(cached) == len(positions)
    aside = list(tmp_path.glob("scores.sqlite.corrupt-*"))
    if damage is empty:  # an empty file is an empty table
        assert not aside and not said
    else:
        assert len(aside) == 1
        assert [str(path) in str(warning.message) for warning in said] == [True]
    with CachedEvaluator(Hashing(), path=path) as cached:
        assert cached.evaluate(positions).tolist() == expected
        assert asked(cached) == 0, "the rebuilt file works"


def test_damage_during_a_run_is_repaired(positions: np.ndarray, tmp_path: Path) -> None:
    path = tmp_path / "scores.sqlite"
    expected = Hashing().evaluate(positions).tolist()
    with CachedEvaluator(Hashing(), path=path, memory_entries=1) as cached:
        cached.evaluate(positions)
        sqlite3.connect(path).execute("PRAGMA wal_checkpoint(TRUNCATE)")
        damage_pages(path)
        with pytest.warns(UserWarning, match="is damaged"):
            for _ in range(3):
                assert cached.evaluate(positions).tolist() == expected
        assert list(tmp_path.glob("scores.sqlite.corrupt-*"))


def test_a_flipped_bit_in_a_stored_score_is_noticed(positions: np.ndarray, tmp_path: Path) -> None:
    path = tmp_path / "scores.sqlite"
    expected = Hashing().evaluate(positions).tolist()
    with CachedEvaluator(Hashing(), path=path) as cached:
        cached.evaluate(positions)
    connection = sqlite3.connect(path)
    rows = connection.execute("SELECT key, value FROM scores").fetchall()
    flipped = [(bytes([value[0] ^ 1, *value[1:]]), key) for key, value in rows[:7]]
    connection.executemany("UPDATE scores SET value = ? WHERE key = ?", flipped)
    connection.commit()
    connection.close()
    with CachedEvaluator(Hashing(), path=path) as cached:
        assert cached.evaluate(positions).tolist() == expected
        assert cached.counters()["cache_damaged"] == 7 == asked(cached)


def test_a_path_that_cannot_be_written_leaves_the_cache_in_memory(
    positions: np.ndarray, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.warns(UserWarning, match="memory only") as said:
        cached = CachedEvaluator(Hashing(), path=tmp_path / "file" / "scores.sqlite")
    expected = Hashing().evaluate(positions).tolist()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            assert cached.evaluate(positions).tolist() == expected
    assert asked(cached) == len(positions) and len(said) == 1
    cached.close()


def fill_the_disk(path: Path, told: int) -> None:
    """Scores positions with a cache that cannot grow, and says which warnings there were."""
    level = fen.pack_fens(["rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1"])
    while len(level) < 3000:
        level = np.concatenate([rules.children(position)[0] for position in level])
    cached = CachedEvaluator(Hashing(), path=path)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for _ in range(2):
            for part in np.array_split(level, 20):
                assert (cached.evaluate(part) == Hashing().evaluate(part)).all()
    os.write(told, f"{len(said)} {said[0].message}".encode())


def test_a_full_disk_leaves_the_cache_in_memory_with_one_warning(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    process = fork(functools.partial(fill_the_disk, tmp_path / "scores.sqlite", writing))
    os.close(writing)
    with open(reading) as stream:
        said = stream.read()
    assert os.waitpid(process, 0)[1] == 0
    assert said.startswith("1 Score cache") and "memory only" in said


def fill(path: Path, positions: np.ndarray, seed: int, results: multiprocessing.Queue) -> None:
    order = np.random.default_rng(seed).permutation(len(positions))
    with CachedEvaluator(Hashing(), path=path, memory_entries=1) as cached:
        for part in np.array_split(order, 40):
            right = (cached.evaluate(positions[part]) == Hashing().evaluate(positions[part])).all()
            if not right:
                results.put("wrong score")
                return
    results.put("right")


def test_processes_share_one_file_without_losing_a_score(
    positions: np.ndarray, tmp_path: Path
) -> None:
    path = tmp_path / "scores.sqlite"
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    workers = [
        context.Process(target=fill, args=(path, positions, seed, results)) for seed in range(3)
    ]
    for worker in workers:
        worker.start()
    assert [results.get(timeout=60) for _ in workers] == ["right"] * 3
    for worker in workers:
        worker.join()
    with CachedEvaluator(Hashing(), path=path) as cached:
        cached.evaluate(positions)
        assert asked(cached) == 0


def test_a_cache_opened_before_a_fork_works_in_parent_and_child(
    positions: np.ndarray, tmp_path: Path
) -> None:
    expected = Hashing().evaluate(positions).tolist()
    with CachedEvaluator(Hashing(), path=tmp_path / "scores.sqlite", memory_entries=1) as cached:
        cached.evaluate(positions[:60])
        child = os.fork()
        if child == 0:
            try:
                right = cached.evaluate(positions).tolist() == expected
                cached.close()
                os._exit(0 if right else 2)
            finally:
                os._exit(3)
        assert cached.evaluate(positions).tolist() == expected
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        before = asked(cached)
        assert cached.evaluate(positions).tolist() == expected
        assert asked(cached) == before


def test_impure_evaluators_are_not_cached() -> None:
    class Fast(Hashing):
        pure = False

    with pytest.raises(ValueError, match="hashing-0 cannot be cached"):
        CachedEvaluator(Fast())
    with pytest.raises(ValueError, match="memory_entries=0"):
        CachedEvaluator(Hashing(), memory_entries=0)
