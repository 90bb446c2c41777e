"""A cache of scores in front of any pure evaluator: least recently used in memory, before an SQLite file.

A key is the hash of (packed position without clocks, evaluator id): men, castling, legal en passant and turn
count, the rule-50 clock and history do not, as for the evaluators themselves. Each row carries a checksum,
so a damaged value is asked again, never returned. The file is shared by several processes and never stops a run.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sqlite3
import stat
import threading
import time
import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from chess_env.evaluators.protocol import (
    Evaluator,
    Positions,
    Scores,
    move_scores_of,
    pack_positions,
    scores_of,
)
from chess_env.evaluators.uci import EngineError

_APPLICATION_ID = 0x43535053
_ID_OFFSET = 68
"""Where a database file has its application id, big-endian."""
_SQLITE = b"SQLite format 3\0"
_SCHEMA_VERSION = 1
_SCHEMA = "CREATE TABLE scores (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID"
_BATCH = 500
_BUSY_TIMEOUT_S = 30.0
_CORRUPT_CODES = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
T = TypeVar("T")


class _ForeignFile(sqlite3.DatabaseError):
    """The file is a database, but not of this schema."""


def _is_ours(path: Path) -> bool:
    """Whether this table may be at `path`, damaged or not: nothing is there yet, or a file that has its id."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            return False
        with path.open("rb") as file:
            header = file.read(_ID_OFFSET + 4)
    except OSError:  # not there, or out of reach, which opening it will say
        return True
    if not header or header[_ID_OFFSET:] == _APPLICATION_ID.to_bytes(4, "big"):
        return True
    if not header.startswith(_SQLITE):
        return False
    # The id of a young file may still be in its write-ahead log.
    uri = f"file:{quote(str(path.resolve()))}?mode=ro"
    try:
        with contextlib.closing(sqlite3.connect(uri, uri=True)) as connection:
            identity = connection.execute("PRAGMA application_id").fetchone()[0]
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    except sqlite3.Error:
        return False
    return bool(identity == _APPLICATION_ID or (identity == version == tables == 0))


def _is_damage(error: sqlite3.Error) -> bool:
    code = getattr(error, "sqlite_errorcode", 0) or 0
    return (
        isinstance(error, _ForeignFile)
        or code & 0xFF in _CORRUPT_CODES
        or "no such table" in str(error)
    )


