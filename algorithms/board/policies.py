"""The policies that the page offers: loaded in the background, asked one question at a time."""

from __future__ import annotations

import dataclasses
import math
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import torch

from algorithms.config.foreign import NO_TRUST, Trust
from algorithms.evaluation.load_policy import load_policy, run_temperature
from algorithms.networks.policy_net import PolicyNet
from algorithms.playing.conversation import Request
from algorithms.playing.policy_moves import PolicyMoves
from algorithms.playing.position import GamePosition, reached
from algorithms.playing.pull import NoOptimumError, Pull, load_pull
from algorithms.playing.view import PositionView, view_of
from algorithms.run_folder import checkpoint
from algorithms.run_folder.atomic_files import UntrustedError, cut
from chess_env.custom_objects import explained
from chess_env.evaluators import EngineError, Evaluator

MOST_WAITING = 32
"""Questions that may wait; the next one is refused."""

T = TypeVar("T")


class BusyError(RuntimeError):
    """Too many questions wait already."""


class NoPolicyError(ValueError):
    """The policy is not loaded, or cannot be; the message is a sentence."""


@dataclasses.dataclass(frozen=True, eq=False)
class Loaded:
    """A policy ready to be asked.

    Attributes:
        policy: in evaluation mode, on the CPU.
        temperature: at which its run learned in the beginning; None where that is not known.
        pull: what the run's bonus and KL pull towards; None where that is not known.
        no_pull: why not; "" where it is known.
    """

    policy: PolicyNet
    temperature: float | None
    pull: Pull | None
    no_pull: str


