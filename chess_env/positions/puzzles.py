"""Puzzles from the file of Lichess (https://database.lichess.org/#puzzles), read as a stream.

A line is `PuzzleId,FEN,Moves,Rating,RatingDeviation,Popularity,NbPlays,Themes,GameUrl,OpeningTags`. The FEN is the
position before the first of the moves, which is the opponent's; the others are in turn the player's and the
opponent's. A header names the columns; without one they are those of Lichess.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chess_env.positions.text_files import LeftOut, Line, TextFile
from chess_env.rules.fen_batch import read_fens
from chess_env.rules.packed import Positions
from chess_env.rules.san import ENGLISH, encoded, play_batch

COLUMNS = (
    "PuzzleId", "FEN", "Moves", "Rating", "RatingDeviation", "Popularity", "NbPlays", "Themes", "GameUrl",
    "OpeningTags",
)  # fmt: skip
"""Of Lichess's file."""

MAX_RATING = 9_999
MAX_PLIES = 100
"""Moves of one puzzle; longer lines are taken for damaged. `Boards` keeps a history of 152 positions."""

_UCI = re.compile(r"[a-h][1-8][a-h][1-8][qrbn]?")


@dataclass(frozen=True)
class PuzzleBatch:
    """Some puzzles.

    Attributes:
        positions: uint64 [N, 8], packed: the positions of the FENs, in which the opponent moves.
        actions: int16 [N, P]: the moves from there, the opponent's first; -1 behind the last one.
        num_plies: int64 [N]: their number, even.
        ratings: int64 [N], 1 to `MAX_RATING`.
        lines: int64 [N]: where the puzzles stand in their file, from 1 on.
    """

    positions: Positions
    actions: NDArray[np.int16]
    num_plies: NDArray[np.int64]
    ratings: NDArray[np.int64]
    lines: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.positions)


class _Row(NamedTuple):
    number: int
    fen: str
    rating: int
    words: list[str]
    moves: list[int]


class PuzzleFile:
    """The puzzles of a file, plain or packed.

    Args:
        path: of the file.

    Raises:
        ValueError: it cannot be opened, or is no text.
        ModuleNotFoundError: packed by zstd without the package zstandard; the message says how to install it.

    Attributes:
        text: the file.
        left_out: lines that hold no puzzle that can be read, as far as the file was read.
    """

    def __init__(self, path: Path) -> None:
        self.text = TextFile(path, "puzzle file")
        self.left_out = LeftOut()
        self._lines = enumerate(self.text, start=1)
        self._set_columns(COLUMNS)

    def batches(self, size: int, most: int | None = None) -> Iterator[PuzzleBatch]:
        """The puzzles in the order of the file, at most `size` at a time and at most `most` in all."""
        left = size if most is None else most
        while left > 0 and (chunk := list(islice(self._lines, min(size, left)))):
            if len(batch := self._read(chunk)):
                yield batch
            left -= 0 if most is None else len(batch)

    def close(self) -> None:
        """Closes the file."""
        self.text.close()

    def _set_columns(self, names: tuple[str, ...]) -> None:
        self._widths = {len(names)}
        if names == COLUMNS:
            self._widths.add(len(names) - 1)  # without the openings, as until 2022
        self._fen, self._moves, self._rating = map(names.index, ("FEN", "Moves", "Rating"))

    def _read(self, chunk: list[tuple[int, str]]) -> PuzzleBatch:
        wrong: list[Line] = []
        rows = [row for number, line in chunk if (row := self._row(number, line, wrong))]
        positions, illegal = read_fens([row.fen for row in rows])
        wrong += [Line(rows[at].number, "unreadable FEN", why) for at, why in illegal.items()]
        if illegal:
            kept = [at for at in range(len(rows)) if at not in illegal]
            rows, positions = [rows[at] for at in kept], positions[kept]
        lengths = np.fromiter((len(row.moves) for row in rows), np.int64, len(rows))
        moves = np.fromiter(chain.from_iterable(row.moves for row in rows), np.int64, lengths.sum())
        flat, played = play_batch(positions, moves, lengths)
        for at in np.flatnonzero(played < lengths).tolist():
            row, ply = rows[at], int(played[at])
            why = f"move {ply + 1}, {row.words[ply]!r}, is not legal in the line from {row.fen!r}"
            wrong.append(Line(row.number, "illegal move", why))
        self.left_out.add(wrong)
        actions = np.full((len(rows), int(lengths.max(initial=0))), -1, np.int16)
        actions[np.arange(actions.shape[1]) < lengths[:, None]] = flat
        legal = np.flatnonzero(played == lengths)
        ratings = np.fromiter((row.rating for row in rows), np.int64, len(rows))
        lines = np.fromiter((row.number for row in rows), np.int64, len(rows))
        return PuzzleBatch(
            positions[legal], actions[legal], lengths[legal], ratings[legal], lines[legal]
        )

    def _row(self, number: int, line: str, wrong: list[Line]) -> _Row | None:
        """What stands in a line; None for a header, an empty line, and one that is added to `wrong`."""
        line = line.strip()
        try:
            fields = line.split(",") if '"' not in line else next(csv.reader([line]))
        except csv.Error as error:
            wrong.append(Line(number, "wrong number of fields", f"no line of a CSV file ({error})"))
            return None
        has_all = len(fields) in self._widths
        rating = fields[self._rating] if has_all else ""
        if not (rating.isdecimal() and rating.isascii() and len(rating) <= 4 and int(rating)):
            if {"FEN", "Moves", "Rating"} <= set(fields):
                self._set_columns(tuple(fields))
            elif has_all:
                why = f"rating {rating[:40]!r}, expected a whole number from 1 to {MAX_RATING}"
                wrong.append(Line(number, "bad rating", why))
            elif line:
                why = f"{len(fields)} fields, expected {max(self._widths)}"
                wrong.append(Line(number, "wrong number of fields", why))
            return None
        words = fields[self._moves].split()
        if len(words) % 2 or not 2 <= len(words) <= MAX_PLIES:
            kind = "odd number of moves" if len(words) % 2 else "wrong number of moves"
            why = f"{len(words)} moves, expected an even number from 2 to {MAX_PLIES}"
            wrong.append(Line(number, kind, why))
            return None
        moves = [_move(word) for word in words]
        if None in moves:
            word = words[moves.index(None)]
            wrong.append(Line(number, "illegal move", f"{word[:40]!r} is no move in UCI notation"))
            return None
        return _Row(number, fields[self._fen], int(rating), words, moves)  # type: ignore[arg-type]


@lru_cache(maxsize=1 << 16)
def _move(word: str) -> int | None:
    """A move in UCI notation as `play_batch` wants it; None where it is none."""
    return encoded(word, ENGLISH) if _UCI.fullmatch(word) else None