class ScoreFile:
    """Values by key on disk; once it is open, no method raises for the state of the file.

    Damage moves the file aside and starts a new one. A disk that cannot be written to leaves the table
    empty for the rest of the run, with one warning.

    Raises:
        ValueError: there is something at `path` that is no table of this kind; it is left as it is.
    """

    def __init__(self, path: Path) -> None:
        if not _is_ours(path):
            raise ValueError(
                f"{str(path)!r} is no score cache and is left as it is: give the cache another path, or move that away"
            )
        self.path = path
        self._connection: sqlite3.Connection | None = None
        self._inode = 0
        self._usable = True
        self._owner = os.getpid()
        self._with_connection(lambda connection: None)

    def get(self, keys: list[bytes]) -> dict[bytes, object]:
        """The stored values of those keys that have one."""

        def read(connection: sqlite3.Connection) -> dict[bytes, object]:
            found: dict[bytes, object] = {}
            for start in range(0, len(keys), _BATCH):
                part = keys[start : start + _BATCH]
                marks = ",".join("?" * len(part))
                found.update(
                    connection.execute(
                        f"SELECT key, value FROM scores WHERE key IN ({marks})", part
                    )
                )
            return found

        return self._with_connection(read) or {}

    def put(self, rows: Iterable[tuple[bytes, bytes]]) -> None:
        """Stores the rows in one transaction; existing keys get the new value."""
        rows = list(rows)

        def write(connection: sqlite3.Connection) -> None:
            connection.execute("BEGIN IMMEDIATE")
            try:
                connection.executemany("INSERT OR REPLACE INTO scores VALUES (?, ?)", rows)
                connection.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
                raise

        self._with_connection(write)

    def close(self) -> None:
        """Closes the file; later calls find nothing and store nothing."""
        self._usable = False
        self._disconnect()

    def _with_connection(self, act: Callable[[sqlite3.Connection], T]) -> T | None:
        """What `act` returns, or None where the file is of no use."""
        if os.getpid() != self._owner:  # SQLite connections do not survive a fork
            _ABANDONED.append(self._connection)
            self._connection, self._owner = None, os.getpid()
        for rebuilt in (False, True):
            if not self._usable:
                return None
            try:
                if self._connection is None:
                    self._connection = self._connect()
                return act(self._connection)
            except (sqlite3.Error, OSError) as error:
                self._disconnect()
                if isinstance(error, sqlite3.Error) and _is_damage(error) and not rebuilt:
                    self._move_aside(error)
                else:
                    self._give_up(error)
        return None

    def _connect(self) -> sqlite3.Connection:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self._locked():
            connection = sqlite3.connect(
                self.path, timeout=_BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
            )
            try:
                self._inode = self.path.stat().st_ino
                ours = connection.execute("PRAGMA application_id").fetchone()[0] == _APPLICATION_ID
                version = connection.execute("PRAGMA user_version").fetchone()[0]
                tables = connection.execute("SELECT sql FROM sqlite_master").fetchall()
                if not tables and not version:
                    # The id is in the file from its first page on, and not in a log beside it.
                    connection.execute("BEGIN IMMEDIATE")
                    connection.execute(_SCHEMA)
                    connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
                    connection.execute(f"PRAGMA user_version = {_SCHEMA_VERSION}")
                    connection.execute("COMMIT")
                elif not ours or version != _SCHEMA_VERSION or tables != [(_SCHEMA,)]:
                    raise _ForeignFile(
                        f"its schema is not version {_SCHEMA_VERSION} of a score cache"
                    )
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute("PRAGMA synchronous = NORMAL")
            except BaseException:
                connection.close()
                raise
        return connection

    def _disconnect(self) -> None:
        if self._connection is not None:
            if os.getpid() == self._owner:
                with contextlib.suppress(sqlite3.Error):
                    self._connection.close()
            self._connection = None

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Holds a lock over opening and moving, so that two processes never repair one file at once."""
        with open(f"{self.path}.lock", "ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _move_aside(self, error: sqlite3.Error) -> None:
        if not _is_ours(self.path):
            self._give_up(error)
            return
        aside = f"{self.path}.corrupt-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
        try:
            with self._locked():
                if self.path.exists() and self.path.stat().st_ino == self._inode:
                    for suffix in ("-wal", "-shm", ""):
                        with contextlib.suppress(FileNotFoundError):
                            os.replace(f"{self.path}{suffix}", f"{aside}{suffix}")
        except OSError as failure:
            self._give_up(failure)
            return
        warnings.warn(
            f"Score cache {self.path} is damaged ({error}): moved to {aside}, a new one is started and the run goes on",
            stacklevel=4,
        )

    def _give_up(self, error: Exception) -> None:
        self._usable = False
        warnings.warn(
            f"Score cache {str(self.path)[:200]} cannot be used ({str(error)[:200]}): scores are kept in memory only "
            "for the rest of this run. Check free space and permissions, or give another path.",
            stacklevel=4,
        )


# A connection inherited by fork must be neither used nor closed: closing it would drop the parent's locks.
_ABANDONED: list[sqlite3.Connection | None] = []


_CHECK_BYTES = 4


def _sealed(key: bytes, scores: bytes) -> bytes:
    return scores + zlib.crc32(scores, zlib.crc32(key)).to_bytes(_CHECK_BYTES, "little")


def _opened(key: bytes, value: object) -> bytes | None:
    """The scores in a stored value, or None when its checksum is wrong."""
    if not isinstance(value, bytes) or len(value) < _CHECK_BYTES:
        return None
    scores = value[:-_CHECK_BYTES]
    return scores if _sealed(key, scores) == value else None


class CachedEvaluator:
    """An evaluator that keeps the scores of `inner`: the same scores, the same id, fewer queries.

    Several processes may share one file. A damaged file is moved aside to `<path>.corrupt-<time>` and rebuilt; a
    full or read-only disk leaves the cache in memory, with one warning; scores are right in every case.

    Args:
        inner: a pure evaluator; it is closed with the cache.
        memory_entries: scores kept in memory (about 150 bytes each).
        path: SQLite file for scores that outlive the process; None keeps them in memory only.

    Raises:
        ValueError: `inner` is not pure (Stockfish with pure=False), memory_entries is below 1, or the file is no
            score cache; it is left as it is.
    """

    def __init__(
        self, inner: Evaluator, memory_entries: int = 1_000_000, path: str | Path | None = None
    ) -> None:
        if not getattr(inner, "pure", True):
            raise ValueError(
                f"{inner.id} cannot be cached: with pure=False a score depends on what was asked before"
            )
        if memory_entries < 1:
            raise ValueError(f"memory_entries={memory_entries!r}: expected at least 1")
        self.inner, self.memory_entries = inner, memory_entries
        self.in_background: bool = getattr(inner, "in_background", False)
        self._memory: dict[bytes, bytes] = {}
        self._file = ScoreFile(Path(path)) if path is not None else None
        self._queries = self._memory_hits = self._file_hits = self._damaged = 0
        self._lock, self._lock_owner = threading.RLock(), os.getpid()

    @property
    def id(self) -> str:
        """The inner evaluator's id: the cache changes no score."""
        return self.inner.id

    def evaluate(self, positions: Positions) -> Scores:
        """int32 [N]: as `inner.evaluate`, which is asked only for what is not known."""
        packed = pack_positions(positions)
        keys = self._keys(packed, self.id)
        known, missing = self._look_up(keys)
        if missing:
            try:
                asked = scores_of(self.inner, packed[missing])
            except EngineError as error:
                self._keep_partial(error, keys, known, missing)
                raise
            self._remember(zip([keys[row] for row in missing], asked, strict=True), known)
        return np.frombuffer(b"".join([known[key] for key in keys]), np.int32).copy()

    def score_moves(self, positions: Positions, **settings: Any) -> list[Scores]:
        """int32 [L_i] per position: as `inner.score_moves`, to which `settings` (such as depth=1) are passed."""
        packed = pack_positions(positions)
        shown = ",".join(f"{name}={value!r}" for name, value in sorted(settings.items()))
        keys = self._keys(packed, f"{self.id};moves({shown})")
        known, missing = self._look_up(keys)
        if missing:
            moves = move_scores_of(self.inner, packed[missing], **settings)
            self._remember(zip([keys[row] for row in missing], moves, strict=True), known)
        return [np.frombuffer(known[key], np.int32).copy() for key in keys]

    def _keys(self, packed: NDArray[np.uint64], identity: str) -> list[bytes]:
        raw, salt = packed.tobytes(), blake2b(identity.encode(), digest_size=32).digest()
        return [
            blake2b(raw[i : i + 64], digest_size=16, key=salt).digest()
            for i in range(0, len(raw), 64)
        ]

    def _alone(self) -> AbstractContextManager[Any]:
        """The lock that one thread at a time holds over memory and file."""
        if (
            os.getpid() != self._lock_owner
        ):  # a fork may have copied it while another thread held it
            self._lock, self._lock_owner = threading.RLock(), os.getpid()
        return self._lock

    def _look_up(self, keys: Sequence[bytes]) -> tuple[dict[bytes, bytes], list[int]]:
        """(the scores that are known, by their keys; one row of each distinct key that is not)."""
        known: dict[bytes, bytes] = {}
        with self._alone():
            self._queries += len(keys)
            for key in keys:
                if (scores := self._memory.pop(key, None)) is not None:
                    self._memory[key] = known[key] = scores  # now the most recently used
                    self._memory_hits += 1
            if self._file is not None and len(known) < len(keys):
                wanted = list({key for key in keys if key not in known})
                stored = self._file.get(wanted)
                opened = {key: _opened(key, value) for key, value in stored.items()}
                found = {key: scores for key, scores in opened.items() if scores is not None}
                self._damaged += len(stored) - len(found)
                self._file_hits += len(found)
                known |= found
                self._store_in_memory(found)
        rows = {key: row for row, key in reversed(list(enumerate(keys))) if key not in known}
        return known, list(rows.values())[::-1]

    def _remember(self, found: Iterable[tuple[bytes, Any]], known: dict[bytes, bytes]) -> None:
        new = {key: scores.tobytes() for key, scores in found}
        known |= new
        with self._alone():
            self._store_in_memory(new)
            if self._file is not None:
                self._file.put([(key, _sealed(key, scores)) for key, scores in new.items()])

    def _store_in_memory(self, new: dict[bytes, bytes]) -> None:
        self._memory |= new
        while len(self._memory) > self.memory_entries:
            del self._memory[next(iter(self._memory))]

    def _keep_partial(
        self,
        error: EngineError,
        keys: Sequence[bytes],
        known: dict[bytes, bytes],
        missing: list[int],
    ) -> None:
        """Remembers what was answered before positions failed, and makes the error speak of the whole batch."""
        if not isinstance(error.scores, np.ndarray) or not isinstance(error.answered, np.ndarray):
            return
        answers = zip(missing, error.scores, error.answered, strict=True)
        self._remember(((keys[row], score) for row, score, answered in answers if answered), known)
        nothing = np.int32(0).tobytes()
        error.answered = np.array([key in known for key in keys], np.bool_)
        error.scores = np.frombuffer(
            b"".join([known.get(key, nothing) for key in keys]), np.int32
        ).copy()

    def counters(self) -> dict[str, int | float]:
        """The inner counters with `queries` counted here, and those of the cache.

        cache_hits = cache_memory_hits + cache_file_hits; cache_damaged rows had a wrong checksum; cache_entries
        are in memory now.
        """
        return self.inner.counters() | {
            "queries": self._queries,
            "cache_hits": self._memory_hits + self._file_hits,
            "cache_memory_hits": self._memory_hits,
            "cache_file_hits": self._file_hits,
            "cache_damaged": self._damaged,
            "cache_entries": len(self._memory),
        }

    def close(self) -> None:
        """Closes the file and the inner evaluator."""
        with self._alone():
            if self._file is not None:
                self._file.close()
        self.inner.close()

    def __enter__(self) -> CachedEvaluator:
        """The evaluator itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Closes the evaluator."""
        self.close()
