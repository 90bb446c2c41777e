"""What an evaluator or an opponent of somebody's own gives is checked where it enters."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from chess_env.evaluators import CachedEvaluator
from chess_env.evaluators.protocol import move_scores_of
from chess_env.games.players import GreedyPlayer
from chess_env.positions.start_positions import make_start_positions
from chess_env.rules.fen import pack_fens
from tests.env import playing, vector_play
from tests.env.material import MaterialEvaluator

START = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1"


class Own:
    """An evaluator that shares nothing with the project's; its scores are `change`d before they are given."""

    id = "mine-v1"

    def __init__(self, change: Callable[[Any], Any]) -> None:
        self._change, self._inner = change, MaterialEvaluator()

    def evaluate(self, positions: Any) -> Any:
        return self._change(self._inner.evaluate(positions))

    def score_moves(self, positions: Any) -> Any:
        return [self._change(scores) for scores in self._inner.score_moves(positions)]

    def counters(self) -> dict[str, int]:
        return {}

    def close(self) -> None:
        pass


def ways_in(evaluator: Any) -> list[Callable[[], Any]]:
    """Every way in which an evaluator's scores enter an environment or a match."""
    single = playing.make(evaluator=evaluator)
    vec = vector_play.make(evaluator=evaluator)
    packed = pack_fens([START])
    source = make_start_positions("initial@balanced=50", evaluator=evaluator)
    return [
        lambda: single.reset(seed=0),
        lambda: vec.reset(seed=0),
        lambda: CachedEvaluator(evaluator).evaluate(packed),
        lambda: CachedEvaluator(evaluator).score_moves(packed),
        lambda: move_scores_of(evaluator, packed),
        lambda: GreedyPlayer(evaluator).choose(packed, [np.random.default_rng(0)]),
        lambda: source.sample(np.random.default_rng(0)),
    ]


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x.tolist(),
        lambda x: x.astype(np.int64),
        lambda x: np.clip(x, -100, 100).astype(np.int8),
        lambda x: x.astype(np.float64),
        lambda x: torch.from_numpy(x),
        lambda x: tuple(x),
    ],
    ids=["list", "int64", "int8", "whole float64", "torch", "tuple"],
)
def test_whole_numbers_are_scores_in_whatever_array_they_come(change: Any) -> None:
    for way in ways_in(Own(change)):
        way()
    own = vector_play.make(evaluator=Own(change))
    other = vector_play.make(evaluator=Own(lambda x: np.asarray(change(x)).astype(np.int32)))
    rng, info = np.random.default_rng(0), own.reset(seed=0)[1]
    other.reset(seed=0)
    for _ in range(20):
        actions = vector_play.choose(info, rng, 0.1)
        _, reward, _, _, info = own.step(actions)
        _, expected, _, _, told = other.step(actions)
        assert info["score_cp"].dtype == np.int32
        np.testing.assert_array_equal(info["score_cp"], told["score_cp"])
        np.testing.assert_array_equal(reward, expected)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x: x + 3.25, "gave 3.25 as score 0"),
        (lambda x: np.full(len(x), np.nan), "gave nan as score 0"),
        (lambda x: np.full(len(x), -np.inf), "gave -inf as score 0"),
        (lambda x: np.full(len(x), 30_000), "gave 30000 as score 0"),
        (lambda x: np.full(len(x), np.iinfo(np.int32).min), "gave -2147483648 as score 0"),
        (lambda x: np.zeros(len(x), np.bool_), "gave bool"),
        (lambda x: np.zeros(len(x) + 1, np.int32), r"gave int32 \[\d+\] for \d+"),
        (lambda x: np.zeros((len(x), 1), np.int32), r"gave int32 \[\d+, 1\] for \d+"),
        (lambda x: 12, r"gave int64 \[\] for \d+"),
        (lambda x: None, r"gave object \[\] for \d+"),
        (lambda x: ["12"] * len(x), "gave <U2"),
        (lambda x: [[1], [2, 3]], "gave a list .* that is no array"),
        (lambda x: torch.zeros(len(x), requires_grad=True), "gave a Tensor .* that is no array"),
    ],
)
def test_what_is_no_score_is_refused_with_the_evaluator_and_the_value(
    change: Any, message: str
) -> None:
    for way in ways_in(Own(change)):
        with pytest.raises(ValueError, match=rf"evaluator 'mine-v1' {message}.*whole centipawns"):
            way()


def test_pawns_of_a_subclass_are_refused_where_they_were_cut_to_whole_centipawns() -> None:
    class Pawns(MaterialEvaluator):
        def _score_ongoing(self, positions: Any) -> Any:
            return super()._score_ongoing(positions) / 100 + 0.5

    for way in ways_in(Pawns()):
        with pytest.raises(ValueError, match=r"evaluator 'test-material' gave 0\.5 as score 0"):
            way()


def test_a_cache_file_keeps_int32_whatever_the_evaluator_gives(tmp_path: Path) -> None:
    with CachedEvaluator(Own(lambda x: x.astype(np.int64)), path=tmp_path / "scores") as cached:
        first = cached.evaluate([START, "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNB1KBNR w KQkq - 0 1"])
        assert first.tolist() == [0, -900]
    with CachedEvaluator(Own(lambda x: None), path=tmp_path / "scores") as cached:
        assert cached.evaluate([START]).tolist() == [0]


class Chooses:
    name = "mine"

    def __init__(self, chosen: Any) -> None:
        self.chosen = chosen

    def choose(self, positions: Any, rngs: Any) -> Any:
        return self.chosen

    def close(self) -> None:
        pass


@pytest.mark.parametrize("chosen", [[20.7], 20, [True], [[20]], [20, 20], None], ids=repr)
def test_what_is_no_action_of_an_opponent_is_refused_by_name(chosen: Any) -> None:
    arguments = {"opponent": Chooses(chosen), "learner_color": "black"}
    for env in (playing.make(**arguments), vector_play.make(num_envs=1, **arguments)):
        with pytest.raises(ValueError, match=r"player 'mine' chose .* in 1 positions"):
            env.reset(seed=0)
