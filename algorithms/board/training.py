"""A run's policies over its training, as the page shows them: one of them, a curve, an animation.

Run folders are followed while they are trained. Lists of positions to step through, sorted by what changed most, are
made in the background.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from algorithms.board.board_game import BadRequestError, BoardGame
from algorithms.board.policies import BoardPolicies, Loaded, NoPolicyError
from algorithms.config.foreign import NO_TRUST, Trust
from algorithms.doctor.diagnosis import Watch
from algorithms.evaluation.load_policy import run_temperature
from algorithms.evaluation.snapshot_policies import (
    CHECKPOINTS,
    News,
    RunFollower,
    Snapshot,
    SnapshotPolicies,
    last_at,
    thinned,
)
from algorithms.networks.policy_net import PolicyNet
from algorithms.playing.animation import Panel, animation_svg
from algorithms.playing.over_training import (
    OverTraining,
    most_changed,
    over_training,
    recorded_probes,
)
from algorithms.playing.position import PositionSet, heldout_sets, one_position, probe_set
from algorithms.playing.pull import NoOptimumError, Pull, load_pull
from algorithms.playing.view import PositionView, view_of_recorded
from algorithms.reports.noise import noise_of_runs
from algorithms.run_folder.atomic_files import UntrustedError, cut
from algorithms.run_folder.console import number
from chess_env.rules.fen import pack_board, to_fen

LOOK_INTERVAL_S = 1.0
"""A folder is not looked at more often, however many pages ask."""

MOST_STOPS = 200
"""Policies of a run on the slider; of more, as many are taken evenly."""

MOST_NOTES = 8
_MOST_BYTES = 4 * 2**20  # of a record at once: its rows take ten times as much memory


class FollowedRun:
    """A folder that is, or may become, a run; threads may share it.

    Args:
        name: its path; where there is no such folder there is nothing to tell.

    Attributes:
        run_dir: the folder.
        stops: policies on the slider, in the order of training, as of the last look.
        scored_moves: update -> scored moves, by the record, as of the last look.
        looked: whether there was a look.
    """

    def __init__(self, name: str) -> None:
        self.run_dir = Path(name)
        self.stops: tuple[Snapshot, ...] = ()
        self.scored_moves: Mapping[int, int] = {}
        self.looked = False
        self._follower = RunFollower(self.run_dir, _MOST_BYTES)
        self._watch, self._health = Watch(), ""
        self._newest = -1  # update of the record's last row
        self._measured: Measured = {}
        self._notes: tuple[str, ...] = ()
        self._lock, self._looked_at = threading.Lock(), -LOOK_INTERVAL_S
        self._server, self._changes = secrets.token_hex(4), 0

    @property
    def tag(self) -> str:
        """A text that changes with what there is to tell, and with the server."""
        return f"{self._server}-{self._changes}"

    def look(self) -> bool:
        """Whether there is something new since the last look; one that was just now is not repeated."""
        with self._lock:
            now = time.monotonic()
            if now - self._looked_at < LOOK_INTERVAL_S or not self._may_be_run():
                found = False
            else:
                found = self._look()
                self._looked_at = time.monotonic()
            self.looked = True
            return found

    def told(self) -> dict[str, Any]:
        """What the page is told of it, as JSON values."""
        with self._lock:
            left_out = len(self._follower.present.every) - len(self.stops)
            notes = list(self._notes)
            if left_out:
                notes.insert(
                    0, f"{len(self.stops)} of {len(self.stops) + left_out:,} policies are shown."
                )
            return {
                "tag": self.tag,
                "stops": [
                    {
                        "update": each.update,
                        "scored_moves": each.scored_moves,
                        "row": self._row(each.update, each.scored_moves),
                    }
                    for each in self.stops
                ],
                "row": self._row(self._newest, self.scored_moves.get(self._newest)),
                "health": self._health.replace("doctor:", "doctor so far:", 1),
                "noise": noise_of_runs() if self._measured else "",
                "notes": notes,
            }

    def _row(self, update: int, scored_moves: int | None) -> str:
        return row_text(update, self._newest, scored_moves, self._measured)

    def _look(self) -> bool:
        is_new, more = False, True
        while more:
            news = self._follower.look()
            self._read(news)
            is_new, more = is_new or bool(news), news.more
        notes = tuple(map(cut, news.notes[:MOST_NOTES]))
        if not is_new and notes == self._notes:
            return False
        self._notes = notes
        self.stops = thinned(self._follower.present.every, MOST_STOPS)
        self.scored_moves = dict(self._follower.scored_moves)
        self._changes += 1
        return True

    def _may_be_run(self) -> bool:
        try:
            is_checkpoint = (self.run_dir / "manifest.json").exists()
            return self.run_dir.is_dir() and not is_checkpoint
        except OSError:  # such as a name that is too long: what loads the policy says so
            return False

    def _read(self, news: News) -> None:
        if news.anew:
            self._watch, self._health = Watch(), ""
            self._newest, self._measured = -1, {}
        # Only the last evaluation's line is shown: the rows before are what it is judged by.
        last = max((i for i, row in enumerate(news.rows) if "eval/regret_cp" in row), default=-1)
        for i, row in enumerate(news.rows):
            if i == last:
                self._health = self._watch({name: _known(value) for name, value in row.items()})
            else:
                self._watch.add(row)
            self._newest = int(row["step"] or 0)
            if "eval/regret_cp" in row:
                self._measured[self._newest] = row["eval/regret_cp"], row.get("eval/entropy")


Measured = dict[int, tuple[float | None, float | None]]
"""Update -> regret (cp) and entropy (nats), means over the held-out positions, of every evaluation in order."""


def row_text(update: int, newest: int, scored_moves: int | None, measured: Measured) -> str:
    """Where a run stood at an update, with the last evaluation by then; "" without a row.

    The rollout's entropy is left out: it is another mean, over other positions.
    """
    if newest < 0:
        return ""
    text = f"update {update:,} of {max(update, newest):,}, {number(scored_moves)} scored moves"
    at = last_at(list(measured), update)
    if at is None:
        return text
    evaluated, (regret, entropy) = list(measured.items())[at]
    then = "" if evaluated == update else f" after update {evaluated:,}"
    held_out = f"regret {number(regret, 1)} cp, entropy {number(entropy, 2)} nats"
    return f"{text} · mean over the held-out positions{then}: {held_out}"


def _known(value: float | None) -> float:
    return float("nan") if value is None else value


SETS: Mapping[str, Callable[[], list[PositionSet]]] = {
    "probe": lambda: [probe_set()],
    "heldout": lambda: list(heldout_sets().values()),
}
"""What can be stepped through."""

TEMPERATURE = 1.0
"""At which the policies are compared."""

MOST_KEPT = 8

ListKey = tuple[str, Snapshot, Snapshot]


@dataclasses.dataclass(eq=False)
class ListJob:
    """One list in the making.

    Attributes:
        progress: 0 to 1.
        positions: the list when it is done.
        problem: why there will be none; "" otherwise.
    """

    progress: float = 0.0
    positions: list[dict[str, Any]] | None = None
    problem: str = ""


class PositionLists:
    """Makes lists one after the other in a thread of its own, and keeps the newest.

    Args:
        load: loads a policy, such as `SnapshotPolicies`.
    """

    def __init__(self, load: Callable[[Snapshot], PolicyNet]) -> None:
        self._load = load
        self._jobs: OrderedDict[ListKey, ListJob] = OrderedDict()
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="board-lists")
        self._lock = threading.Lock()

    def ask(self, kind: str, stops: Sequence[Snapshot]) -> ListJob:
        """The list as far as it is; the first question begins it.

        Args:
            kind: one of `SETS`.
            stops: policies of a run, in order, at least one; the first and the last are compared.
        """
        key = (kind, stops[0], stops[-1])
        with self._lock:
            if key not in self._jobs:
                self._jobs[key] = ListJob()
                self._worker.submit(self._make, key, self._jobs[key])
                while len(self._jobs) > MOST_KEPT:
                    self._jobs.popitem(last=False)
            self._jobs.move_to_end(key)
            return self._jobs[key]

    def close(self) -> None:
        """Ends the thread; what waits is not made."""
        self._worker.shutdown(wait=False, cancel_futures=True)

    def _make(self, key: ListKey, job: ListJob) -> None:
        kind, first, last = key
        with self._lock:
            if self._jobs.get(key) is not job:  # given up while it waited
                return
        try:
            sets = SETS[kind]()
            curves = []
            for number, at in enumerate(sets):
                curves.append(over_training([first, last], self._load, at, TEMPERATURE))
                job.progress = (number + 1) / len(sets)
            job.positions = [
                {
                    "name": each.at.names[row],
                    "fen": to_fen(each.at.positions[row]),
                    "change": float(each.change[row]),
                }
                for each, row in most_changed(curves)
            ]
        except (ValueError, RuntimeError, OSError, ImportError, UntrustedError) as error:
            job.problem = f"The positions cannot be sorted: {cut(error)}"


MOST_VIEWS = 1_024
MOST_WEIGHT_BYTES = 32 * 2**20
_MOST_PULLS = 8
_MOST_RECORDINGS = 2
_MOST_SAID = 600  # characters: the names of files are in it


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

    def __init__(self, policies: BoardPolicies, trust: Trust = NO_TRUST) -> None:
        self._policies, self._trust = policies, trust
        self.runs = {name: FollowedRun(name) for name in policies.names}
        self.load = SnapshotPolicies(trust, MOST_WEIGHT_BYTES)
        self._views: OrderedDict[tuple[object, ...], PositionView] = OrderedDict()
        self._pull = functools.lru_cache(_MOST_PULLS)(self._read_pull)
        self._recorded = functools.lru_cache(_MOST_RECORDINGS)(self._read_recorded)
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
        """A policy ready to be asked. To be called by `BoardPolicies.ask`.

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
        self, name: str, update: int | None, game: BoardGame, temperature: float
    ) -> tuple[PositionView, str]:
        """As `BoardPolicies.view`, of the policy after an update. To be called by `BoardPolicies.ask`.

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
        if key in self._views:
            self._views.move_to_end(key)
            return self._views[key], ""
        view, problem = self._policies.view(self.loaded(name, update), game.position, temperature)
        if not problem:
            self._views[key] = view
            while len(self._views) > MOST_VIEWS:
                self._views.popitem(last=False)
        return view, problem

    def pull(self, name: str, update: int | None) -> Pull | None:
        """What pulled a policy that has a view; None where it is not known. To be called by `BoardPolicies.ask`."""
        if update is None:
            return self._policies.loaded(name).pull
        found = [stop for stop in self.run(name).stops if stop.update == update]
        return self._pull(found[0]) if found else None

    def recorded(self, name: str, game: BoardGame, temperature: float) -> OverTraining | None:
        """What the run recorded of this position while it trained; None where it is no probe, or nothing was recorded.

        To be called by `BoardPolicies.ask`.
        """
        row = probe_row(game)
        if row is None:
            return None
        run = self.run(name)
        try:
            return self._recorded(run, run.tag, temperature or 1.0).only(row)
        except (ValueError, OSError):  # the policies on disk are there still
            return None

    @staticmethod
    def _read_recorded(run: FollowedRun, tag: str, temperature: float) -> OverTraining:
        """What a run recorded on the probe positions; another `tag` says that it has gone on since."""
        return recorded_probes(run.run_dir, temperature, most=MOST_STOPS, moves=run.scored_moves)

    def recorded_only(
        self, name: str, game: BoardGame, temperature: float
    ) -> list[tuple[int, int]]:
        """(update, scored moves) of the policies that were recorded of the position and are not on disk.

        To be called by `BoardPolicies.ask`.
        """
        curves = self.recorded(name, game, temperature)
        if curves is None:
            return []
        on_disk = {stop.update for stop in self.run(name).stops}
        every = zip(curves.updates.tolist(), curves.scored_moves.tolist(), strict=True)
        return [(update, moves) for update, moves in every if update not in on_disk]

    def animation(
        self, named: Sequence[tuple[str, str]], game: BoardGame, temperature: float
    ) -> dict[str, Any]:
        """{"svg"}: the position over the training of the runs. To be called by `BoardPolicies.ask`.

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
        self, curves: OverTraining, place: int, game: BoardGame, temperature: float
    ) -> PositionView:
        logprobs = curves.logprobs[place, 0]
        return self._policies.scored(
            lambda evaluator: view_of_recorded(
                logprobs, game.position, temperature=temperature, evaluator=evaluator
            )
        )[0]

    def _read_pull(self, stop: Snapshot) -> Pull | None:
        """What the run pulled towards then; None where it is not known: of a policy alone, without a checkpoint."""
        whole = stop.path.parents[1] / CHECKPOINTS / stop.path.name
        if (whole / "manifest.json").exists():
            with contextlib.suppress(NoOptimumError):
                return load_pull(str(whole), self._trust)
        return None


def probe_row(game: BoardGame) -> int | None:
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
