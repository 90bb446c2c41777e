"""UCI's command lines as values: no state, no input or output, and no line is an error.

The protocol: Meyer-Kahlen, "Description of the universal chess interface", April 2006
(https://backscattering.de/chess/uci/).
"""

from __future__ import annotations

import dataclasses
import enum

_SHOWN_CHARS = 60


class Word(enum.Enum):
    """A command that is one word."""

    UCI = "uci"
    IS_READY = "isready"
    NEW_GAME = "ucinewgame"
    STOP = "stop"
    PONDER_HIT = "ponderhit"
    QUIT = "quit"


@dataclasses.dataclass(frozen=True)
class SetOption:
    """`setoption name NAME value VALUE`.

    Attributes:
        name: as written; an engine compares it without case.
        value: empty where none was given.
    """

    name: str
    value: str


@dataclasses.dataclass(frozen=True)
class Position:
    """`position startpos|fen FEN moves ...`; whether it is legal is not checked.

    Attributes:
        fen: None for the initial position.
        moves: as written, in their order.
    """

    fen: str | None
    moves: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Go:
    """`go ...`.

    Attributes:
        limits: names of the limits given, such as "depth", each once; their values are not kept.
        searchmoves: the only moves to choose from, as written; None for all.
        infinite: the move is asked for by `stop` alone.
        ponder: the move is asked for by `ponderhit` or `stop`.
    """

    limits: tuple[str, ...] = ()
    searchmoves: tuple[str, ...] | None = None
    infinite: bool = False
    ponder: bool = False


@dataclasses.dataclass(frozen=True)
class Ignored:
    """A line that means nothing here.

    Attributes:
        reason: for people, one line of ASCII; empty where there is nothing to say.
    """

    reason: str


Command = Word | SetOption | Position | Go | Ignored

_WORDS = {word.value: word for word in Word}
_LIMITS = frozenset(
    ("wtime", "btime", "winc", "binc", "movestogo", "depth", "nodes", "mate", "movetime")
)
_GO_WORDS = _LIMITS | {"searchmoves", "infinite", "ponder"}
_SILENT = frozenset(("debug", "register"))  # known commands that change nothing here


def parse(line: bytes) -> Command:
    """The command in a line of the GUI; never an error.

    Words before the first known command are skipped, as the protocol asks.
    """
    words = line.decode("utf-8", "replace").split()
    for index, word in enumerate(words):
        rest = words[index + 1 :]
        if word in _WORDS:
            return _WORDS[word]
        if word == "setoption":
            return _set_option(rest)
        if word == "position":
            return _position(rest)
        if word == "go":
            return _go(rest)
        if word in _SILENT:
            return Ignored("")
    return Ignored(f"unknown command {shown(words[0])}" if words else "")


def shown(text: str) -> str:
    """`text` in quotes, as one line of ASCII and cut where it is long."""
    cut = text if len(text) <= _SHOWN_CHARS else text[:_SHOWN_CHARS] + "..."
    return ascii(cut)


def info_string(text: str) -> str:
    """A line with a message for people: one line of printable ASCII, whatever `text` is."""
    line = " ".join(text.split())
    return "info string " + "".join(
        letter if " " <= letter <= "~" else ascii(letter)[1:-1] for letter in line
    )


def _set_option(words: list[str]) -> SetOption | Ignored:
    if not words or words[0] != "name":
        return Ignored("setoption without a name: expected setoption name NAME value VALUE")
    end = words.index("value") if "value" in words else len(words)
    return SetOption(" ".join(words[1:end]), " ".join(words[end + 1 :]))


def _position(words: list[str]) -> Position | Ignored:
    end = words.index("moves") if "moves" in words else len(words)
    root, moves = words[:end], tuple(words[end + 1 :])
    if root == ["startpos"]:
        return Position(None, moves)
    if len(root) > 1 and root[0] == "fen":
        return Position(" ".join(root[1:]), moves)
    return Ignored(
        f"position {shown(' '.join(root))}: expected position startpos or position fen FEN, then "
        "perhaps moves MOVE ..."
    )


def _go(words: list[str]) -> Go:
    limits = tuple(dict.fromkeys(word for word in words if word in _LIMITS))
    searchmoves = None
    if "searchmoves" in words:
        after = words[words.index("searchmoves") + 1 :]
        end = next((i for i, word in enumerate(after) if word in _GO_WORDS), len(after))
        searchmoves = tuple(after[:end])
    return Go(limits, searchmoves, "infinite" in words, "ponder" in words)
