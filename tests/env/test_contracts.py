"""Our evaluators, sources and terms keep the public contracts; whatever breaks one rule is told which."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from chess_env.evaluators import CachedEvaluator, StockfishEvaluator
from chess_env.evaluators.builtin import BuiltinEvaluator
from chess_env.positions.heldout import load_heldout
from chess_env.rewards import VALUE, value
from chess_env.rules.fen import pack_fens, parse_fen
from chess_env.testing import (
    ContractError,
    check_evaluator,
    check_reward_term,
    check_start_positions,
)
from tests.env.material import MaterialEvaluator

START = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1"


@pytest.mark.parametrize(
    "make",
    [
        BuiltinEvaluator,
        lambda: BuiltinEvaluator(depth=2),
        MaterialEvaluator,
        lambda: CachedEvaluator(MaterialEvaluator()),
    ],
)
def test_the_evaluators_that_need_no_engine_keep_the_contract(make: Callable[[], Any]) -> None:
    check_evaluator(make)


@pytest.mark.stockfish
def test_stockfish_keeps_the_contract() -> None:
    check_evaluator(lambda: StockfishEvaluator(num_engines=1))


@pytest.mark.parametrize(
    "spec",
    ["initial", "random_plies:2-40", "openings", "phase_mix", "random_plies:2-40@fixed=5,seed=1"],
)
def test_the_sources_of_start_positions_keep_the_contract(spec: str) -> None:
    check_start_positions(spec)


# Progress to mate is part of a sum: alone it does not tell +500 from -500.
@pytest.mark.parametrize("transform", [name for name in VALUE if name != "mate"])
def test_the_deltas_keep_the_contract_of_a_reward_term(transform: str) -> None:
    check_reward_term(lambda after, before: value(after, transform) - value(before, transform))


class Broken(MaterialEvaluator):
    """The material evaluator, altered by `change(self, scores)` after every question."""

    change: Callable[[Any, Any, Any], Any]

    def evaluate(self, positions: Any) -> Any:
        return type(self).change(self, positions, super().evaluate(positions))


def broken(change: Callable[[Any, Any, Any], Any], **members: Any) -> type[Broken]:
    return type("Broken", (Broken,), {"change": staticmethod(change), **members})


def _keep(self: Any, positions: Any, scores: Any) -> Any:
    return scores


def _pawns(self: Any, positions: Any) -> Any:
    return MaterialEvaluator._score_ongoing(self, positions) / 100


def _drift(self: Any, positions: Any, scores: Any) -> Any:
    self.asked = getattr(self, "asked", 0) + 1
    return scores + np.int32(self.asked)


def _spoil(self: Any, positions: Any, scores: Any) -> Any:
    if isinstance(positions, np.ndarray) and len(positions):
        positions[0, 0] = 0
    return scores


def _order(self: Any, positions: Any, scores: Any) -> Any:
    return scores + np.arange(len(scores), dtype=np.int32) * (len(scores) > 3)


def _batch(self: Any, positions: Any, scores: Any) -> Any:
    return scores + np.int32(len(scores) == 1)


def _form(self: Any, positions: Any, scores: Any) -> Any:
    return scores + np.int32(isinstance(positions, list) and len(positions) > 3)


def _clocks(self: Any, positions: Any, scores: Any) -> Any:
    packed = pack_fens(positions) if isinstance(positions, list) else positions
    clocks = (packed[:, 7] >> np.uint64(11)) % np.uint64(7)
    return np.where(np.abs(scores) % 10_000 == 0, scores, scores + clocks.astype(np.int32))


def _id_of_its_own(self: Any) -> str:
    return f"mine-{id(self)}"


def _other_scores(self: Any, positions: Any, scores: Any) -> Any:
    made = type(self).made = getattr(type(self), "made", [])
    if self not in made:
        made.append(self)
    return scores + np.int32(len(scores) > 3 and made.index(self))


def _once(self: Any) -> None:
    if self.closed:
        raise RuntimeError("closed before")
    self.closed = True


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (object, "an evaluator has id, evaluate, score_moves, counters, close; this one has not"),
        (broken(_keep, id=""), "id must be a text that is not empty"),
        (broken(lambda s, p, x: x.astype(np.int64)), "must give int32"),
        (broken(lambda s, p, x: x * np.int32(1000)), r"scores must lie in \+-10000"),
        (type("Pawns", (MaterialEvaluator,), {"_score_ongoing": _pawns}), r"'test-material' gave -?\d\.\d+ as score"),
        (broken(_spoil), "leave the caller's array as it was"),
        (broken(_drift), "must not change when the same question is repeated"),
        (broken(lambda s, p, x: np.where(x == -10_000, np.int32(0), x)), "mate is bad for the side to move"),
        (broken(lambda s, p, x: -x), "checkmated has -10000"),
        (broken(lambda s, p, x: np.where(x == 0, np.int32(7), x)), "stalemate is a draw"),
        (broken(lambda s, p, x: np.where(np.abs(x) == 900, -x, x)), "scores are the side to move's view"),
        (broken(_order), "must not depend on the order in which positions are asked"),
        (broken(_batch), "must not depend on what else is in the batch"),
        (broken(_form), "FEN strings and packed positions must give the same scores"),
        (broken(_clocks), "must not depend on the clocks"),
        (broken(_keep, score_moves=lambda s, p: [np.zeros(1, np.int32) for _ in p]), "legal moves must give int32"),
        (broken(_keep, counters=lambda s: ["many"]), r"counters\(\) must be a dict of numbers"),
        (broken(_keep, id=property(_id_of_its_own)), "must have one id"),
        (broken(_other_scores), "another evaluator with the same id must give the same scores"),
        (broken(_keep, close=_once), r"close\(\) must be harmless the second time"),
    ],
)  # fmt: skip
def test_a_broken_evaluator_is_told_which_rule_broke(make: Any, sentence: str) -> None:
    with pytest.raises(ContractError, match=sentence):
        check_evaluator(make)


def test_a_mating_move_must_score_as_mate_from_the_mover_s_view() -> None:
    def negated(self: Any, positions: Any) -> Any:
        return [-scores for scores in MaterialEvaluator.score_moves(self, positions)]

    with pytest.raises(ContractError, match="a move that mates scores 10000, got"):
        check_evaluator(broken(_keep, score_moves=negated))


class Source:
    """A source whose `sample` is the given function of (self, rng)."""

    def __init__(self, sample: Callable[[Any, np.random.Generator], Any]) -> None:
        self._sample, self.count, self.shared = sample, 0, parse_fen(START)

    def sample(self, rng: np.random.Generator) -> Any:
        self.count += 1
        return self._sample(self, rng)


def _remembered(source: Source, rng: np.random.Generator) -> Any:
    fen = START if source.count % 2 else START.replace(" w ", " b ")
    return parse_fen(fen)


def _global_chance(source: Source, rng: np.random.Generator) -> Any:
    fen = START if np.random.random() < 0.5 else START.replace(" w ", " b ")  # noqa: NPY002
    return parse_fen(fen)


class Heldout:
    """A named source is taken as it is, so what is held out is its own business."""

    name = "held out"

    def sample(self, rng: np.random.Generator) -> Any:
        return load_heldout().positions[0]


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        (object(), r"has a method sample\(rng\)"),
        (Source(lambda s, rng: START), r"uint64 \[8\].*not <U"),
        (Source(lambda s, rng: parse_fen(START).astype(np.int64)), r"not int64 \[8\]"),
        (Source(lambda s, rng: np.zeros(8, np.uint64)), "must be legal chess"),
        (Source(lambda s, rng: parse_fen("8/8/4k3/8/8/3K4/8/8 w - - 0 1")),
         "the game must go on in a start position: .* is insufficient_material"),
        (Source(_remembered), "the same generator state must give the same positions"),
        (Source(_global_chance), "the same generator state must give the same positions"),
        (Source(lambda s, rng: s.shared), "each sample must be an array of its own"),
        (Heldout(), "must not be held out for evaluation"),
    ],
)  # fmt: skip
def test_a_broken_source_is_told_which_rule_broke(source: Any, sentence: str) -> None:
    with pytest.raises(ContractError, match=sentence):
        check_start_positions(source, samples=33)


def _centred(after: Any, before: Any) -> Any:
    return (after - after.mean()).astype(np.float32)


def _in_place(after: Any, before: Any) -> Any:
    after[:] = 0
    return after.astype(np.float32)


def _random(after: Any, before: Any) -> Any:
    return (after + np.random.random(len(after))).astype(np.float32)  # noqa: NPY002


@pytest.mark.parametrize(
    ("term", "sentence"),
    [
        (lambda after: after, r"two arrays \(after_cp, before_cp\), it raised TypeError"),
        (lambda after, before: (after - before) / 100, "must give float32"),
        (lambda after, before: np.float32(1), "must give float32"),
        (lambda after, before: np.log(10_000 + after - np.float32(0)).astype(np.float32), "must be finite"),
        (_in_place, "leave the caller's arrays as they were"),
        (_random, "must not change when the same question is repeated"),
        (_centred, "must not depend on what other moves are in the batch"),
        (lambda after, before: (before - after).astype(np.float32), "scores are the mover's view"),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:divide by zero")
def test_a_broken_reward_term_is_told_which_rule_broke(term: Any, sentence: str) -> None:
    with pytest.raises(ContractError, match=sentence):
        check_reward_term(term)
