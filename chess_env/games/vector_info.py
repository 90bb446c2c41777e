"""What the vector environment tells its caller: observations and info, in fresh arrays unless told otherwise."""

from __future__ import annotations

import math
import mmap
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from chess_env.evaluators.protocol import Scores
from chess_env.games import lockstep
from chess_env.games.arguments import Settings
from chess_env.games.boards import LEAST_FACTS
from chess_env.games.games import LEAST_PART, Index
from chess_env.games.scoring import Scoring
from chess_env.move_facts import facts_asked
from chess_env.moves import NUM_ACTIONS
from chess_env.observation import NUM_PLANES, encode_batch, plane_bounds
from chess_env.rules.action_bits import MASK_WORDS
from chess_env.rules.movegen import MAX_LEGAL

_WORTH_KEEPING = 1 << 17
"""Bytes; smaller arrays come from memory that the process has in hand."""

_WORTH_ASKING_FOR = 1 << 20
"""Bytes; fewer are cleared sooner than the system gives them."""

_ALIGNED = 64
"""Bytes; what begins at a multiple of it shares no line of the cache with what stands before."""

Info = dict[str, Any]
Arrays = dict[str, NDArray[Any]]
Row = tuple[tuple[int, ...], np.dtype[Any]]
"""Shape and dtype of an array."""

OBSERVATIONS = ("planes", "positions")
MASKS = ("dense", "bits", "ids")

# What `lockstep.show` writes, in its order: name -> shape of a row, dtype.
_ROWS: dict[str, Row] = {
    "num_legal": ((), np.dtype(np.int16)),
    "ply": ((), np.dtype(np.int32)),
    "turn": ((), np.dtype(np.int8)),
    "phase": ((), np.dtype(np.int8)),
    "status": ((), np.dtype(np.int8)),
    "repetitions": ((), np.dtype(np.uint8)),
    "positions": ((8,), np.dtype(np.uint64)),
    "planes": ((NUM_PLANES, 8, 8), np.dtype(np.uint8)),
    "action_mask": ((NUM_ACTIONS,), np.dtype(np.int8)),
    "action_mask_bits": ((MASK_WORDS,), np.dtype(np.uint64)),
    "legal_ids": ((MAX_LEGAL,), np.dtype(np.int16)),
}
_NUMBERS = ("legal_ids", "num_legal", "ply", "turn", "phase", "status")


def _bytes(row: Row) -> int:
    """Bytes of such an array, up to the next multiple of `_ALIGNED`."""
    return -(-math.prod(row[0]) * row[1].itemsize // _ALIGNED) * _ALIGNED


class Shown(NamedTuple):
    """The form in which a caller wants what there is to see.

    Attributes:
        observation: "planes", or "positions": what planes are made from.
        mask: "dense" (`action_mask`), "bits" (`action_mask_bits`), or "ids": none beside `legal_ids`.
        copy: False: the next call may overwrite what this one returned.
    """

    observation: str
    mask: str
    copy: bool

    def observation_space(self) -> gym.spaces.Box:
        """The space of one board's observation."""
        if self.observation == "planes":
            return gym.spaces.Box(*plane_bounds(), dtype=np.uint8)
        return gym.spaces.Box(0, np.iinfo(np.uint64).max, (8,), np.uint64)

    def names(self) -> tuple[str, ...]:
        """What is shown, the observation first, in the order of `info`."""
        mask = {"dense": ("action_mask",), "bits": ("action_mask_bits",), "ids": ()}[self.mask]
        # With planes, one of them says how often a position occurred.
        occurred = ("repetitions",) if self.observation == "positions" else ()
        return (self.observation, *mask, *_NUMBERS, *occurred)


def checked_shown(observation: str, mask: str, copy: bool) -> Shown:
    """The constructor arguments, as a record.

    Raises:
        ValueError: One of them is not what it may be.
    """
    for name, value, choices in (
        ("observation", observation, OBSERVATIONS),
        ("mask", mask, MASKS),
    ):
        if not isinstance(value, str) or value not in choices:
            raise ValueError(f"{name} is {value!r}: expected one of {', '.join(choices)}")
    if not isinstance(copy, bool):
        raise ValueError(f"copy is {copy!r}: expected True or False")
    return Shown(observation, mask, copy)


def few_written(rows: Sequence[Row | None]) -> list[NDArray[Any] | None]:
    """Zeros, `[*shape]` of a dtype each, of which few are written: memory that nobody writes to is not cleared.

    `np.zeros` leaves that to the system too, until the process has freed such an array; then it clears the memory
    itself. They share one piece of memory: with several threads, giving back each its own took longer than the rest.
    """
    size = sum(_bytes(row) for row in rows if row is not None)
    if size < _WORTH_ASKING_FOR or not hasattr(mmap, "MAP_PRIVATE"):
        return [None if row is None else np.zeros(*row) for row in rows]
    memory, begin = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE), 0
    arrays: list[NDArray[Any] | None] = []
    for row in rows:
        arrays.append(None if row is None else np.ndarray(*row, memory, begin))
        begin += 0 if row is None else _bytes(row)
    return arrays


