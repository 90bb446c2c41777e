"""The language of UCI engines: where Stockfish is found, its handshake, its options and its replies."""

from __future__ import annotations

import functools
import math
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

MATE_SCORE = 10_000  # mate in n moves is +-(MATE_SCORE - n)
MAX_CP = (
    9_800  # centipawn scores beyond this are cut to it, so that no evaluation looks like a mate
)
INSTALL_HINT = (
    "Install Stockfish (`apt-get install stockfish`, `brew install stockfish`, or stockfishchess.org/download), "
    'or name the binary: STOCKFISH_PATH=/path/to/stockfish, or evaluator="stockfish:path=/path/to/stockfish". '
    'evaluator="builtin" needs no engine.'
)
_SHOWN = 200  # characters of what an engine says of itself
_PROMOTION_LETTERS = {0: "", 2: "n", 3: "b", 4: "r"}
_USUAL_FOLDERS = "/usr/games:/usr/bin:/usr/local/bin:/opt/homebrew/bin"


class EngineError(RuntimeError):
    """A chess engine could not be started or would not answer.

    Attributes:
        failed: reason by engine FEN, for positions that no engine could score; empty when no engine runs at all.
        scores: the scores that were answered (int32 [N]), when positions failed; the entries where `answered`
            is false hold 0 and mean nothing.
        answered: bool [N], true where `scores` holds an answer.
    """

    failed: Mapping[str, str] = {}
    scores: object = None
    answered: object = None


class LostEngineError(EngineError):
    """An engine was ended or stopped from outside before it was ready; a new one may work."""


def find_stockfish(path: str | Path | None = None) -> Path | None:
    """Path of the Stockfish binary, or None where none is installed.

    Looks at the argument, the variable STOCKFISH_PATH, PATH, then the usual folders (Debian installs into
    /usr/games, which is often not on PATH).

    Raises:
        EngineError: the argument or STOCKFISH_PATH names something that is not an executable file.
    """
    for source, named in (("path", path), ("STOCKFISH_PATH", os.environ.get("STOCKFISH_PATH"))):
        if named:
            given = Path(shutil.which(str(named)) or Path(named).expanduser())
            if given.is_file() and os.access(given, os.X_OK):
                return given
            state = "is not an executable file" if given.exists() else "does not exist"
            raise EngineError(
                f"No Stockfish at {source}={str(named)!r}: it {state}. {INSTALL_HINT}"
            )
    found = shutil.which("stockfish") or shutil.which("stockfish", path=_USUAL_FOLDERS)
    return None if found is None else Path(found)


@dataclass(frozen=True)
class UciOption:
    """One `option name ...` line of an engine: `kind` ("spin", "check", ...), `default`, and what may be set.

    That is `minimum` to `maximum`, or one of the `choices`.
    """

    name: str
    kind: str
    default: str = ""
    minimum: int | None = None
    maximum: int | None = None
    choices: tuple[str, ...] = ()

    def fault(self, value: object) -> str | None:
        """What is wrong with `value` for this option, or None. Engines ignore or die of wrong values silently."""
        text = str(value)
        if "\n" in text or "\r" in text:
            return "a value on one line"
        if self.kind == "spin":
            high = math.inf if self.maximum is None else self.maximum
            if not (re.fullmatch(r"-?\d+", text) and (self.minimum or 0) <= int(text) <= high):
                return f"an integer from {self.minimum} to {self.maximum}"
        if self.kind == "check" and text.lower() not in ("true", "false"):
            return "True or False"
        if self.kind == "combo" and text not in self.choices:
            return f"one of {', '.join(self.choices)}"
        return None


@dataclass(frozen=True)
class Handshake:
    """What an engine says of itself: its name and its options by lower-case name."""

    name: str
    options: Mapping[str, UciOption]

    @classmethod
    def parse(cls, text: str) -> Handshake:
        """The handshake in an engine's reply to `uci`."""
        name, options = "", {}
        for line in text.splitlines():
            if line.startswith("id name "):
                name = line[8:].strip()
            elif match := re.match(r"option name (.+?) type (\w+)(.*)", line):
                label, kind, rest = match.groups()
                fields = dict(re.findall(r"(default|min|max) (\S+)", rest))
                options[label.lower()] = UciOption(
                    label,
                    kind,
                    fields.get("default", ""),
                    _bound(fields.get("min", "")),
                    _bound(fields.get("max", "")),
                    tuple(re.findall(r" var (.+?)(?= var |$)", rest)),
                )
        return cls(name, options)

    def commands(self, options: Mapping[str, object]) -> bytes:
        """The `setoption` lines for `options`.

        Raises:
            ValueError: the engine has no such option, or the value is outside its range.
        """
        lines = []
        for name, value in options.items():
            option = self.options.get(name.lower())
            if option is None:
                known = ", ".join(sorted(o.name for o in self.options.values()))
                raise ValueError(
                    f"{self.name[:_SHOWN]} has no UCI option {name!r}; it has: {known[:_SHOWN]}"
                )
            if fault := option.fault(value):
                raise ValueError(
                    f"{self.name[:_SHOWN]}: UCI option {name} is {value!r}, expected {fault[:_SHOWN]}"
                )
            text = str(value).lower() if option.kind == "check" else str(value)
            lines.append(f"setoption name {option.name} value {text}\n")
        return "".join(lines).encode()


