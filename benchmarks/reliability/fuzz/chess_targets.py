"""FEN and PGN."""

from __future__ import annotations

from pathlib import Path

import chess
import numpy as np
import zstandard

from benchmarks.reliability.fuzz.judge import Target
from benchmarks.reliability.fuzz.recipes import Choices, damaged
from chess_env.moves import legal_actions
from chess_env.positions.position_files import read_fens
from chess_env.rules.fen import board_from_fen, pack_board, parse_fen, to_fen, to_fens
from chess_env.rules.rules import legal_actions_batch

FENS = (
    chess.STARTING_FEN,
    "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1",
    "8/2p5/3p4/KP5r/1R3p1k/8/4P1P1/8 b - - 12 40",
    "rnbqkbnr/ppp1p1pp/8/3pPp2/8/8/PPPP1PPP/RNBQKBNR w KQkq f6 0 3",
    "4k3/8/8/8/8/8/8/4K2R w K -",
    "R6R/3Q4/1Q4Q1/4Q3/2Q4Q/Q4Q2/pp1Q4/kBNN1KB1 w - - 0 1",
    "n1n5/PPPk4/8/8/8/8/4Kppp/5N1N b - - 0 1",
)
_FEN_WORDS = (
    *b"w b - KQkq Kq HAha e3 d6 a9 i4 8/ / P p K k q N R 44 9 65536 PPPPPPPP pppppppp ~ [Q]".split(),
    b"0 1",
    b"99 200",
)


def fen(scratch: Path) -> Target:
    """A position as text and as the line of a file; an accepted one has python-chess's moves and comes back."""
    file, lines = scratch / "positions.txt", "# endgames\n{2}\n\n{4}\n{5}\r\n".format(*FENS)
    seeds = [text.encode() for text in (*FENS, lines)]

    def check(data: bytes) -> str | None:
        text = data.decode("utf-8", "surrogateescape")
        in_file = None if text.isprintable() else as_file(data)
        try:
            board = board_from_fen(text)
        except ValueError as error:
            assert "illegal FEN" in str(error)
            return str(error) if in_file is None else in_file or None
        _agrees(board, text)
        return None

    def as_file(data: bytes) -> str:
        """The refusal of a file; empty where it is read."""
        file.write_bytes(data)
        try:
            assert 1 <= len(read_fens(file)) <= data.count(b"\n") + data.count(b"\r") + 1
        except ValueError as error:
            return str(error).replace(str(file), "FILE")
        return ""

    return Target(check, lambda choices: damaged(seeds, choices, _FEN_WORDS))


def _agrees(board: chess.Board, text: str) -> None:
    """Raises AssertionError where the packed position is another than python-chess reads in the text."""
    position, same = pack_board(board), chess.Board(text)
    assert board == same and same.is_valid()
    back = to_fen(position)
    assert back == same.fen(en_passant="legal"), back
    assert (parse_fen(back) == position).all()
    actions, counts = legal_actions_batch(position[None])
    assert actions[0, : counts[0]].tolist() == legal_actions(same).tolist()
    assert int(counts[0]) == same.legal_moves.count()


GAMES = (
    b'[Event "Rated game"]\n[White "A"]\n[Black "B"]\n[Result "1-0"]\n[WhiteElo "1900"]\n[BlackElo "1850"]\n\n'
    b"1. e4 e5 2. Qh5 Nc6 3. Bc4 Nf6 4. Qxf7# 1-0\n\n",
    b'[Event "x"]\n[FEN "8/P6k/8/8/8/8/7K/8 w - - 0 1"]\n[SetUp "1"]\n\n'
    b"1. a8=Q Kg7 2. Qb7+ { [%clk 0:00:10] } Kf6 *\n\n",
    b"1. d4 d5 2. c4 (2. Nf3 Nf6 (2... e6)) 2... e6 $1 3. Nc3 ; a comment\n3... Nf6 1/2-1/2\n\n",
    b'[Event "y"]\n[Variant "Chess960"]\n[FEN "bnrbnkqr/pppppppp/8/8/8/8/PPPPPPPP/BNRBNKQR w KQkq - 0 1"]\n\n'
    b"1. e4 0-1\n\n",
    b'[Event "z"]\n\n1. e4 c5 2. Nf3 d6 3. Bb5+ Bd7 4. O-O Nf6 5. e5 dxe5 0-1\n\n'
    b'[Event "z2"]\n\n1. Nf3 Nf6 2. -- e6 3. g3 1/2-1/2\n',
)
PGN_WORDS = (
    *b"1. 1... e4 Nf3 O-O O-O-O 0-0 exd5 e8=Q a1=K Qxf7# -- Z0 @@@@ P@e4 1-0 0-1 1/2-1/2 *".split(),
    *b"{ } ( ) ; % $5 !? [ [%clk".split(),
    b'[Event "a"]\n',
    b'[FEN ""]\n',
    b'[SetUp "1"]\n',
    b'[Variant "Atomic"]\n',
    b'[Variant ""]\n',
    b'[WhiteElo "?"]\n',
    b'"]',
    b"\n\n",
    b"\xef\xbb\xbf",
)
ZSTD = b"\x28\xb5\x2f\xfd"


def pgn(scratch: Path) -> Target:
    """A file of games, packed where it begins as such a file does; every move that is used is legal."""
    from algorithms.pretraining.pgn_games import GameCounts, read_positions
    from algorithms.pretraining.pgn_text import PgnFile

    packed = [zstandard.ZstdCompressor().compress(game) for game in GAMES[:2]]

    def check(data: bytes) -> str | None:
        file = scratch / ("games.pgn.zst" if data.startswith(ZSTD) else "games.pgn")
        file.write_bytes(data)
        counts, games, found = GameCounts(), 0, []
        try:
            opened = PgnFile(file)
            try:
                for positions, played in read_positions(
                    opened, min_rating=0, skip_plies=0, counts=counts
                ):
                    games += 1
                    if len(played):
                        found.append((positions, played))
            finally:
                opened.close()
        except ValueError as error:
            return str(error).replace(str(file), "FILE")
        assert games == counts.games and len(found) == counts.used <= games
        for positions, played in found:
            _legal(positions, played)
        return None if found else counts.line()

    def make(choices: Choices) -> bytes:
        seeds = packed if choices.below(16) == 0 else GAMES
        return damaged(seeds, choices, PGN_WORDS)

    return Target(check, make)


def _legal(positions: np.ndarray, played: np.ndarray) -> None:
    """Raises AssertionError where a move is not legal by the rules core, or the first or the last by python-chess."""
    assert len(positions) == len(played)
    actions, _ = legal_actions_batch(positions)
    assert (actions == played[:, None]).any(axis=1).all()
    for at in (0, -1):
        assert played[at] in legal_actions(chess.Board(to_fens(positions)[at]))
