"""The engine's answers to what it reads: a state machine without threads, clocks, input or output."""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from algorithms.playing.requests import Answer, Request
from algorithms.playing.uci.options import (
    MULTI_PV,
    SEED,
    SPINS,
    TEMPERATURE,
    TOP_K,
    OptionError,
    Options,
)
from algorithms.playing.uci.protocol import (
    Command,
    Go,
    Position,
    SetOption,
    Word,
    info_string,
    shown,
)

if TYPE_CHECKING:
    import chess

    from algorithms.playing.position import GamePosition

AUTHOR = "The chess-selfplay-lab maintainers"


@dataclasses.dataclass
class _Search:
    """One `go` that has not got its `bestmove` yet."""

    multipv: int
    held_by_stop: bool
    held_by_ponder: bool
    answer: Answer | None = None

    def release(self) -> None:
        self.held_by_stop = self.held_by_ponder = False


class Conversation:
    """Commands and answers in, lines out.

    Every `go` gets one `bestmove`, in the order asked. A new `go` stops the one before.

    Before the policy is loaded, the first command that needs it or the rules of chess waits, and
    with it all that come after, so that their order stays; `uci` and `quit` go past them.

    Args:
        name: the engine's name.
        submit: is given each request at once; its answer comes back through `answered`, in order.

    Attributes:
        over: True after `quit`.
    """

    def __init__(self, name: str, submit: Callable[[Request], None]) -> None:
        self.over = False
        self._name = name
        self._submit = submit
        self._options = Options()
        self._position: GamePosition | None = None  # None: the initial one
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
        return [*_described(answer, search.multipv), *self._best_moves()]

    def _must_wait(self, command: Command) -> bool:
        if self._loaded or command in (Word.UCI, Word.QUIT):
            return False
        needs_the_policy = isinstance(command, Position | Go) or command is Word.IS_READY
        return needs_the_policy or bool(self._waiting)

    def _obeyed(self, command: Command) -> list[str]:
        if isinstance(command, Word):
            return self._word(command)
        if isinstance(command, SetOption):
            return self._set_option(command)
        if isinstance(command, Position):
            return self._set_position(command)
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
        if word is Word.QUIT:
            self.over = True
        return []  # ucinewgame too: nothing is carried from one move to the next

    def _set_option(self, command: SetOption) -> list[str]:
        try:
            self._options.set(command)
        except OptionError as error:
            return [info_string(str(error))]
        return []

    def _set_position(self, command: Position) -> list[str]:
        # Not at the top: its import takes seconds, in which `uci` and `quit` would not be heard.
        from algorithms.playing.position import reached

        try:
            self._position = reached(command.fen, command.moves)
        except ValueError as error:
            return [info_string(f"the position before stands: {error}")]
        return []

    def _go(self, go: Go) -> list[str]:
        from algorithms.playing.position import reached

        said = self._stop()
        if go.limits and not self._limits_said:
            self._limits_said = True
            said.append(
                info_string(
                    f"limits are ignored ({', '.join(go.limits)}): a move takes one forward pass"
                )
            )
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
        )
        self._searches.append(_Search(self._options[MULTI_PV], go.infinite, go.ponder))
        self._submit(request)
        return said + complaint

    def _stop(self) -> list[str]:
        for search in self._searches:
            search.release()
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
    from algorithms.playing.position import legal_moves

    allowed = legal_moves(position.board, searchmoves)
    if allowed:
        return allowed, []
    given = shown(" ".join(searchmoves))
    return None, [info_string(f"searchmoves {given} are ignored: none of them is legal here")]


def _described(answer: Answer, multipv: int) -> list[str]:
    """The info lines of an answer: the chosen move; or it and then a list of the most probable ones.

    There is no score: a policy has none, and none is made up.
    """
    if answer.best is None:
        return [info_string("no legal move: the game is over")]
    place = answer.moves.index(answer.best)
    chosen = f"p={answer.probs[place]:.4f}, rank {place + 1} of {len(answer.moves)}"
    best = answer.best.uci()
    if multipv == 1:  # a GUI takes this line for the move that is played
        return [f"info depth 1 multipv 1 pv {best} string {chosen}"]
    ranked = list(zip(answer.moves, answer.probs, strict=True))[:multipv]
    lines = [
        f"info depth 1 multipv {rank} pv {move.uci()} string p={prob:.4f}"
        for rank, (move, prob) in enumerate(ranked, 1)
    ]
    # First, because python-chess takes a bare string for part of the last word on line 1.
    return [info_string(f"chosen {best}: {chosen}"), *lines]
