"""The held-out table: its size, its slices, its scores, and that nobody trains on it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from chess_env.evaluators import make_evaluator
from chess_env.positions.heldout import HELDOUT_PATH, heldout_hashes, load_heldout, read_heldout
from chess_env.positions.openings import opening_positions
from chess_env.rewards import value
from chess_env.rules.fen import parse_fen, to_fen
from chess_env.rules.rules import (
    CHECKMATE,
    ENDGAME,
    INSUFFICIENT_MATERIAL,
    MIDDLEGAME,
    ONGOING,
    STALEMATE,
    children,
    hash_batch,
    legal_actions_batch,
    phase_batch,
    status_batch,
)


def test_the_file_is_small_enough_to_commit() -> None:
    assert HELDOUT_PATH.stat().st_size < 200_000


def test_each_slice_has_256_positions_and_all_are_different() -> None:
    table = load_heldout()
    assert len(table) >= 1024
    for name in ("random_2_40", "middlegame", "endgame", "decided"):
        assert len(table.indices(name)) >= 256
    assert len(heldout_hashes()) == len(table)


def test_positions_are_legal_unfinished_and_without_clocks() -> None:
    table = load_heldout()
    for position in table.positions:
        fen = to_fen(position)
        np.testing.assert_array_equal(parse_fen(fen), position)
        assert fen.endswith(" 0 1")
    assert (status_batch(table.positions) == ONGOING).all()


def test_slices_are_what_their_names_say() -> None:
    table = load_heldout()
    assert (phase_batch(table.positions[table.indices("middlegame")]) == MIDDLEGAME).all()
    assert (phase_batch(table.positions[table.indices("endgame")]) == ENDGAME).all()
    best_cp = np.array([table.scores_cp(m).max() for m in table.indices("decided")])
    won, lost = (best_cp > 400).mean(), (best_cp < -400).mean()
    assert won > 0.45 and lost > 0.45


def test_there_is_one_score_per_legal_move_and_the_rules_decide_ended_children() -> None:
    table = load_heldout()
    _, num_legal = legal_actions_batch(table.positions)
    np.testing.assert_array_equal(np.diff(table.offsets), num_legal)
    mates = draws = 0
    for index, position in enumerate(table.positions):
        status = status_batch(children(position)[0])
        scores_cp = table.scores_cp(index)
        assert (scores_cp[status == CHECKMATE] == 10_000).all()
        is_draw = (status == STALEMATE) | (status == INSUFFICIENT_MATERIAL)
        assert (scores_cp[is_draw] == 0).all()
        mates += (status == CHECKMATE).sum()
        draws += is_draw.sum()
    assert mates > 10 and draws > 3
    assert np.abs(table.child_score_cp).max() <= 10_000


def test_scores_are_from_the_movers_view() -> None:
    table = load_heldout()
    piece_values = np.array([1, 3, 3, 5, 9])
    balances, scores_cp = [], []
    for index, position in enumerate(table.positions):
        boards, _ = children(position)
        # In a child the mover is the one whose turn it is not.
        their = np.bitwise_count(boards[:, :5] & boards[:, 6:7]) @ piece_values
        balances.append(np.bitwise_count(boards[:, :5]) @ piece_values - 2 * their)
        scores_cp.append(table.scores_cp(index).clip(-1000, 1000))
    assert np.corrcoef(np.concatenate(balances), np.concatenate(scores_cp))[0, 1] > 0.6


def test_no_opening_book_position_is_held_out() -> None:
    book = np.concatenate(opening_positions())
    assert heldout_hashes().isdisjoint(hash_batch(book).tolist())


def test_the_table_cannot_be_changed_by_mistake() -> None:
    with pytest.raises(ValueError, match="read-only"):
        load_heldout().child_score_cp[0] = 1


def test_a_missing_or_damaged_table_says_how_to_rebuild_it(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="--rebuild"):
        read_heldout(tmp_path / "heldout.npz")
    damaged = tmp_path / "damaged.npz"
    data = bytearray(HELDOUT_PATH.read_bytes())
    data[len(data) // 2] ^= 1
    damaged.write_bytes(data)
    with pytest.raises(ValueError, match="--rebuild"):
        read_heldout(damaged)


def test_an_unknown_slice_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"slice is 'opening'.*decided"):
        load_heldout().indices("opening")


@pytest.mark.stockfish
def test_stockfish_agrees_with_the_table() -> None:
    table = load_heldout()
    chosen = np.random.default_rng(0).choice(len(table), 12, replace=False)
    families = [children(table.positions[index])[0][::2] for index in chosen]
    evaluator = make_evaluator("stockfish-v1:depth=8", num_engines=1)
    try:
        scores_cp = -evaluator.evaluate(np.concatenate(families))
    finally:
        evaluator.close()
    expected = np.concatenate([table.scores_cp(index)[::2] for index in chosen])
    # Exact for the engine that made the table; another version may differ by a little.
    error = np.abs(value(scores_cp) - value(expected)).mean()
    assert error == 0 if evaluator.id == table.evaluator_id else error < 0.1
