"""Mutated questions: none crashes the application, and no answer shows what is inside."""

from __future__ import annotations

import json
import random
from typing import Any

from tests.board.conftest import Board

PATHS = (
    "/api/view",
    "/api/reply",
    "/api/line",
    "/api/pgn/read",
    "/api/pgn/write",
    "/api/training/look",
    "/api/training/curve",
    "/api/training/positions",
    "/api/training/animation",
    "/api/policies",
    "/",
    "/static/board.js",
)
CODES = {200, 400, 403, 404, 405, 408, 409, 413, 415, 503}
VALUES: tuple[Any, ...] = (
    None, True, 0, -1, 10**30, 1e308, -0.0, "", "a" * 3000, [], [[]], {}, {"a": []}, "\x00", "\ud800", "<b>", "../..",
    "e2e4", "e7e8q", ["e2e4"] * 3, ["0000"], ["e2e4", None], "8/8/8/8/8/8/8/8 w - - 0 1", "1. e4 (1. d4", "{" * 500,
    '[FEN "', "NaN", "Infinity", "١", "e2e4\u2028",
)  # fmt: skip
HEADERS = (
    {}, {"host": "evil"}, {"origin": "null"}, {"content-type": "text/html"}, {"sec-fetch-site": "cross-site"},
    {"content-length": "5"}, {"transfer-encoding": "gzip"}, {"content-type": "application/json; charset=utf-16"},
)  # fmt: skip


def question(rng: random.Random, source: str) -> bytes:
    """A sound question with some values replaced, and then perhaps some of its bytes."""
    moves = ["e2e4", "e7e5", "g1f3"][: rng.randrange(4)]
    values: dict[str, Any] = {
        "policy": source, "fen": "", "moves": moves, "at": len(moves), "temperature": 1.0, "below": "white",
        "pgn": "1. e4 e5 2. Nf3 *", "white": "a", "black": "b",
        "update": None, "draw": True, "set": "probe", "beside": source, "tag": "",
    }  # fmt: skip
    for _ in range(rng.randrange(4)):
        values[rng.choice([*values])] = rng.choice(VALUES)
    raw = bytearray(json.dumps(values).encode())
    if rng.random() < 0.4:
        for _ in range(rng.randrange(1, 6)):
            at = rng.randrange(len(raw))
            raw[at : at + rng.randrange(3)] = bytes(
                rng.randrange(256) for _ in range(rng.randrange(3))
            )
    return bytes(raw)


def ask_many(board: Board, count: int, seed: int) -> dict[int, int]:
    """Number of answers by status code."""
    rng = random.Random(seed)
    codes: dict[int, int] = {}
    for _ in range(count):
        path = rng.choice(PATHS[:9]) if rng.random() < 0.9 else rng.choice(PATHS)
        if rng.random() < 0.1:
            path += rng.choice(("/", "/..", "%00", "%ff", "?a=" + "b" * 500, "//", "%2e%2e/", ";x"))
        headers = {"content-type": "application/json"} | (
            rng.choice(HEADERS) if rng.random() < 0.2 else {}
        )
        method = rng.choice(("GET", "PUT", "HEAD", "OPTIONS")) if rng.random() < 0.1 else "POST"
        response = board.client.request(
            method,
            path,
            content=question(rng, rng.choice((board.run, board.other, board.empty))),
            headers=headers,
        )
        codes[response.status_code] = codes.get(response.status_code, 0) + 1
        assert response.status_code in CODES, (
            method,
            path,
            response.status_code,
            response.text[:500],
        )
        assert "Traceback" not in response.text and 'File "' not in response.text
        assert response.headers["Content-Security-Policy"].startswith("default-src 'none'")
        if response.status_code != 200 and method != "HEAD":
            assert response.json().keys() == {"error"} and len(response.json()["error"]) < 2000
    return codes


def test_200_mutated_questions_are_answered_or_refused(board: Board) -> None:
    codes = ask_many(board, 200, seed=0)
    assert codes[200] > 20 and codes[400] > 20
