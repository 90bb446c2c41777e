"""What every evaluator is, and what all evaluators share: input checks, rule endings, one question per position."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from chess_env.custom_objects import shown
from chess_env.evaluators.uci import MATE_SCORE, EngineError
from chess_env.threads import Threads

Scores: TypeAlias = NDArray[np.int32]
# FEN strings, or uint64 [N, 8] packed positions of the rules core.
Positions: TypeAlias = Sequence[str] | NDArray[np.uint64]

# (positions in which the game goes on, their legal actions) -> their moves' scores
MoveScorer: TypeAlias = Callable[[NDArray[np.uint64], list[NDArray[np.int16]]], list[Scores]]

_IDENTITY_BITS = np.uint64(
    0x7FF
)  # of the state word: castling, en passant and turn, without the clocks
_KINGS, _OWN, _STATE = 5, 6, 7
LEAST_PART = 1024
"""Positions whose rules are worth handing to another thread: about a third of a millisecond."""


@runtime_checkable
class Evaluator(Protocol):
    """Scores of chess positions as a pure function of (position without clocks and history, id)."""

    @property
    def id(self) -> str:
        """Names everything that a score depends on: engine build, network, options, limit."""
        ...

    def evaluate(self, positions: Positions) -> Scores:
        """int32 [N]: centipawns from the side to move's view; mate in n moves is +-(10000 - n)."""
        ...

    def score_moves(self, positions: Positions) -> list[Scores]:
        """int32 [L_i] per position: every legal move's score from the mover's view, by ascending action id."""
        ...

    def counters(self) -> dict[str, int | float]:
        """Cumulative counts, such as queries, cache_hits and engine_restarts."""
        ...

    def close(self) -> None:
        """Releases processes and files."""
        ...


def pack_positions(positions: Positions) -> NDArray[np.uint64]:
    """uint64 [N, 8]: the positions packed, with their clocks cleared, in memory of their own.

    Raises:
        ValueError: an illegal FEN, an array of another dtype or shape, or a row that is no chess position.
        TypeError: not a sequence of FEN strings nor an array.
    """
    if isinstance(positions, np.ndarray):
        if positions.dtype != np.uint64 or positions.ndim != 2 or positions.shape[1] != 8:
            raise ValueError(
                f"positions is an array {positions.dtype} {list(positions.shape)}, expected packed positions uint64 "
                "[N, 8] (one position: `position[None]`) or a list of FEN strings"
            )
        packed = np.array(positions, order="C")
        kings, own = packed[:, _KINGS], packed[:, _OWN]
        wrong = (np.bitwise_count(kings & own) != 1) | (np.bitwise_count(kings) != 2)
        if wrong.any():
            row = int(wrong.argmax())
            raise ValueError(
                f"positions[{row}] is no packed chess position, each side needs one king: {packed[row].tolist()}; "
                "make packed positions with chess_env.rules.fen.pack_fens"
            )
    else:
        if isinstance(positions, str):
            raise TypeError(
                f"positions is one string, expected a list of FEN strings: [{positions[:200]!r}]"
            )
        from chess_env.rules.fen import parse_fen

        packed = np.empty((len(positions), 8), np.uint64)
        for i, fen in enumerate(positions):
            if not isinstance(fen, str):
                raise TypeError(f"positions[{i}] is a {type(fen).__name__}, expected a FEN string")
            try:
                packed[i] = parse_fen(fen)
            except ValueError as error:
                raise ValueError(f"positions[{i}]: {error}") from error
    packed[:, _STATE] &= _IDENTITY_BITS
    return packed


def checked_scores(evaluator: Any, scores: Any, count: int, what: str = "positions") -> Scores:
    """int32 [N], in memory of their own: what an evaluator gave, once dtype, length and values are known to be right.

    Args:
        evaluator: Gave them; its `id` is for the message.
        scores: Whole numbers of any dtype will do, and anything that NumPy makes an array of.
        count: N.
        what: What was scored, for the message.

    Raises:
        ValueError: another shape, no numbers, or one that is no whole number in +-10000.
    """
    wanted = (
        f"expected int32 [{count}], whole centipawns in +-{MATE_SCORE} (pawns are multiplied by 100 and rounded; "
        f"mate in n moves is +-({MATE_SCORE} - n))"
    )
    try:
        found = np.asarray(scores)
    except (TypeError, ValueError, RuntimeError) as error:  # ragged lists, tensors of torch
        raise ValueError(
            f"evaluator {shown(evaluator.id)} gave a {type(scores).__name__} for {count} {what} that is no array "
            f"({error}): {wanted}"
        ) from error
    if found.shape != (count,) or (count and found.dtype.kind not in "iuf"):
        raise ValueError(
            f"evaluator {shown(evaluator.id)} gave {found.dtype} {list(found.shape)} for {count} {what}: {wanted}"
        )
    right = (found >= -MATE_SCORE) & (found <= MATE_SCORE)
    if found.dtype.kind == "f":
        right &= found == np.rint(found)
    if not right.all():
        row = int(right.argmin())
        raise ValueError(
            f"evaluator {shown(evaluator.id)} gave {found[row]} as score {row} of {count} {what}: {wanted}"
        )
    return found.astype(np.int32)


def scores_of(evaluator: Evaluator, positions: Positions) -> Scores:
    """int32 [N]: what an evaluator that may be anybody's says of positions, checked.

    Raises:
        ValueError: what it gave is no score of each position; the message names it and the value.
    """
    return checked_scores(evaluator, evaluator.evaluate(positions), len(positions))


