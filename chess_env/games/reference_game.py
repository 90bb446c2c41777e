"""One game on a python-chess board, and what the environment reports of it, written without the rules core.

`rules.py` computes the same things on packed positions; the tests hold the two against each other. Only the planes
and the facts of moves come from their kernels.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from typing import Any

import chess
import numpy as np
from numpy.typing import NDArray

from chess_env.games.arguments import Settings, checked_start, player_error
from chess_env.games.players import Player, checked_choice
from chess_env.move_facts import move_facts_batch
from chess_env.moves import NUM_ACTIONS, action_to_move, legal_actions
from chess_env.observation import MAX_REPETITIONS, encode_batch
from chess_env.rules.fen import board_from_fen, pack_board, to_fen
from chess_env.rules.movegen import MAX_LEGAL
from chess_env.rules.packed import Positions
from chess_env.rules.rules import (
    CHECKMATE,
    ENDGAME,
    FIFTY_MOVES,
    FIVEFOLD,
    INSUFFICIENT_MATERIAL,
    MIDDLEGAME,
    ONGOING,
    OPENING,
    SEVENTYFIVE_MOVES,
    STALEMATE,
    STATUS_NAMES,
    THREEFOLD,
    TWOFOLD,
    hash_batch,
)

MAX_START_TRIES = 100


def observation(board: chess.Board, repetitions: int) -> NDArray[np.uint8]:
    """uint8 [C, 8, 8]: the planes of `observation.PLANES`.

    Args:
        board: The position.
        repetitions: Earlier occurrences of it in the game.
    """
    seen = np.array([min(repetitions, MAX_REPETITIONS)], np.uint8)
    return encode_batch(pack_board(board)[None], seen)[0]


def identity(board: chess.Board) -> Hashable:
    """What makes two positions the same for repetitions (FIDE 9.2): men, turn, castling, legal en passant."""
    return (
        board.pawns,
        board.knights,
        board.bishops,
        board.rooks,
        board.queens,
        board.kings,
        board.occupied_co[chess.WHITE],
        board.turn,
        board.clean_castling_rights(),
        board.ep_square if board.has_legal_en_passant() else None,
    )


def status(board: chess.Board, repetitions: int, *, fifty_move: bool, drawn_at: int) -> int:
    """How the game stands: a status code of `rules.py`.

    Args:
        board: The position.
        repetitions: Earlier occurrences of it in the game.
        fifty_move: True: 50 moves without capture or pawn move end the game; False: 75.
        drawn_at: Its occurrence that ends the game: 2, 3 or 5.
    """
    if not any(board.generate_legal_moves()):
        return CHECKMATE if board.is_check() else STALEMATE
    if board.is_insufficient_material():
        return INSUFFICIENT_MATERIAL
    if board.halfmove_clock >= (100 if fifty_move else 150):
        return FIFTY_MOVES if fifty_move else SEVENTYFIVE_MOVES
    if repetitions + 1 >= drawn_at:
        return {2: TWOFOLD, 3: THREEFOLD, 5: FIVEFOLD}[drawn_at]
    return ONGOING


def phase(board: chess.Board) -> int:
    """0 opening, 1 middlegame, 2 endgame.

    With m knights, bishops, rooks and queens on the board: endgame when m <= 6; otherwise opening when
    m > 10 and both players have at least 4 men on their own back rank; otherwise middlegame.
    """
    men = chess.popcount(board.knights | board.bishops | board.rooks | board.queens)
    if men <= 6:
        return ENDGAME
    back_ranks = (
        board.occupied_co[chess.WHITE] & chess.BB_RANK_1,
        board.occupied_co[chess.BLACK] & chess.BB_RANK_8,
    )
    settled = all(chess.popcount(rank) >= 4 for rank in back_ranks)
    return OPENING if men > 10 and settled else MIDDLEGAME


class ReferenceGame:
    """A game from its start position on: the board, the plies played, repetitions, and how it stands.

    Attributes:
        start: uint64 [8], the packed start position.
        board: The position now, with the moves since the start on its stack.
        actions: Action ids of the plies played.
        repetitions: Earlier occurrences of the position now.
        status: A status code of `rules.py`.
    """

    def __init__(self, start: Positions, settings: Settings) -> None:
        self.start = start
        self.board = board_from_fen(to_fen(start))
        self.actions: list[int] = []
        self._occurrences: Counter[Hashable] = Counter()
        self._settings = settings
        self._hashes: list[np.uint64] = []  # of all positions, where facts are asked for
        self._arrive()

    def _arrive(self) -> None:
        """Counts the position that was just reached and looks whether it ends the game."""
        key = identity(self.board)
        self.repetitions = self._occurrences[key]
        self._occurrences[key] += 1
        rules = self._settings
        self.status = status(
            self.board, self.repetitions, fifty_move=rules.fifty_move, drawn_at=rules.drawn_at
        )
        self.legal = legal_actions(self.board)
        if self._settings.move_facts:
            self._hashes.append(hash_batch(self.packed())[0])

    def play(self, action: int) -> None:
        """Makes a legal move."""
        self.board.push(action_to_move(action, self.board))
        self.actions.append(action)
        self._arrive()

    def reply(self, player: Player, rng: np.random.Generator) -> int:
        """The player's action in this position, which is made.

        Raises:
            RuntimeError: It is illegal.
        """
        action = int(checked_choice(player, player.choose(self.packed(), [rng]), 1)[0])
        if action not in self.legal:
            raise player_error(player, action, self.fen())
        self.play(action)
        return action

    def fen(self) -> str:
        """The FEN of the position now; an en passant square only where a capture there is legal."""
        return self.board.fen(en_passant="legal")

    def packed(self) -> Positions:
        """uint64 [1, 8], the position now."""
        return pack_board(self.board)[None]

    def observation(self) -> NDArray[np.uint8]:
        """uint8 [C, 8, 8], a fresh array."""
        return observation(self.board, self.repetitions)

    def info(self) -> dict[str, Any]:
        """The part of `info` that describes the position now; fresh arrays, and numbers with a dtype."""
        legal_ids = np.full(MAX_LEGAL, -1, np.int16)
        legal_ids[: len(self.legal)] = self.legal
        mask = np.zeros(NUM_ACTIONS, np.int8)
        mask[self.legal] = 1
        facts = {"move_facts": self._move_facts(legal_ids)} if self._settings.move_facts else {}
        return {
            "action_mask": mask,
            "legal_ids": legal_ids,
            "num_legal": np.int16(len(self.legal)),
            "ply": np.int32(len(self.actions)),
            "turn": np.int8(self.board.turn),
            "phase": np.int8(phase(self.board)),
            "status": np.int8(self.status),
            **facts,
        }

    def _move_facts(self, legal_ids: NDArray[np.int16]) -> NDArray[np.uint8]:
        """uint8 [218, F], the facts of the moves `legal_ids` [218] in their order; 0 on padding."""
        history = np.array([self._hashes], np.uint64)
        return move_facts_batch(
            self.packed(), legal_ids[None], history, np.array([len(self._hashes)]),
            fifty_move=self._settings.fifty_move, asked=self._settings.move_facts,
        )[0]  # fmt: skip


def new_game(
    settings: Settings, rng: np.random.Generator, given: Positions | None
) -> tuple[ReferenceGame, chess.Color, int]:
    """(game, the learner's colour, the opponent's action where it moved first or else -1).

    Draws, in this order: the start position (unless one is given), the learner's colour (where it is
    random), the opponent's move; all again when that move ends the game.

    Raises:
        ValueError: A source gave an impossible start, or the opponent ends the game from a given one.
        RuntimeError: The opponent ended the game at once from `MAX_START_TRIES` drawn starts.
    """
    for _ in range(MAX_START_TRIES):
        start = given
        if start is None:
            origin = f"start_positions {settings.source.name!r}"
            start = checked_start(settings.source.sample(rng), settings.fifty_move, origin)
        game = ReferenceGame(start, settings)
        if settings.opponent is None:
            return game, chess.WHITE, -1
        if settings.learner_color == "random":
            learner = bool(rng.integers(2))
        else:
            sides = {"white": chess.WHITE, "black": chess.BLACK, "start": game.board.turn}
            learner = sides[settings.learner_color]
        reply = -1 if game.board.turn == learner else game.reply(settings.opponent, rng)
        if game.status == ONGOING:
            return game, learner, reply
        if given is not None:
            break
    kind = RuntimeError if given is None else ValueError
    raise kind(
        f"the opponent's first move ended the game ({STATUS_NAMES[game.status]}) from {to_fen(game.start)!r}; "
        "choose other start positions or another learner_color"
    )
