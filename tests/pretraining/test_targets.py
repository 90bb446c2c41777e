"""Targets are the distributions that they are said to be, worked out by hand and over random scores."""

from __future__ import annotations

import math

import chess
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from algorithms.pretraining.label_files import LabelledPositions
from algorithms.pretraining.supervised import best_targets, make_targets, soft_targets
from chess_env.moves import move_to_action
from chess_env.rules.fen import parse_fen

# White king h1, pawn a7; Black king h8: Kg1, Kg2, Kh2, and the pawn becomes N, B, R or Q.
FEN = "7k/P7/8/8/8/8/8/7K w - - 0 1"


def labelled(scores: list[int], played: int = -1, fen: str = FEN) -> LabelledPositions:
    return LabelledPositions(
        positions=parse_fen(fen)[None],
        offsets=np.array([0, len(scores)], np.int32),
        child_score_cp=np.array(scores, np.int16),
        played=np.array([played], np.int16),
    )


def win_utility(score_cp: float) -> float:
    return 2 / (1 + math.exp(-0.00368208 * score_cp)) - 1


def test_a_soft_target_is_the_softmax_of_the_clipped_win_utility() -> None:
    scores = np.array([[100, 0, -50, 10_000, 0]])
    legal = torch.tensor([[True, True, True, True, False]])
    found = soft_targets(scores, legal, clip_cp=200, temperature=0.1)
    weights = [math.exp(win_utility(cp) / 0.1) for cp in (100, 0, -50, 200)]
    expected = [*(weight / sum(weights) for weight in weights), 0.0]
    assert found[0].tolist() == pytest.approx(expected, abs=1e-6)
    # tanh(.1841) = .18205, tanh(-.09205) = -.09179, tanh(.3682) = .35243: e^1.8205 = 6.175, 1,
    # e^-.9179 = .3994, e^3.5243 = 33.93, which add up to 41.50.
    assert found[0].tolist() == pytest.approx([0.1488, 0.0241, 0.0096, 0.8175, 0.0], abs=1e-4)


def test_equally_best_moves_share_the_target_and_a_nearer_mate_is_better() -> None:
    legal = torch.tensor([[True, True, True, False], [True, True, True, True]])
    scores = np.array([[30, 30, -5, 0], [9_997, 9_999, 2_000, 9_999]])
    assert best_targets(scores, legal).tolist() == [[0.5, 0.5, 0, 0], [0, 0.5, 0, 0.5]]


def test_padding_never_is_the_best_move_where_all_scores_are_negative() -> None:
    found = best_targets(np.array([[-40, -300, 0]]), torch.tensor([[True, True, False]]))
    assert found.tolist() == [[1, 0, 0]]


def test_scores_stand_at_the_legal_moves_in_ascending_action_ids() -> None:
    shard = labelled([1, 2, 3, 4, 5, 6, 7])
    legal_ids, found = make_targets(
        shard, np.array([0]), kind="best", clip_cp=1000, temperature=1.0
    )
    assert legal_ids.shape == found.shape == (1, 7)
    assert (np.diff(legal_ids[0]) > 0).all()
    assert found[0].argmax() == 6


def test_the_played_move_is_the_whole_target() -> None:
    action = move_to_action(chess.Move.from_uci("h1g2"), chess.WHITE)
    legal_ids, found = make_targets(
        labelled([], played=action), np.array([0]), kind="played", clip_cp=1000, temperature=1.0
    )
    assert legal_ids[0][found[0].bool().numpy()].tolist() == [action]
    assert float(found.sum()) == 1.0


@pytest.mark.parametrize(
    ("shard", "kind", "message"),
    [
        (labelled([1, 2]), "soft", "has 2 scores and 7 legal moves"),
        (labelled([], played=0), "played", "not legal in its position"),
        (labelled([]), "best", "has 0 scores"),
    ],
)
def test_labels_that_do_not_fit_the_position_are_refused(
    shard: LabelledPositions, kind: str, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        make_targets(shard, np.array([0]), kind=kind, clip_cp=1000, temperature=1.0)  # type: ignore[arg-type]


@given(
    scores=st.lists(st.integers(-10_000, 10_000), min_size=1, max_size=60),
    padding=st.integers(0, 5),
    temperature=st.floats(1e-3, 10),
)
def test_every_target_is_a_distribution_that_prefers_higher_scores(
    scores: list[int], padding: int, temperature: float
) -> None:
    row = np.array([scores + [0] * padding])
    legal = torch.tensor([[True] * len(scores) + [False] * padding])
    for found in (
        soft_targets(row, legal, clip_cp=1000, temperature=temperature),
        best_targets(row, legal),
    ):
        assert float(found.sum()) == pytest.approx(1.0, abs=1e-5)
        assert found[0, len(scores) :].sum() == 0
        assert (np.diff(found[0, : len(scores)][np.argsort(scores)].numpy()) >= -1e-6).all()
