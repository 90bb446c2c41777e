"""UCI: command lines as values, the engine's options, and its answers to what it reads.

A state machine without threads, clocks, input or output; no line is an error. It is light, so that `uci` is answered
before torch and the rules of chess are loaded.

The protocol: Meyer-Kahlen, "Description of the universal chess interface", April 2006
(https://backscattering.de/chess/uci/).
"""

from __future__ import annotations

import codecs
import dataclasses
import enum
import re
from collections import deque
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import chess

    from algorithms.playing.position import GamePosition


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
class NoPosition:
    """`position ...` that cannot be read: the engine then has no position.

    Attributes:
        reason: for people, one line of ASCII.
    """

    reason: str


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


Command = Word | SetOption | Position | NoPosition | Go | Ignored

_WORDS = {word.value: word for word in Word}
_LIMITS = frozenset(
    ("wtime", "btime", "winc", "binc", "movestogo", "depth", "nodes", "mate", "movetime")
)
_GO_WORDS = _LIMITS | {"searchmoves", "infinite", "ponder"}
_SILENT = frozenset(("debug", "register"))  # known commands that change nothing here


def parse(line: bytes) -> Command:
    """The command in a line of the GUI; never an error.

    Words before the first known command are skipped, as the protocol asks. The words of the protocol may be
    in capitals, and a byte order mark may stand before the first, as some shells write it.
    """
    words = line.removeprefix(codecs.BOM_UTF8).decode("utf-8", "replace").split()
    for index, word in enumerate(map(str.lower, words)):
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
    if not words or words[0].lower() != "name":
        return Ignored("setoption without a name: expected setoption name NAME value VALUE")
    end = _first(words, ("value",))
    return SetOption(" ".join(words[1:end]), " ".join(words[end + 1 :]))


def _first(words: list[str], known: Collection[str]) -> int:
    """The index of the first of `words` that is known, in any case; their number where none is."""
    return next((i for i, word in enumerate(words) if word.lower() in known), len(words))


def _position(words: list[str]) -> Position | NoPosition:
    end = _first(words, ("moves",))
    root, moves = words[:end], tuple(words[end + 1 :])
    kind = root[0].lower() if root else ""
    if kind == "startpos" and len(root) == 1:
        return Position(None, moves)
    if kind == "fen" and len(root) > 1:
        return Position(" ".join(root[1:]), moves)
    return NoPosition(
        f"position {shown(' '.join(root))}: expected position startpos or position fen FEN, then "
        "perhaps moves MOVE ..."
    )


def _go(words: list[str]) -> Go:
    words = [word.lower() for word in words]
    limits = tuple(dict.fromkeys(word for word in words if word in _LIMITS))
    searchmoves = None
    if "searchmoves" in words:
        after = words[words.index("searchmoves") + 1 :]
        searchmoves = tuple(after[: _first(after, _GO_WORDS)])
    return Go(limits, searchmoves, "infinite" in words, "ponder" in words)


MOST_MOVES = 218
"""`chess_env.rules.movegen.MAX_LEGAL`, repeated here so that `uci` is answered before numba is loaded."""


@dataclasses.dataclass(frozen=True)
class Spin:
    """An option that is a whole number.

    Attributes:
        name: as the GUI shows it.
        default: value at the start.
        low: smallest value.
        high: largest value.
        meaning: one sentence for people.
    """

    name: str
    default: int
    low: int
    high: int
    meaning: str

    @property
    def line(self) -> str:
        """What the engine says of it after `uci`."""
        return (
            f"option name {self.name} type spin default {self.default} "
            f"min {self.low} max {self.high}"
        )


