"""`ChessSelfPlayVectorEnv`: N games in lockstep, compiled, equal to N single environments bit by bit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Never

import chess
import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from chess_env.evaluators import Evaluator
from chess_env.games.arguments import (
    checked_actions,
    checked_array,
    checked_autoreset_mode,
    checked_render_mode,
    checked_reset_options,
    checked_seeds,
    checked_start,
    make_settings,
    refuse_unknown,
)
from chess_env.games.games import Games
from chess_env.games.rendering import RENDERERS
from chess_env.games.scoring import Scoring
from chess_env.games.vector_info import Info, View, checked_shown, final_entries, transition
from chess_env.jit import announced
from chess_env.moves import NUM_ACTIONS
from chess_env.rewards import ILLEGAL_REWARD, Reward
from chess_env.rules.fen import pack_fens, to_fens
from chess_env.rules.packed import Positions

_NO_LIMIT, _FLOAT64 = np.iinfo(np.int64).max, np.dtype(np.float64)


class ChessSelfPlayVectorEnv(gym.vector.VectorEnv[Any, Any, Any]):
    """N chess games in lockstep; rules, observations, masks and draw rules are compiled.

    Made by `gym.make_vec("ChessSelfPlay-v0", num_envs=N, ...)`. The arguments of
    `ChessSelfPlayEnv` mean the same here, and board i reset with seed s equals a single environment
    reset with seed s + i: same starts, observations, masks, rewards and endings.

    `reset(options={"fens": [...]})` starts every board from its own position. With `AutoresetMode.DISABLED`,
    `reset(options={"reset_mask": bool [N]})` restarts only some boards.

    `info` holds arrays only, of the board that the next action is for: `action_mask` int8 [N, 1858],
    `legal_ids` int16 [N, 218] (ascending, padded with -1), `num_legal` int16, `ply` int32, `turn` int8
    (1 = White), `phase` int8, `status` int8, `score_cp` int32 (with an evaluator), `learner_turn` int8
    (with an opponent), `move_facts` uint8 [N, L, F] (with `move_facts`), `repetitions` uint8 (with
    `observation="positions"`); and of the step just made: `reward_TERM` float32 for each
    term of the reward, `illegal_action` bool, `action_played` int16 (`illegal_action="resample"`),
    `opponent_action` int16 (on a restarted board: the opening reply of the new game, -1 for none). With
    SAME_STEP autoreset an ended game is at once replaced: `final_obs` and `final_info` hold its last
    observation and info, in the rows where `_final_obs` and `_final_info` (bool [N]) are True.

    Args:
        num_envs: Number of boards, at least 1.
        num_threads: At most so many threads share the boards, and the positions of the built-in evaluator; they change
            no result. None: one for each core that the process may use. Up to 255 boards one thread does everything but
            the evaluator's work.
        autoreset_mode: SAME_STEP (default), NEXT_STEP or DISABLED.
        observation: "planes", or "positions": packed, uint64 [N, 8]. `planes()` then makes planes on demand.
        mask: "dense"; "bits": in place of `action_mask`, `action_mask_bits` uint64 [N, 30], where bit a % 64
            of word a // 64 is 1 if action a is legal; or "ids": neither, only `legal_ids`.
        copy: False: the next call overwrites observations and `info`; `final_obs` has only the rows that ended.
    """

    metadata: dict[str, Any] = {  # noqa: RUF012 - Gymnasium's own class attribute
        "render_modes": list(RENDERERS),
        "render_fps": 2,
        "autoreset_mode": AutoresetMode.SAME_STEP,
    }

    def __init__(
        self,
        *,
        num_envs: int = 1,
        evaluator: str | Evaluator = "auto",
        reward: Reward = None,
        start_positions: Any = "initial",
        opponent: Any = None,
        learner_color: str = "random",
        max_plies: int | None = None,
        illegal_action: str = "terminate",
        render_mode: str | None = None,
        fifty_move: bool = True,
        threefold: bool = True,
        twofold: bool = False,
        num_engines: int = 1,
        num_threads: int | None = None,
        move_facts: bool | Sequence[str] = False,
        autoreset_mode: AutoresetMode | str = AutoresetMode.SAME_STEP,
        observation: str = "planes",
        mask: str = "dense",
        copy: bool = True,
        **unknown: Never,
    ) -> None:
        # Gymnasium below 1.3 closes what it deletes; a refused argument leaves nothing to close.
        self.closed = True
        refuse_unknown(unknown, ChessSelfPlayVectorEnv)
        if num_envs < 1:
            raise ValueError(f"num_envs is {num_envs}: expected at least 1 board")
        self.num_envs = num_envs
        shown = checked_shown(observation, mask, copy)
        self.render_mode = checked_render_mode(render_mode)
        self.autoreset_mode = checked_autoreset_mode(autoreset_mode)
        self.metadata = {**self.metadata, "autoreset_mode": self.autoreset_mode}
        self.settings = make_settings(
            evaluator=evaluator, reward=reward, start_positions=start_positions, opponent=opponent,
            learner_color=learner_color, max_plies=max_plies, illegal_action=illegal_action,
            fifty_move=fifty_move, threefold=threefold, twofold=twofold,
            num_engines=num_engines, num_threads=num_threads, move_facts=move_facts,
        )  # fmt: skip
        self.evaluator = self.settings.evaluator
        self.evaluator_id = self.settings.evaluator_id
        self.single_observation_space = shown.observation_space()
        self.single_action_space = gym.spaces.Discrete(NUM_ACTIONS)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._max_plies = _NO_LIMIT if self.settings.max_plies is None else self.settings.max_plies
        self.games = Games(num_envs, self.settings)
        self.scoring = Scoring(self.games)
        self._view = View(self.scoring, shown)
        self._replaces_at_once = self.autoreset_mode is AutoresetMode.SAME_STEP
        self._ended, self._started = np.zeros(num_envs, np.bool_), False
        self.closed = False

    @property
    def positions(self) -> Positions:
        """uint64 [N, 8]: a copy of the packed positions of all boards."""
        return self.games.boards.positions.copy()

    @property
    def repetitions(self) -> NDArray[np.uint8]:
        """uint8 [N]: earlier occurrences of every board's position in its game, 255 standing for more."""
        return np.minimum(self.games.boards.repetitions, 255).astype(np.uint8)

    def fens(self) -> list[str]:
        """The FEN of every board."""
        return to_fens(self.games.boards.positions)

    def action_masks(self) -> NDArray[np.bool_]:
        """bool [N, 1858]: the legal actions of every board, as sb3-contrib's MaskablePPO asks for them."""
        return self._view.legal()

    def planes(self) -> NDArray[np.uint8]:
        """uint8 [N, C, 8, 8]: the planes of every board as it stands, in a fresh array, whatever `observation` is."""
        return self._view.planes()

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[NDArray[Any], Info]:
        """(observations [N, ...], info) of new games on all boards, or where `reset_mask` is True.

        Raises:
            ValueError: unknown options, wrong seeds or number of FENs, an illegal or already decided start;
                nothing has changed then. Also when the opponent's first move ends the game from a given FEN,
                or an evaluator fails; then all boards need a reset.
        """
        index, fens = checked_reset_options(options, self.num_envs, self._started)
        seeds = checked_seeds(seed, self.num_envs)
        starts = [
            checked_start(start, self.settings.fifty_move, "reset option 'fens'")
            for start in pack_fens(() if fens is None else fens)
        ]
        self._started = False  # until the reset is whole
        self.games.seed(index, seeds)
        with announced("the rules core"):
            replies = self.games.start(index, starts)
            self.scoring.forget()
            self.scoring.score_now(index)
            self._ended[index] = False
            self._started = True
            observations, info = self._view.now()
        terms = {name: np.zeros(self.num_envs, np.float32) for name in self.settings.reward.names}
        unplayed, ended = np.full(self.num_envs, -1), self._ended.copy()
        return observations, info | transition(self.settings, terms, ended, unplayed, replies)

    def step(
        self, actions: Any
    ) -> tuple[NDArray[Any], NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], Info]:
        """(observations, rewards float64 [N], terminated and truncated bool [N], info) after one step of all boards.

        Raises:
            ValueError: an action is no action id, or is illegal and `illegal_action="raise"`; no board has moved.
            gymnasium.error.ResetNeeded: `reset` was not called, or a game is over and autoreset is disabled.
        """
        self._check_started()
        actions = checked_actions(actions, self.num_envs)
        waiting = self._ended  # games that ended in the last step and were not replaced at once
        any_waiting = not self._replaces_at_once and bool(waiting.any())
        if any_waiting and self.autoreset_mode is AutoresetMode.DISABLED:
            raise gym.error.ResetNeeded(
                f"the games on boards {np.flatnonzero(waiting).tolist()} are over: "
                "restart them with reset(options={'reset_mask': ...})"
            )
        games, boards, scoring = self.games, self.games.boards, self.scoring
        num_illegal, illegal = boards.illegal(actions)
        if any_waiting:
            illegal &= ~waiting
        refused = games.resolve_illegal(actions, illegal) if num_illegal else illegal
        all_play = not (num_illegal or any_waiting)
        playing = games.everywhere if all_play else np.flatnonzero(~(refused | waiting))

        # The move, the opponent's reply, and how the games stand.
        before = scoring.before_move(playing, actions)
        # Until the step is whole: an evaluator's error must not leave a half-made one.
        self._started = False
        games.advance(playing, actions if all_play else actions[playing])
        replies = games.reply(playing)
        replied = replies >= 0 if self.settings.opponent is not None else False
        num_done, done, terminated, truncated, status = boards.judge(
            refused, waiting, self._max_plies
        )

        # Scores and rewards. New games start before the scores are asked for, so that one batched
        # call serves both; what they overwrite is kept first.
        open_positions = scoring.open_positions(playing, status)
        final: tuple[NDArray[Any], Info] | None = None
        restarted = games.nowhere
        if num_done and self._replaces_at_once:
            final = self._view.last(restarted := np.flatnonzero(done))
        elif any_waiting:
            restarted = np.flatnonzero(waiting)
        opening_replies = games.start(restarted) if len(restarted) else None
        restarted_cp = scoring.after_move(before, playing, status, open_positions, restarted)
        total, terms = scoring.rewards(before, status, replied)
        if not all_play:
            for values in (total, *terms.values()):
                values[refused | waiting] = 0.0
            total[refused] = ILLEGAL_REWARD

        # What the caller sees: the boards that the next actions are for.
        info = transition(self.settings, terms, illegal, actions, replies)
        if final is not None:
            info |= final_entries(done, *final, info, scoring.score_cp)
        if opening_replies is not None:
            scoring.score_cp[restarted] = restarted_cp
            if self.settings.opponent is not None:
                info["opponent_action"][restarted] = opening_replies[restarted]
        observations, state_info = self._view.now()
        if not self._replaces_at_once:
            self._ended = done
        self._started = True
        info |= state_info
        return observations, total.astype(_FLOAT64), terminated, truncated, info

    def score_actions(self, actions: NDArray[np.integer]) -> dict[str, NDArray[Any]]:
        """What G actions [N, G] would pay on every board; no board moves. See `Scoring.score_actions`.

        Raises:
            gymnasium.error.ResetNeeded: `reset` was not called, or a game is over and not yet replaced.
        """
        self._check_started()
        if self._ended.any():
            raise gym.error.ResetNeeded(
                f"the games on boards {np.flatnonzero(self._ended).tolist()} are over and have no next move: "
                "restart them first (NEXT_STEP: by one more step)"
            )
        return self.scoring.score_actions(actions)

    def _check_started(self) -> None:
        if not self._started or self.scoring.lost:
            raise gym.error.ResetNeeded(
                "call reset() first (also after an error inside step() or reset())"
            )

    def get_state(self) -> dict[str, Any]:
        """Everything needed to go on exactly from here: arrays by name, and the generators as a JSON string.

        Raises:
            gymnasium.error.ResetNeeded: there is no game to go on with.
        """
        self._check_started()
        state = self.games.get_state()
        return state | {"score_cp": self.scoring.score_cp.copy(), "ended": self._ended.copy()}

    def set_state(self, state: Mapping[str, Any]) -> tuple[NDArray[Any], Info]:
        """(observations [N, ...], info) of the restored boards.

        Raises:
            ValueError: the state is of another number of boards, or none that `get_state` could have made.
        """
        score_cp = checked_array(state, "score_cp", self.scoring.score_cp)
        ended = checked_array(state, "ended", self._ended)
        self.games.set_state(state)
        self._ended, self._started = ended.copy(), True
        self.scoring.restore(score_cp)
        return self._view.now()

    def render(self) -> tuple[Any, ...] | None:
        """One frame per board in the environment's render mode; None without one."""
        draw = None if self.render_mode is None else RENDERERS[self.render_mode]
        return None if draw is None else tuple(draw(chess.Board(fen)) for fen in self.fens())

    def close_extras(self, **kwargs: Any) -> None:
        """Closes the evaluator and the opponent that were made from a name."""
        self.scoring.close()
        self.settings.close()
