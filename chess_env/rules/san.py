"""Moves as people write them: SAN, long algebraic and UCI. A word is a move as a whole, or none.

Men are figurines or letters: English ones, or those of one language for a whole game.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chess_env.jit import announced, inlined, kernel
from chess_env.moves import ACTION_FROM, ACTION_PROMOTION, ACTION_TO
from chess_env.rules.bitboards import U0, square_bit
from chess_env.rules.movegen import MAX_LEGAL, apply, legal_actions_of
from chess_env.rules.packed import (
    BLACK_BIT,
    KINGS,
    PAWNS,
    QUEENS,
    STATE,
    Positions,
    occupied_squares,
)
from chess_env.rules.rules import as_batch

ENGLISH = "K Q R B N"
ALPHABETS = (
    "K D T L S",  # Danish, German, Norwegian, Slovene, Swedish
    "K D V S J",  # Czech
    "K D T L P",  # Dutch
    "K L V O R",  # Estonian
    "K D T L R",  # Finnish
    "R D T F C",  # French
    "K V B F H",  # Hungarian
    "K D H B R",  # Icelandic
    "R D T A C",  # Catalan, Italian, Spanish
    "K D T L Z",  # Latvian
    "K H W G S",  # Polish
    "R D T B C",  # Portuguese
    "R D T N C",  # Romanian
    "Ş V K F A",  # Turkish
    "Ц Д Т О К",  # Bulgarian
    "Ρ Β Π Α Ι",  # Greek
    "Кр Ф Л С К",  # Russian
    "Кр Ф Т С К",  # Ukrainian
    "К Д Т Л С",  # Serbian
    "K Q R B N P",  # English, with pawns
)
"""Letters of king, queen, rook, bishop, knight and perhaps pawn, from the PGN standard (8.2.3.2) and elsewhere."""

_FIGURINES = {chr(0x2654 + at): kind for at, kind in enumerate((5, 4, 3, 2, 1, 0) * 2)}
_MAN = r"(?:[^\W\d_a-z]{1,2}?|[♔-♟])"  # a capital letter, or two as Кр
_CASTLES = "[O0oО]"
_MOVE = re.compile(
    rf"""(?: (?P<castles>{_CASTLES}-{_CASTLES}(?P<long>-{_CASTLES})?)
      | (?P<man>{_MAN})? (?P<file>[a-h])? (?P<rank>[1-8])? (?P<mark>[-x:])? (?P<to>[a-h][1-8])
        (?:(?<=[18])(?(man)=|[=/]?)\(?(?P<promoted>{_MAN}|[qrbn])\)?)? (?:e\.?p\.?)? )
    (?:\+\+|[+#†‡≠])? [!?‼⁇⁈⁉]* N? (?:\$\d+)* (?:[=±∓⩲⩱∞□]|\+-|-\+|\+/-|-/\+|\+/=|=/\+|\+=|=\+)? [.,]?""",
    re.VERBOSE,
)
_NULL = frozenset({"-", "--", "---", "Z0", "0000", "@@@@"})

# How a move is packed for the kernel; a file or rank that is not given is 0.
_FILE, _RANK, _KIND, _PROMOTED, _CAPTURE = 6, 10, 14, 17, 20
_ANY_KIND, _CASTLING = 6, 7
_NO_MOVE = _CASTLING << _KIND | 2


@lru_cache(maxsize=1 << 16)
def letters_of(word: str) -> frozenset[str] | None:
    """The letters for men in a word that is a move, figurines left out; None where it is no move."""
    found = _MOVE.fullmatch(word)
    if found is None:
        return frozenset() if word in _NULL else None
    named = {found["man"], (found["promoted"] or "").upper()}
    return frozenset(letter for letter in named if letter and letter not in _FIGURINES)


@lru_cache(maxsize=1 << 16)
def encoded(word: str, letters: str) -> int | None:
    """The move in a word for `play`; None where not all of it is understood.

    Args:
        word: as `Nf3`, `♘f3`, `exd8=Q+`, `Ng1-f3`, `g1f3`, `O-O`; a null move is understood, and never legal.
        letters: for king, queen, rook, bishop and knight, as in `ALPHABETS`.
    """
    if word in _NULL:
        return _NO_MOVE
    found = _MOVE.fullmatch(word)
    if found is None:
        return None
    if found["castles"]:
        return _CASTLING << _KIND | (found["long"] is not None)
    kinds = {**_FIGURINES, **dict(zip(letters.split(), (5, 4, 3, 2, 1, 0), strict=False))}
    whole = found["file"] is not None and found["rank"] is not None
    kind = _ANY_KIND if whole else 0
    if found["man"]:
        kind = kinds.get(found["man"], -1)
    promoted = kinds.get((found["promoted"] or "").upper(), -1) if found["promoted"] else 0
    if kind < 0 or promoted < 0:
        return None
    file = "abcdefgh".find(found["file"] or "?") + 1
    rank = int(found["rank"] or 0)
    to = "abcdefgh".index(found["to"][0]) + 8 * (int(found["to"][1]) - 1)
    captures = found["mark"] is not None and found["mark"] != "-"
    return (
        to | file << _FILE | rank << _RANK | kind << _KIND | promoted << _PROMOTED
        | captures << _CAPTURE
    )  # fmt: skip


@inlined
def _is_meant(position: Positions, action: int, move: int, flip: int) -> bool:
    """Whether the legal action is what the packed move says."""
    start, end = ACTION_FROM[action], ACTION_TO[action]
    wanted = (move >> _KIND) & 7
    if wanted != _CASTLING and end ^ flip != move & 63:
        return False  # as nearly all: looked at first
    landed = square_bit(end)
    kind = 0
    for candidate in range(1, 6):
        if position[candidate] & square_bit(start):
            kind = candidate
    castles = kind == KINGS and abs(end - start) == 2
    start, end = start ^ flip, end ^ flip
    if wanted == _CASTLING:
        return castles and move & 63 == (end < start)
    file, rank = (move >> _FILE) & 15, (move >> _RANK) & 15
    if castles and (file == 0 or rank == 0):
        return False
    promoted = 0
    if kind == PAWNS and end // 8 in (0, 7):
        promoted = ACTION_PROMOTION[action] - 1 if ACTION_PROMOTION[action] else QUEENS
    captures = occupied_squares(position) & landed != U0
    if kind == PAWNS and (start - end) % 8 != 0:
        captures = True
        if file == 0:
            return False
    return (
        wanted in (kind, _ANY_KIND)
        and promoted == (move >> _PROMOTED) & 7
        and file in (0, start % 8 + 1)
        and rank in (0, start // 8 + 1)
        and (captures or not (move >> _CAPTURE) & 1)
    )


@inlined
def _meant(position: Positions, move: int, legal_ids: NDArray[np.int16]) -> int:
    """The one legal action that the packed move says, or -1; `legal_ids` is written over."""
    flip = 56 if position[STATE] & BLACK_BIT else 0
    found, action = 0, -1
    for slot in range(legal_actions_of(position, legal_ids)):
        if _is_meant(position, legal_ids[slot], move, flip):
            action = legal_ids[slot]
            found += 1
    return action if found == 1 else -1


@kernel
def _play(
    start: Positions, moves: NDArray[np.int64], path: Positions, actions: NDArray[np.int16]
) -> int:
    """Number of moves played."""
    legal_ids = np.empty(MAX_LEGAL, np.int16)
    path[0] = start
    for ply in range(len(moves)):
        action = _meant(path[ply], moves[ply], legal_ids)
        if action < 0:
            return ply
        actions[ply] = action
        apply(path[ply], action, path[ply + 1])
    return len(moves)


def play(start: Positions, moves: Sequence[int]) -> tuple[Positions, NDArray[np.int16]]:
    """(uint64 [n, 8] positions, int16 [n] actions played in them), up to the first move that is not one legal one.

    Args:
        start: uint64 [8].
        moves: from `encoded`.
    """
    path, actions = np.empty((len(moves) + 1, 8), np.uint64), np.empty(len(moves), np.int16)
    with announced("reading moves", _play):
        played = _play(start, np.array(moves, np.int64), path, actions)
    return path[:played], actions[:played]


@kernel
def _play_batch(
    starts: Positions,
    moves: NDArray[np.int64],
    ends: NDArray[np.int64],
    actions: NDArray[np.int16],
    played: NDArray[np.int64],
) -> None:
    legal_ids = np.empty(MAX_LEGAL, np.int16)
    position, after = np.empty(8, np.uint64), np.empty(8, np.uint64)
    first = 0
    for line in range(len(starts)):
        position[:] = starts[line]
        for at in range(first, ends[line]):
            action = _meant(position, moves[at], legal_ids)
            if action < 0:
                break
            actions[at] = action
            played[line] += 1
            apply(position, action, after)
            position[:] = after
        first = ends[line]


def play_batch(
    starts: Positions, moves: NDArray[np.int64], lengths: NDArray[np.int64]
) -> tuple[NDArray[np.int16], NDArray[np.int64]]:
    """(int16 [M] actions, int64 [N] how many moves of each line are legal).

    A line ends at its first move that is not one legal one; from there on its actions are -1.

    Args:
        starts: uint64 [N, 8].
        moves: int64 [M] from `encoded`: one line behind the other.
        lengths: int64 [N] of the lines.
    """
    actions, played = np.full(len(moves), -1, np.int16), np.zeros(len(starts), np.int64)
    with announced("reading moves", _play_batch):
        _play_batch(as_batch(starts), moves, np.cumsum(lengths), actions, played)
    return actions, played


class Reading(NamedTuple):
    """The moves of a game, up to the first that is not certain.

    Attributes:
        positions: uint64 `[n, 8]` in which they were played.
        actions: int16 `[n]`.
        letters: that the game is written in, as in `ALPHABETS`; None where it is cut because it may be in several.
    """

    positions: Positions
    actions: NDArray[np.int16]
    letters: str | None


def read_moves(start: Positions, words: Sequence[str]) -> Reading:
    """The moves of a game, in English letters, or else in those of another language.

    Another language is certain where one or more that have all letters of the game make legal moves of all its words,
    and all of these the same ones.

    Args:
        start: uint64 [8].
        words: moves, of which `letters_of` is not None.
    """
    english = _played(start, words, ENGLISH)
    used = frozenset[str]().union(*(letters_of(word) or () for word in words))
    others = [alphabet for alphabet in ALPHABETS if used <= frozenset(alphabet.split())]
    if len(english.actions) == len(words) or not others or used <= frozenset(ENGLISH.split()):
        return english
    readings = [_played(start, words, alphabet) for alphabet in others]
    whole = {each.actions.tobytes(): each for each in readings if len(each.actions) == len(words)}
    if len(whole) == 1:
        return next(iter(whole.values()))
    # What English made of a letter may be another man of the language that the game is in.
    first = next(at for at, word in enumerate(words) if letters_of(word))
    return Reading(english.positions[:first], english.actions[:first], None)


def _played(start: Positions, words: Sequence[str], letters: str) -> Reading:
    moves = [encoded(word, letters) for word in words]
    known = moves[: moves.index(None)] if None in moves else moves
    return Reading(*play(start, known), letters)  # type: ignore[arg-type]