TEMPERATURE = Spin(
    "Temperature", 0, 0, 1000,
    "In percent. 0: the most probable move is played; 100: moves are drawn with the policy's own "
    "probabilities (softmax temperature 1); between, sharper; above, flatter.",
)  # fmt: skip
TOP_K = Spin(
    "TopK", 0, 0, MOST_MOVES,
    "Where Temperature is above 0: only the so many most probable moves are drawn from; 0: all.",
)  # fmt: skip
SEED = Spin(
    "Seed", -1, -1, 2**31 - 1,
    "Where Temperature is above 0: the same seed plays the same move in the same position of a "
    "game; -1: drawn anew every time.",
)  # fmt: skip
MULTI_PV = Spin(
    "MultiPV", 1, 1, MOST_MOVES,
    "1: the move that is played is shown; more: so many of the most probable moves.",
)  # fmt: skip

SEARCH = Spin(
    "Search", 0, 0, MOST_MOVES,
    "0: no search. Above: the so many most probable moves are looked at two plies ahead, and the one with the best "
    "score is played; Temperature, TopK and Seed then choose nothing. This is no longer the policy's own play.",
)  # fmt: skip

SPINS = (TEMPERATURE, TOP_K, SEED, MULTI_PV, SEARCH)


def set_value(values: dict[Spin, int], command: SetOption) -> None:
    """Changes one of the values of `SPINS`.

    Raises:
        ValueError: there is no such option, or the value is no whole number in its range; it stays as it is.
    """
    known = {spin.name.lower(): spin for spin in SPINS}
    spin = known.get(command.name.lower())
    if spin is None:
        names = ", ".join(spin.name for spin in SPINS)
        raise ValueError(f"option {shown(command.name)} is unknown and ignored; known: {names}")
    text = command.value
    value = int(text) if re.fullmatch("-?[0-9]{1,10}", text) else None
    if value is None or not spin.low <= value <= spin.high:
        raise ValueError(
            f"option {spin.name} stays {values[spin]}: {shown(text)} is not a whole "
            f"number from {spin.low} to {spin.high}"
        )
    values[spin] = value


@dataclasses.dataclass(frozen=True)
class Request:
    """A position and how a move is to be chosen in it.

    Attributes:
        position: the position.
        temperature: of the softmax; 0 chooses the most probable move.
        top_k: number of most probable moves to choose from; 0 for all.
        seed: of the choice; None gives another choice every time.
        searchmoves: legal moves to choose from; None for all.
        search: number of most probable moves that are looked at two plies ahead; 0 for none.
    """

    position: GamePosition
    temperature: float
    top_k: int
    seed: int | None
    searchmoves: tuple[chess.Move, ...] | None
    search: int = 0


@dataclasses.dataclass(frozen=True)
class Line:
    """A move that was looked at two plies ahead.

    Attributes:
        moves: it and the best reply; it alone where it ends the game.
        score_cp: after them, the mover's view, mating being 10000.
    """

    moves: tuple[chess.Move, ...]
    score_cp: int


@dataclasses.dataclass(frozen=True)
class Answer:
    """The moves to choose from and the one chosen.

    Attributes:
        moves: most probable first.
        probs: of each, by the policy over *all* legal moves, at the request's temperature, or at
            temperature 1 where that is 0.
        best: the chosen move; None where no move is legal.
        scores_cp: of each move by an evaluator, the mover's view, mating being 10000; None where it cannot say.
        lines: of the moves that were looked at, best first; None without a search.
    """

    moves: tuple[chess.Move, ...]
    probs: tuple[float, ...]
    best: chess.Move | None
    scores_cp: tuple[int, ...] | None = None
    lines: tuple[Line, ...] | None = None


AUTHOR = "The chess-selfplay-lab maintainers"


@dataclasses.dataclass
class _Search:
    """One `go` that has not got its `bestmove` yet."""

    multipv: int
    search: int
    held_by_stop: bool
    held_by_ponder: bool
    answer: Answer | None = None


