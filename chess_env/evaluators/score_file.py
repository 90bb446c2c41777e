"""A table of scores in an SQLite file that several processes share and that never stops a run."""

from __future__ import annotations

import contextlib
import fcntl
import os
import sqlite3
import stat
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

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
