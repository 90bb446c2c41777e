"""Evaluators' ids in words."""

from __future__ import annotations

import pytest

from algorithms.reports.judges import judge_in_words
from chess_env.evaluators import make_evaluator
from chess_env.positions.heldout import load_heldout


@pytest.mark.parametrize(
    ("evaluator_id", "words"),
    [
        ("stockfish-15.1;net=nn-ad9b42354671;Hash=1;Threads=1;depth=8;pure;v1", "Stockfish 15.1, depth 8"),
        ("stockfish-17;net=a+b;Hash=1;Threads=1;nodes=1000;pure;v1", "Stockfish 17, 1,000 nodes"),
        ("stockfish-15.1;net=x;Hash=1;Threads=1;nodes=1;pure;v2", "Stockfish 15.1, 1 node"),
        (
            "stockfish-15.1;net=x;Hash=1;Threads=1;depth=4;pure;builtin=0.4;v2",
            "Stockfish 15.1, depth 4 and the built-in evaluator",
        ),
        (
            "stockfish-15.1;net=x;Hash=1;Threads=1;depth=4;fast;v1",
            "Stockfish 15.1, depth 4, not cleared between positions",
        ),
        ("builtin-v1", "the built-in evaluator (v1)"),
        ("builtin-v2", "the built-in evaluator (v2)"),
        ("builtin;depth=2;v2", "the built-in evaluator (v2, depth 2)"),
        ("my-net;depth=4", "my-net;depth=4"),
        ("stockfish-of-mine", "stockfish-of-mine"),
        ("", ""),
    ],
)  # fmt: skip
def test_ids_in_words(evaluator_id: str, words: str) -> None:
    assert judge_in_words(evaluator_id) == words


def test_the_ids_of_the_project_are_all_understood() -> None:
    for evaluator_id in (make_evaluator("builtin").id, load_heldout().evaluator_id):
        assert judge_in_words(evaluator_id) != evaluator_id


@pytest.mark.stockfish
@pytest.mark.parametrize(
    "name", ["stockfish", "stockfish:nodes=100", "stockfish:depth=3,pure=False"]
)
def test_the_id_of_a_running_engine_is_understood(name: str) -> None:
    evaluator = make_evaluator(name, num_engines=1)
    try:
        assert judge_in_words(evaluator.id).startswith("Stockfish ")
    finally:
        evaluator.close()
