"""The application: a page, and answers to what it asks. No state but the policies; a game lives in the address."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from algorithms.board.board_game import (
    MAX_BODY_BYTES,
    BadRequestError,
    BoardGame,
    body_of,
    ending,
    facts_of,
    flag_of,
    game_at,
    game_of,
    picture,
    read_pgn,
    temperature_of,
    text_of,
    update_of,
    write_pgn,
)
from algorithms.board.policies import BoardPolicies, BusyError, NoPolicyError
from algorithms.board.server import Guard
from algorithms.board.training import SETS, Training, point_of
from algorithms.core.checks import shown
from algorithms.evaluation.policy_player import GREEDY
from algorithms.playing.pull import Pull
from algorithms.playing.view import PositionView
from algorithms.reports.judges import judge_in_words
from algorithms.reports.page.diagrams import definitions

_HERE = Path(__file__).parent
_BODY_TIMEOUT_S = 10.0
_LINE_PLIES = 6

Values = dict[str, Any]
T = TypeVar("T")


class Json(JSONResponse):
    """An answer in ASCII: the name of a folder need not be UTF-8, and then no UTF-8 can hold it."""

    def render(self, content: Any) -> bytes:
        """The bytes of a JSON value."""
        return json.dumps(content, allow_nan=False, separators=(",", ":")).encode()


def make_app(policies: BoardPolicies, training: Training, known: Callable[[str], bool]) -> ASGIApp:
    """The ASGI application.

    Args:
        policies: that the page offers.
        training: the same over their training.
        known: whether a Host header is one of the server's names.
    """
    templates = Environment(
        loader=FileSystemLoader(_HERE / "templates"), autoescape=True, undefined=StrictUndefined
    )
    page = templates.get_template("board.html.j2").render(definitions=definitions())
    answers = Answers(policies, training)

    def index(request: Request) -> Response:
        return HTMLResponse(page)

    async def states(request: Request) -> Response:
        judge_id = policies.evaluator_id
        judge = None if judge_id is None else judge_in_words(judge_id)
        return Json({"policies": policies.states(), "evaluator": judge_id, "judge": judge})

    app = Starlette(
        routes=[
            Route("/", index),
            Route("/api/policies", states),
            Route("/api/view", _endpoint(answers.view), methods=["POST"]),
            Route("/api/reply", _endpoint(answers.reply), methods=["POST"]),
            Route("/api/line", _endpoint(answers.line), methods=["POST"]),
            Route("/api/training/look", _endpoint(answers.look), methods=["POST"]),
            Route("/api/training/curve", _endpoint(answers.curve), methods=["POST"]),
            Route("/api/training/positions", _endpoint(answers.positions), methods=["POST"]),
            Route("/api/training/animation", _endpoint(answers.animation), methods=["POST"]),
            Route("/api/pgn/read", _endpoint(answers.read), methods=["POST"]),
            Route("/api/pgn/write", _endpoint(answers.write), methods=["POST"]),
            Mount("/static", StaticFiles(directory=_HERE / "static")),
        ],
        exception_handlers={
            HTTPException: _http_error,
            BadRequestError: _told(400),
            BusyError: _told(503),
            NoPolicyError: _told(409),
            Exception: _told(500, "The server failed at this question: its terminal says more."),
        },
        max_body_size=MAX_BODY_BYTES,
    )
    return Guard(app, known)  # outermost: also around the answer to an unexpected failure


class Answers:
    """The answers to the page's questions, as JSON values.

    Args:
        policies: that can be asked about.
        training: the same over their training.
    """

    def __init__(self, policies: BoardPolicies, training: Training) -> None:
        self._policies, self._training = policies, training

    async def view(self, values: Values) -> Values:
        """A place in a game: the rules' facts, the policy's view of it, and the picture."""
        game = await self._game(values)
        return await self._answer(game, values)

    async def reply(self, values: Values) -> Values:
        """As `view`, after the policy has moved where the game goes on: its most probable move, or one that is drawn.

        Raises:
            BadRequestError: the place is not the end of the game.
        """
        game, temperature = await self._game(values), temperature_of(values)
        temperature = temperature if flag_of(values, "draw") else GREEDY
        if game.at != len(game.moves):
            raise BadRequestError(
                "The policy moves at the end of the game alone: `at` is before it."
            )
        return await self._answer(await self._moved(game, values, temperature), values)

    async def line(self, values: Values) -> Values:
        """{"line"}: how the policy would go on, its most probable move each time; empty where it cannot move."""
        game = await self._game(values)
        start = game.at
        # Each ply is a question of its own: those of the board come between them.
        with contextlib.suppress(NoPolicyError):  # the board can be used without
            for _ in range(_LINE_PLIES):
                game = await self._moved(game, values, GREEDY)
        return {"line": game.sans[start : game.at]}

    async def read(self, values: Values) -> Values:
        """The game in a PGN text."""
        text = text_of(values, "pgn")
        return await self._ask(lambda: read_pgn(text))

    async def write(self, values: Values) -> Values:
        """A game as PGN text."""
        game = await self._game(values)
        white, black = text_of(values, "white"), text_of(values, "black")
        return {"pgn": write_pgn(game, white=white[:200] or "?", black=black[:200] or "?")}

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
        training, game = self._training, await self._game(values)
        points, notes = [], []

        def point(update: int, moves: int, recorded: bool) -> Values:
            view, _ = training.view(name, update, game, temperature)
            return point_of(view, update, moves, recorded=recorded)

        run = await training.looked(name)
        asked = [(stop.update, stop.scored_moves, False) for stop in run.stops]
        recorded = await self._ask(lambda: training.recorded_only(name, game, temperature))
        asked += [(update, moves, True) for update, moves in recorded]
        for each in asked:  # one question each: those of the slider come between them
            try:
                points.append(await self._ask(functools.partial(point, *each)))
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
        return {**vars(self._training.lists.ask(kind, stops))}

    async def animation(self, values: Values) -> Values:
        """{"svg"}: the position over the training of a run, and of another beside it if one is named."""
        temperature, training = temperature_of(values), self._training
        labels = {state["name"]: state["label"] for state in self._policies.states()}
        names = [text_of(values, "policy"), text_of(values, "beside")]
        named = [(name, labels.get(name, name)) for name in names if name]
        for name, _ in named:
            await training.looked(name)

        return await self._ask(lambda: training.animation(named, game_of(values), temperature))

    async def _ask(self, question: Callable[[], T]) -> T:
        return await asyncio.wrap_future(self._policies.ask(question))

    async def _game(self, values: Values) -> BoardGame:
        return await self._ask(lambda: game_of(values))

    async def _moved(self, game: BoardGame, values: Values, temperature: float) -> BoardGame:
        """The game up to its place, and the policy's move there unless the game ends before it.

        Raises:
            NoPolicyError: the policy cannot move.
        """
        if ending(game) is not None:
            return game
        name, update = text_of(values, "policy"), update_of(values)
        policies, training = self._policies, self._training
        if update is not None:
            await training.looked(name)

        def moved() -> BoardGame:
            move = policies.move(training.loaded(name, update), game.position, temperature)
            moves = (*game.moves[: game.at], str(move))
            return game_at(game.fen, moves, len(moves))

        return await self._ask(moved)

    async def _answer(self, game: BoardGame, values: Values) -> Values:
        view, pull, problem = await self._view(game, values)
        return {
            "fen": game.fen or "",
            "moves": game.moves,
            "sans": game.sans,
            "at": game.at,
            "position": facts_of(game),
            "view": None if view is None else dataclasses.asdict(view),
            "pull": None
            if pull is None
            else {"ent_coef": pull.ent_coef, "kl_ref_coef": pull.kl_ref_coef},
            "problem": problem,
            "picture": picture(game, view, black_below=text_of(values, "below") == "black"),
        }

    async def _view(
        self, game: BoardGame, values: Values
    ) -> tuple[PositionView | None, Pull | None, str]:
        """(the policy's view, or None; what it is pulled by where the view has that; a sentence on what is missing)."""
        name, update = text_of(values, "policy"), update_of(values)
        training, temperature = self._training, temperature_of(values)

        def asked() -> tuple[PositionView | None, Pull | None, str]:
            view, problem = training.view(name, update, game, temperature)
            pulled = view.optimum_entropy is not None
            return view, training.pull(name, update) if pulled else None, problem

        try:
            if update is not None:
                await training.looked(name)
            return await self._ask(asked)
        except NoPolicyError as error:  # the board can be used without
            return None, None, str(error)


def _endpoint(
    answer: Callable[[Values], Awaitable[Values]],
) -> Callable[[Request], Awaitable[Response]]:
    """The endpoint that answers a JSON object with one."""

    async def endpoint(request: Request) -> Response:
        if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            raise HTTPException(415, "A question is application/json.")
        try:
            raw = await asyncio.wait_for(request.body(), _BODY_TIMEOUT_S)
        except TimeoutError:
            raise HTTPException(408, "The question did not arrive in time.") from None
        except ClientDisconnect:
            raise HTTPException(400, "The question was cut off.") from None
        return Json(await answer(dict(body_of(raw))))

    return endpoint


def _told(code: int, said: str = "") -> Callable[[Request, Exception], Awaitable[Response]]:
    """A handler that answers with a sentence, by default with the error's own."""

    async def handle(request: Request, error: Exception) -> Response:
        return Json({"error": said or str(error)}, status_code=code)

    return handle


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # for no other is it called
    return Json({"error": error.detail}, status_code=error.status_code)
