"""The board's application as tests ask it: small policies, a real evaluator, a client of its own page."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from starlette.testclient import TestClient

from algorithms.board.app import make_app
from algorithms.board.policies import BoardPolicies
from algorithms.board.server import known_hosts
from algorithms.board.training import Training
from chess_env.evaluators import Evaluator

PORT = 8300
URL = f"http://127.0.0.1:{PORT}"


def wait_until_loaded(policies: BoardPolicies, limit_s: float = 240.0) -> None:
    end = time.monotonic() + limit_s
    while any(state["state"] == "loading" for state in policies.states()):
        assert time.monotonic() < end, policies.states()
        time.sleep(0.02)


@contextmanager
def serving(
    sources: Sequence[str], evaluator: Evaluator | None
) -> Iterator[tuple[BoardPolicies, TestClient]]:
    """The loaded policies, and a client of their page."""
    policies = BoardPolicies(sources, evaluator)
    training = Training(policies)
    policies.load_all()
    try:
        wait_until_loaded(policies)
        app = make_app(policies, training, known_hosts("127.0.0.1", PORT))
        yield policies, TestClient(app, base_url=URL)
    finally:
        training.close()
        policies.close()


def answer(client: TestClient, path: str, **question: Any) -> dict[str, Any]:
    """The answer to a question that must not be refused."""
    response = client.post(path, json=question)
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    return found


def refusal(client: TestClient, path: str, code: int, **question: Any) -> str:
    """The sentence with which a question is refused."""
    response = client.post(path, json=question)
    assert response.status_code == code, response.text
    assert response.json().keys() == {"error"}
    return str(response.json()["error"])
