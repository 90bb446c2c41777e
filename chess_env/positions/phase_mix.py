"""Start positions made without an engine: from all three phases of the game, and such that one side has won.

`PhaseMix`: the phase is `rules.phase_of`. Openings and middlegames continue a line of the opening book by random
plies. A quarter of the middlegames lose one piece ("odds"), and half of the endgames are set up from a
list of material that is mostly won: what a policy has to learn to convert, or to defend, is there on
purpose and not only where random play happens to lead.

`DecidedPositions`: positions that a policy must be able to win. Random play, and the games of a policy against
itself, seldom reach them, and a policy that never saw them stalemates a bare king with an army around it. A line of
the opening book is continued by random plies; then one side loses some or all of its men but the king, its king
wanders, and sometimes pawns of the other side have become queens or rooks.

`BareKings`: set up on random squares, a bare king against the few men that mate it. The walk of a policy that was
paid for material alone stays there for ever.
"""

from __future__ import annotations

import chess
import numpy as np

from chess_env.positions.openings import opening_positions
from chess_env.rules.fen import parse_fen, to_fen
from chess_env.rules.movegen import checkers_of, in_check
from chess_env.rules.packed import (
    BISHOPS,
    BLACK_BIT,
    KINGS,
    KNIGHTS,
    OWN,
    PAWNS,
    QUEENS,
    ROOKS,
    STATE,
    Positions,
)
from chess_env.rules.rules import (
    ENDGAME,
    MIDDLEGAME,
    ONGOING,
    OPENING,
    phase_batch,
    random_walk,
    status_batch,
)

PHASE_SHARES = (0.33, 0.34, 0.33)  # opening, middlegame, endgame
OPENING_PLIES = 8  # at most, random, behind the book
MIDDLEGAME_PLIES = (10, 80)
ENDGAME_PLIES = 300
ODDS_SHARE = 0.25
SET_UP_SHARE = 0.5

# Of decided positions.
WALK_PLIES = (4, 120)
BARE_SHARE = 0.5  # of the positions: the weaker side keeps its king and at most two other men
WANDER_SHARE = 0.6  # in which its king stands anywhere
PROMOTED_SHARE = 0.4  # in which one to three pawns of the stronger side have promoted
ROOK_SHARE = 0.2  # of the promotions
STRONGER_MOVES_SHARE = 0.75
_CASTLING_AND_EN_PASSANT = np.uint64(0x3FF)

# Material of the two sides; which of them is to move, and where the men stand, is drawn.
SET_UPS: tuple[tuple[str, str], ...] = (
    ("KQ", "K"),
    ("KR", "K"),
    ("KBB", "K"),
    ("KBN", "K"),
    ("KP", "K"),
    ("KPP", "K"),
    ("KQ", "KR"),
    ("KQ", "KP"),
    ("KQ", "KN"),
    ("KR", "KB"),
    ("KR", "KP"),
    ("KR", "KPP"),
    ("KRP", "KR"),
    ("KRPP", "KRP"),
    ("KRPPP", "KRPP"),
    ("KRB", "KR"),
    ("KBP", "KN"),
    ("KBPP", "KBP"),
    ("KNPP", "KNP"),
    ("KNPPP", "KBPP"),
    ("KPP", "KP"),
    ("KPPP", "KPP"),
    ("KPPPP", "KPPPP"),
    ("KQPP", "KQPP"),
    ("KQPP", "KRRP"),
    ("KRRPP", "KRRPP"),
    ("KRBPPP", "KRNPPP"),
    ("KQRPPP", "KQRPP"),
)
BARE_KINGS: tuple[tuple[str, str], ...] = (
    ("KQ", "K"),
    ("KR", "K"),
    ("KR", "K"),
    ("KRR", "K"),
    ("KQR", "K"),
    ("KBB", "K"),
    ("KP", "K"),
)
"""Of `BareKings`, equally likely; rook against king, which takes the most moves, stands there twice."""
_KINDS = {"P": PAWNS, "N": KNIGHTS, "B": BISHOPS, "R": ROOKS, "Q": QUEENS, "K": KINGS}
_ONE = np.uint64(1)


