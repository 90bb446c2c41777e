"""The compiled rules against published perft counts and against python-chess."""

from __future__ import annotations

import random
from collections.abc import Iterable

import chess
import numpy as np
import pytest

from chess_env import moves, observation
from chess_env.rules import fen, rules
from chess_env.rules.movegen import in_check

KIWIPETE = "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1"
MOST_MOVES = "R6R/3Q4/1Q4Q1/4Q3/2Q4Q/Q4Q2/pp1Q4/kBNN1KB1 w - - 0 1"
# https://www.chessprogramming.org/Perft_Results
PERFT = [
    (chess.STARTING_FEN, 4, 197_281),
    (KIWIPETE, 3, 97_862),
    ("8/2p5/3p4/KP5r/1R3p1k/8/4P1P1/8 w - - 0 1", 5, 674_624),
    ("r3k2r/Pppp1ppp/1b3nbN/nP6/BBP1P3/q4N2/Pp1P2PP/R2Q1RK1 w kq - 0 1", 4, 422_333),
    ("rnbq1k1r/pp1Pbppp/2p5/8/2B5/8/PPP1NnPP/RNBQK2R w KQ - 1 8", 4, 2_103_487),
    ("r4rk1/1pp1qppp/p1np1n2/2b1p1B1/2B1P1b1/P1NP1N2/1PP1QPPP/R4RK1 w - - 0 10", 4, 3_894_594),
    (MOST_MOVES, 1, 218),
]


@pytest.mark.parametrize(("position", "depth", "count"), PERFT)
def test_perft_through_the_action_codec_is_exact(position: str, depth: int, count: int) -> None:
    assert rules.perft(fen.parse_fen(position), depth) == count


@pytest.mark.slow
@pytest.mark.parametrize(
    ("position", "depth", "count"),
    [
        (chess.STARTING_FEN, 6, 119_060_324),
        (KIWIPETE, 4, 4_085_603),
        ("8/2p5/3p4/KP5r/1R3p1k/8/4P1P1/8 w - - 0 1", 6, 11_030_083),
        ("r3k2r/Pppp1ppp/1b3nbN/nP6/BBP1P3/q4N2/Pp1P2PP/R2Q1RK1 w kq - 0 1", 5, 15_833_292),
    ],
)
def test_deep_perft_is_exact(position: str, depth: int, count: int) -> None:
    assert rules.perft(fen.parse_fen(position), depth) == count


def expected_status(board: chess.Board) -> int:
    if board.is_checkmate():
        return rules.CHECKMATE
    if board.is_stalemate():
        return rules.STALEMATE
    if board.is_insufficient_material():
        return rules.INSUFFICIENT_MATERIAL
    return rules.FIFTY_MOVES if board.halfmove_clock >= 100 else rules.ONGOING


