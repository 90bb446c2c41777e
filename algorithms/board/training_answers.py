"""What the page asks of runs over their training, and the answers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from algorithms.board.policies import NoPolicyError, Policies
from algorithms.board.position_lists import SETS
from algorithms.board.positions import (
    BadRequestError,
    game_of,
    temperature_of,
    text_of,
)
from algorithms.board.training import Training, point_of
from algorithms.core.checks import shown

Values = dict[str, Any]


class TrainingAnswers:
    """The answers, as JSON values.

    Args:
        policies: that can be asked about.
        training: the same over their training.

    Attributes:
        every: the answers by the name that the page asks for.
    """

    def __init__(self, policies: Policies, training: Training) -> None:
        self._policies, self._training = policies, training
        self.every: Mapping[str, Callable[[Values], Awaitable[Values]]] = {
            "look": self.look,
            "curve": self.curve,
            "positions": self.positions,
            "animation": self.animation,
        }

    async def look(self, values: Values) -> Values:
        """What there is of a run; its tag alone where the page knows that."""
        name = text_of(values, "policy")
        run = self._training.run(name)
        if await asyncio.wrap_future(self._training.look(name)) and run.stops:
            self._policies.load_again(name)  # if it failed: a snapshot may come before a checkpoint
        told = run.told()
        return {"tag": told["tag"]} if told["tag"] == text_of(values, "tag") else told

    async def curve(self, values: Values) -> Values:
        """{"points", "notes"}: the position under each policy of a run, on disk or recorded."""
        name, temperature = text_of(values, "policy"), temperature_of(values)
        ask, training = self._policies.ask, self._training
        game = await asyncio.wrap_future(ask(lambda: game_of(values)))
        points, notes = [], []

        def point(update: int, moves: int, recorded: bool) -> Callable[[], Values]:
            def asked() -> Values:
                view, _ = training.view(name, update, game, temperature)
                return point_of(view, update, moves, recorded=recorded)

            return asked

        run = await training.looked(name)
        asked = [(stop.update, stop.scored_moves, False) for stop in run.stops]
        recorded = await asyncio.wrap_future(
            ask(lambda: training.recorded_only(name, game, temperature))
        )
        asked += [(update, moves, True) for update, moves in recorded]
        for each in asked:  # one question each: those of the slider come between them
            try:
                points.append(await asyncio.wrap_future(ask(point(*each))))
            except NoPolicyError as error:
                notes.append(str(error))
        points = sorted(points, key=lambda point: point["scored_moves"])
        return {"points": points, "notes": notes[:8]}

    async def positions(self, values: Values) -> Values:
        """{"progress", "positions", "problem"}: a set of positions, sorted by what changed most over a run.

        Raises:
            BadRequestError: there is no such set.
            NoPolicyError: there is no such run, or it has no policies on disk.
        """
        name, kind = text_of(values, "policy"), text_of(values, "set")
        if kind not in SETS:
            raise BadRequestError(f"set is {shown(kind)}: expected {' or '.join(SETS)}.")
        stops = (await self._training.looked(name)).stops
        if not stops:
            raise NoPolicyError(f"{name[:200]} has no policies of its training.")
        return self._training.lists.ask(kind, stops).told()

    async def animation(self, values: Values) -> Values:
        """{"svg"}: the position over the training of a run, and of another beside it if one is named."""
        temperature, training = temperature_of(values), self._training
        labels = {state["name"]: state["label"] for state in self._policies.states()}
        names = [text_of(values, "policy"), text_of(values, "beside")]
        named = [(name, labels.get(name, name)) for name in names if name]
        for name, _ in named:
            await training.looked(name)

        def drawn() -> Values:
            return training.animation(named, game_of(values), temperature)

        return await asyncio.wrap_future(self._policies.ask(drawn))