def move_scores_of(
    evaluator: Evaluator, positions: NDArray[np.uint64], **settings: Any
) -> list[Scores]:
    """int32 [L_i] per position (uint64 [N, 8]): what an evaluator says of every legal move, checked as by `scores_of`.

    Raises:
        ValueError: what it gave is no score of each legal move of each position.
    """
    from chess_env.rules.rules import legal_actions_batch

    counts = legal_actions_batch(positions)[1].tolist()
    found = list(evaluator.score_moves(positions, **settings))
    if len(found) != len(counts):
        raise ValueError(
            f"evaluator {shown(evaluator.id)} scored the moves of {len(found)} positions: expected {len(counts)}"
        )
    return [
        checked_scores(evaluator, scores, count, "legal moves")
        for scores, count in zip(found, counts, strict=True)
    ]


class RuleAwareEvaluator(ABC):
    """Base of the evaluators: mates and draws are decided by the rules core and never asked.

    Being checkmated is -10000; stalemate and insufficient material are 0. The fifty-move clock and
    repetitions are not looked at: they belong to the game, not to the position. A subclass scores
    distinct positions that go on.

    Args:
        threads: that look at the positions, and may search; None: the caller's own alone.
    """

    pure = True  # False: scores depend on what was asked before, so they must not be cached
    in_background = False  # True: processes or threads compute, and a thread that asks leaves the interpreter to others

    def __init__(self, threads: Threads | None = None) -> None:
        self.threads = threads or Threads(1)
        self._queries = self._unique_queries = 0

    @property
    @abstractmethod
    def id(self) -> str:
        """Names everything that a score depends on."""

    @abstractmethod
    def _score_ongoing(self, positions: NDArray[np.uint64]) -> Scores:
        """int32 [N]: scores of distinct positions (uint64 [N, 8], clocks cleared) in which the game goes on."""

    def evaluate(self, positions: Positions) -> Scores:
        """int32 [N]: centipawns from the side to move's view; mate in n moves (UCI counts moves) is +-(10000 - n).

        Raises:
            ValueError: a position that is not legal, by its index.
            EngineError: positions that no engine could score; `error.scores` keeps the others.
        """
        packed = pack_positions(positions)
        self._queries += len(packed)
        return self._evaluate_packed(packed)

    def _evaluate_packed(self, packed: NDArray[np.uint64]) -> Scores:
        from chess_env.rules import rules

        found = self.threads.over(
            len(packed), lambda part: rules.status_batch(packed[part]), least=LEAST_PART
        )
        status = np.concatenate(found)
        scores = np.where(status == rules.CHECKMATE, np.int32(-MATE_SCORE), np.int32(0))
        ongoing = np.flatnonzero(status == rules.ONGOING)
        if not len(ongoing):
            return scores
        first, inverse = rules.distinct(packed[ongoing])
        self._unique_queries += len(first)
        try:
            asked = self._score_ongoing(packed[ongoing[first]])
            scores[ongoing] = checked_scores(self, asked, len(first))[inverse]
        except EngineError as error:
            if isinstance(error.scores, np.ndarray) and isinstance(error.answered, np.ndarray):
                scores[ongoing] = error.scores[inverse]
                answered = np.ones(len(packed), np.bool_)
                answered[ongoing] = error.answered[inverse]
                error.scores, error.answered = scores, answered
            raise
        return scores

    def score_moves(self, positions: Positions) -> list[Scores]:
        """int32 [L_i] per position: each legal move's score from the mover's view, ordered as `legal_actions`.

        A move's score is minus the evaluation of the position it leads to: mating is +10000. A position
        without legal moves gives an empty array, one drawn by insufficient material zeros.
        """
        return self._score_moves_by(positions, self._score_moves_ongoing)

    def _score_moves_by(self, positions: Positions, score_ongoing: MoveScorer) -> list[Scores]:
        from chess_env.rules import rules

        packed = pack_positions(positions)
        self._queries += len(packed)
        status = rules.status_batch(packed)
        result: list[Scores] = []
        open_rows: list[int] = []
        decided: list[tuple[NDArray[np.bool_], Scores]] = []
        actions_of: list[NDArray[np.int16]] = []
        for i, position in enumerate(packed):
            after, actions = rules.children(position)
            result.append(np.zeros(len(actions), np.int32))
            if status[i] == rules.ONGOING:
                child_status = rules.status_batch(after, False)
                by_rule = np.where(
                    child_status == rules.CHECKMATE, np.int32(MATE_SCORE), np.int32(0)
                )
                open_rows.append(i)
                decided.append((child_status != rules.ONGOING, by_rule))
                actions_of.append(actions)
        for i, scores, (over, by_rule) in zip(
            open_rows, score_ongoing(packed[open_rows], actions_of), decided, strict=True
        ):
            result[i] = np.where(
                over, by_rule, checked_scores(self, scores, len(over), "legal moves")
            )
        return result

    def _score_moves_ongoing(
        self, positions: NDArray[np.uint64], actions: list[NDArray[np.int16]]
    ) -> list[Scores]:
        """int32 [L_i] per position; by default each child is a position of its own."""
        from chess_env.rules import rules

        counts = [len(ids) for ids in actions]
        if not counts:
            return []
        children = rules.apply_batch(np.repeat(positions, counts, axis=0), np.concatenate(actions))
        return np.split(-self._evaluate_packed(pack_positions(children)), np.cumsum(counts)[:-1])

    def counters(self) -> dict[str, int | float]:
        """Cumulative: `queries` positions asked for, `unique_queries` positions really scored."""
        return {"queries": self._queries, "unique_queries": self._unique_queries}

    def close(self) -> None:  # noqa: B027
        """Releases what the evaluator holds; nothing here."""

    def __enter__(self) -> Any:
        """The evaluator itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Closes the evaluator."""
        self.close()