class Conversation:
    """Commands and answers in, lines out.

    Every `go` gets one `bestmove`, in the order asked. A new `go` stops the one before.

    Before the policy is loaded, the first command that needs it or the rules of chess waits, and
    with it all that come after, so that their order stays; `uci` goes past them.

    A `position` that is refused leaves none: until the next one, `go` is answered by `bestmove (none)`.

    Args:
        name: the engine's name.
        submit: is given each request at once; its answer comes back through `answered`, in order.
    """

    def __init__(self, name: str, submit: Callable[[Request], None]) -> None:
        self._name = name
        self._submit = submit
        self._options = {spin: spin.default for spin in SPINS}
        self._position: GamePosition | None = None  # None: the initial one
        self._refused = False  # True: the last position could not be read
        self._searches: deque[_Search] = deque()
        self._loaded = False
        self._waiting: list[Command] = []
        self._limits_said = False

    @property
    def busy(self) -> bool:
        """Whether a `bestmove` is still to come, or a `readyok` that waits for the policy."""
        return bool(self._searches) or any(
            isinstance(command, Go) or command is Word.IS_READY for command in self._waiting
        )

    def heard(self, command: Command) -> list[str]:
        """Lines to answer a command with at once."""
        if self._must_wait(command):
            self._waiting.append(command)
            return []
        return self._obeyed(command)

    def loaded(self) -> list[str]:
        """Lines to answer with when the policy has been loaded, and with it the rules of chess."""
        self._loaded = True
        waiting, self._waiting = self._waiting, []
        return [said for command in waiting for said in self._obeyed(command)]

    def answered(self, answer: Answer) -> list[str]:
        """Lines to answer with when the oldest open request has its answer."""
        search = next(search for search in self._searches if search.answer is None)
        search.answer = answer
        said = []
        if search.search and answer.best and answer.lines is None:
            said = [info_string("Search is left out: no game can reach this board")]
        return [*said, *_described(answer, search.multipv), *self._best_moves()]

    def _must_wait(self, command: Command) -> bool:
        if self._loaded or command is Word.UCI:
            return False
        needs_the_policy = (
            isinstance(command, Position | NoPosition | Go) or command is Word.IS_READY
        )
        return needs_the_policy or bool(self._waiting)

    def _obeyed(self, command: Command) -> list[str]:
        if isinstance(command, Word):
            return self._word(command)
        if isinstance(command, SetOption):
            return self._set_option(command)
        if isinstance(command, Position):
            return self._set_position(command)
        if isinstance(command, NoPosition):
            return self._refuse(command.reason)
        if isinstance(command, Go):
            return self._go(command)
        return [info_string(command.reason)] if command.reason else []

    def _word(self, word: Word) -> list[str]:
        if word is Word.UCI:
            options = [spin.line for spin in SPINS]
            return [f"id name {self._name}", f"id author {AUTHOR}", *options, "uciok"]
        if word is Word.IS_READY:
            return ["readyok"]
        if word is Word.STOP:
            return self._stop()
        if word is Word.PONDER_HIT:
            for search in self._searches:
                search.held_by_ponder = False
            return self._best_moves()
        return []  # ucinewgame: nothing is carried from one move to the next; quit: the reader ends there

    def _set_option(self, command: SetOption) -> list[str]:
        try:
            set_value(self._options, command)
        except ValueError as error:
            return [info_string(str(error))]
        return []

    def _set_position(self, command: Position) -> list[str]:
        # Not at the top: its import takes seconds, in which `uci` and `quit` would not be heard.
        from algorithms.playing.position import board_of_gui, reached

        try:
            self._position = reached(command.fen, command.moves, read=board_of_gui)
        except ValueError as error:
            return self._refuse(str(error))
        self._refused = False
        return []

    def _refuse(self, reason: str) -> list[str]:
        self._position, self._refused = None, True
        return [info_string(f"no move until the next position: {reason}")]

    def _go(self, go: Go) -> list[str]:
        from algorithms.playing.position import reached

        said = self._stop()
        if go.limits and not self._limits_said:
            self._limits_said = True
            what = "one forward pass" + (" and two plies" if self._options[SEARCH] else "")
            said.append(
                info_string(f"limits are ignored ({', '.join(go.limits)}): a move takes {what}")
            )
        if self._refused:
            self._searches.append(
                _Search(1, 0, go.infinite, go.ponder, answer=Answer((), (), None))
            )
            return said + self._best_moves()
        if self._position is None:
            self._position = reached(None, ())
        searchmoves, complaint = _allowed(self._position, go.searchmoves)
        seed = self._options[SEED]
        request = Request(
            self._position,
            temperature=self._options[TEMPERATURE] / 100,
            top_k=self._options[TOP_K],
            seed=None if seed == SEED.default else seed,
            searchmoves=searchmoves,
            search=self._options[SEARCH],
        )
        self._searches.append(
            _Search(self._options[MULTI_PV], request.search, go.infinite, go.ponder)
        )
        self._submit(request)
        return said + complaint

    def _stop(self) -> list[str]:
        for search in self._searches:
            search.held_by_stop = search.held_by_ponder = False
        return self._best_moves()

    def _best_moves(self) -> list[str]:
        """The moves that are known, not held back, and not behind one that is."""
        said = []
        while self._searches:
            search = self._searches[0]
            if search.answer is None or search.held_by_stop or search.held_by_ponder:
                break
            self._searches.popleft()
            best = search.answer.best
            said.append(f"bestmove {best.uci() if best else '(none)'}")
        return said


