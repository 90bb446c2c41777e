"""`ChessSelfPlayEnv`: the readable environment, on a python-chess board. `vector_env.py` is the fast one."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Never

import chess
import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.error import ResetNeeded
from numpy.typing import NDArray

from chess_env.evaluators.protocol import move_scores_of, scores_of
from chess_env.games.arguments import (
    checked_action,
    checked_fen,
    checked_render_mode,
    checked_seed,
    checked_start,
    illegal_action_error,
    make_settings,
    refuse_unknown,
)
from chess_env.games.reference_game import ReferenceGame, new_game
from chess_env.games.rendering import RENDERERS, svg
from chess_env.moves import NUM_ACTIONS
from chess_env.observation import plane_bounds
from chess_env.rewards import ILLEGAL_REWARD, Reward, terminal_score_cp
from chess_env.rules.fen import parse_fen, to_fen
from chess_env.rules.rules import ONGOING

Start = tuple[NDArray[np.uint8], dict[str, Any]]
Step = tuple[NDArray[np.uint8], float, bool, bool, dict[str, Any]]


class ChessSelfPlayEnv(gym.Env[NDArray[np.uint8], Any]):
    """Chess as a Gymnasium environment: one ply per step, each move rewarded by an engine's score of it.

    ## Description
    `import chess_env; env = gym.make("ChessSelfPlay-v0")`. In self-play (the default) every ply of both
    players is an action. With an `opponent`, its reply happens inside `step`.
    `gym.make_vec("ChessSelfPlay-v0", num_envs=N)` plays the same games faster, bit for bit: board i, reset
    with seed s, plays as this environment does, reset with seed s + i.

    ## Action Space
    `Discrete(1858)`: every move the side to move can ever make, seen from its own side of the board
    (`chess_env.moves`). Legal ones are 1 in `info["action_mask"]` (int8 `[1858]`, fit for
    `action_space.sample(mask)`), listed in `info["legal_ids"]` (int16 `[218]`, ascending, padded with -1,
    `info["num_legal"]` of them), and True in `action_masks()` (for sb3-contrib).

    ## Observation Space
    `Box` uint8 `[C, 8, 8]`, seen from the side to move, bounds per plane: 6 planes of its men (pawn,
    knight, bishop, rook, queen, king), 6 of the opponent's, 4 of castling rights, en passant target,
    earlier occurrences of the position (0-2), rule-50 clock (0-100). See `chess_env.observation.PLANES`.

    ## Rewards
    From the view of the player who moved, by default `win_prob_delta+mate_delta`: Phi after the move minus
    Phi before it, Phi = 2 Win% - 1 in [-1, 1], and .011 for each move that a known mate comes nearer.
    `chess_env.rewards` lists all terms with their units. Mate is Phi = -1 for the mated side, every draw 0.
    Against an opponent: Phi at the learner's next turn minus Phi at this turn.
    `info["reward_win_prob_delta"]` and the like are its terms, unweighted, `info["score_cp"]` the engine's score of
    the board in centipawns from the side to move's view (mate in n: +-(10000 - n); only with an
    evaluator, so it is absent with reward="outcome" and evaluator="auto").

    ## Starting State
    `start_positions` (`chess_env.positions.start_positions`), or `reset(options={"fen": FEN})`. All randomness comes
    from `reset(seed=...)`. A game that is over at the start is an error.

    ## Episode End
    `terminated`: mate, stalemate, insufficient material, 50 moves without capture or pawn move, third
    occurrence of a position since `reset` (`info["status"]`, a code of `chess_env.rules.STATUS_NAMES`), or
    an illegal action. `truncated`: `max_plies` plies were played; the reward then still counts the engine's
    score. `info` also has `ply` (plies since the start), `turn` (1: White to move) and `phase` (0 opening,
    1 middlegame, 2 endgame). It holds numbers alone, in the vector environment's dtypes, so that trainers
    can stack them; `env.unwrapped.fen()` is the position as text.

    ## Arguments
    * `evaluator`: "auto" (Stockfish where found, otherwise the built-in evaluator, said once; no evaluator
      where nothing reads a score: reward="outcome"), "builtin", "stockfish:depth=4" and the like (with "-v1"
      behind the first word, as in "builtin-v1", the scores before version 2), "none" (no engine), or
      an `Evaluator` object, which the caller closes. `env.unwrapped.evaluator_id` names the one in use.
    * `reward`: a term's name or function, a sum such as "win_prob_delta+0.5*cp_delta", or a mapping of term to
      weight; None: `win_prob_delta+mate_delta`, without engine `outcome`.
    * `start_positions`: a spec such as "random_plies:2-40", or an object with `sample(rng)`.
    * `opponent`: None (self-play), "random", "material", "engine:nodes=1", an evaluator's name (plays the move it
      scores best), any of them with "@random=SHARE", a `Player`, or a
      function (chess.Board, np.random.Generator) -> chess.Move.
    * `learner_color`: with an opponent: "random" (drawn at each reset), "white", "black", or "start" (the
      side to move at the start). `info["learner_turn"]` (1: White), `info["opponent_action"]` (-1: none).
    * `max_plies`: None, or the ply limit. With an opponent it is checked after the reply.
    * `illegal_action`: "terminate" (the game ends, reward -1, `info["illegal_action"]` is True), "raise"
      (ValueError), or "resample" (a random legal move instead; `info["action_played"]` says which).
    * `render_mode`: None, "ansi", "rgb_array" or "svg"; `svg()` works in every mode.
    * `fifty_move`, `threefold`: if False, only 75 moves, or only the fifth occurrence, end the game.
    * `twofold`: if True, the second occurrence of a position is the draw, as in an engine's search.
    * `num_engines`: Stockfish processes.
    * `move_facts`: if True, `info["move_facts"]` (uint8 `[218, F]`) says what the rules know of each move of
      `legal_ids`, before and after it (`chess_env.move_facts.MOVE_FACTS`); 0 on padding. A list adds groups of
      `FURTHER_FACTS` by name, `move_facts=["exchange", "replies"]`.

    ## Version History
    * v0: initial version.
    """

    metadata: dict[str, Any] = {"render_modes": list(RENDERERS), "render_fps": 2}  # noqa: RUF012

    def __init__(
        self,
        *,
        evaluator: Any = "auto",
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
        move_facts: bool | Sequence[str] = False,
        **unknown: Never,
    ) -> None:
        refuse_unknown(unknown, ChessSelfPlayEnv)
        self.render_mode = checked_render_mode(render_mode)
        self.settings = make_settings(
            evaluator=evaluator,
            reward=reward,
            start_positions=start_positions,
            opponent=opponent,
            learner_color=learner_color,
            max_plies=max_plies,
            illegal_action=illegal_action,
            fifty_move=fifty_move,
            threefold=threefold,
            twofold=twofold,
            num_engines=num_engines,
            move_facts=move_facts,
        )
        self.evaluator = self.settings.evaluator
        self.evaluator_id = self.settings.evaluator_id
        self.observation_space = spaces.Box(*plane_bounds(), dtype=np.uint8)
        self.action_space = spaces.Discrete(NUM_ACTIONS)
        self._learner = chess.WHITE
        self._done = True
        self._score_cp = 0
        self._game = ReferenceGame(parse_fen(chess.STARTING_FEN), self.settings)
        self._no_terms = dict.fromkeys(self.settings.reward.names, np.float32(0))

    @property
    def board(self) -> chess.Board:
        """The python-chess board, with the moves of the game on its stack; do not change it."""
        return self._game.board

    def fen(self) -> str:
        """The FEN of the position; an en passant square only where a capture there is legal."""
        return self._game.fen()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        """(observation, info) of a new game.

        Args:
            seed: Restarts the random stream; None goes on with it.
            options: {"fen": FEN} starts there instead of at a drawn position.

        Raises:
            ValueError: Unknown option, no seed, illegal FEN, or a start where the game is over; the old game
                goes on. Also when the opponent's first move ends the game from a given FEN.
            RuntimeError: That happens from 100 drawn starts in a row.
        """
        seed, fen = checked_seed(seed), checked_fen(options)
        given = None
        if fen is not None:
            given = checked_start(parse_fen(fen), self.settings.fifty_move, "reset option 'fen'")
        super().reset(seed=seed)
        self._done = True
        self._game, self._learner, reply = new_game(self.settings, self.np_random, given)
        self._score_cp = self._score()
        self._done = False
        return self._game.observation(), self._info(self._no_terms, reply=reply)

    def step(self, action: int) -> Step:
        """(observation, reward, terminated, truncated, info) after the action and, if any, the reply.

        Raises:
            ResetNeeded: The game is over.
            ValueError: Not an action id, or an illegal one under `illegal_action="raise"`; nothing changed.
        """
        action = checked_action(action)
        if self._done:
            raise ResetNeeded("the game is over: call reset() before the next step()")
        game, legal = self._game, self._game.legal
        illegal = action not in legal
        if illegal and self.settings.illegal_action == "raise":
            raise illegal_action_error(action, game.fen())
        if illegal and self.settings.illegal_action == "terminate":
            self._done = True
            info = self._info(self._no_terms, illegal=True, action=action)
            return game.observation(), ILLEGAL_REWARD, True, False, info
        if illegal:
            action = int(legal[int(self.np_random.integers(len(legal)))])

        score_before_cp, has_scores = self._score_cp, self.evaluator is not None
        move_scores = self._move_scores(legal, action)
        # Should an engine fail from here on, the half-made step needs a reset.
        self._done = True
        game.play(action)
        opponent, reply = self.settings.opponent, -1
        if opponent is not None and game.status == ONGOING:
            reply = game.reply(opponent, self.np_random)
        self._score_cp = self._score()
        total, terms = self.settings.reward(
            [game.status],
            [reply >= 0],
            [score_before_cp] if has_scores else None,
            [self._score_cp] if has_scores else None,
            move_scores,
        )
        terminated = game.status != ONGOING
        max_plies = self.settings.max_plies
        truncated = not terminated and max_plies is not None and len(game.actions) >= max_plies
        self._done = terminated or truncated
        raw = {name: np.float32(term[0]) for name, term in terms.items()}
        info = self._info(raw, illegal=illegal, action=action, reply=reply)
        return game.observation(), float(total[0]), terminated, truncated, info

    def action_masks(self) -> NDArray[np.bool_]:
        """The mask as bool [1858], True for legal actions (the method that sb3-contrib asks for)."""
        mask = np.zeros(NUM_ACTIONS, np.bool_)
        mask[self._game.legal] = True
        return mask

    def render(self) -> Any:
        """Text ("ansi" and "svg"), uint8 [416, 416, 3] ("rgb_array"), or None without a render mode."""
        if self.render_mode is None:
            gym.logger.warn(
                'render() does nothing: construct with render_mode="ansi" or "rgb_array"'
            )
            return None
        return RENDERERS[self.render_mode](self.board)

    def svg(self) -> str:
        """The board as an SVG document."""
        return svg(self.board)

    def close(self) -> None:
        """Ends the engines that this environment started. May be called twice."""
        self.settings.close()

    def get_state(self) -> dict[str, Any]:
        """Everything that the rest of the game depends on, as a dictionary that fits into JSON."""
        return {
            "start_fen": to_fen(self._game.start),
            "actions": list(self._game.actions),
            "learner": bool(self._learner),
            "done": self._done,
            "rng": self.np_random.bit_generator.state,
        }

    def set_state(self, state: Mapping[str, Any]) -> Start:
        """(observation, info) of the game that `get_state` described; it goes on from there identically."""
        self._done = True  # until the state is whole
        self.np_random.bit_generator.state = state["rng"]
        self._learner = bool(state["learner"])
        self._game = ReferenceGame(parse_fen(state["start_fen"]), self.settings)
        for action in state["actions"]:
            self._game.play(action)
        self._score_cp = self._score()
        self._done = bool(state["done"])
        return self._game.observation(), self._info(self._no_terms)

    def clone(self) -> ChessSelfPlayEnv:
        """An independent copy in the same state; it shares evaluator and opponent, and closes neither."""
        twin = copy.copy(self)
        twin.settings = dataclasses.replace(self.settings, owned=())
        twin.np_random = copy.deepcopy(self.np_random)
        twin.action_space = copy.deepcopy(self.action_space)
        twin._game = copy.deepcopy(self._game)
        return twin

    def _score(self) -> int:
        """Centipawns from the side to move's view; 0 (never shown, never used) without an evaluator."""
        if self.evaluator is None:
            return 0
        if self._game.status != ONGOING:
            return int(terminal_score_cp(self._game.status))
        return int(scores_of(self.evaluator, self._game.packed())[0])

    def _move_scores(self, legal: NDArray[np.int16], action: int) -> Any:
        if not self.settings.reward.needs_move_scores:
            return None
        assert self.evaluator is not None
        scores_cp = move_scores_of(self.evaluator, self._game.packed())[0]
        return [scores_cp.max()], [scores_cp[np.searchsorted(legal, action)]]

    def _info(
        self, terms: dict[str, Any], *, illegal: bool = False, action: int = -1, reply: int = -1
    ) -> dict[str, Any]:
        """The game's info and what `step` or `reset` adds; each key exists always or never for an env."""
        info = self._game.info() | {f"reward_{name}": paid for name, paid in terms.items()}
        info["illegal_action"] = np.array(illegal)  # Gymnasium batches np.bool_ only in an array
        if self.evaluator is not None:
            info["score_cp"] = np.int32(self._score_cp)
        if self.settings.illegal_action == "resample":
            info["action_played"] = np.int16(action)
        if self.settings.opponent is not None:
            info |= {"opponent_action": np.int16(reply), "learner_turn": np.int8(self._learner)}
        return info
