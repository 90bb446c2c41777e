"""Test suites in Extended Position Description, read as a stream: positions with the moves that are right or wrong.

A line is the first four fields of a FEN, perhaps its two counters, and operations that end with `;`, such as
`bm Nf3 O-O; id "a;b";` (https://www.chessprogramming.org/Extended_Position_Description). These say what a move is
worth, hmvc and fmvn give the counters, and the others are passed over:

==========  ==============================================================================================
`bm`, `am`  moves that are best, or to be avoided
`dm`        a mate in so many moves is to be found
`c8`        points of the moves in `c9` (UCI) or else in `c7` (SAN), as in the Strategic Test Suite
==========  ==============================================================================================
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chess_env.positions.text_files import LeftOut, Line, TextFile
from chess_env.rules.fen_batch import read_fens
from chess_env.rules.mates import MOST_MOVES
from chess_env.rules.packed import Positions
from chess_env.rules.rules import legal_actions_batch
from chess_env.rules.san import ENGLISH, encoded, play_batch

KINDS = ("bm", "am", "dm", "graded")

_COMMENT_SIGNS = ("#", ";", "%", "//")
_COUNTERS = re.compile(r"(\d+)(?:\s+(\d+))?(?:\s+|(?=;)|$)")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_HIDDEN = "\0"  # in place of a semicolon in quotation marks


@dataclass(frozen=True)
class EpdBatch:
    """Some positions of a suite, and what moves are worth there: shares of the best that can be had, 0 to 1.

    Attributes:
        positions: uint64 [N, 8], packed.
        kinds: int64 [N]: which of `KINDS`. A move that is not named is worth 1 in "am", otherwise 0.
        mate_in: int64 [N]: moves of a forced mate with which any move is worth 1; 0 where that is not asked.
        lines: int64 [N]: where the positions stand in their file, from 1 on.
        rows: int64 [M]: the position of each move that is named.
        actions: int64 [M]: these moves.
        worth: float64 [M]: what each is worth.
    """

    positions: Positions
    kinds: NDArray[np.int64]
    mate_in: NDArray[np.int64]
    lines: NDArray[np.int64]
    rows: NDArray[np.int64]
    actions: NDArray[np.int64]
    worth: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.positions)


class EpdFile:
    """The positions of a suite, plain or packed.

    Args:
        path: of the file.

    Raises:
        ValueError: it cannot be opened, or is no text.
        ModuleNotFoundError: packed by zstd without the package zstandard; the message says how to install it.

    Attributes:
        text: the file.
        left_out: lines that cannot be read, as far as the file was read; empty ones and comments aside.
        not_judged: lines that can be read and whose moves cannot be judged.
    """

    def __init__(self, path: Path) -> None:
        self.text = TextFile(path, "EPD file")
        self.left_out, self.not_judged = LeftOut(), LeftOut()
        self._lines = enumerate(self.text, start=1)

    def batches(self, size: int) -> Iterator[EpdBatch]:
        """The positions in the order of the file, at most `size` at a time."""
        while chunk := list(islice(self._lines, size)):
            if len(batch := self._read(chunk)):
                yield batch

    def close(self) -> None:
        """Closes the file."""
        self.text.close()

    def _read(self, chunk: list[tuple[int, str]]) -> EpdBatch:
        wrong: list[Line] = []
        unknown: list[Line] = []
        lines = [line for number, text in chunk if (line := _line(number, text.strip(), wrong))]
        positions, illegal = read_fens([line.fen for line in lines])
        sizes = np.array([len(line.asked.moves) for line in lines], np.int64)
        rows = np.repeat(np.arange(len(lines)), sizes)
        usable = np.ones(len(lines), np.bool_)
        usable[list(illegal)] = False
        named = usable[rows]
        actions = np.full(len(rows), -1, np.int64)
        moves = np.array([move for line in lines for move in line.asked.moves], np.int64)[named]
        actions[named] = play_batch(positions[rows[named]], moves, np.ones(len(moves), np.int64))[0]
        over = usable.copy()
        over[usable] = legal_actions_batch(positions[usable])[1] == 0

        for row in np.unique(rows[named & (actions < 0)]).tolist():
            usable[row], over[row] = False, False
            word = lines[row].asked.words[int(np.argmax(actions[rows == row] < 0))]
            why = f"{word!r} is not one legal move in {lines[row].fen!r}"
            wrong.append(Line(lines[row].number, "illegal move", why))
        for row in np.flatnonzero(over).tolist():
            usable[row] = False
            why = f"there is no legal move in {lines[row].fen!r}"
            wrong.append(Line(lines[row].number, "game over", why))
        for row, why in illegal.items():
            wrong.append(Line(lines[row].number, "unreadable FEN", why))
        for row, line in enumerate(lines):
            if line.asked.kind not in KINDS and usable[row]:
                usable[row] = False
                unknown.append(Line(line.number, line.asked.kind, line.fen))
        self.left_out.add(wrong)
        self.not_judged.add(unknown)

        named, new_row = usable[rows], np.cumsum(usable) - 1
        kept = [line for line, is_usable in zip(lines, usable.tolist(), strict=True) if is_usable]
        worth = [each for line in lines for each in line.asked.worth]
        return EpdBatch(
            positions[usable],
            np.array([KINDS.index(line.asked.kind) for line in kept], np.int64),
            np.array([line.asked.mate_in for line in kept], np.int64),
            np.array([line.number for line in kept], np.int64),
            new_row[rows[named]],
            actions[named],
            np.array(worth, np.float64)[named],
        )


class _NotReadError(Exception):
    """An operation cannot be read; the message says why."""


class _Asked(NamedTuple):
    """What the operations of a line ask for.

    Attributes:
        words: the moves that are named.
        moves: these for `play_batch`.
        worth: what each is worth.
        kind: none of `KINDS` where that cannot be judged.
        mate_in: moves of a mate, or 0.
    """

    words: list[str]
    moves: list[int]
    worth: Sequence[float]
    kind: str
    mate_in: int


class _EpdLine(NamedTuple):
    """What stands in a line, before the position and the moves are known to be legal."""

    number: int
    fen: str
    asked: _Asked


def _line(number: int, line: str, wrong: list[Line]) -> _EpdLine | None:
    """What stands in a line; None for an empty one, a comment, and one that is added to `wrong`."""
    if not line or line.startswith(_COMMENT_SIGNS):
        return None
    fields = line.split(None, 4)
    if len(fields) < 4:
        why = f"{len(fields)} fields, expected the first four of a FEN, and operations"
        wrong.append(Line(number, "wrong number of fields", why))
        return None
    men, turn, rights, target = fields[:4]
    rest = fields[4] if len(fields) > 4 else ""
    halfmove, fullmove = "0", "1"
    if rest[:1].isdigit() and (counters := _COUNTERS.match(rest)) is not None:
        halfmove, fullmove = counters[1], counters[2] or "1"
        rest = rest[counters.end() :]
    try:
        operations = _operations(rest)
        asked = _asked(operations)
    except _NotReadError as error:
        wrong.append(Line(number, "operation that cannot be read", str(error)))
        return None
    halfmove = operations.get("hmvc", halfmove).strip()
    fullmove = operations.get("fmvn", fullmove).strip()
    return _EpdLine(number, f"{men} {turn} {rights} {target} {halfmove} {fullmove}", asked)


def _operations(text: str) -> dict[str, str]:
    """{opcode: its operands} in the operations of a line.

    Raises:
        _NotReadError: a part of the text is none, or an opcode stands twice.
    """
    if '"' in text:
        parts = text.split('"')
        if len(parts) % 2 == 0:
            raise _NotReadError(f"{text[-60:]!r} has a quotation mark without its second one")
        parts[1::2] = [part.replace(";", _HIDDEN) for part in parts[1::2]]
        text = '"'.join(parts)
    found: dict[str, str] = {}
    for operation in text.split(";"):
        if words := operation.split(None, 1):
            opcode = words[0]
            if not (opcode.isidentifier() and opcode.isascii()):
                shown = operation.strip().replace(_HIDDEN, ";")[:60]
                raise _NotReadError(f"{shown!r} is no operation: expected such as 'bm Nf3;'")
            if opcode in found:
                raise _NotReadError(f"{opcode!r} stands there twice: write its operands in one")
            found[opcode] = words[1] if len(words) > 1 else ""
    return found


def _asked(operations: Mapping[str, str]) -> _Asked:
    """What the operations of a line ask for.

    Raises:
        _NotReadError: an operand is not what it should be.
    """
    if "c8" in operations and (graded := _graded(operations)) is not None:
        return graded
    words: list[str] = []
    worth: list[float] = []
    for opcode, value in (("bm", 1.0), ("am", 0.0)):
        if opcode in operations:
            # Some suites part the moves by commas.
            named = operations[opcode].replace(",", " ").split()
            if not named:
                raise _NotReadError(f"{opcode!r} names no move: expected such as '{opcode} Nf3;'")
            words += named
            worth += [value] * len(named)
    moves, kind = _encoded(words), "bm" if "bm" in operations else "am"
    if "dm" not in operations:
        return _Asked(words, moves, worth, kind if words else "no bm, am, dm or points", 0)
    number = operations["dm"].strip()
    if not (number.isascii() and number.isdigit() and len(number) <= 4 and int(number)):
        raise _NotReadError(f"dm {number[:40]!r}: expected the number of moves of a mate")
    if int(number) <= MOST_MOVES:
        return _Asked(words, moves, worth, "dm", int(number))
    # A longer mate is not searched: then the moves that are named must do.
    return _Asked(words, moves, worth, "bm" if kind == "bm" else f"dm above {MOST_MOVES}", 0)


def _graded(operations: Mapping[str, str]) -> _Asked | None:
    """Moves with points; None where there are none, since c7, c8 and c9 may hold any comment.

    Raises:
        _NotReadError: not a number for each move.
    """
    opcode = "c9" if "c9" in operations else "c7"
    if opcode not in operations or (worth := _shares(operations["c8"])) is None:
        return None
    words = operations[opcode].replace('"', " ").split()
    if len(words) != len(worth):
        raise _NotReadError(
            f"c8 {operations['c8'].strip()[:60]} and {opcode} with {len(words)} moves: expected points above 0 for the "
            "best move, and a number for each"
        )
    return _Asked(words, _encoded(words), worth, "graded", 0)


@lru_cache(maxsize=1 << 12)
def _shares(text: str) -> tuple[float, ...] | None:
    """Points as shares of the largest; None where the text has no number, and () where these are not points."""
    words = text.replace('"', " ").split()
    numbers = [float(word) for word in words if _NUMBER.fullmatch(word)]
    if not numbers:
        return None
    best = max(numbers)
    return tuple(each / best for each in numbers) if best > 0 and len(numbers) == len(words) else ()


def _encoded(words: list[str]) -> list[int]:
    """The moves in words for `play_batch`.

    Raises:
        _NotReadError: a word is no move.
    """
    moves = [encoded(word, ENGLISH) for word in words]
    if None in moves:
        word = words[moves.index(None)]
        raise _NotReadError(f"{word[:40]!r} is no move: expected such as Nf3 or g1f3")
    return moves  # type: ignore[return-value]