def _allowed(
    position: GamePosition, searchmoves: tuple[str, ...] | None
) -> tuple[tuple[chess.Move, ...] | None, list[str]]:
    """(the legal ones of `searchmoves`, or None for all moves; what to say about it)."""
    if searchmoves is None:
        return None, []
    from algorithms.playing.position import legal_move

    moves = (legal_move(position.board, text) for text in searchmoves)
    allowed = tuple(move for move in moves if move is not None)
    if allowed:
        return allowed, []
    given = shown(" ".join(searchmoves))
    return None, [info_string(f"searchmoves {given} are ignored: none of them is legal here")]


def _described(answer: Answer, multipv: int) -> list[str]:
    """The info lines of an answer: the chosen move; or it and then a list of the most probable ones.

    With a search the moves that were looked at, of which the first is chosen.
    """
    if answer.best is None:
        return [info_string("no legal move: the game is over")]
    if answer.lines is not None:
        return [
            f"info depth 2 multipv {number} score {_score(line.score_cp)} pv "
            f"{' '.join(move.uci() for move in line.moves)} string {_place(answer, line.moves[0])}"
            for number, line in enumerate(answer.lines[:multipv], 1)
        ]
    chosen, best = _place(answer, answer.best), answer.best.uci()
    scores = ["" for _ in answer.moves]
    if answer.scores_cp is not None:
        scores = [f" score {_score(score_cp)}" for score_cp in answer.scores_cp]
    if multipv == 1:  # a GUI takes this line for the move that is played
        score = scores[answer.moves.index(answer.best)]
        return [f"info depth 1 multipv 1{score} pv {best} string {chosen}"]
    lines = [
        f"info depth 1 multipv {slot + 1}{scores[slot]} pv {answer.moves[slot].uci()} "
        f"string p={answer.probs[slot]:.4f}"
        for slot in range(min(multipv, len(answer.moves)))
    ]
    # First, because python-chess takes a bare string for part of the last word on line 1.
    return [info_string(f"chosen {best}: {chosen}"), *lines]


def _place(answer: Answer, move: chess.Move) -> str:
    """Such as `p=0.1336, rank 1 of 29`."""
    slot = answer.moves.index(move)
    return f"p={answer.probs[slot]:.4f}, rank {slot + 1} of {len(answer.moves)}"


_MATE_CP, _LEAST_MATE_CP = 10_000, 9_001  # see `chess_env.evaluators.protocol.Evaluator.evaluate`


def _score(score_cp: int) -> str:
    """What UCI says of a move's score: `cp 30` or `mate 2`."""
    if abs(score_cp) < _LEAST_MATE_CP:
        return f"cp {score_cp}"
    # Of the position after the move: n moves until the opponent is mated, to which this move comes; or
    # until the opponent mates.
    return f"mate {_MATE_CP - score_cp + 1 if score_cp > 0 else -(_MATE_CP + score_cp)}"
