"""The application: a page, and answers to what it asks. No state but the policies; a game lives in the address."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from algorithms.board.pgn import read_pgn, write_pgn
from algorithms.board.pictures import picture
from algorithms.board.policies import BusyError, NoPolicyError, Policies
from algorithms.board.positions import (
    MAX_BODY_BYTES,
    BadRequestError,
    Game,
    body_of,
    ending,
    facts_of,
    game_at,
    game_of,
    temperature_of,
    text_of,
    update_of,
)
from algorithms.board.security import Guard
from algorithms.board.training import Training
from algorithms.board.training_answers import TrainingAnswers
from algorithms.playing.pull import Pull
from algorithms.playing.view import PositionView
from algorithms.reports.page.diagrams import definitions

_HERE = Path(__file__).parent
_BODY_TIMEOUT_S = 10.0

Values = dict[str, Any]


class Json(JSONResponse):
    """An answer in ASCII: the name of a folder need not be UTF-8, and then no UTF-8 can hold it."""

    def render(self, content: Any) -> bytes:
        """The bytes of a JSON value."""
        return json.dumps(content, allow_nan=False, separators=(",", ":")).encode()


def make_app(policies: Policies, training: Training, known: Callable[[str], bool]) -> ASGIApp:
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
    answers, over_training = Answers(policies, training), TrainingAnswers(policies, training)

    def index(request: Request) -> Response:
        return HTMLResponse(page)

    async def states(request: Request) -> Response:
        found = {"policies": policies.states(), "evaluator": policies.evaluator_id}
        return Json(found)

    app = Starlette(
        routes=[
            Route("/", index),
            Route("/api/policies", states),
            Route("/api/view", _endpoint(answers.view), methods=["POST"]),
            Route("/api/reply", _endpoint(answers.reply), methods=["POST"]),
            *(
                Route(f"/api/training/{name}", _endpoint(answer), methods=["POST"])
                for name, answer in over_training.every.items()
            ),
            Route("/api/pgn/read", _endpoint(answers.read), methods=["POST"]),
            Route("/api/pgn/write", _endpoint(answers.write), methods=["POST"]),
            Mount("/static", StaticFiles(directory=_HERE / "static")),
        ],
        exception_handlers={
            HTTPException: _http_error,
            BadRequestError: _told(400),
            BusyError: _told(503),
            NoPolicyError: _told(409),
            Exception: _unexpected,
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

    def __init__(self, policies: Policies, training: Training) -> None:
        self._policies, self._training = policies, training

    async def view(self, values: Values) -> Values:
        """A place in a game: the rules' facts, the policy's view of it, and the picture."""
        game = await self._game(values)
        return await self._answer(game, values)

    async def reply(self, values: Values) -> Values:
        """As `view`, after the policy has moved where the game goes on.

        Raises:
            BadRequestError: the place is not the end of the game.
        """
        game, temperature = await self._game(values), temperature_of(values)
        if game.at != len(game.moves):
            raise BadRequestError(
                "The policy moves at the end of the game alone: `at` is before it."
            )
        if ending(game) is not None:
            return await self._answer(game, values)
        name, update = text_of(values, "policy"), update_of(values)
        policies, training = self._policies, self._training
        if update is not None:
            await training.looked(name)
        move = await asyncio.wrap_future(
            policies.ask(
                lambda: policies.move(training.loaded(name, update), game.position, temperature)
            )
        )
        moves = (*game.moves, str(move))
        return await self._answer(game_at(game.fen, moves, len(moves)), values)

    async def read(self, values: Values) -> Values:
        """The game in a PGN text."""
        text = text_of(values, "pgn")
        return await asyncio.wrap_future(self._policies.ask(lambda: read_pgn(text)))

    async def write(self, values: Values) -> Values:
        """A game as PGN text."""
        game, white, black = (
            await self._game(values),
            text_of(values, "white"),
            text_of(values, "black"),
        )
        return {"pgn": write_pgn(game, white=white[:200] or "?", black=black[:200] or "?")}

    async def _game(self, values: Values) -> Game:
        return await asyncio.wrap_future(self._policies.ask(lambda: game_of(values)))

    async def _answer(self, game: Game, values: Values) -> Values:
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
        self, game: Game, values: Values
    ) -> tuple[PositionView | None, Pull | None, str]:
        """(the policy's view, or None; what it is pulled by where the view has that; a sentence on what is missing)."""
        name, update, temperature = (
            text_of(values, "policy"),
            update_of(values),
            temperature_of(values),
        )
        ask, training = self._policies.ask, self._training

        def asked() -> tuple[PositionView | None, Pull | None, str]:
            view, problem = training.view(name, update, game, temperature)
            pulled = view.optimum_entropy is not None
            return view, training.pull(name, update) if pulled else None, problem

        try:
            if update is not None:
                await training.looked(name)
            return await asyncio.wrap_future(ask(asked))
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
        return Json(await answer(dict(body_of(raw))))

    return endpoint


def _told(code: int) -> Callable[[Request, Exception], Awaitable[Response]]:
    """A handler that answers with the error's own sentence."""

    async def handle(request: Request, error: Exception) -> Response:
        return Json({"error": str(error)}, status_code=code)

    return handle


async def _http_error(request: Request, error: Exception) -> Response:
    code = error.status_code if isinstance(error, HTTPException) else 500
    said = error.detail if isinstance(error, HTTPException) else "It did not work."
    return Json({"error": said}, status_code=code)


async def _unexpected(request: Request, error: Exception) -> Response:
    return Json(
        {"error": "The server failed at this question: its terminal says more."}, status_code=500
    )