def expected_planes(board: chess.Board) -> dict[str, np.ndarray]:
    """The planes straight from their description, square by square, all but the repetitions; by name."""
    flip = 0 if board.turn else 56
    found: dict[str, np.ndarray] = {}

    def show(name: str, squares: Iterable[chess.Square]) -> None:
        found[name] = np.zeros((8, 8), np.uint8)
        for square in squares:
            found[name][(square ^ flip) // 8, square % 8] = 1

    for side, color in (("mover", board.turn), ("opponent", not board.turn)):
        for piece in chess.PIECE_TYPES:
            show(f"{side}_{chess.piece_name(piece)}", board.pieces(piece, color))
        for wing, has_right in (
            ("kingside", board.has_kingside_castling_rights(color)),
            ("queenside", board.has_queenside_castling_rights(color)),
        ):
            show(f"{side}_castles_{wing}", chess.SQUARES if has_right else ())
    target = board.ep_square if board.has_legal_en_passant() else None
    show("en_passant", () if target is None else (target,))
    found["rule50_clock"] = np.full((8, 8), min(board.halfmove_clock, 100), np.uint8)
    return found


def compare_with_python_chess(seed: int, num_positions: int) -> None:
    rng = random.Random(seed)
    compared = 0
    while compared < num_positions:
        board = chess.Board()
        if rng.random() < 0.2:
            board = chess.Board(rng.choice([position for position, _, _ in PERFT]))
        position = fen.pack_board(board)
        while True:
            assert np.array_equal(position, fen.pack_board(board)), board.fen()
            assert fen.to_fen(position) == board.fen()
            assert np.array_equal(fen.parse_fen(board.fen()), position), board.fen()
            legal = moves.legal_actions(board)
            legal_ids, num_legal = rules.legal_actions_batch(position[None])
            assert legal_ids[0, : num_legal[0]].tolist() == legal.tolist(), board.fen()
            assert (legal_ids[0, num_legal[0] :] == -1).all()
            assert int(rules.status_batch(position[None])[0]) == expected_status(board), board.fen()
            assert in_check(position) == board.is_check(), board.fen()
            expected = expected_planes(board)
            planes = observation.encode_batch(position[None])[0]
            seen = planes[[getattr(observation.PLANE_INDEX, name) for name in expected]]
            assert np.array_equal(seen, np.stack(list(expected.values()))), board.fen()
            compared += 1
            if len(legal) == 0 or board.is_insufficient_material() or board.halfmove_clock > 100:
                break
            action = int(rng.choice(legal.tolist()))
            board.push(moves.action_to_move(action, board))
            position = rules.apply_batch(position[None], np.array([action]))[0]


def test_800_random_positions_agree_with_python_chess() -> None:
    compare_with_python_chess(seed=1, num_positions=800)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_10000_random_positions_agree_with_python_chess() -> None:
    compare_with_python_chess(seed=2, num_positions=10_000)


def test_children_are_the_positions_one_legal_move_away() -> None:
    board = chess.Board(KIWIPETE)
    children, actions = rules.children(fen.pack_board(board))
    assert len(children) == board.legal_moves.count()
    for child, action in zip(children, actions.tolist(), strict=True):
        after = board.copy()
        after.push(moves.action_to_move(action, board))
        assert fen.to_fen(child) == after.fen()


def test_the_hash_ignores_clocks_and_sees_turn_rights_and_legal_en_passant() -> None:
    def key(position: str) -> int:
        return int(rules.hash_batch(fen.parse_fen(position)[None])[0])

    start = key(chess.STARTING_FEN)
    assert start == key("rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 17 30")
    assert start != key("rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR b KQkq - 0 1")
    assert start != key("rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQk - 0 1")
    # No black pawn can take on e3: FIDE counts the position as the one without the right.
    assert key("4k3/8/8/8/4P3/8/8/4K3 b - e3 0 1") == key("4k3/8/8/8/4P3/8/8/4K3 b - - 0 1")
    assert key("4k3/8/8/8/3pP3/8/8/4K3 b - e3 0 1") != key("4k3/8/8/8/3pP3/8/8/4K3 b - - 0 1")


def test_an_en_passant_capture_that_would_expose_the_king_is_no_right() -> None:
    # After e2-e4 the d4 pawn may not take: both pawns would leave the fourth rank between rook and king.
    pinned = fen.parse_fen("8/8/8/8/k2pP2R/8/8/4K3 b - e3 0 1")
    assert "e3" not in fen.to_fen(pinned)
    assert fen.to_fen(pinned) == chess.Board("8/8/8/8/k2pP2R/8/8/4K3 b - e3 0 1").fen()


def test_distinct_positions_of_a_deep_perft_have_distinct_hashes() -> None:
    seen = {bytes(fen.parse_fen(chess.STARTING_FEN))}
    frontier = fen.parse_fen(chess.STARTING_FEN)[None]
    for _ in range(3):
        frontier = np.concatenate([rules.children(position)[0] for position in frontier])
        identity = frontier.copy()
        identity[:, 7] &= np.uint64(0x7FF)
        frontier = frontier[np.unique(identity, axis=0, return_index=True)[1]]
        seen |= {row.tobytes() for row in identity}
        keys = rules.hash_batch(frontier)
        assert len(np.unique(keys)) == len(frontier)
    assert len(seen) == 1 + 20 + 400 + 5_362  # distinct positions after 3 plies (OEIS A083276)


def test_phases_follow_their_formula() -> None:
    cases = {
        chess.STARTING_FEN: rules.OPENING,
        "r3k2r/8/8/8/8/8/8/R3K2R w KQkq - 0 1": rules.ENDGAME,
        "r2q1rk1/1bpnbppp/p2ppn2/1p6/3NPP2/P1N1B3/1PPQB1PP/R4RK1 w - - 0 1": rules.MIDDLEGAME,
        "r2q1rk1/1bpnbppp/p2ppn2/1p6/3NPP2/P1N1B3/1PP1B1PP/R2Q1RK1 w - - 0 1": rules.OPENING,
        "6k1/1bqnbppp/p2ppn2/1p6/3NPP2/P1N1B3/1PPQB1PP/6K1 w - - 0 1": rules.MIDDLEGAME,
    }
    found = rules.phase_batch(fen.pack_fens(list(cases)))
    assert found.tolist() == list(cases.values())


def test_a_batch_of_the_wrong_shape_is_refused() -> None:
    with pytest.raises(ValueError, match=r"uint64 \[N, 8\]"):
        rules.legal_actions_batch(np.zeros((2, 7), np.uint64))
