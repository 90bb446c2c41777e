"""Start positions: legal, unfinished, seeded, not held out; specs and their errors."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import chess
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from chess_env.positions.heldout import heldout_hashes, is_heldout, load_heldout
from chess_env.positions.openings import OPENINGS, opening_positions
from chess_env.positions.phase_mix import (
    BARE_KINGS,
    PHASE_SHARES,
    PhaseMix,
    opponent_in_check,
    set_up,
)
from chess_env.positions.start_positions import make_start_positions, mixture_parts
from chess_env.rules.fen import parse_fen, to_fen
from chess_env.rules.rules import hash_batch, phase_batch, random_walk, status_batch
from tests.env.material import MaterialEvaluator

SPECS = (
    "initial",
    "random_plies:2-40",
    "random_plies:7",
    "openings",
    "phase_mix",
    "decided",
    "bare_kings",
    "0.5*decided+.25*phase_mix+1*random_plies:2-8",
    "random_plies:2-40@fixed=5,seed=1",
)


def draw(spec: Any, count: int, seed: int = 0, **arguments: Any) -> Any:
    source = make_start_positions(spec, **arguments)
    rng = np.random.default_rng(seed)
    return np.array([source.sample(rng) for _ in range(count)])


@pytest.mark.parametrize("spec", SPECS)
def test_samples_are_legal_unfinished_not_held_out_and_seeded(spec: str) -> None:
    positions = draw(spec, 150)
    for position in positions:
        np.testing.assert_array_equal(parse_fen(to_fen(position)), position)
    assert (status_batch(positions) == 0).all()
    assert heldout_hashes().isdisjoint(hash_batch(positions).tolist())
    np.testing.assert_array_equal(positions, draw(spec, 150))


@given(seed=st.integers(0, 2**32), phase=st.integers(0, 2))
@settings(max_examples=60)
def test_every_phase_sample_is_legal_and_of_its_phase(seed: int, phase: int) -> None:
    position = PhaseMix().sample_phase(phase, np.random.default_rng(seed))
    np.testing.assert_array_equal(parse_fen(to_fen(position)), position)
    assert phase_batch(position[None])[0] == phase


def test_the_phase_mix_has_its_documented_shares_and_decided_endgames() -> None:
    positions = draw("phase_mix", 600)
    shares = np.bincount(phase_batch(positions), minlength=3) / 600
    np.testing.assert_allclose(shares, PHASE_SHARES, atol=0.08)
    scores_cp = MaterialEvaluator().evaluate(positions)
    assert (scores_cp > 500).mean() > 0.05 and (scores_cp < -500).mean() > 0.05


def test_set_up_endgames_never_leave_the_side_that_moved_in_check() -> None:
    rng = np.random.default_rng(0)
    positions = [position for position in (set_up(rng) for _ in range(400)) if position is not None]
    assert len(positions) > 100
    for position in positions:
        board = chess.Board(to_fen(position))
        assert board.is_valid() and board.was_into_check() is opponent_in_check(position) is False


@example(seed=123564)  # three men would give check
@given(seed=st.integers(0, 2**32))
@settings(max_examples=60)
def test_every_decided_position_is_legal_and_unfinished(seed: int) -> None:
    position = make_start_positions("decided").sample(np.random.default_rng(seed))
    np.testing.assert_array_equal(parse_fen(to_fen(position)), position)
    board = chess.Board(to_fen(position))
    assert board.is_valid() and not board.is_game_over()


def test_decided_positions_hold_bare_kings_several_queens_and_either_side_to_move() -> None:
    positions = draw("decided", 400)
    lead_cp = MaterialEvaluator().evaluate(positions)
    assert (np.abs(lead_cp) >= 1000).mean() > 0.5
    assert (lead_cp > 500).mean() > 0.25 and (lead_cp < -500).mean() > 0.15
    men = [board.occupied_co for board in map(chess.Board, map(to_fen, positions))]
    assert min(min(map(int.bit_count, map(int, sides))) for sides in men) == 1
    queens = [board.queens.bit_count() for board in map(chess.Board, map(to_fen, positions))]
    assert max(queens) >= 4


def test_a_bare_king_of_either_side_stands_against_each_of_the_named_men() -> None:
    stronger, mover_is_bare = set(), set()
    for board in boards("bare_kings"):
        assert board.is_valid()
        texts = ["".join(sorted(board.piece_at(s).symbol().upper() for s in chess.SquareSet(side)))  # type: ignore[union-attr]
                 for side in (board.occupied_co[board.turn], board.occupied_co[not board.turn])]  # fmt: skip
        assert "K" in texts
        stronger.add(max(texts, key=len))
        mover_is_bare.add(texts[0] == "K")
    assert stronger == {"".join(sorted(men)) for men, _ in BARE_KINGS}
    assert mover_is_bare == {True, False}


def test_a_mixture_draws_from_each_source_with_its_share() -> None:
    starts = [len(board.piece_map()) == 32 for board in boards("3*initial+1*decided")]
    assert 0.6 < np.mean(starts) < 0.9


@pytest.mark.parametrize("spec", ["initial+0.5*decided", "0*initial+1*decided", "0.5*nowhere"])
def test_a_mixture_that_makes_no_sense_is_an_error(spec: str) -> None:
    with pytest.raises(ValueError, match="start_positions is"):
        make_start_positions(spec)


def test_random_plies_have_the_length_asked_for() -> None:
    plies = {2 * board.fullmove_number - 1 - board.turn for board in boards("random_plies:3-6")}
    assert plies == {3, 4, 5, 6}


def boards(spec: str) -> list[chess.Board]:
    return [chess.Board(to_fen(position)) for position in draw(spec, 60)]


def test_a_random_walk_makes_legal_moves_and_stops_at_the_end_of_the_game() -> None:
    path = random_walk(parse_fen(chess.STARTING_FEN), 600, np.random.default_rng(3))
    board = chess.Board()
    for position in path[1:]:
        fens = set()
        for move in board.legal_moves:
            child = board.copy(stack=False)
            child.push(move)
            fens.add(child.fen(en_passant="legal"))
        assert to_fen(position) in fens
        board = chess.Board(to_fen(position))
    assert len(path) < 601 and status_batch(path[-1:])[0] != 0
    assert (status_batch(path[:-1]) == 0).all()


def test_the_book_has_at_least_60_named_lines_that_end_differently() -> None:
    assert len(OPENINGS) >= 60
    ends = np.array([line[-1] for line in opening_positions()])
    assert len(set(hash_batch(ends).tolist())) == len(OPENINGS)
    assert min(len(line) for line in opening_positions()) >= 4


def test_a_fixed_set_has_exactly_k_distinct_positions_given_by_its_seed() -> None:
    first = {to_fen(position) for position in draw("random_plies:2-40@fixed=12,seed=1", 300)}
    again = {
        to_fen(position) for position in draw("random_plies:2-40@fixed=12,seed=1", 300, seed=7)
    }
    other = {to_fen(position) for position in draw("random_plies:2-40@fixed=12,seed=2", 300)}
    assert len(first) == 12 and first == again and not first & other


def test_a_fixed_set_larger_than_the_source_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="beyond the first 1 of 2"):
        make_start_positions("initial@fixed=2,seed=0")


def test_balanced_keeps_only_scores_within_the_limit() -> None:
    evaluator = MaterialEvaluator()
    positions = draw("random_plies:10-40@balanced=50", 60, evaluator=evaluator)
    assert np.abs(evaluator.evaluate(positions)).max() <= 50
    assert np.abs(evaluator.evaluate(draw("random_plies:10-40", 60))).max() > 50


def test_balanced_and_fixed_go_together() -> None:
    evaluator = MaterialEvaluator()
    positions = draw("phase_mix@balanced=0,fixed=4,seed=3", 80, evaluator=evaluator)
    assert len(set(hash_batch(positions).tolist())) == 4
    assert (evaluator.evaluate(positions) == 0).all()


def test_a_fen_file_is_read_with_comments_and_without_held_out_positions(tmp_path: Path) -> None:
    path = tmp_path / "starts.txt"
    held_out = to_fen(load_heldout().positions[0])
    path.write_text(f"# mine\n\n{chess.STARTING_FEN}\n4k3/8/8/8/8/8/8/R3K3 w - - 0 1\n{held_out}\n")
    fens = {to_fen(position) for position in draw(f"fens:{path}", 100)}
    assert fens == {chess.STARTING_FEN, "4k3/8/8/8/8/8/8/R3K3 w - - 0 1"}
    assert len({to_fen(position) for position in draw(f"fens:{path}@fixed=1,seed=0", 20)}) == 1


BOOK = (
    ("2rr3k/pp3pp1/1nnqbN1p/3pN3/2pP4/2P3Q1/PPB4P/R4RK1 w - -", 'bm Qg6; id "made.001";', "0 1"),
    ("rnbqkbnr/pppp1ppp/8/4p3/4P3/8/PPPP1PPP/RNBQKBNR w KQkq -", 'c0 "a; hmvc 9; b";', "0 1"),
    ("4k3/8/8/8/8/8/4P3/4K3 b - -", 'hmvc 3; fmvn 17; c1 "x;"', "3 17"),
    ("4k3/8/8/8/8/8/4P3/3K4 w - -", "7 21 ; acd 12", "7 21"),
    ("4k3/8/8/8/8/8/4P3/2K5 w - -", "", "0 1"),
    ("4k3/8/8/8/8/8/4P3/1K6 w - -", "0 1;", "0 1"),
    ("4k3/8/8/8/8/8/4P2P/1K6 w - -", "0 1|0.5", "0 1"),
    ("4k3/8/8/8/8/8/4P1P1/1K6  w\t-  -", "ce 12 # won", "0 1"),
)


@pytest.mark.parametrize(
    "encode",
    [
        lambda text: text.encode(),
        lambda text: text.replace("\n", "\r\n").encode("utf-8-sig"),
        lambda text: text.encode("latin-1"),
        lambda text: text.encode("utf-16"),
        lambda text: gzip.compress(text.encode()),
    ],
)
def test_an_epd_book_is_read_and_its_clocks_are_used(
    tmp_path: Path, encode: Callable[[str], bytes]
) -> None:
    lines = [f"{position} {operations}" for position, operations, _ in BOOK]
    path = tmp_path / "book.epd"
    path.write_bytes(encode("; by Müller\n% a line\n// another\n\n" + "\n".join(lines) + "\n"))
    fens = {to_fen(position) for position in draw(f"fens:{path}", 300)}
    assert fens == {f"{' '.join(position.split())} {clocks}" for position, _, clocks in BOOK}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (chess.STARTING_FEN + " moves e2e4\n", "line 1: illegal FEN"),
        (chess.STARTING_FEN + "\n4k3/8/8/8/8/8/8/8 w - - 0 1\n", "line 2: illegal FEN"),
        (
            "4k3/8/8/8/8/8/8/4K3 w - - 0 1\n",
            "line 1: the game is already over.*insufficient_material",
        ),
        ("# nothing\n", "holds no usable position"),
        (b"\xff\xfe\x00", "line 1: illegal FEN"),
        (bytes(range(99)), "is no text file"),
        (chess.STARTING_FEN.replace(" 0 1", " hmvc x;") + "\n", "line 1: .*whole numbers"),
        (chess.STARTING_FEN.replace("KQkq", "KQkq e4 e5") + "\n", "line 1: illegal FEN"),
    ],
)
def test_a_bad_fen_file_is_an_error_that_names_the_line(
    tmp_path: Path, text: str | bytes, message: str
) -> None:
    path = tmp_path / "starts.txt"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(ValueError, match=message):
        make_start_positions(f"fens:{path}")


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"position file .*none.txt. cannot be read"):
        make_start_positions(f"fens:{tmp_path / 'none.txt'}")


def test_an_object_with_sample_is_a_source_and_held_out_positions_are_drawn_again() -> None:
    class Mine:
        def sample(self, rng: np.random.Generator) -> Any:
            held_out = load_heldout().positions[0]
            return held_out if rng.random() < 0.5 else parse_fen(chess.STARTING_FEN)

    source = make_start_positions(Mine())
    assert source.name == "Mine object"
    rng = np.random.default_rng(0)
    assert not any(is_heldout(source.sample(rng)) for _ in range(30))


@pytest.mark.parametrize(
    "spec",
    [
        "",
        "endgames",
        "random_plies:",
        "random_plies:9-4",
        "random_plies:2-x",
        "random_plies:2-5000",
        "fens:",
        "initial@fixed=0,seed=1",
        "initial@fixed=x",
        "initial@seed=3",
        "openings@fixed=3,fixed=4",
        "openings@balanced=100",
        3,
        None,
    ],
)
def test_an_unknown_spec_is_an_error_that_shows_it(spec: Any) -> None:
    with pytest.raises(ValueError) as caught:
        make_start_positions(spec)
    assert "expected" in str(caught.value) or "needs an evaluator" in str(caught.value)


def test_a_mixture_is_taken_apart_into_shares_and_specs() -> None:
    spec = "0.25*random_plies:2-40@fixed=3,seed=1+.5*decided+2*fens:a+b.txt"
    assert mixture_parts(spec) == [
        (0.25, "random_plies:2-40@fixed=3,seed=1"),
        (0.5, "decided"),
        (2.0, "fens:a+b.txt"),
    ]
    assert mixture_parts("fens:a+b.txt") == []
