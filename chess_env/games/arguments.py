"""What a caller hands to the environments, checked before any board or generator is touched.

The constructor arguments of both environments are resolved here into `Settings`; reset options, seeds, actions and
states are checked.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from chess_env.custom_objects import meant, shown
from chess_env.evaluators import Evaluator, make_evaluator
from chess_env.games.players import Player, make_player
from chess_env.games.rendering import RENDERERS
from chess_env.move_facts import FURTHER_GROUPS, FactsAsked, checked_groups
from chess_env.moves import NUM_ACTIONS
from chess_env.positions.start_positions import (
    StartPositions,
    make_start_positions,
    needs_evaluator,
)
from chess_env.rewards import Reward, RewardFunction, make_reward
from chess_env.rules.fen import to_fen
from chess_env.rules.packed import Positions
from chess_env.rules.rules import ONGOING, STATUS_NAMES, status_batch
from chess_env.threads import Threads

ILLEGAL_ACTION_CHOICES = ("terminate", "raise", "resample")
LEARNER_COLORS = ("random", "white", "black", "start")


@dataclass(frozen=True)
class Settings:
    """What an environment plays with.

    Attributes:
        evaluator: Scores positions; None for "none", and for "auto" where nothing reads a score.
        evaluator_id: The evaluator's `id`, or "none".
        reward: Terms and weights.
        source: Where games start.
        opponent: Plays the other side inside `step`; None for self-play.
        learner_color: One of `LEARNER_COLORS`; only read with an opponent.
        max_plies: Ply limit (truncation), or None.
        illegal_action: One of `ILLEGAL_ACTION_CHOICES`.
        fifty_move: True: 50 moves without capture or pawn move end the game; False: 75.
        drawn_at: The occurrence of a position that ends the game: 2, 3 or 5.
        threads: That work on the boards.
        move_facts: Which facts of all legal moves `info` has.
        owned: What was made here and is closed by `close`.
    """

    evaluator: Evaluator | None
    evaluator_id: str
    reward: RewardFunction
    source: StartPositions
    opponent: Player | None
    learner_color: str
    max_plies: int | None
    illegal_action: str
    fifty_move: bool
    drawn_at: int
    threads: Threads
    move_facts: FactsAsked = False
    owned: tuple[Any, ...] = ()

    def close(self) -> None:
        """Closes the evaluator and the opponent that were made from a name. May be called twice."""
        for resource in self.owned:
            resource.close()


def _check_choices(illegal_action: str, learner_color: str, max_plies: int | None) -> None:
    if illegal_action not in ILLEGAL_ACTION_CHOICES:
        raise ValueError(
            f"illegal_action is {illegal_action!r}: expected one of {', '.join(ILLEGAL_ACTION_CHOICES)}"
        )
    if learner_color not in LEARNER_COLORS:
        raise ValueError(
            f"learner_color is {learner_color!r}: expected one of {', '.join(LEARNER_COLORS)}"
        )
    if max_plies is not None and (
        isinstance(max_plies, bool) or not isinstance(max_plies, int | np.integer) or max_plies < 1
    ):
        raise ValueError(f"max_plies is {max_plies!r}: expected None or a whole number >= 1")


def _facts_asked(asked: Any) -> FactsAsked:
    if isinstance(asked, bool):
        return asked
    if not isinstance(asked, list | tuple) or not asked:
        raise ValueError(
            f"move_facts is {asked!r}: expected True, False, or a list of further groups of facts, of "
            f"{', '.join(FURTHER_GROUPS)}"
        )
    return checked_groups(asked, "move_facts")


def _make_engine(
    asked: Any,
    reward: RewardFunction,
    start_positions: Any,
    num_engines: int,
    num_threads: int | None,
) -> Evaluator | None:
    """The evaluator that is asked; None for "none", and for "auto" where nothing reads a score."""
    if not isinstance(asked, str):
        if isinstance(asked, Evaluator):
            return asked
        raise ValueError(
            f"evaluator is {shown(asked)}: expected 'auto', 'builtin', 'none', a name such as "
            "'stockfish:depth=4', or an object with id, evaluate, score_moves, counters and close"
        )
    if asked == "none":
        return None
    # An engine that nothing asks would cost more time than the game itself.
    if asked == "auto" and not (reward.needs_evaluator or needs_evaluator(start_positions)):
        return None
    return make_evaluator(asked, num_engines, num_threads=num_threads)


def make_settings(
    *,
    evaluator: str | Evaluator,
    reward: Reward = None,
    start_positions: Any = "initial",
    opponent: Any = None,
    learner_color: str = "random",
    max_plies: int | None = None,
    illegal_action: str = "terminate",
    fifty_move: bool = True,
    threefold: bool = True,
    twofold: bool = False,
    num_engines: int = 1,
    num_threads: int | None = None,
    move_facts: bool | Sequence[str] = False,
) -> Settings:
    """The settings that the constructor arguments of an environment mean; `ChessSelfPlayEnv` says what each may be.

    Raises:
        ValueError: An argument is not what the environment's docstring allows; nothing is left running.
    """
    _check_choices(illegal_action, learner_color, max_plies)
    facts_asked = _facts_asked(move_facts)
    paid = make_reward(reward, has_evaluator=evaluator != "none")
    threads = Threads(num_threads)
    owned: list[Any] = [threads]
    try:
        engine = _make_engine(evaluator, paid, start_positions, num_engines, num_threads)
        if engine is not None and isinstance(evaluator, str):
            owned.append(engine)
        player = None if opponent is None else make_player(opponent)
        if isinstance(opponent, str):
            owned.append(player)
        return Settings(
            evaluator=engine,
            evaluator_id="none" if engine is None else engine.id,
            reward=paid,
            source=make_start_positions(start_positions, evaluator=engine),
            opponent=player,
            learner_color=learner_color,
            max_plies=None if max_plies is None else int(max_plies),
            illegal_action=illegal_action,
            fifty_move=bool(fifty_move),
            drawn_at=2 if twofold else 3 if threefold else 5,
            threads=threads,
            move_facts=facts_asked,
            owned=tuple(owned),
        )
    except BaseException:
        for resource in owned:
            resource.close()
        raise


def refuse_unknown(unknown: Mapping[str, object], kind: type) -> None:
    """Raises TypeError for a keyword that the constructor of `kind` does not have, with the one that was meant."""
    known = [name for name in inspect.signature(kind).parameters if name != "unknown"]
    for name in unknown:
        raise TypeError(
            f"{kind.__name__} has no argument {name!r}: known are {', '.join(known)}{meant(name, known)}"
        )


def checked_render_mode(render_mode: str | None) -> str | None:
    """The render mode itself.

    Raises:
        ValueError: Not one that the environments have.
    """
    if render_mode is not None and render_mode not in RENDERERS:
        raise ValueError(
            f"render_mode is {render_mode!r}: expected None or one of {', '.join(RENDERERS)}; "
            "gym.make(..., render_mode='human') shows what 'rgb_array' gives"
        )
    return render_mode


def checked_start(position: Positions, fifty_move: bool, origin: str) -> Positions:
    """The packed start position itself, once it is known that the game is not over there.

    Args:
        position: uint64 [8].
        fifty_move: The environment's setting.
        origin: What gave the position, for the message.

    Raises:
        ValueError: Mate, stalemate, dead position, or a used-up rule-50 clock.
    """
    position = np.asarray(position)
    if position.dtype != np.uint64 or position.shape != (8,):
        raise ValueError(
            f"{origin} gave {position.dtype} {list(position.shape)}: expected a packed position, "
            "uint64 [8]; make it with chess_env.rules.fen.parse_fen"
        )
    status = int(status_batch(position[None], fifty_move)[0])
    if status != ONGOING:
        raise ValueError(
            f"{origin} gave {to_fen(position)!r}, where the game is already over "
            f"({STATUS_NAMES[status]}); start from a position with moves to play"
        )
    return position


def checked_fen(options: Mapping[str, Any] | None) -> Any:
    """The reset option "fen", which may be anything yet; None where it is not given.

    Raises:
        ValueError: Another key, or no mapping.
    """
    options = _options(options)
    fen = options.pop("fen", None)
    for key in options:
        raise ValueError(f"reset option {shown(key)} is unknown: expected {{'fen': ...}} or None")
    return fen


def _options(options: Any) -> dict[Any, Any]:
    if options is not None and not isinstance(options, Mapping):
        raise ValueError(f"reset options are {shown(options)}: expected a dictionary or None")
    return dict(options or {})


def checked_action(action: Any) -> int:
    """The action as an int in 0..1857.

    Raises:
        ValueError: Not a whole number, or not an action id at all (for example the -1 that pads `legal_ids`).
    """
    array = np.asarray(action)
    if array.size != 1 or array.dtype.kind not in "iu":
        raise ValueError(f"action is {action!r}: expected one whole number in 0..{NUM_ACTIONS - 1}")
    number = int(array.item())
    if not 0 <= number < NUM_ACTIONS:
        raise ValueError(
            f"action is {number}: expected 0..{NUM_ACTIONS - 1}; choose where info['action_mask'] is 1 "
            "(the -1 in info['legal_ids'] is padding)"
        )
    return number


def illegal_action_error(action: int, fen: str) -> ValueError:
    """The error of `illegal_action="raise"`."""
    return ValueError(
        f"action {action} is illegal in {fen!r}; choose where info['action_mask'] is 1, "
        "or construct the environment with illegal_action='terminate' or 'resample'"
    )


def player_error(player: Player, action: int, fen: str) -> RuntimeError:
    """The error for an opponent that answers with an illegal action."""
    return RuntimeError(
        f"opponent {player.name!r} played illegal action {action} in {fen!r}; "
        "its choose() must return ids from legal_actions of that position"
    )


_INT64 = np.dtype(np.int64)


def checked_reset_options(
    options: dict[str, Any] | None, num_envs: int, started: bool
) -> tuple[NDArray[np.int64], Sequence[str] | None]:
    """(int64 [n] the boards to restart, their n FENs or None).

    Raises:
        ValueError: an unknown option, a mask that is not bool [N], or another number of FENs than boards.
    """
    options = _options(options)
    mask = options.pop("reset_mask", None)
    fens = options.pop("fens", None)
    if options:
        raise ValueError(
            f"reset options {list(options)} are unknown: expected 'fens' or 'reset_mask'"
        )
    index = np.arange(num_envs)
    if mask is not None:
        mask = np.asarray(mask)
        if mask.shape != (num_envs,) or mask.dtype != np.bool_ or not mask.any():
            raise ValueError(
                f"reset_mask is {mask!r}: expected bool [{num_envs}] with at least one True"
            )
        if not started and not mask.all():
            raise ValueError("reset_mask restarts some boards: call reset() on all of them first")
        index = np.flatnonzero(mask)
    is_list = isinstance(fens, Sequence | np.ndarray) and not isinstance(fens, str)
    if fens is not None and (not is_list or len(fens) != len(index)):
        count = f"{len(fens)} FENs" if is_list else repr(fens)[:200]
        raise ValueError(
            f"reset option 'fens' holds {count}: expected a list of {len(index)}, one FEN per board"
        )
    return index, fens


def checked_seed(seed: Any, wanted: str = "a whole number") -> int | None:
    """The seed of one board as a Python int, also from NumPy's or torch's integers; None stays None.

    Raises:
        ValueError: not a whole number, or below 0.
    """
    if seed is None:
        return None
    try:
        number = operator.index(seed)
    except (TypeError, ValueError):
        number = -1
    if number < 0 or isinstance(seed, bool):
        raise ValueError(f"seed is {shown(seed)}: expected {wanted} from 0 on, or None")
    return number


def checked_seeds(seed: Any, num_envs: int) -> list[int | None]:
    """One seed per board: s, s + 1, ... for a number; None keeps the generator a board has.

    Raises:
        ValueError: neither a whole number nor one of them or None for each board.
    """
    wanted = f"a whole number, or a list of {num_envs},"
    is_list = isinstance(seed, Sequence) and not isinstance(seed, str | bytes)
    if is_list or getattr(seed, "ndim", 0) == 1:
        if len(seed) != num_envs:
            raise ValueError(
                f"{len(seed)} seeds for {num_envs} boards: give one number or one seed per board"
            )
        return [checked_seed(one, wanted) for one in seed]
    first = checked_seed(seed, wanted)
    return [None if first is None else first + row for row in range(num_envs)]


def checked_autoreset_mode(mode: AutoresetMode | str) -> AutoresetMode:
    """The mode, also from its name in either spelling ("SAME_STEP", "SameStep").

    Raises:
        ValueError: no mode of that name.
    """
    for known in AutoresetMode:
        if mode in (known, known.name, known.value):
            return known
    raise ValueError(
        f"autoreset_mode is {mode!r}: expected one of {', '.join(m.name for m in AutoresetMode)}"
    )


def checked_actions(actions: Any, num_envs: int) -> NDArray[np.int64]:
    """int64 [N], a copy; whether the numbers are legal actions is looked at board by board.

    Raises:
        ValueError: not whole numbers of shape [N].
    """
    array = np.asarray(actions)
    if array.shape != (num_envs,) or array.dtype.kind not in "iu":
        raise ValueError(
            f"actions are {array.dtype} {list(array.shape)}: expected whole numbers [{num_envs}]"
        )
    return array.astype(_INT64)


def checked_array(state: Mapping[str, Any], name: str, like: NDArray[np.generic]) -> NDArray[Any]:
    """The array `name` of a state, of the dtype and shape of `like`.

    Raises:
        ValueError: it is missing or another.
    """
    found = state.get(name)
    shown = f"a {type(found).__name__}"
    if isinstance(found, np.ndarray):
        if found.dtype == like.dtype and found.shape == like.shape:
            return found
        if found.dtype == like.dtype and found.ndim and found.shape[1:] == like.shape[1:]:
            raise ValueError(f"the state holds {len(found)} boards, this environment {len(like)}")
        shown = f"{found.dtype} {[*found.shape]}"
    raise ValueError(f"{name} of the state is {shown}, expected {like.dtype} {[*like.shape]}")