class BoardPolicies:
    """Loads policies and answers questions about them in a thread of its own.

    Args:
        sources: as of `load_policy`; the names under which the page offers them.
        evaluator: scores positions; None leaves scores out. It is not closed here.
        trust: the names from outside the project that run folders may use.
    """

    def __init__(
        self, sources: Sequence[str], evaluator: Evaluator | None, trust: Trust = NO_TRUST
    ) -> None:
        self.names = tuple(dict.fromkeys(sources))
        self._evaluator, self._trust = evaluator, trust
        self._found: dict[str, Loaded | str | None] = dict.fromkeys(self.names)
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="board")
        self._loader = ThreadPoolExecutor(1, thread_name_prefix="board-loader")
        self._lock, self._waiting = threading.Lock(), 0

    @property
    def evaluator_id(self) -> str | None:
        """The id of the evaluator whose scores are shown."""
        return None if self._evaluator is None else self._evaluator.id

    def load_all(self) -> None:
        """Begins to load them, one after the other, and returns at once."""
        for name in self.names:
            self._loader.submit(self._load, name)

    def load_again(self, name: str) -> None:
        """Begins to load a policy anew if it could not be loaded: its run has written another one."""
        with self._lock:
            if not isinstance(self._found[name], str):
                return
            self._found[name] = None
        self._loader.submit(self._load, name)

    def states(self) -> list[dict[str, Any]]:
        """Of each policy its name, "loading", "ready" or "failed", and what the page says of it."""
        return [_state(name, self._found[name]) for name in self.names]

    def loaded(self, name: str) -> Loaded:
        """The policy of that name.

        Raises:
            NoPolicyError: there is none, it is not loaded yet, or it cannot be.
        """
        if name not in self._found:
            raise NoPolicyError(
                f"There is no policy {name[:200]!r} here: choose one from the list."
            )
        found = self._found[name]
        if found is None:
            raise NoPolicyError("The policy is being loaded.")
        if isinstance(found, str):
            raise NoPolicyError(found)
        return found

    def ask(self, question: Callable[[], T]) -> Future[T]:
        """The answer to come; questions are answered one after the other.

        Raises:
            BusyError: too many wait.
        """
        with self._lock:
            if self._waiting >= MOST_WAITING:
                raise BusyError("Too many questions wait for an answer: ask again in a moment.")
            self._waiting += 1
        future = self._worker.submit(question)
        future.add_done_callback(self._answered)
        return future

    def view(
        self, found: Loaded, position: GamePosition, temperature: float
    ) -> tuple[PositionView, str]:
        """(what a policy makes of a position, a sentence on what is missing or ""); to be called by `ask`.

        Raises:
            NoPolicyError: its answer is none.
        """
        policy, pull = found.policy, found.pull
        return self.scored(
            lambda evaluator: view_of(
                policy, position, temperature=temperature, evaluator=evaluator, pull=pull
            )
        )

    def scored(self, seen: Callable[[Evaluator | None], PositionView]) -> tuple[PositionView, str]:
        """As `view`, of what makes a view with an evaluator; without scores where the evaluator fails.

        Raises:
            NoPolicyError: there is no view.
        """
        try:
            try:
                return seen(self._evaluator), ""
            except EngineError as error:
                return seen(None), f"No scores: the evaluator failed ({cut(error)})."
        except (ValueError, RuntimeError) as error:  # of probabilities that are not finite
            raise NoPolicyError(
                f"The policy cannot judge this position: {cut(explained(error))}"
            ) from error

    @staticmethod
    def move(found: Loaded, position: GamePosition, temperature: float) -> str | None:
        """The move that a policy makes, drawn at the temperature; None where none is legal. To be called by `ask`.

        Raises:
            NoPolicyError: its answer is none.
        """
        player = PolicyMoves(found.policy)
        asked = Request(position, temperature, top_k=0, seed=None, searchmoves=None)
        try:
            answer = player(asked)
        except (ValueError, RuntimeError) as error:  # of a user's own network
            raise NoPolicyError(f"The policy cannot move here: {cut(explained(error))}") from error
        if not all(map(math.isfinite, answer.probs)):
            raise NoPolicyError(
                "The policy cannot move here: its probabilities are not finite; use another checkpoint."
            )
        return None if answer.best is None else answer.best.uci()

    def close(self) -> None:
        """Ends the threads; what waits is not answered."""
        for pool in (self._loader, self._worker):
            pool.shutdown(wait=False, cancel_futures=True)

    def _answered(self, _: Future[Any]) -> None:
        with self._lock:
            self._waiting -= 1

    def _load(self, name: str) -> None:
        """Puts the policy, or why it cannot be loaded, into `_found`."""
        answer: Loaded | str = f"{name} could not be loaded: the terminal says more."
        try:
            answer = self._read(name)
            # The first question compiles what the others use: better now than when somebody plays.
            self._worker.submit(self.view, answer, reached(None, ()), 1.0).result()
        except (ValueError, RuntimeError, OSError, ImportError, UntrustedError) as error:
            answer = f"{name} cannot be opened: {_newest_fault(name) or explained(error)}"
        finally:
            self._found[name] = answer

    def _read(self, name: str) -> Loaded:
        torch.set_num_threads(1)  # one position at a time: a second thread only costs
        policy = load_policy(name, self._trust)
        pull, reason = None, ""
        try:
            pull = load_pull(name, self._trust)
        except NoOptimumError as error:
            reason = str(error)
        return Loaded(policy, run_temperature(name), pull, reason)


def _newest_fault(name: str) -> str:
    """What is wrong with the newest checkpoint of a run folder; "" where nothing is, or there is none."""
    found = checkpoint.directories(Path(name) / "checkpoints")
    try:
        if found:
            checkpoint.load(found[-1])
    except checkpoint.CheckpointError as error:
        return str(error)
    return ""


def _state(name: str, found: Loaded | str | None) -> dict[str, Any]:
    state: dict[str, Any] = {"name": name, "label": _label(name), "state": "loading", "says": ""}
    if isinstance(found, str):
        return state | {"state": "failed", "says": found}
    if found is None:
        return state
    return state | {
        "state": "ready",
        "temperature": found.temperature,
        "no_optimum": found.no_pull,
    }


def _label(name: str) -> str:
    """The last part of a path, or the name of a shipped policy."""
    return Path(name).name or Path(name).resolve().name or name
