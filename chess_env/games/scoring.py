"""Scores and rewards of N games: one batched evaluator call for everything a step needs to know."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chess_env.games.games import Games, Index
from chess_env.games.settings import illegal_action_error
from chess_env.rewards.later import EvaluatorThread, ScoresLater
from chess_env.rewards.rewards import terminal_score_cp
from chess_env.rules.fen import to_fen
from chess_env.rules.packed import Positions
from chess_env.rules.rules import ONGOING, Statuses

Scores = NDArray[np.int32]


class Before(NamedTuple):
    """What is known before a move: the boards' scores, the legal moves' scores if asked for, looked-up scores."""

    score_cp: Scores
    move_scores: tuple[Scores, Scores] | None
    known_cp: Scores | None


class Scoring:
    """The scores of N games' present positions, and what moves from there are worth.

    Attributes:
        games: The games that are scored.
        score_cp: int32 [N], the present positions from the side to move's view; zeros without an evaluator.
        lost: Whether `score_cp` is of earlier positions, because an error ended `later`.
    """

    def __init__(self, games: Games) -> None:
        self.games = games
        self.score_cp = np.zeros(len(games.everywhere), np.int32)
        self._evaluator = games.settings.evaluator
        self._reward = games.settings.reward
        # (actions [N, G], scores after them [N, G]) of the last `score_actions`, until boards move.
        self._looked_ahead: tuple[Index, Scores] | None = None
        self._thread: EvaluatorThread | None = None
        if self._evaluator is not None and getattr(self._evaluator, "out_of_process", False):
            self._thread = EvaluatorThread(self._evaluator)
        self._later: ScoresLater | None = None
        self.lost = False

    @contextmanager
    def later(self, *, wanted: bool = True) -> Iterator[list[dict[str, NDArray[Any]]]]:
        """A list that holds, after the context, what `ScoresLater.found` says of each ply in it, `[N, G]` moves.

        Inside, `score_actions` and `step` do not wait for the evaluator: neither returns a score or
        a reward (`step`'s are NaN). Each `step` follows one `score_actions` and moves all boards; none is
        reset. Where nothing is gained or scores cannot wait, all is as outside and the list stays empty:
        unless other processes make the scores (`evaluator.out_of_process`), against an opponent, and with
        the reward `regret`; also where that is not `wanted`.

        Raises:
            EngineError: positions that no engine could score. As after any error inside, the boards then
                need a reset.
            ValueError: a board could not move: its game was over, or the action illegal.
            RuntimeError: inside another such context.
        """
        if self._later is not None:
            raise RuntimeError(
                "scores are to come already: leave the first `later` before another one"
            )
        settings, plies = self.games.settings, list[dict[str, NDArray[Any]]]()
        at_once = settings.opponent is not None or self._reward.needs_move_scores
        if self._thread is None or at_once or not wanted:
            yield plies
            return
        self._later = ScoresLater(self._thread, self._reward)
        try:
            yield plies
            plies += self._later.found(self.score_cp)
        except BaseException:
            self.lost = True
            self._later.cancel()
            raise
        finally:
            self._later = None

    def close(self) -> None:
        """Ends the thread of the evaluator; not the evaluator."""
        if self._thread is not None:
            self._thread.close()

    def score_actions(self, actions: NDArray[np.integer]) -> dict[str, NDArray[Any]]:
        """What G actions would pay on every board, by one batched evaluator call; no board moves.

        Args:
            actions: integer [N, G], legal action ids (`info["legal_ids"]`).

        Returns:
            `rewards` float32 [N, G]; `terminated` bool [N, G]; with an evaluator `score_cp` int32 [N, G], the
            position after the action from the view of the player who made it. A `step` that follows with one of
            these actions on each board asks for no score again.

        Raises:
            ValueError: actions that are not whole numbers [N, G], an illegal one, or an environment with an
                opponent (its reply is not known).
        """
        if self.games.settings.opponent is not None:
            raise ValueError(
                "score_actions looks one ply ahead: make the environment with opponent=None"
            )
        given, num_envs = np.asarray(actions), len(self.games.everywhere)
        if given.dtype.kind not in "iu" or given.ndim != 2 or len(given) != num_envs:
            raise ValueError(
                f"actions are {given.dtype} {list(given.shape)}: expected whole numbers [{num_envs}, G], "
                "G legal actions for each board"
            )
        candidates: Index = given.astype(np.int64)
        num_illegal, illegal = self.games.boards.illegal(candidates)
        if num_illegal:
            row, column = np.argwhere(illegal)[0]
            raise illegal_action_error(
                int(candidates[row, column]), to_fen(self.games.boards.positions[row])
            )
        children, status = self.games.boards.look_ahead(
            candidates, self.games.settings.fifty_move, self.games.settings.threefold
        )
        flat_status = status.reshape(-1)
        out: dict[str, NDArray[Any]] = {"terminated": status != ONGOING}
        if self._later is not None:
            self._later.look(candidates, status, children)
            return out
        before_cp = after_cp = None
        move_scores: tuple[Scores, Scores] | None = None
        if self._evaluator is not None:
            after_cp = terminal_score_cp(flat_status)
            ongoing = np.flatnonzero(flat_status == ONGOING)
            after_cp[ongoing] = self._evaluator.evaluate(children.reshape(-1, 8)[ongoing])
            before_cp = np.repeat(self.score_cp, candidates.shape[1])
            out["score_cp"] = -after_cp.reshape(candidates.shape)
            self._looked_ahead = (candidates, after_cp.reshape(candidates.shape))
            if self._reward.needs_move_scores:
                best_cp, played_cp = self._best_and_played(self.games.everywhere, candidates)
                move_scores = (np.repeat(best_cp, candidates.shape[1]), played_cp.reshape(-1))
        total, _ = self._reward(flat_status, False, before_cp, after_cp, move_scores)
        out["rewards"] = total.reshape(candidates.shape)
        return out

    def score_now(self, index: Index) -> None:
        """Scores the present positions of the boards `index` (new games)."""
        self.lost &= len(index) < len(self.games.everywhere)
        if self._evaluator is not None and len(index):
            self.score_cp[index] = self._evaluator.evaluate(self.games.boards.positions[index])

    def restore(self, score_cp: NDArray[np.int32]) -> None:
        """Takes the scores (int32 [N]) of boards that were set, and not by `step`."""
        self.forget()
        self.score_cp[:], self.lost = score_cp, False

    def forget(self) -> None:
        """Drops looked-up scores: the boards have changed, and not by `step`.

        Raises:
            RuntimeError: inside `later`.
        """
        if self._later is not None:
            raise RuntimeError("boards were set while scores were to come: leave `later` first")
        self._looked_ahead = None

    def before_move(self, playing: Index, actions: Index) -> Before:
        """What rewards need to know before the boards `playing` make `actions` (int64 [N]).

        Raises:
            ValueError: inside `later`, a board that cannot move.
        """
        if self._evaluator is None:
            return Before(self.score_cp, None, None)
        if self._later is not None:
            if len(playing) < len(self.games.everywhere):
                raise ValueError(
                    f"{len(playing)} of {len(self.games.everywhere)} boards can move: scores come later only "
                    "where all do; leave out `later`, or give legal actions and use AutoresetMode.SAME_STEP"
                )
            self._later.play(actions)
            return Before(self.score_cp, None, None)
        before = Before(
            self.score_cp.copy(), self._move_scores(playing, actions), self._known_scores(actions)
        )
        self._looked_ahead = None
        return before

    def open_positions(self, playing: Index, status: Statuses) -> Positions:
        """uint64 [n, 8]: the boards of `playing` where the game goes on; none without an evaluator."""
        positions = self.games.boards.positions
        return (
            positions[:0]
            if self._evaluator is None
            else positions[playing[status[playing] == ONGOING]]
        )

    def after_move(
        self,
        before: Before,
        playing: Index,
        status: Statuses,
        open_positions: Positions,
        restarted: Index,
    ) -> Scores:
        """int32 [len(restarted)]: scores of the new games; `score_cp` holds the scores after the moves.

        Args:
            before: from `before_move`.
            playing: the boards that moved.
            status: int8 [N], after the moves.
            open_positions: uint64 [n, 8], positions after the moves where the game goes on, in the order of `playing`
                (new games may already stand on those boards).
            restarted: the boards on which a new game stands.
        """
        if self._evaluator is None:
            return np.zeros(len(restarted), np.int32)
        if self._later is not None:
            starts = self.games.boards.positions[restarted]
            self._later.settle(status, open_positions, restarted, starts)
            return self.score_cp[restarted]
        goes_on = status[playing] == ONGOING
        over, asked = playing[~goes_on], playing[goes_on]
        self.score_cp[over] = terminal_score_cp(status[over])
        if before.known_cp is not None:
            self.score_cp[asked] = before.known_cp[asked]
            asked, open_positions = asked[:0], open_positions[:0]
        if len(asked) + len(restarted) == 0:
            return np.zeros(0, np.int32)
        starts = self.games.boards.positions[restarted]
        scores_cp = self._evaluator.evaluate(np.concatenate([open_positions, starts]))
        self.score_cp[asked] = scores_cp[: len(asked)]
        return scores_cp[len(asked) :]

    def rewards(
        self, before: Before, status: Statuses, same_side: NDArray[np.bool_] | bool
    ) -> tuple[NDArray[np.float32], dict[str, NDArray[np.float32]]]:
        """(float32 [N] total, name -> float32 [N] raw terms); see `chess_env.rewards`."""
        if self._later is not None:
            unknown = np.full(len(status), np.nan, np.float32)
            return unknown, {name: unknown.copy() for name in self._reward.names}
        return self._reward(status, same_side, before.score_cp, self.score_cp, before.move_scores)

    def _known_scores(self, actions: Index) -> Scores | None:
        """int32 [N]: scores after `actions` that `score_actions` has already asked for; None if any is missing."""
        if self._looked_ahead is None:
            return None
        seen_actions, scores_cp = self._looked_ahead
        matches = seen_actions == actions[:, None]
        if not matches.any(axis=1).all():
            return None
        return scores_cp[self.games.everywhere, matches.argmax(axis=1)]

    def _best_and_played(self, index: Index, actions: Index) -> tuple[Scores, Scores]:
        """(int32 [n] best legal move's score, int32 like `actions` the played moves' scores), mover's view."""
        assert self._evaluator is not None  # make_reward refuses `regret` without one
        boards = self.games.boards
        best_cp = np.empty(len(index), np.int32)
        played_cp = np.empty(actions.shape, np.int32)
        all_scores = self._evaluator.score_moves(boards.positions[index])
        for i, (row, scores_cp) in enumerate(zip(index.tolist(), all_scores, strict=True)):
            legal_ids = boards.legal_ids[row, : boards.num_legal[row]]
            best_cp[i] = scores_cp.max()
            played_cp[i] = scores_cp[np.searchsorted(legal_ids, actions[i])]
        return best_cp, played_cp

    def _move_scores(self, playing: Index, actions: Index) -> tuple[Scores, Scores] | None:
        if not self._reward.needs_move_scores:
            return None
        best_cp, played_cp = np.zeros_like(self.score_cp), np.zeros_like(self.score_cp)
        best_cp[playing], played_cp[playing] = self._best_and_played(playing, actions[playing])
        return best_cp, played_cp
