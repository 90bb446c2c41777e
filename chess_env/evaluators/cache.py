"""A cache of scores in front of any pure evaluator: least recently used in memory, before an SQLite file.

A key is the hash of (packed position without clocks, evaluator id): men, castling, legal en passant and turn
count, the rule-50 clock and history do not, as for the evaluators themselves. Each row carries a checksum,
so a damaged value is asked again, never returned.
"""

from __future__ import annotations

import os
import threading
import zlib
from collections.abc import Sequence
from contextlib import AbstractContextManager
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chess_env.evaluators.protocol import Evaluator, Positions, Scores, pack_positions
from chess_env.evaluators.score_file import ScoreFile
from chess_env.evaluators.uci import EngineError

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
        self.out_of_process: bool = getattr(inner, "out_of_process", False)
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
        known = self._look_up(keys)
        missing = self._missing(keys, known)
        if missing:
            try:
                asked = self.inner.evaluate(packed[missing])
            except EngineError as error:
                self._keep_partial(error, keys, known, missing)
                raise
            self._remember(
                {keys[row]: score.tobytes() for row, score in zip(missing, asked, strict=True)},
                known,
            )
        return np.frombuffer(b"".join([known[key] for key in keys]), np.int32).copy()

    def score_moves(self, positions: Positions, **settings: Any) -> list[Scores]:
        """int32 [L_i] per position: as `inner.score_moves`, to which `settings` (such as depth=1) are passed."""
        packed = pack_positions(positions)
        shown = ",".join(f"{name}={value!r}" for name, value in sorted(settings.items()))
        keys = self._keys(packed, f"{self.id};moves({shown})")
        known = self._look_up(keys)
        missing = self._missing(keys, known)
        if missing:
            asked = self.inner.score_moves(packed[missing], **settings)
            self._remember(
                {keys[row]: scores.tobytes() for row, scores in zip(missing, asked, strict=True)},
                known,
            )
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

    def _look_up(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        with self._alone():
            return self._look_up_alone(keys)

    def _look_up_alone(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        self._queries += len(keys)
        known: dict[bytes, bytes] = {}
        for key in keys:
            if (scores := self._memory.pop(key, None)) is not None:
                self._memory[key] = known[key] = scores  # now the most recently used
                self._memory_hits += 1
        if self._file is not None and len(known) < len(keys):
            wanted = list({key for key in keys if key not in known})
            found = {}
            for key, value in self._file.get(wanted).items():
                scores_ = _opened(key, value)
                if scores_ is None:
                    self._damaged += 1
                else:
                    found[key] = scores_
            self._file_hits += len(found)
            known |= found
            self._store_in_memory(found)
        return known

    def _missing(self, keys: Sequence[bytes], known: dict[bytes, bytes]) -> list[int]:
        """One row of each distinct key that is not known."""
        return list(
            {key: row for row, key in reversed(list(enumerate(keys))) if key not in known}.values()
        )[::-1]

    def _remember(self, new: dict[bytes, bytes], known: dict[bytes, bytes]) -> None:
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
        self._remember(
            {keys[row]: score.tobytes() for row, score, answered in answers if answered}, known
        )
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
