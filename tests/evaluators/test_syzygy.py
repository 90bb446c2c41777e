"""Syzygy files: real ones of king and rook against king, missing ones and damaged ones."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path

import chess
import numpy as np
import pytest

from chess_env.evaluators import EngineError, make_evaluator
from chess_env.evaluators.endgame_tables import exact_scores
from chess_env.evaluators.syzygy import SyzygyTables, below_wins
from chess_env.rules import fen
from tests.evaluators.syzygy_files import write_rook_ending


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with KRvK.rtbw and KRvK.rtbz. Its files are not to be changed."""
    folder = tmp_path_factory.mktemp("syzygy")
    write_rook_ending(folder)
    return folder


@pytest.fixture
def copy(real: Path, tmp_path: Path) -> Path:
    """The same files, to be changed."""
    return Path(shutil.copytree(real, tmp_path / "copy"))


def rook_endings(count: int, seed: int) -> np.ndarray:
    """uint64 [count, 8]: legal positions of either colour in which the game goes on."""
    rng, found = np.random.default_rng(seed), []
    while len(found) < count:
        squares = rng.choice(64, 3, replace=False).tolist()
        strong, board = bool(rng.integers(2)), chess.Board(None)
        for square, kind, color in zip(
            squares, (6, 6, 4), (strong, not strong, strong), strict=True
        ):
            board.set_piece_at(square, chess.Piece(kind, color))
        board.turn = bool(rng.integers(2))
        if board.is_valid() and any(board.legal_moves):
            found.append(board.fen())
    return fen.pack_fens(found)


def test_a_win_is_8900_less_the_plies_to_the_next_capture_or_pawn_move(real: Path) -> None:
    positions = rook_endings(120, seed=1)
    known, scores = SyzygyTables(real).probe(positions)
    exact = exact_scores(positions)
    # With king and rook against king the next capture or pawn move is the mate itself.
    moves = 10_000 - np.abs(exact)
    expected = np.where(exact > 0, 8_900 - (2 * moves - 1), -(8_900 - 2 * moves))
    assert known.all()
    np.testing.assert_array_equal(scores, np.where(exact == 0, 0, expected))
    assert len(set(np.sign(scores))) == 3, "wins, losses and draws were met"
    assert np.abs(scores[scores != 0]).min() >= 8_800 and np.abs(scores).max() < 8_900


def test_clocks_do_not_matter(real: Path) -> None:
    texts = [f"8/8/8/3k4/8/8/8/R3K3 w - - {clocks}" for clocks in ("0 1", "37 80", "99 120")]
    scores = SyzygyTables(real).probe(fen.pack_fens(texts))[1]
    assert len(set(scores.tolist())) == 1


@pytest.mark.parametrize(
    "text",
    [
        chess.STARTING_FEN,
        "4k3/8/8/8/8/8/8/4K2R w K - 0 1",  # may castle
        "4k3/8/8/8/8/8/8/4K2Q w - - 0 1",  # no file of it
        "5k1R/8/5K2/8/8/8/8/8 b - - 0 1",  # mate: the rules decide
        "k7/1R6/K7/8/8/8/8/8 b - - 0 1",  # stalemate
    ],
)
def test_what_no_file_holds_is_unknown(real: Path, text: str) -> None:
    known, scores = SyzygyTables(real).probe(fen.pack_fens([text]))
    assert not known[0] and scores[0] == 0


def test_bare_kings_are_a_draw_and_no_positions_are_none(real: Path) -> None:
    tables = SyzygyTables(real)
    known, scores = tables.probe(fen.pack_fens(["8/8/4k3/8/8/3K4/8/8 w - - 0 1"]))
    assert known[0] and scores[0] == 0
    assert [len(part) for part in tables.probe(np.empty((0, 8), np.uint64))] == [0, 0]


def test_without_the_second_file_a_win_is_unknown_and_a_draw_is_known(copy: Path) -> None:
    (copy / "KRvK.rtbz").unlink()
    won, drawn = "8/8/8/3k4/8/8/8/R3K3 w - - 0 1", "8/8/8/8/8/8/1k6/R3K3 b - - 0 1"
    known, scores = SyzygyTables(copy).probe(fen.pack_fens([won, drawn]))
    assert known.tolist() == [False, True] and scores.tolist() == [0, 0]


class Says:
    """In place of python-chess's prober, for values that no file of three men holds."""

    def __init__(self, wdl: int, dtz: int) -> None:
        self.wdl, self.dtz = wdl, dtz

    def probe_wdl(self, board: chess.Board) -> int:
        return self.wdl

    def probe_dtz(self, board: chess.Board) -> int:
        return self.dtz


@pytest.mark.parametrize(
    ("wdl", "dtz", "score"),
    [(2, 100, 8_800), (2, 1, 8_899), (-2, -100, -8_800), (1, 140, 0), (-1, -101, 0), (0, 0, 0)],
)
def test_a_win_that_the_fifty_move_rule_draws_is_a_draw(
    real: Path, wdl: int, dtz: int, score: int
) -> None:
    tables = SyzygyTables(real)
    tables._tables = Says(wdl, dtz)
    known, scores = tables.probe(rook_endings(1, seed=2))
    assert known[0] and scores[0] == score


