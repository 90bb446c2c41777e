"""Version 2 of the evaluators: a search whose scores are corrected where more is known.

Three men are looked up (`endgame_tables.py`), and more in Syzygy files where a user has some (`syzygy.py`). Mates in at
most two moves are proven (`short_mates.py`). The scores of a shallow Stockfish are averaged with those of the built-in
search: Stockfish 15.1 to depth 4 values king and queen against king at 6 to 7 pawns and king and pawn before promotion
at 8 to 12, and it misses recaptures that the built-in search sees. The share of the mean was chosen on positions judged
to depth 18 (docs/environment.md).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from chess_env.evaluators.builtin import LEAST_PART, BuiltinEvaluator
from chess_env.evaluators.endgame_tables import exact_scores, find_three_men
from chess_env.evaluators.protocol import Positions, RuleAwareEvaluator, Scores
from chess_env.evaluators.short_mates import prove_mates
from chess_env.evaluators.stockfish import StockfishEvaluator
from chess_env.evaluators.syzygy import SyzygyTables, below_wins
from chess_env.evaluators.uci import MAX_CP, EngineError

BUILTIN_SHARE = 0.4
"""Of the built-in search in the average with a shallow Stockfish."""

SHALLOW_DEPTH, SHALLOW_NODES = 8, 5_000
"""From these limits on Stockfish is not averaged: it sees what the built-in search sees."""

_VERSION = "v2"


class JudgedEvaluator(RuleAwareEvaluator):
    """The scores of a search, replaced by proofs where there are some, and made even with one another elsewhere.

    Args:
        search: the built-in evaluator, or Stockfish; closed with this one.
        syzygy: endgame files of the user's, if there are any; closed with this one. Scores that nothing proves are
            cut below those of their wins.
    """

    def __init__(
        self, search: BuiltinEvaluator | StockfishEvaluator, syzygy: SyzygyTables | None = None
    ) -> None:
        super().__init__(search.threads)
        self.search, self.syzygy = search, syzygy
        self.pure, self.in_background = search.pure, search.in_background
        averaged = isinstance(search, StockfishEvaluator) and _is_shallow(search)
        self._second = BuiltinEvaluator() if averaged else None
        self._num_proven = 0

    @property
    def id(self) -> str:
        """The id of the search with this version in place of its own, such as `builtin-v2`."""
        averaged = f"builtin={BUILTIN_SHARE};" if self._second else ""
        files = f";syzygy={self.syzygy.digest}" if self.syzygy else ""
        return f"{self.search.id.removesuffix('v1')}{averaged}{_VERSION}{files}"

    def _score_ongoing(self, positions: NDArray[np.uint64]) -> Scores:
        tabled, scores = self._tabled(positions)
        rest = positions[~tabled] if tabled.any() else positions
        try:
            scores[~tabled] = self._searched(rest)
        except EngineError as error:
            if isinstance(error.scores, np.ndarray) and isinstance(error.answered, np.ndarray):
                answered = tabled.copy()
                answered[~tabled] = error.answered
                scores[~tabled] = self._corrected(rest, error.scores)
                error.scores, error.answered = np.where(answered, scores, 0), answered
            raise
        return scores

    def score_moves(self, positions: Positions, **settings: Any) -> list[Scores]:
        """int32 [L_i] per position: each legal move's score from the mover's view, ordered as `legal_actions`.

        As of the search, with the same corrections as a score of the position after the move.

        Args:
            positions: FEN strings, or uint64 [N, 8].
            settings: of the search's own `score_moves`: Stockfish takes `depth`, 1 by default.

        Raises:
            EngineError: a move has no score, or positions that no engine survived.
        """
        return self._score_moves_by(
            positions, lambda packed, actions: self._ask_moves(packed, actions, settings)
        )

    def _ask_moves(
        self,
        positions: NDArray[np.uint64],
        actions: list[NDArray[np.int16]],
        settings: dict[str, Any],
    ) -> list[Scores]:
        from chess_env.rules import rules

        if not actions:
            return []
        counts = [len(ids) for ids in actions]
        after = rules.apply_batch(np.repeat(positions, counts, axis=0), np.concatenate(actions))
        status = rules.status_batch(after, False)
        scores = -np.concatenate(self.search.score_moves(positions, **settings))
        goes_on = np.flatnonzero(status == rules.ONGOING)
        tabled, found = self._tabled(after[goes_on])
        known, rest = goes_on[tabled], goes_on[~tabled]
        scores[known] = found[tabled]
        scores[rest] = self._corrected(after[rest], scores[rest])
        return np.split(-scores, np.cumsum(counts)[:-1])

    def _tabled(self, positions: NDArray[np.uint64]) -> tuple[NDArray[np.bool_], Scores]:
        """(bool [N] which positions tables hold, int32 [N] their scores, 0 elsewhere)."""
        known = find_three_men(positions)
        scores = np.zeros(len(positions), np.int32)
        if known.any():
            scores[known] = exact_scores(positions[known])
        if self.syzygy is not None:
            others = np.flatnonzero(~known)
            in_files, found = self.syzygy.probe(positions[others])
            known[others] = in_files
            scores[others] = found
        self._num_proven += int(known.sum())
        return known, scores

    def _searched(self, positions: NDArray[np.uint64]) -> Scores:
        """int32 [N]: the corrected scores of the search for positions that go on."""
        if not isinstance(self.search, BuiltinEvaluator):
            return self._corrected(positions, self.search._score_ongoing(positions))
        scores, _, proven = self.search.search(positions, self._prove)
        self._num_proven += proven
        return scores

    def _corrected(self, positions: NDArray[np.uint64], scores: Scores) -> Scores:
        """int32 [N]: the scores of the search for positions that go on, made even and with mates that are proven."""
        if self._second is not None:
            second = self._second._score_ongoing(positions)
            mean = np.rint((1 - BUILTIN_SHARE) * scores + BUILTIN_SHARE * second).astype(np.int32)
            # A mate is averaged with nothing; the built-in search claims none that it has not proven.
            unproven = np.where(np.abs(second) > MAX_CP, second, mean)
            scores = np.where(np.abs(scores) > MAX_CP, scores, unproven)
        any_check = np.ones(len(positions), np.bool_)
        self._num_proven += sum(
            self.threads.over(
                len(positions),
                lambda part: self._prove(positions[part], scores[part], any_check[part]),
                least=LEAST_PART,
            )
        )
        return scores

    def _prove(
        self, positions: NDArray[np.uint64], scores: Scores, forcing: NDArray[np.bool_]
    ) -> int:
        """How many of the scores, which are changed in place, a proof has changed."""
        if self.syzygy is not None:
            scores[:] = below_wins(scores)
        return prove_mates(positions, scores, forcing)

    def counters(self) -> dict[str, int | float]:
        """Those of the search, with the positions asked here, and `proven`: scores that a proof has changed."""
        search, own = self.search.counters(), super().counters()
        unique = search["unique_queries"] + own["unique_queries"]
        return search | own | {"unique_queries": unique, "proven": self._num_proven}

    def close(self) -> None:
        """Closes the search and the files."""
        self.search.close()
        if self.syzygy is not None:
            self.syzygy.close()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled as its search and its files."""
        return JudgedEvaluator, (self.search, self.syzygy)


def _is_shallow(search: StockfishEvaluator) -> bool:
    if search.depth is None:
        assert search.nodes is not None
        return search.nodes < SHALLOW_NODES
    return search.depth < SHALLOW_DEPTH
