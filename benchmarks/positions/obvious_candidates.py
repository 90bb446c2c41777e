"""Where candidates for obvious moves come from, and what the rules alone say of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import chess
import numpy as np

from chess_env.evaluators import StockfishEvaluator
from chess_env.positions.openings import opening_positions
from chess_env.positions.phase_mix import DecidedPositions, PhaseMix
from chess_env.positions.start_positions import RandomPlies
from chess_env.rules.fen import pack_board, to_fen
from chess_env.rules.packed import IDENTITY_BITS, STATE, Positions
from chess_env.rules.rules import ENDGAME, ONGOING, apply_batch, children, status_batch

NUM_GAMES = 32
"""Engine games that are played together."""
_FIRST_MOVE = np.uint64(1 << 32)
_PAWN_ENDINGS = ((2, 0), (1, 1), (2, 1), (3, 1), (3, 2), (2, 2))
_VALUE = {
    chess.PAWN: 1,
    chess.KNIGHT: 3,
    chess.BISHOP: 3,
    chess.ROOK: 5,
    chess.QUEEN: 9,
    chess.KING: 99,
}


class Candidate(NamedTuple):
    """A board, with the moves of its game on the stack, and what it came from."""

    board: chess.Board
    source: str


class Sources:
    """Positions from random play, engine games and drawn endings, in turn.

    Args:
        rng: draws everything.
        engine: plays the engine games.
    """

    def __init__(self, rng: np.random.Generator, engine: StockfishEvaluator) -> None:
        self._rng, self._engine = rng, engine
        self._games: list[Positions] = []
        self._random = RandomPlies(4, 200, exclude_heldout=False)
        self._mix, self._decided = PhaseMix(), DecidedPositions()

    def draw(self, count: int) -> Iterator[Candidate]:
        """At most `count` positions in which the game goes on, clocks cleared."""
        for i in range(count):
            name = ("random play", "engine games", "drawn endings")[i % 3]
            if i % 3 == 0:
                position = self._random.sample(self._rng)
            elif i % 3 == 1:
                position = self._of_engine_games()
            elif self._rng.random() < 0.5:
                position = self._mix.sample_phase(ENDGAME, self._rng)
            else:
                position = self._decided.sample(self._rng)
            board = as_board(position)
            # Taking men off the board can leave a check that no last move gave.
            if board.is_valid():
                yield Candidate(board, name)

    def pawn_endings(self, count: int) -> Iterator[Candidate]:
        """Kings and pawns: `count` drawn ones, in which the mover is ahead or level, and games from there."""
        drawn: list[Positions] = []
        while len(drawn) < count:
            mine, theirs = _PAWN_ENDINGS[self._rng.integers(len(_PAWN_ENDINGS))]
            board = drawn_men(self._rng, [chess.PAWN] * mine, [chess.PAWN] * theirs)
            if board is not None:
                drawn.append(pack_board(board))
        played = play_on(np.stack(drawn), self._engine, self._rng, num_plies=24)
        order = self._rng.permutation(len(played))
        for position in drawn:
            yield Candidate(as_board(position), "drawn endings")
        for i in order[:count].tolist():
            yield Candidate(as_board(played[i]), "engine games")

    def _of_engine_games(self) -> Positions:
        if not self._games:
            book = opening_positions()
            lines = [book[i] for i in self._rng.integers(len(book), size=NUM_GAMES)]
            starts = np.stack([line[self._rng.integers(len(line))] for line in lines])
            seen = play_on(starts, self._engine, self._rng, num_plies=120)
            self._games = [seen[i] for i in self._rng.permutation(len(seen))]
        return self._games.pop()


def play_on(
    starts: Positions, engine: StockfishEvaluator, rng: np.random.Generator, num_plies: int
) -> list[Positions]:
    """Positions uint64 [8] of games from `starts`: of four plies three are the engine's, one is random."""
    boards, seen = starts.copy(), []
    for _ in range(num_plies):
        boards = boards[status_batch(boards) == ONGOING]
        if not len(boards):
            break
        seen += list(boards)
        actions = engine.best_moves(boards)
        for row in np.flatnonzero(rng.random(len(boards)) < 0.25):
            actions[row] = rng.choice(children(boards[row])[1])
        boards = apply_batch(boards, actions)
    return seen


def drawn_men(
    rng: np.random.Generator, mine: Iterable[int], theirs: Iterable[int]
) -> chess.Board | None:
    """Kings and these men on random squares, either colour to move; None where that is illegal or over."""
    board = chess.Board(None)
    board.turn = bool(rng.integers(2))
    squares = iter(rng.permutation(64).tolist())
    for kinds, color in ((mine, board.turn), (theirs, not board.turn)):
        for kind in (chess.KING, *kinds):
            board.set_piece_at(next(squares), chess.Piece(kind, color))
    return board if board.is_valid() and not board.is_game_over() else None


def as_board(position: Positions) -> chess.Board:
    """The board of a position uint64 [8], clocks cleared."""
    cleared = position.copy()
    cleared[STATE] = cleared[STATE] & IDENTITY_BITS | _FIRST_MOVE
    return chess.Board(to_fen(cleared))


def to_and_fro(board: chess.Board, rng: np.random.Generator) -> list[chess.Move] | None:
    """Four plies after which the position stands again: a move of each side, and both back; None where that fails."""
    board = board.copy()
    start, there = board.fen().split()[:4], []
    for _ in range(2):
        quiet = [
            move for move in board.legal_moves
            if not board.is_zeroing(move) and not board.gives_check(move)
        ]  # fmt: skip
        if not quiet:
            return None
        there.append(quiet[rng.integers(len(quiet))])
        board.push(there[-1])
    back = [chess.Move(move.to_square, move.from_square) for move in there]
    for move in back:
        if not board.is_legal(move):
            return None
        board.push(move)
    return [*there, *back] if board.fen().split()[:4] == start else None


def hanging_captures(board: chess.Board) -> list[chess.Move]:
    """list[chess.Move] that take a queen or rook on a square where nothing can take back."""
    found = []
    for move in board.generate_legal_captures():
        if board.piece_type_at(move.to_square) in (chess.QUEEN, chess.ROOK):
            board.push(move)
            if not any(reply.to_square == move.to_square for reply in board.legal_moves):
                found.append(move)
            board.pop()
    return found


def attacked_men(board: chess.Board) -> set[chess.Square]:
    """Squares of the mover's queens and rooks that a lesser man attacks, or any man while nothing defends them."""
    found = set()
    for kind in (chess.QUEEN, chess.ROOK):
        for square in board.pieces(kind, board.turn):
            attackers = board.attackers(not board.turn, square)
            values = [_VALUE[board.piece_type_at(each) or chess.PAWN] for each in attackers]
            loose = not board.attackers(board.turn, square)
            if values and (loose or min(values) < _VALUE[kind]):
                found.add(square)
    return found


def is_third(board: chess.Board, move: chess.Move) -> bool:
    """Whether the move makes the position's third occurrence since the start of the board's stack."""
    if not board.move_stack or board.is_zeroing(move):
        return False
    board.push(move)
    third = board.is_repetition(3)
    board.pop()
    return third
