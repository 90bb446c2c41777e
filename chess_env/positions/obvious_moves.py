"""Obvious moves: positions in which some moves are certainly right and others certainly wrong.

`obvious_moves.json` holds at least 30 positions of each kind, as many with White to move as with Black:

=======================  ===============================================================================
kind                     right moves
=======================  ===============================================================================
`mate_in_1`              checkmate
`mate_in_2`              force mate in two moves; there is no mate in one
`mate_in_3`              force mate in three moves; there is no shorter mate
`queening_three_men`     promote to a queen in king and pawn against king, for the shortest mate
`queening`               promote to a queen in a won pawn ending with more men
`take_hanging`           take an undefended queen or rook
`save_attacked`          bring an attacked queen or rook to safety, or take its attacker
`no_stalemate`           keep a won game won where other moves stalemate
`progress_kq_k`          the shortest mate with queen and king against king
`progress_kr_k`          the same with a rook
`repeat_when_lost`       repeat the position a third time in a lost game
`no_repeat_when_won`     keep a won game won where another move repeats the position a third time
=======================  ===============================================================================

What is neither right nor wrong is neutral. The proof of each position is the rules of chess (an exhaustive search
for mates), a table of distances to mate, or a search by Stockfish to depth 18 whose scores leave a gap
(`judge` and `gaps` in the file).

`python -m benchmarks.positions.obvious_build --rebuild` makes the set; with another `--seed` and `--out`, another one.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import chess

OBVIOUS_PATH = Path(__file__).with_name("obvious_moves.json")
KINDS = (
    "mate_in_1",
    "mate_in_2",
    "mate_in_3",
    "queening_three_men",
    "queening",
    "take_hanging",
    "save_attacked",
    "no_stalemate",
    "progress_kq_k",
    "progress_kr_k",
    "repeat_when_lost",
    "no_repeat_when_won",
)


@dataclass(frozen=True)
class ObviousPosition:
    """A position with its right and wrong moves.

    Attributes:
        kind: one of `KINDS`.
        fen: the position in which a move is to be made.
        start_fen: where its game begins; `fen` without a history.
        history: UCI moves from `start_fen` to `fen`.
        right: UCI moves, at least one.
        wrong: UCI moves, at least one.
        source: what the position came from: "random play", "engine games" or "drawn endings".
        proof: how right and wrong are known, in words.
    """

    kind: str
    fen: str
    start_fen: str
    history: tuple[str, ...]
    right: tuple[str, ...]
    wrong: tuple[str, ...]
    source: str
    proof: str


@dataclass(frozen=True)
class ObviousMoves:
    """A set of obvious moves.

    Attributes:
        positions: in the order of `KINDS`.
        judge: id of the engine behind the proofs by search.
        seed: it was made with.
    """

    positions: tuple[ObviousPosition, ...]
    judge: str
    seed: int

    def __len__(self) -> int:
        return len(self.positions)

    def of_kind(self, kind: str) -> tuple[ObviousPosition, ...]:
        """The positions of one kind.

        Raises:
            ValueError: Unknown kind.
        """
        if kind not in KINDS:
            raise ValueError(f"kind is {kind!r}: expected one of {', '.join(KINDS)}")
        return tuple(each for each in self.positions if each.kind == kind)


def read_obvious(path: Path = OBVIOUS_PATH) -> ObviousMoves:
    """The set in a file, by default the committed one.

    Raises:
        FileNotFoundError: No such file.
        ValueError: Not such a set; the message says which position is wrong.
    """
    if not path.exists():
        raise FileNotFoundError(f"the set of obvious moves {path} is missing")
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        positions = tuple(_position(each) for each in values["positions"])
        return ObviousMoves(positions, str(values["judge"]), int(values["seed"]))
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(f"the set of obvious moves {path} cannot be read: {error!r}") from error


def _position(values: dict[str, Any]) -> ObviousPosition:
    """One entry of the file, after its moves were tried on a board.

    Raises:
        ValueError: an illegal position or move, no right or wrong move, or one that is both.
    """
    fen = values["fen"]
    position = ObviousPosition(
        kind=values["kind"],
        fen=fen,
        start_fen=values.get("start_fen", fen),
        history=tuple(values.get("history", ())),
        right=tuple(values["right"]),
        wrong=tuple(values["wrong"]),
        source=values["source"],
        proof=values["proof"],
    )
    board = chess.Board(position.start_fen)
    for move in position.history:
        board.push_uci(move)
    if board.fen(en_passant="legal") != fen:
        raise ValueError(
            f"the history leads to {board.fen(en_passant='legal')!r} and not to {fen!r}"
        )
    legal = {move.uci() for move in board.legal_moves}
    given = (*position.right, *position.wrong)
    if position.kind not in KINDS or not board.is_valid():
        raise ValueError(f"{fen!r} is of kind {position.kind!r}, or no legal position")
    if not (position.right and position.wrong and len(set(given)) == len(given)):
        raise ValueError(f"{fen!r} has no right or no wrong move, or one twice")
    if strangers := set(given) - legal:
        raise ValueError(f"{', '.join(sorted(strangers))} cannot be played in {fen!r}")
    return position