def _squares(bits: np.uint64) -> list[int]:
    return list(chess.scan_forward(int(bits)))


def opponent_in_check(position: Positions) -> bool:
    """Whether the side *not* to move is in check, which no legal position allows (uint64 [8])."""
    turned = position.copy()
    occupied = np.bitwise_or.reduce(position[:6])
    turned[OWN] = occupied & ~position[OWN]
    turned[:7] = turned[:7].byteswap()
    turned[STATE] = 0
    return bool(in_check(turned))


def _is_playable(position: Positions, phase: int | None = None) -> bool:
    return (
        not opponent_in_check(position)
        and (phase is None or int(phase_batch(position[None])[0]) == phase)
        and int(status_batch(position[None])[0]) == ONGOING
        # Men that were set up or promoted where they stand can give a check that no last move gives.
        and (
            int(np.bitwise_count(checkers_of(position))) < 2
            or chess.Board(to_fen(position)).is_valid()
        )
    )


def set_up(
    rng: np.random.Generator, materials: tuple[tuple[str, str], ...] = SET_UPS
) -> Positions | None:
    """uint64 [8], one of some endgames on random squares; None where the men do not fit legally."""
    material = materials[rng.integers(len(materials))]
    mover = int(rng.integers(2))
    squares = rng.permutation(64)
    position = np.zeros(8, np.uint64)
    at = 0
    for side in (mover, 1 - mover):
        for letter in material[side]:
            square = int(squares[at])
            at += 1
            if letter == "P" and not 8 <= square < 56:
                return None
            bit = _ONE << np.uint64(square)
            position[_KINDS[letter]] |= bit
            if side == mover:
                position[OWN] |= bit
    position[STATE] = np.uint64(rng.integers(2)) * BLACK_BIT | _ONE << np.uint64(32)
    # `in_check` takes for granted that kings do not touch.
    first, second = _squares(position[KINGS])
    if chess.square_distance(first, second) <= 1:
        return None
    return position if _is_playable(position, ENDGAME) else None


def _with_odds(position: Positions, rng: np.random.Generator) -> Positions | None:
    """The position without one knight, bishop, rook or queen of either side; None where that is illegal."""
    pieces = position[KNIGHTS] | position[BISHOPS] | position[ROOKS] | position[QUEENS]
    squares = _squares(pieces)
    keep = ~(_ONE << np.uint64(squares[rng.integers(len(squares))]))
    odds = position.copy()
    odds[:7] &= keep
    # Castling and en passant rights may have hung on the piece; the game goes on without them.
    odds[STATE] &= ~_CASTLING_AND_EN_PASSANT
    return odds if _is_playable(odds, MIDDLEGAME) else None


class PhaseMix:
    """Opening, middlegame and endgame positions in the shares of `PHASE_SHARES`."""

    name = "phase_mix"

    def __init__(self) -> None:
        self._book = opening_positions()
        self._initial = parse_fen("rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1")

    def sample(self, rng: np.random.Generator) -> Positions:
        """uint64 [8], one legal and unfinished position; draws until the phase drawn first is met."""
        phase = int(np.searchsorted(np.cumsum(PHASE_SHARES)[:2], rng.random(), side="right"))
        return self.sample_phase(phase, rng)

    def sample_phase(self, phase: int, rng: np.random.Generator) -> Positions:
        """uint64 [8], a position of the given phase (0 opening, 1 middlegame, 2 endgame)."""
        candidates = {OPENING: self._opening, MIDDLEGAME: self._middlegame, ENDGAME: self._endgame}
        candidate = candidates[phase]
        while True:
            position = candidate(rng)
            if position is not None and _is_playable(position, phase):
                return position

    def _book_position(self, rng: np.random.Generator) -> Positions:
        line = self._book[rng.integers(len(self._book))]
        return line[rng.integers(len(line))]

    def _opening(self, rng: np.random.Generator) -> Positions | None:
        start = self._book_position(rng)
        return random_walk(start, int(rng.integers(OPENING_PLIES + 1)), rng)[-1]

    def _middlegame(self, rng: np.random.Generator) -> Positions | None:
        low, high = MIDDLEGAME_PLIES
        num_plies = int(rng.integers(low, high + 1))
        position = random_walk(self._book_position(rng), num_plies, rng)[-1]
        if rng.random() >= ODDS_SHARE or not _is_playable(position, MIDDLEGAME):
            return position
        return _with_odds(position, rng)

    def _endgame(self, rng: np.random.Generator) -> Positions | None:
        if rng.random() < SET_UP_SHARE:
            return set_up(rng)
        path = random_walk(self._initial, ENDGAME_PLIES, rng)
        endgames = path[(phase_batch(path) == ENDGAME) & (status_batch(path) == ONGOING)]
        return endgames[rng.integers(len(endgames))] if len(endgames) else None