@pytest.mark.parametrize(("wdl", "dtz"), [(2, -3), (-2, 3), (2, 0), (2, 101), (7, 3)])
def test_values_that_cannot_be_are_an_error(real: Path, wdl: int, dtz: int) -> None:
    tables = SyzygyTables(real)
    tables._tables = Says(wdl, dtz)
    with pytest.raises(EngineError, match=f"wdl {wdl} and dtz {dtz}.*damaged"):
        tables.probe(rook_endings(1, seed=2))


def test_a_folder_that_is_none_or_has_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no such folder"):
        SyzygyTables(tmp_path / "nowhere")
    (tmp_path / "notes.txt").write_text("no table")
    (tmp_path / "KRvX.rtbw").write_text("no name of a table")
    with pytest.raises(ValueError, match=r"no Syzygy file such as KQvK\.rtbw"):
        SyzygyTables(tmp_path)


@pytest.mark.parametrize("name", ["KRvK.rtbw", "KRvK.rtbz"])
@pytest.mark.parametrize("damage", ["cut", "empty", "foreign"])
def test_a_file_that_is_no_whole_one_is_refused_by_its_name(
    copy: Path, name: str, damage: str
) -> None:
    data = (copy / name).read_bytes()
    (copy / name).write_bytes(
        {"cut": data[:-70], "empty": b"", "foreign": b"PK\x03\x04" + data[4:]}[damage]
    )
    with pytest.raises(ValueError, match=f"{name}.*is no whole Syzygy file"):
        SyzygyTables(copy)


@pytest.mark.parametrize(
    ("name", "men"),
    [("KRvK.rtbw", 0x55), ("KRvK.rtbz", 0x05), ("KRvK.rtbw", 0x4C)],  # a queen; a black rook
)
def test_a_file_that_lists_other_men_is_refused_before_python_chess_searches_for_them(
    copy: Path, name: str, men: int
) -> None:
    data = bytearray((copy / name).read_bytes())
    assert data[7] & 15 == 4, "the rook"
    data[7] = men
    (copy / name).write_bytes(data)
    with pytest.raises(ValueError, match=f"{name}.*lists other men"):
        SyzygyTables(copy)


def test_damaged_bytes_are_an_error_or_a_score_in_its_range_and_never_another_exception(
    copy: Path,
) -> None:
    positions, errors = rook_endings(6, seed=4), 0
    data = {path: path.read_bytes() for path in sorted(copy.iterdir())}
    rng = np.random.default_rng(5)
    for round_ in range(40):
        path = sorted(data)[round_ % 2]
        changed = bytearray(data[path])
        # Mostly in the first bytes behind the men, which say how all others are read.
        for at in rng.integers(10, 60 if round_ % 4 < 3 else len(changed), 3).tolist():
            changed[at] = int(rng.integers(256))
        path.write_bytes(changed)
        try:
            scores = SyzygyTables(copy).probe(positions)[1]
        except (EngineError, ValueError) as error:
            errors += isinstance(error, EngineError)
            assert str(copy) in str(error) and ("damaged" in str(error) or "no whole" in str(error))
        else:
            assert ((np.abs(scores) >= 8_800) & (np.abs(scores) < 8_900) | (scores == 0)).all()
        path.write_bytes(data[path])
    assert errors > 3


def test_the_digest_is_of_names_and_sizes(real: Path, copy: Path) -> None:
    first = SyzygyTables(real)
    assert first.digest == SyzygyTables(copy).digest and len(first.digest) == 12
    (copy / "notes.txt").write_text("ignored")
    assert SyzygyTables(copy).digest == first.digest
    (copy / "KRvK.rtbz").unlink()
    assert SyzygyTables(copy).digest != first.digest


def test_a_copy_reads_the_same_files(real: Path) -> None:
    tables, positions = SyzygyTables(real), rook_endings(5, seed=6)
    other = pickle.loads(pickle.dumps(tables))
    assert other.digest == tables.digest
    np.testing.assert_array_equal(other.probe(positions)[1], tables.probe(positions)[1])


def test_unproven_scores_are_cut_below_the_wins_and_mates_are_not() -> None:
    scores = np.int32([0, 8_700, 8_701, 9_800, -9_800, 9_801, 9_999, -10_000])
    expected = np.int32([0, 8_700, 8_700, 8_700, -8_700, 9_801, 9_999, -10_000])
    np.testing.assert_array_equal(below_wins(scores), expected)


def test_an_evaluator_uses_the_files_that_are_named_and_says_so_in_its_id(
    real: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fen = "8/8/8/3k4/8/8/8/R3K3 w - - 0 1"
    with make_evaluator(f"builtin:syzygy={real}") as evaluator:  # type: ignore[attr-defined]
        assert evaluator.id == f"builtin-v2;syzygy={SyzygyTables(real).digest}"
        assert evaluator.evaluate([fen])[0] > 9_980, "three men are exact without any file"
        monkeypatch.setattr(
            "chess_env.evaluators.judge.find_three_men", lambda rows: np.zeros(len(rows), bool)
        )
        assert 8_800 <= evaluator.evaluate([fen])[0] < 8_900
        (moves,) = evaluator.score_moves([fen])
        assert 8_800 <= moves.max() < 8_900


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("builtin-v1:syzygy=FOLDER", "version 1 has no Syzygy files"),
        ("stockfish-v1:depth=3,syzygy=FOLDER", "version 1 has no Syzygy files"),
        ("builtin:syzygy=FOLDER/none", "there is no such folder"),
    ],
)
def test_files_that_cannot_be_used_are_refused_by_name(real: Path, name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_evaluator(name.replace("FOLDER", str(real)))
