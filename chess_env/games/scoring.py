"""Scores and rewards of N games: one batched evaluator call for everything a step needs to know.

Scores may also come while games go on: then the evaluator works in a thread, and nobody waits for it at every ply.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chess_env.evaluators.protocol import Evaluator, Scores, move_scores_of, scores_of
from chess_env.games.arguments import illegal_action_error
from chess_env.games.games import Games, Index
from chess_env.rewards import RewardFunction, terminal_score_cp
from chess_env.rules.fen import to_fen
from chess_env.rules.packed import Positions
from chess_env.rules.rules import ONGOING, Statuses
from chess_env.threads import OneThread


class EvaluatorThread:
    """One thread that asks an evaluator, in the order of the questions.

    It is a daemon: a program that ends does not wait for an evaluator. It ends with this object.
    """

    def __init__(self, evaluator: Evaluator) -> None:
        self._evaluate = functools.partial(scores_of, evaluator)
        self._one: OneThread | None = None

    def ask(self, positions: Positions) -> Future[Scores]:
        """The scores to come, int32 [N], of positions uint64 [N, 8]."""
        if self._one is None or not self._one.thread.is_alive():  # the child of a fork has none
            self._one = OneThread(self)
            # It lasts as long as the boards. Engines that are used without them afterwards are replaced.
            self._one.thread.outlives_its_engines = True  # type: ignore[attr-defined]
        scores: Future[Scores] = Future()
        self._one.calls.put(functools.partial(_answer, scores, self._evaluate, positions))
        return scores

    def close(self) -> None:
        """Lets the thread end after what it was asked; a later question starts another one."""
        if self._one is not None:
            self._one.end()
            self._one = None


def _answer(
    scores: Future[Scores], evaluate: Callable[[Positions], Scores], positions: Positions
) -> None:
    if scores.set_running_or_notify_cancel():
        try:
            scores.set_result(evaluate(positions))
        except BaseException as error:
            scores.set_exception(error)


class _Look(NamedTuple):
    """Moves that were looked at: actions and how the game stands after them [N, G], scores of those that go on."""

    actions: Index
    status: Statuses
    scores: Future[Scores]


class _Ply(NamedTuple):
    """Moves that were made, and what their scores are if they are not among those looked at."""

    actions: Index
    status: Statuses
    goes_on: Index
    restarted: Index
    scores: Future[Scores] | None


class ScoresLater:
    """Collects the questions of some plies, and makes scores and rewards of the answers."""

    def __init__(self, thread: EvaluatorThread, reward: RewardFunction) -> None:
        self._thread, self._reward = thread, reward
        self._looks: list[_Look] = []
        self._steps: list[_Ply] = []
        self._played: Index | None = None

    def look(self, actions: Index, status: Statuses, children: Positions) -> None:
        """Asks what moves are worth: actions int64 and status int8 [N, G], children uint64 [N, G, 8].

        Raises:
            RuntimeError: no move was made since the last call.
        """
        if len(self._looks) != len(self._steps):
            raise RuntimeError(
                "moves were scored twice before one was made: make one move after each scoring"
            )
        open_positions = children.reshape(-1, 8)[status.reshape(-1) == ONGOING]
        self._looks.append(_Look(actions, status, self._thread.ask(open_positions)))

    def play(self, actions: Index) -> None:
        """Says which moves (int64 [N]) are made.

        Raises:
            RuntimeError: nobody asked what moves are worth.
        """
        if len(self._looks) != len(self._steps) + 1:
            raise RuntimeError(
                "a move is made whose score nobody asked for: call score_actions before each step"
            )
        self._played = actions

    def settle(
        self, status: Statuses, open_positions: Positions, restarted: Index, starts: Positions
    ) -> None:
        """Asks for the rest after the moves: of new games, and of moves that were not looked at.

        Args:
            status: int8 [N], after the moves.
            open_positions: uint64 [n, 8], after the moves where the game goes on.
            restarted: the boards on which a new game stands.
            starts: uint64 [len(restarted), 8], the new games.
        """
        assert self._played is not None
        goes_on, known = np.flatnonzero(status == ONGOING), self._looks[-1].actions
        if (known == self._played[:, None]).any(axis=1).all():
            goes_on, open_positions = goes_on[:0], open_positions[:0]
        asked = np.concatenate([open_positions, starts])
        scores = self._thread.ask(asked) if len(asked) else None
        self._steps.append(_Ply(self._played, status.copy(), goes_on, restarted, scores))

    def cancel(self) -> None:
        """Drops what has not been begun."""
        for asked in [look.scores for look in self._looks] + [step.scores for step in self._steps]:
            if asked is not None:
                asked.cancel()

    def found(self, score_cp: Scores) -> list[dict[str, NDArray[Any]]]:
        """Waits for all answers; for each ply `rewards` float32 [N, G], `score_cp` int32 [N, G], `before_cp` int32 [N].

        Args:
            score_cp: int32 [N], the scores before the first ply; holds those after the last one afterwards.

        Raises:
            EngineError: as of the evaluator.
        """
        plies = []
        for look, step in zip(self._looks, self._steps, strict=True):
            flat_status, size = look.status.reshape(-1), look.actions.shape
            after_cp = terminal_score_cp(flat_status)
            after_cp[flat_status == ONGOING] = look.scores.result()
            before_cp = score_cp.copy()
            total, _ = self._reward(
                flat_status, False, np.repeat(before_cp, size[1]), after_cp, None
            )
            after_cp = after_cp.reshape(size)
            plies.append(
                {"rewards": total.reshape(size), "score_cp": -after_cp, "before_cp": before_cp}
            )
            slots = (look.actions == step.actions[:, None]).argmax(axis=1)
            score_cp[:] = after_cp[np.arange(size[0]), slots]
            rest = step.scores.result() if step.scores is not None else score_cp[:0]
            if len(step.goes_on):
                score_cp[:] = terminal_score_cp(step.status)
                score_cp[step.goes_on] = rest[: len(step.goes_on)]
            score_cp[step.restarted] = rest[len(step.goes_on) :]
        return plies


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
        if self._evaluator is not None and getattr(self._evaluator, "in_background", False):
            self._thread = EvaluatorThread(self._evaluator)
        self._later: ScoresLater | None = None
        self.lost = False

    @contextmanager
    def later(self, *, wanted: bool = True) -> Iterator[list[dict[str, NDArray[Any]]]]:
        """A list that holds, after the context, what `ScoresLater.found` says of each ply in it, `[N, G]` moves.

        Inside, `score_actions` and `step` do not wait for the evaluator: neither returns a score or
        a reward (`step`'s are NaN). Each `step` follows one `score_actions` and moves all boards; none is
        reset. Where nothing is gained or scores cannot wait, all is as outside and the list stays empty:
        unless scores are made in the background (`evaluator.in_background`), against an opponent, and with
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
        children, status = self.games.look_ahead(candidates)
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
            after_cp[ongoing] = scores_of(self._evaluator, children.reshape(-1, 8)[ongoing])
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
            self.score_cp[index] = scores_of(self._evaluator, self.games.boards.positions[index])

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
        scores_cp = scores_of(self._evaluator, np.concatenate([open_positions, starts]))
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
        all_scores = move_scores_of(self._evaluator, boards.positions[index])
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