class BareKings:
    """A bare king against the men of one of `BARE_KINGS`, with either side to move."""

    name = "bare_kings"

    def sample(self, rng: np.random.Generator) -> Positions:
        """uint64 [8], one legal and unfinished position."""
        while (position := set_up(rng, BARE_KINGS)) is None:
            pass
        return position


class DecidedPositions:
    """Positions in which one side has lost half of its men, most of them, or all but the king."""

    name = "decided"

    def __init__(self) -> None:
        self._book = opening_positions()

    def sample(self, rng: np.random.Generator) -> Positions:
        """uint64 [8], one legal and unfinished position."""
        while True:
            position = self._candidate(rng)
            if position is not None and _is_playable(position):
                return position

    def _candidate(self, rng: np.random.Generator) -> Positions | None:
        """uint64 [8], a position that may be illegal or over; None where it would be by its kings."""
        line = self._book[rng.integers(len(self._book))]
        low, high = WALK_PLIES
        num_plies = low + int((high - low) * rng.random() ** 2)  # mostly early: full armies
        start = line[rng.integers(len(line))]
        position = random_walk(start, num_plies, rng)[-1].copy()
        occupied = np.bitwise_or.reduce(position[:6])
        mover = position[OWN] & occupied
        stronger_moves = rng.random() < STRONGER_MOVES_SHARE
        stronger = mover if stronger_moves else occupied & ~mover
        # Castling and en passant rights may hang on a man that goes; the game goes on without them.
        position[STATE] &= ~_CASTLING_AND_EN_PASSANT
        self._strip(position, occupied & ~stronger & ~position[KINGS], rng)
        if rng.random() < PROMOTED_SHARE:
            self._promote(position, stronger, rng)
        if rng.random() < WANDER_SHARE:
            return self._wander(position, stronger, rng)
        return position

    def _strip(self, position: Positions, men: np.uint64, rng: np.random.Generator) -> None:
        """Takes most of `men`, or half of them and more, off the board."""
        squares = rng.permutation(_squares(men)).tolist()
        kept = rng.integers(3) if rng.random() < BARE_SHARE else rng.integers(len(squares) // 2 + 1)
        position[:7] &= ~np.uint64(sum(1 << square for square in squares[int(kept) :]))

    def _promote(self, position: Positions, stronger: np.uint64, rng: np.random.Generator) -> None:
        """Turns one to three of the stronger side's pawns into queens or rooks where they stand."""
        pawns = _squares(position[PAWNS] & stronger)
        for square in rng.permutation(pawns)[: int(rng.integers(1, 4))]:
            bit = _ONE << np.uint64(int(square))
            position[PAWNS] &= ~bit
            position[ROOKS if rng.random() < ROOK_SHARE else QUEENS] |= bit

    def _wander(
        self, position: Positions, stronger: np.uint64, rng: np.random.Generator
    ) -> Positions | None:
        """The position with the weaker side's king on a random empty square.

        None where the kings touch, or where it would be in check by men that cannot all have got there.
        """
        occupied = np.bitwise_or.reduce(position[:6])
        here = position[KINGS] & ~stronger
        square = int(rng.choice(_squares(~occupied)))
        there = _ONE << np.uint64(square)
        (other,) = _squares(position[KINGS] & stronger)
        if chess.square_distance(other, square) <= 1:
            return None
        position[KINGS] ^= here | there
        if position[OWN] & here:
            position[OWN] ^= here | there
        return None if in_check(position) else position
