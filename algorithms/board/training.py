"""A run's policies over its training, as the page shows them: one of them, a curve, an animation."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import threading
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from algorithms.board.following import MOST_STOPS, FollowedRun
from algorithms.board.policies import Loaded, NoPolicyError, Policies
from algorithms.board.position_lists import PositionLists
from algorithms.board.positions import BadRequestError, Game
from algorithms.config.foreign import NO_TRUST, Trust
from algorithms.evaluation import snapshots
from algorithms.evaluation.load_policy import run_temperature
from algorithms.evaluation.snapshots import CHECKPOINTS, Snapshot
from algorithms.playing.animation import Panel, animation_svg
from algorithms.playing.over_training import OverTraining, over_training, recorded_probes
from algorithms.playing.position_sets import one_position, probe_set
from algorithms.playing.pull import NoOptimumError, Pull, load_pull
from algorithms.playing.view import PositionView, view_of_recorded
from algorithms.run_folder.files import UntrustedError
from algorithms.run_folder.reading import cut
from chess_env.rules.fen import pack_board

MOST_VIEWS = 1_024
MOST_WEIGHT_BYTES = 32 * 2**20
_MOST_PULLS = 8
_MOST_RECORDINGS = 2
_MOST_SAID = 600  # characters: the names of files are in it

Key = tuple[object, ...]


class Training:
    """The policies of the offered runs over their training; what is asked often is kept.

    Args:
        policies: that are offered.
        trust: the names from outside the project that run folders may use.

    Attributes:
        runs: by name.
        load: loads a policy, and keeps those asked for last.
        lists: of positions to step through.
    """

    def __init__(self, policies: Policies, trust: Trust = NO_TRUST) -> None:
        self._policies, self._trust = policies, trust
        self.runs = {name: FollowedRun(name) for name in policies.names}
        self.load = snapshots.Policies(trust, MOST_WEIGHT_BYTES)
        self._views: OrderedDict[Key, PositionView] = OrderedDict()
        self._pulls: OrderedDict[Snapshot, Pull | None] = OrderedDict()
        self._recordings: OrderedDict[Key, OverTraining] = OrderedDict()
        self._lock = threading.Lock()
        self.lists = PositionLists(self.load)
        self._looker = ThreadPoolExecutor(1, thread_name_prefix="board-looker")

    def look(self, name: str) -> Future[bool]:
        """Whether there is something new of a run, to come.

        Raises:
            NoPolicyError: none of that name is offered.
        """
        return self._looker.submit(self.run(name).look)

    async def looked(self, name: str) -> FollowedRun:
        """The run of that name after its first look: a page may know it from a server that is gone.

        Raises:
            NoPolicyError: none of that name is offered.
        """
        run = self.run(name)
        if not run.looked:
            await asyncio.wrap_future(self.look(name))
        return run

    def close(self) -> None:
        """Ends the threads."""
        self.lists.close()
        self._looker.shutdown(wait=False, cancel_futures=True)

    def run(self, name: str) -> FollowedRun:
        """The run of that name.

        Raises:
            NoPolicyError: none is offered.
        """
        if name not in self.runs:
            raise NoPolicyError(
                f"There is no policy {name[:200]!r} here: choose one from the list."
            )
        return self.runs[name]

    def loaded(self, name: str, update: int | None) -> Loaded:
        """A policy ready to be asked. To be called by `Policies.ask`.

        Args:
            name: of what is offered.
            update: of the run when it had the policy; None for the one that was the newest when it was loaded.

        Raises:
            NoPolicyError: there is none, or it cannot be loaded.
        """
        if update is None:
            return self._policies.loaded(name)
        stop = self._stop(name, update)
        try:
            policy = self.load(stop)
        except UntrustedError as error:
            raise NoPolicyError(f"{name} cannot be opened: {cut(error)}") from error
        except (ValueError, RuntimeError, OSError, ImportError) as error:
            raise NoPolicyError(
                f"The policy of update {update:,} cannot be opened: {str(error)[:_MOST_SAID]}"
            ) from error
        with contextlib.suppress(NoPolicyError):
            return dataclasses.replace(
                self._policies.loaded(name), policy=policy, pull=self._pull(stop)
            )
        return Loaded(policy, run_temperature(str(stop.path)), self._pull(stop), "")

    def view(
        self, name: str, update: int | None, game: Game, temperature: float
    ) -> tuple[PositionView, str]:
        """As `Policies.view`, of the policy after an update. To be called by `Policies.ask`.

        Raises:
            NoPolicyError: there is none, it cannot be loaded, or its answer is none.
        """
        if update is None:
            return self._policies.view(self.loaded(name, None), game.position, temperature)
        if all(stop.update != update for stop in self.run(name).stops):
            curves = self.recorded(name, game, temperature)
            places = [] if curves is None else np.flatnonzero(curves.updates == update).tolist()
            if curves is not None and places:
                return self._recorded_view(curves, places[0], game, temperature), ""
        place = (game.fen, game.moves[: game.at])
        key = (self._stop(name, update), place, temperature)
        with self._lock:
            if key in self._views:
                self._views.move_to_end(key)
                return self._views[key], ""
        view, problem = self._policies.view(self.loaded(name, update), game.position, temperature)
        if not problem:
            with self._lock:
                self._views[key] = view
                while len(self._views) > MOST_VIEWS:
                    self._views.popitem(last=False)
        return view, problem

    def pull(self, name: str, update: int | None) -> Pull | None:
        """What pulled a policy that has a view; None where it is not known. To be called by `Policies.ask`."""
        if update is None:
            return self._policies.loaded(name).pull
        found = [stop for stop in self.run(name).stops if stop.update == update]
        return self._pull(found[0]) if found else None

    def recorded(self, name: str, game: Game, temperature: float) -> OverTraining | None:
        """What the run recorded of this position while it trained; None where it is no probe, or nothing was recorded.

        To be called by `Policies.ask`.
        """
        row = probe_row(game)
        if row is None:
            return None
        run = self.run(name)
        key = (name, run.tag, temperature)
        if key not in self._recordings:
            try:
                found = recorded_probes(
                    run.run_dir, temperature or 1.0, most=MOST_STOPS, moves=run.scored_moves
                )
            except (ValueError, OSError):  # the policies on disk are there still
                return None
            self._recordings[key] = found
            while len(self._recordings) > _MOST_RECORDINGS:
                self._recordings.popitem(last=False)
        return self._recordings[key].only(row)

    def recorded_only(self, name: str, game: Game, temperature: float) -> list[tuple[int, int]]:
        """(update, scored moves) of the policies that were recorded of the position and are not on disk.

        To be called by `Policies.ask`.
        """
        curves = self.recorded(name, game, temperature)
        if curves is None:
            return []
        on_disk = {stop.update for stop in self.run(name).stops}
        every = zip(curves.updates.tolist(), curves.scored_moves.tolist(), strict=True)
        return [(update, moves) for update, moves in every if update not in on_disk]

    def animation(
        self, named: Sequence[tuple[str, str]], game: Game, temperature: float
    ) -> dict[str, Any]:
        """{"svg"}: the position over the training of the runs. To be called by `Policies.ask`.

        Args:
            named: (name of a run, what stands above its board).
            game: whose position is drawn.
            temperature: above 0.

        Raises:
            BadRequestError: the temperature is 0, or no move is legal.
            NoPolicyError: a run has no policy that can be loaded.
        """
        if not temperature:
            raise BadRequestError("At temperature 0 nothing moves but the best move: choose more.")
        try:
            at = one_position(game.position)
        except ValueError as error:
            raise BadRequestError(f"{error}.") from error
        panels = []
        for name, label in named:
            stops = self.run(name).stops
            if not stops:
                raise NoPolicyError(f"{name} has no policies of its training.")
            try:
                panels.append(Panel(label, over_training(stops, self.load, at, temperature)))
            except (ValueError, UntrustedError) as error:
                raise NoPolicyError(cut(error)) from error
        return {"svg": str(animation_svg(panels))}

    def _stop(self, name: str, update: int) -> Snapshot:
        """The policy on disk.

        Raises:
            NoPolicyError: there is none.
        """
        for stop in self.run(name).stops:
            if stop.update == update:
                return stop
        raise NoPolicyError(f"The run has no policy of update {update:,} on disk.")

    def _recorded_view(
        self, curves: OverTraining, place: int, game: Game, temperature: float
    ) -> PositionView:
        logprobs = curves.logprobs[place, 0]
        return self._policies.scored(
            lambda evaluator: view_of_recorded(
                logprobs, game.position, temperature=temperature, evaluator=evaluator
            )
        )[0]

    def _pull(self, stop: Snapshot) -> Pull | None:
        """What the run pulled towards then; None where it is not known: of a policy alone, without a checkpoint."""
        with self._lock:
            if stop in self._pulls:
                return self._pulls[stop]
        whole = stop.path.parents[1] / CHECKPOINTS / stop.path.name
        found = None
        if (Path(whole) / "manifest.json").exists():
            with contextlib.suppress(NoOptimumError):
                found = load_pull(str(whole), self._trust)
        with self._lock:
            self._pulls[stop] = found
            while len(self._pulls) > _MOST_PULLS:
                self._pulls.popitem(last=False)
        return found


def probe_row(game: Game) -> int | None:
    """Which of the probe positions is looked at, with nothing before it; None where it is none."""
    board = game.board
    if board.halfmove_clock or game.position.repetitions:
        return None
    same = (probe_set().positions == pack_board(board)).all(-1)
    return int(same.argmax()) if same.any() else None


def point_of(
    view: PositionView, update: int, scored_moves: int, *, recorded: bool
) -> dict[str, Any]:
    """A point of a curve, as JSON values."""
    best = view.moves[0] if view.moves else None
    return {
        "update": update,
        "scored_moves": scored_moves,
        "recorded": recorded,
        "entropy": view.entropy,
        "regret_cp": view.regret_cp,
        "san": None if best is None else best.san,
        "uci": None if best is None else best.uci,
        "probability": None if best is None else best.probability,
    }