class ReusedArrays:
    """Arrays for one step after another: the memory of one that nobody holds any more is given out again.

    Fresh memory has to be cleared by the system, which takes longer than the facts of the moves on 1,024 boards.
    """

    def __init__(self) -> None:
        self._kept: list[NDArray[np.uint8]] = []

    def new(self, shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
        """An array of that shape and dtype, `[*shape]`, still to be written."""
        size = math.prod(shape) * np.dtype(dtype).itemsize
        if size < _WORTH_KEEPING:
            return np.empty(shape, dtype)
        kept, found = self._kept, -1
        # Held by the list and as the argument: whoever has a view of it holds it too.
        free = [at for at in range(len(kept)) if sys.getrefcount(kept[at]) == 2]
        for at in free:
            if len(kept[at]) >= size and (found < 0 or len(kept[at]) < len(kept[found])):
                found = at
        if found < 0:
            self._kept = [each for at, each in enumerate(kept) if at not in free]
            self._kept.append(np.empty(size + size // 4, np.uint8))
        return self._kept[found][:size].view(dtype).reshape(shape)


class Frame(NamedTuple):
    """Arrays for one look at the boards: observations, the rest by name, and those that `lockstep.show` writes."""

    observations: Any
    info: Info
    written: list[NDArray[Any] | None]


class View:
    """Observations and the state part of `info`, as `Shown` asks for them.

    Args:
        scoring: the games' scores.
        shown: the form.
    """

    def __init__(self, scoring: Scoring, shown: Shown) -> None:
        self._scoring, self._games = scoring, scoring.games
        count, names = len(self._games.everywhere), shown.names()
        self._written = [
            ((count, *shape), dtype) if name in names else None
            for name, (shape, dtype) in _ROWS.items()
        ]
        self._places = [(name, list(_ROWS).index(name)) for name in names[1:]]
        self._observation = list(_ROWS).index(shown.observation)
        self._num_facts = len(facts_asked(self._games.settings.move_facts))
        self._arrays = ReusedArrays()
        sizes = [math.prod(row[0]) * row[1].itemsize for row in self._written if row is not None]
        self._new = self._arrays.new if max(sizes) >= _WORTH_KEEPING else np.empty
        self._now: Frame | None = None
        self._last: Frame | None = None
        if not shown.copy:
            # The boards hold two things in the very form that is shown: a caller may read them there.
            boards = self._games.boards
            own: Arrays = {
                "positions": boards.positions.view(),
                "legal_ids": boards.legal_ids.view(),
            }
            for array in own.values():
                array.setflags(write=False)
            self._now, self._last = (
                self._frame(
                    lent, [None if row is None else np.zeros(*row) for row in self._written]
                )
                for lent in (own, {})
            )

    def now(self) -> tuple[NDArray[Any], Info]:
        """(observations [N, ...], the state part of `info`) of all boards as they stand."""
        everywhere, new = self._games.everywhere, self._new
        frame = self._now
        if frame is None:
            frame = self._frame({}, [None if row is None else new(*row) for row in self._written])
        facts = self._arrays.new(*self._facts_row(everywhere)) if self._num_facts else None
        return self._seen(everywhere, frame, facts)

    def last(self, ended: Index) -> tuple[NDArray[Any], Info]:
        """(observations [N, ...], `info`) as of `now`, before new games stand on the boards `ended`.

        Only these rows are written.
        """
        rows = [] if self._last else self._written
        facts_row = self._facts_row(ended) if self._num_facts else None
        *arrays, facts = few_written([*rows, facts_row])
        return self._seen(ended, self._last or self._frame({}, arrays), facts)

    def planes(self) -> NDArray[np.uint8]:
        """uint8 [N, C, 8, 8], a fresh array: the planes of all boards as they stand."""
        boards = self._games.boards
        return encode_batch(boards.positions, np.minimum(boards.repetitions, 255).astype(np.uint8))

    def legal(self) -> NDArray[np.bool_]:
        """bool [N, 1858], a fresh array: the legal actions of all boards as they stand."""
        boards, everywhere = self._games.boards, self._games.everywhere
        masks = np.empty((len(everywhere), NUM_ACTIONS), np.int8)
        lockstep.write_masks(boards.counters, boards.legal_ids, everywhere, masks)
        return masks.view(np.bool_)

    def _frame(self, lent: Arrays, arrays: list[NDArray[Any] | None]) -> Frame:
        """`arrays`, still to be written, but for those that are `lent`."""
        written = arrays
        if lent:
            written = arrays.copy()
            for name, array in lent.items():
                place = list(_ROWS).index(name)
                if arrays[place] is not None:
                    arrays[place], written[place] = array, None
        info: Info = {name: arrays[place] for name, place in self._places}
        return Frame(arrays[self._observation], info, written)

    def _facts_row(self, index: Index) -> Row:
        """Of the facts of the moves on the boards `index`, as many as the board has that has most."""
        num_moves = int(self._games.boards.num_legal[index].max(initial=0))
        return (len(self._games.everywhere), num_moves, self._num_facts), np.dtype(np.uint8)

    def _seen(
        self, index: Index, frame: Frame, facts: NDArray[np.uint8] | None
    ) -> tuple[NDArray[Any], Info]:
        """What is seen on the boards `index`, written to the frame and to `facts`, where these are asked for."""
        games, boards, settings = self._games, self._games.boards, self._games.settings
        info = frame.info if self._now is None else frame.info.copy()

        def show(part: slice) -> None:
            rows = index[part]
            lockstep.show(boards.positions, boards.counters, boards.legal_ids, rows, *frame.written)
            if facts is not None:
                boards.write_move_facts(rows, settings.fifty_move, settings.move_facts, facts)

        least = LEAST_PART if facts is None else LEAST_FACTS
        settings.threads.over(len(index), show, least=least)
        if facts is not None:
            info["move_facts"] = facts
        if settings.evaluator is not None:
            info["score_cp"] = self._scoring.score_cp.copy()
        if settings.opponent is not None:
            info["learner_turn"] = games.learner_is_white.astype(np.int8)
        return frame.observations, info


def transition(
    settings: Settings,
    terms: dict[str, NDArray[np.float32]],
    illegal: NDArray[np.bool_],
    actions: Index,
    replies: Index,
) -> Info:
    """The part of `info` that tells about the step just made: name -> array [N], `reward_TERM` for each term."""
    info: Info = {f"reward_{name}": values for name, values in terms.items()}
    info["illegal_action"] = illegal
    if settings.illegal_action == "resample":
        info["action_played"] = actions.astype(np.int16)
    if settings.opponent is not None:
        info["opponent_action"] = replies.astype(np.int16)
    return info


def final_entries(
    done: NDArray[np.bool_],
    final_obs: NDArray[Any],
    final_info: Info,
    step_info: Info,
    final_cp: Scores,
) -> Info:
    """The last observation and info of games that were replaced in the step, under Gymnasium's names.

    Args:
        done: bool [N], where games ended.
        final_obs: [N, ...], the boards before the new games began.
        final_info: their state info; it becomes part of the result.
        step_info: `transition` of the step.
        final_cp: int32 [N], the scores after the step.
    """
    if "score_cp" in final_info:
        final_info["score_cp"] = final_cp.copy()
    for name, values in step_info.items():
        final_info[name] = values.copy()
    return {
        "final_obs": final_obs,
        "_final_obs": done.copy(),
        "final_info": final_info,
        "_final_info": done.copy(),
    }