def _bound(text: str) -> int | None:
    """The bound of an option; None where the engine gives none, or no number."""
    return int(text) if re.fullmatch(r"-?[0-9]{1,18}", text) else None


def _centipawns(line: bytes, moved: bool) -> int:
    """The score after ` score ` in an info line, from the view the engine prints it in.

    `moved` counts a mate from the position after the move instead of before it.

    Raises:
        ValueError: no number where one belongs.
    """
    kind, _, rest = line.partition(b" ")
    number = int(rest.partition(b" ")[0])
    if kind == b"cp":
        return max(-MAX_CP, min(MAX_CP, number))
    if kind != b"mate" or not number:
        raise ValueError(f"a score of kind {kind[:20]!r}")
    if abs(number) >= MATE_SCORE - MAX_CP:
        raise ValueError("a mate in more moves than any search sees")
    return MATE_SCORE - number + moved if number > 0 else -MATE_SCORE - number


def parse_score(reply: bytes) -> int:
    """Centipawns from the side to move's view in the output of one `go`, up to its `bestmove`.

    The last `info` line with an exact score counts; lines marked lowerbound or upperbound only where
    there is no other. Mate in n moves (as UCI counts them) is MATE_SCORE - n, being mated in n is
    n - MATE_SCORE; centipawns are cut to +-MAX_CP.

    Raises:
        ValueError: there is no such line.
    """
    end, last_bound = len(reply), b""
    while (at := reply.rfind(b" score ", 0, end)) >= 0:
        if reply.startswith(b"info depth ", reply.rfind(b"\n", 0, at) + 1):
            line = reply[at + 7 : reply.find(b"\n", at)]
            if b"bound" not in line:
                return _centipawns(line, False)
            last_bound = last_bound or line
        end = at
    if last_bound:
        return _centipawns(last_bound, False)
    raise ValueError("no score in the reply")


def parse_move_scores(reply: bytes) -> dict[bytes, int]:
    """Score of each move (UCI text) in the last complete MultiPV block of a reply, from the mover's view.

    A score is minus the score of the position that the move leads to, so a move that mates is MATE_SCORE
    and one that mates in n moves MATE_SCORE - (n - 1), while being mated in n stays n - MATE_SCORE.

    Raises:
        ValueError: there is no such block, or a line of it has no score or no move.
    """
    at = reply.rfind(b" multipv 1 ")
    if at < 0:
        raise ValueError("no ` multipv 1 ` line in the reply")
    scores = {}
    for line in reply[reply.rfind(b"\n", 0, at) + 1 :].split(b"\n"):
        if line.startswith(b"info depth "):
            _, _, score = line.partition(b" score ")
            _, _, pv = score.partition(b" pv ")
            scores[pv.partition(b" ")[0].rstrip()] = _centipawns(score, True)
    return scores


def parse_best_move(reply: bytes) -> bytes:
    """UCI text of the move that the last line of a search begins with: what the engine then plays.

    (The reply ends before `bestmove`. With one thread and one line the two agree, which a test asks of
    a real engine.)

    Raises:
        ValueError: there is no such line.
    """
    _, found, line = reply.rpartition(b" pv ")
    move = line.partition(b"\n")[0].split()
    if not found or not move:
        raise ValueError("no ` pv ` line in the reply")
    return move[0]


@functools.cache
def action_of_uci(black: bool) -> dict[bytes, int]:
    """Action id by UCI move text, for one colour; `e7e8` and `e7e8q` are one action."""
    from chess_env import moves

    flip, table = 56 if black else 0, {}
    squares = [f"{'abcdefgh'[s % 8]}{s // 8 + 1}" for s in range(64)]
    for action in range(moves.NUM_ACTIONS):
        start, end = int(moves.ACTION_FROM[action]) ^ flip, int(moves.ACTION_TO[action]) ^ flip
        letter = _PROMOTION_LETTERS[int(moves.ACTION_PROMOTION[action])]
        text = squares[start] + squares[end] + letter
        table[text.encode()] = action
        if not letter:
            table[text.encode() + b"q"] = action
    return table


@functools.cache
def uci_of_action(black: bool) -> list[str]:
    """UCI text of each action id for one colour, without the `q` of a pawn that becomes a queen."""
    texts = {action: text for text, action in action_of_uci(black).items() if text[4:] != b"q"}
    return [texts[action].decode() for action in sorted(texts)]
