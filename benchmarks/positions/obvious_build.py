"""Makes the set of obvious moves: draws candidates, proves which moves are right and wrong, drops the rest.

`python -m benchmarks.positions.obvious_build` describes the committed set; `--rebuild` makes it anew.

Three proofs, see `obvious_moves.py` for the kinds that each of them decides:

* The rules: moves that force mate in n are found by trying everything on both sides; all others are wrong.
* Tables: with three men every move of the shortest mate is right, all others are wrong.
* A search by Stockfish to depth 18. Moves that look wrong to a quick search have the score of the best of them, which
  bounds all; every other move has one of its own. A move is right within .02 of the best move's winning probability
  (Lichess's curve), and wrong where it loses .1 or more. In won pawn endings, where the judge sees mate in n, right is
  mate in at most n + 1, and wrong too is no mate that it sees, or one in n + 4 or later. In between a move is
  neutral. Stalemates and third occurrences count as draws by the rules. A position is kept where the right moves
  are of the kind asked for and at least half of the others are wrong.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import chess
import numpy as np
from numpy.typing import NDArray

from benchmarks.positions.obvious_candidates import (
    Candidate,
    Sources,
    attacked_men,
    drawn_men,
    hanging_captures,
    is_third,
    to_and_fro,
)
from benchmarks.positions.obvious_proofs import mating_moves
from benchmarks.positions.obvious_search import Judge, Question
from chess_env.evaluators import MATE_SCORE, StockfishEvaluator
from chess_env.evaluators.endgame_tables import (
    NO_POSITION,
    QUEEN,
    ROOK,
    STRONGER,
    exact_scores,
    find_three_men,
    tables,
)
from chess_env.moves import action_to_move, legal_actions
from chess_env.positions.obvious_moves import KINDS, OBVIOUS_PATH, read_obvious
from chess_env.rules.fen import pack_board
from chess_env.rules.rules import (
    CHECKMATE,
    STALEMATE,
    children,
    status_batch,
)

SEED = 35
PER_KIND = 32
DEPTH = 18
LOOK_DEPTH, MOVES_LOOK_DEPTH = 8, 6
"""Of the searches that candidates pass first, of a position and of all its moves; they prove nothing."""
GAPS = {
    "right_within_win_prob": 0.02,
    "wrong_by_win_prob": 0.1,
    "right_within_mate_moves": 1,
    "wrong_by_mate_moves": 4,
    "won_from_win_prob": 0.9,
    "lost_to_win_prob": 0.25,
}
LOOK_MARGIN = 1.5
"""How much clearer than to the judge wrong moves are to that search, so that few deep searches are in vain."""
MAX_LEGAL, MAX_MEN = 28, 16
"""Of positions that are searched deeply: seconds of a search, and not minutes."""
_SEES_MATE = MATE_SCORE - 200
_BATCH = 32
_THREE_MEN = {"P": chess.PAWN, "R": chess.ROOK, "Q": chess.QUEEN}
_STALEMATING = tuple(
    tuple(chess.PIECE_SYMBOLS.index(letter) for letter in men)
    for men in ("q", "qp", "qr", "qb", "qn", "rp", "rr", "rbp", "rnp", "pp", "ppp", "bpp")
)
Scores = NDArray[np.int32]
Mask = NDArray[np.bool_]
Moves = list[chess.Move]


class Found(NamedTuple):
    """A position with its proven moves."""

    candidate: Candidate
    right: Moves
    wrong: Moves
    proof: str


class Judged(NamedTuple):
    """A candidate and what an engine says of its moves.

    Attributes:
        moves: all legal ones, L of them.
        score_cp: int32 [L], mover's view; 0 where the rules say draw.
        right: bool [L].
        wrong: bool [L].
    """

    board: chess.Board
    moves: Moves
    score_cp: Scores
    right: Mask
    wrong: Mask

    def rights(self) -> Moves:
        """The right moves."""
        return [move for move, is_right in zip(self.moves, self.right, strict=True) if is_right]

    def wrongs(self) -> Moves:
        """The wrong moves."""
        return [move for move, is_wrong in zip(self.moves, self.wrong, strict=True) if is_wrong]


# What makes a judged position one of its kind.


def _queens(judged: Judged) -> bool:
    every = all(move.promotion == chess.QUEEN for move in judged.rights())
    return every and win_prob(judged.score_cp).max() >= GAPS["won_from_win_prob"]


def _takes_hanging(judged: Judged) -> bool:
    return set(judged.rights()) <= set(hanging_captures(judged.board))


def _saves(judged: Judged) -> bool:
    board = judged.board
    men = attacked_men(board)
    attackers = {square for man in men for square in board.attackers(not board.turn, man)}
    return all(
        move.from_square in men or move.to_square in attackers for move in judged.rights()
    ) and not any(hanging_captures(board))


def _avoids_stalemate(judged: Judged) -> bool:
    return bool(win_prob(judged.score_cp).max() >= GAPS["won_from_win_prob"])


def _repeats(judged: Judged) -> bool:
    third = np.array([is_third(judged.board, move) for move in judged.moves])
    lost = win_prob(judged.score_cp[~third]) <= GAPS["lost_to_win_prob"]
    return bool((judged.right <= third).all() and lost.all())


def _does_not_repeat(judged: Judged) -> bool:
    won = win_prob(judged.score_cp).max() >= GAPS["won_from_win_prob"]
    mates = judged.score_cp.max() == MATE_SCORE
    return bool(won and not mates) and not any(
        _allows_third(judged.board, move) for move in judged.rights()
    )


Test = Callable[[Judged], bool]


def win_prob(score_cp: NDArray[Any]) -> NDArray[np.float64]:
    """float64 [L]: the winning probabilities of L scores in centipawns, by Lichess's curve."""
    return 1.0 / (1.0 + np.exp(-0.00368208 * score_cp.astype(np.float64)))


def graded(score_cp: Scores, *, by_mate: bool = False, margin: float = 1.0) -> tuple[Mask, Mask]:
    """(bool [L] right, bool [L] wrong) of moves with these scores, mover's view, by `GAPS`.

    Args:
        score_cp: int32 [L], centipawns; mate in n is +-(10000 - n).
        by_mate: whether the length of a mate that the judge sees counts, too.
        margin: a wrong move loses so many times the winning probability of `GAPS`.
    """
    prob = win_prob(score_cp)
    right = prob >= prob.max() - GAPS["right_within_win_prob"]
    wrong = prob <= prob.max() - margin * GAPS["wrong_by_win_prob"]
    if by_mate and score_cp.max() >= _SEES_MATE:
        right &= score_cp >= score_cp.max() - GAPS["right_within_mate_moves"]
        wrong |= score_cp <= score_cp.max() - GAPS["wrong_by_mate_moves"]
    return right, wrong


def _allows_third(board: chess.Board, move: chess.Move) -> bool:
    """Whether the opponent can answer the move with the third occurrence of a position."""
    board.push(move)
    allows = any(is_third(board, reply) for reply in board.legal_moves)
    board.pop()
    return allows


def position_key(board: chess.Board) -> str:
    """Equal for equal positions and for their mirror images with the colours exchanged."""
    return (board if board.turn else board.mirror()).epd()


class Builder:
    """Finds positions of each kind.

    Args:
        seed: of all draws.
        per_kind: how many positions of each kind; half of them with White to move.
        num_engines: Stockfish processes.
        taken: `position_key` of positions that are not used.
    """

    def __init__(self, seed: int, per_kind: int, num_engines: int, taken: set[str]) -> None:
        self._seed, self._per_kind, self._taken = seed, per_kind, set(taken)
        self.judge = Judge(DEPTH, num_engines)
        self._quick = StockfishEvaluator(num_engines=num_engines, depth=LOOK_DEPTH)
        self._player = StockfishEvaluator(num_engines=1, nodes=50)
        self._reseed(0)

    def close(self) -> None:
        """Ends the engines."""
        for engine in (self.judge, self._quick, self._player):
            engine.close()

    def of_kind(self, kind: str) -> list[Found]:
        """As many positions of a kind as were asked for; every kind has random numbers of its own.

        Raises:
            ValueError: Unknown kind.
        """
        finders: dict[str, Callable[[], Iterator[Found]]] = {
            "mate_in_1": lambda: self._mates(1),
            "mate_in_2": lambda: self._mates(2),
            "mate_in_3": lambda: self._mates(3),
            "queening_three_men": self._queening_three_men,
            "queening": lambda: self._searched(self._promoting, _queens, by_mate=True),
            "take_hanging": lambda: self._searched(self._hanging, _takes_hanging),
            "save_attacked": lambda: self._searched(self._attacked, _saves),
            "no_stalemate": lambda: self._searched(self._stalemating, _avoids_stalemate),
            "progress_kq_k": lambda: self._progress("Q"),
            "progress_kr_k": lambda: self._progress("R"),
            "repeat_when_lost": lambda: self._searched(self._repeatable, _repeats),
            "no_repeat_when_won": lambda: self._searched(self._repeatable, _does_not_repeat),
        }
        if kind not in finders:
            raise ValueError(f"kind is {kind!r}: expected one of {', '.join(KINDS)}")
        self._reseed(1 + KINDS.index(kind))
        room = dict.fromkeys((True, False), self._per_kind // 2)
        chosen: list[Found] = []
        for found in finders[kind]():
            board = found.candidate.board
            key = position_key(board)
            if room[board.turn] and key not in self._taken:
                room[board.turn] -= 1
                self._taken.add(key)
                chosen.append(found)
                print(f"{kind}: {len(chosen)} of {self._per_kind}", file=sys.stderr, flush=True)
            if not any(room.values()):
                break
        return chosen

    def _reseed(self, stream: int) -> None:
        self._rng = np.random.default_rng([self._seed, stream])
        self._sources = Sources(self._rng, self._player)

    def _mates(self, num_moves: int) -> Iterator[Found]:
        while True:
            drawn = list(self._sources.draw(96))
            score_cp = self._quick.evaluate([each.board.fen() for each in drawn])
            for each in np.flatnonzero(score_cp == MATE_SCORE - num_moves).tolist():
                candidate = drawn[each]
                board = candidate.board
                if board.legal_moves.count() > 45:
                    continue
                if any(mating_moves(board, fewer) for fewer in range(1, num_moves)):
                    continue
                right = mating_moves(board, num_moves)
                wrong = [move for move in board.legal_moves if move not in right]
                if right and wrong:
                    proof = f"rules: all moves and replies searched, no shorter mate than in {num_moves}"
                    yield Found(candidate, right, wrong, proof)

    def _progress(self, man: str) -> Iterator[Found]:
        """Positions of a table, every distance to mate from 2 moves on as often."""
        # By the squares of both kings and of the man, in this order: as the committed set was drawn.
        table = tables()[{"Q": QUEEN, "R": ROOK}[man], STRONGER].transpose(0, 2, 1)
        longest = int(table[table != NO_POSITION].max()) - 1
        while True:
            for num_moves in self._rng.permutation(np.arange(2, longest + 1)).tolist():
                own, other, square = self._rng.choice(np.argwhere(table == num_moves + 1))
                board = chess.Board(None)
                board.set_piece_at(int(own), chess.Piece(chess.KING, chess.WHITE))
                board.set_piece_at(int(other), chess.Piece(chess.KING, chess.BLACK))
                board.set_piece_at(int(square), chess.Piece(_THREE_MEN[man], chess.WHITE))
                yield by_table(board if self._rng.integers(2) else board.mirror())

    def _queening_three_men(self) -> Iterator[Found]:
        while True:
            board = drawn_men(self._rng, [chess.PAWN], [])
            if board is None or not _queen_promotions(board):
                continue
            if exact_scores(pack_board(board)[None])[0] > 0:
                found = by_table(board)
                if all(move.promotion == chess.QUEEN for move in found.right):
                    yield found

    def _searched(
        self, candidates: Callable[[], Iterator[Candidate]], test: Test, *, by_mate: bool = False
    ) -> Iterator[Found]:
        """Candidates that pass the test by the quick engine's scores and then by the judge's."""
        passed: list[Candidate] = []
        questions: list[Question] = []
        for candidate in candidates():
            looked = self._looked(candidate.board, by_mate)
            if not _is_clear(looked) or not test(looked):
                continue
            passed.append(candidate)
            questions.append(_question(looked))
            if len(passed) < 4:
                continue
            for each, scores in zip(passed, self.judge.scores_cp(questions), strict=True):
                deep = _judged(each.board, scores, by_mate=by_mate)
                if _is_clear(deep) and test(deep):
                    yield Found(each, deep.rights(), deep.wrongs(), _said(deep))
            passed, questions = [], []

    def _looked(self, board: chess.Board, by_mate: bool) -> Judged:
        (found,) = self._quick.score_moves(pack_board(board)[None], depth=MOVES_LOOK_DEPTH)
        moves = [action_to_move(int(action), board) for action in legal_actions(board)]
        scores = dict(zip(moves, found.tolist(), strict=True))
        return _judged(board, scores, by_mate=by_mate, margin=LOOK_MARGIN)

    def _few_moves(self) -> Iterator[Candidate]:
        while True:
            for each in self._sources.draw(_BATCH):
                if _is_small(each.board):
                    yield each

    def _hanging(self) -> Iterator[Candidate]:
        return (each for each in self._few_moves() if hanging_captures(each.board))

    def _attacked(self) -> Iterator[Candidate]:
        for each in self._few_moves():
            if not each.board.is_check() and attacked_men(each.board):
                yield each

    def _stalemating(self) -> Iterator[Candidate]:
        for each in self._with_bare_kings(self._few_moves()):
            status = status_batch(children(pack_board(each.board))[0])
            if (status == STALEMATE).any() and not (status == CHECKMATE).any():
                yield each

    def _with_bare_kings(self, candidates: Iterator[Candidate]) -> Iterator[Candidate]:
        """The candidates, and as many drawn endings against a king with at most a pawn, where stalemate is near."""
        for each in candidates:
            yield each
            theirs = [chess.PAWN] * int(self._rng.integers(2))
            men = _STALEMATING[self._rng.integers(len(_STALEMATING))]
            board = drawn_men(self._rng, men, theirs)
            if board is not None and _is_small(board):
                yield Candidate(board, "drawn endings")

    def _promoting(self) -> Iterator[Candidate]:
        while True:
            for each in self._sources.pawn_endings(_BATCH):
                board = each.board
                only_pawns = board.occupied == board.pawns | board.kings
                if only_pawns and chess.popcount(board.pawns) > 1 and _queen_promotions(board):
                    yield each

    def _repeatable(self) -> Iterator[Candidate]:
        """Both sides have moved to and fro and to again: going back makes the start's third occurrence."""
        for each in self._few_moves():
            shuffle = to_and_fro(each.board, self._rng)
            if shuffle is not None:
                board = each.board.copy()
                for move in (*shuffle, *shuffle[:3]):
                    board.push(move)
                if _is_small(board):
                    yield Candidate(board, each.source)


def by_table(board: chess.Board) -> Found:
    """What the table says of a won position with three men, the side with the man to move."""
    moves = [action_to_move(int(action), board) for action in legal_actions(board)]
    after = children(pack_board(board))[0]
    known = find_three_men(after)  # after a promotion to a lesser man it is a draw
    scores = np.zeros(len(moves), np.int32)
    scores[known] = -exact_scores(after[known])
    right = scores == scores.max()
    next_best = int(scores[~right].max(initial=0))
    other = f"mates in {MATE_SCORE - next_best + 1}" if next_best else "is a draw"
    return Found(
        Candidate(board, "drawn endings"),
        [move for move, is_right in zip(moves, right, strict=True) if is_right],
        [move for move, is_right in zip(moves, right, strict=True) if not is_right],
        f"table: mate in {MATE_SCORE - int(scores.max()) + 1}, the best other move {other}",
    )


def _queen_promotions(board: chess.Board) -> Moves:
    return [move for move in board.legal_moves if move.promotion == chess.QUEEN]


def _judged(
    board: chess.Board, scores: dict[chess.Move, int], *, by_mate: bool, margin: float = 1.0
) -> Judged:
    """The moves of a board by an engine's scores; third occurrences are draws by the rules."""
    moves = list(board.legal_moves)
    score_cp = np.array([0 if is_third(board, move) else scores[move] for move in moves], np.int32)
    return Judged(board, moves, score_cp, *graded(score_cp, by_mate=by_mate, margin=margin))


def _question(looked: Judged) -> Question:
    """Those that look wrong together, and the others one by one."""
    wrong = looked.wrongs()
    return Question(looked.board, [move for move in looked.moves if move not in wrong], wrong)


def _is_small(board: chess.Board) -> bool:
    return 4 <= board.legal_moves.count() <= MAX_LEGAL and chess.popcount(board.occupied) <= MAX_MEN


def _is_clear(judged: Judged) -> bool:
    return bool(judged.wrong.any()) and 2 * judged.wrong.sum() >= (~judged.right).sum()


def _said(judged: Judged) -> str:
    lowest, highest = judged.score_cp[judged.right].min(), judged.score_cp[judged.wrong].max()
    return (
        f"search: right from {lowest:+d} to {judged.score_cp.max():+d} cp, wrong up to {highest:+d}"
    )


def _values(kind: str, found: Found) -> dict[str, Any]:
    """The entry of a position in the file."""
    board = found.candidate.board
    values: dict[str, Any] = {"kind": kind, "fen": board.fen(en_passant="legal")}
    if board.move_stack:
        values["start_fen"] = board.root().fen(en_passant="legal")
        values["history"] = [move.uci() for move in board.move_stack]
    return values | {
        "right": [move.uci() for move in found.right],
        "wrong": [move.uci() for move in found.wrong],
        "source": found.candidate.source,
        "proof": found.proof,
    }


def rebuild(
    path: Path, *, seed: int, per_kind: int, num_engines: int, without: Path | None
) -> None:
    """Writes a set to `path` (see `obvious_moves.py`). Deterministic for a seed and an engine build.

    Args:
        path: of the JSON file.
        seed: of all draws.
        per_kind: how many positions of each kind; even.
        num_engines: Stockfish processes.
        without: another set, of which no position is used.

    Raises:
        ValueError: an odd number of positions.
        EngineError: no Stockfish.
    """
    if per_kind < 2 or per_kind % 2:
        raise ValueError(f"per_kind is {per_kind}: expected an even number, for both colours")
    others = () if without is None else read_obvious(without).positions
    taken = {position_key(chess.Board(each.fen)) for each in others}
    builder = Builder(seed, per_kind, num_engines, taken)
    try:
        entries = [_values(kind, found) for kind in KINDS for found in builder.of_kind(kind)]
        judge = builder.judge.id
    finally:
        builder.close()
    write(path, entries, seed=seed, judge=judge)


def write(path: Path, entries: list[dict[str, Any]], *, seed: int, judge: str) -> None:
    """Writes the file of a set; see `ObviousMoves` for its parts."""
    head = {"seed": seed, "judge": judge, "gaps": GAPS}
    # One line a position, so that a change of the set can be read.
    lines = ",\n".join(json.dumps(each) for each in entries)
    text = json.dumps(head, indent=1)[:-2] + f',\n "positions": [\n{lines}\n]}}\n'
    unfinished = path.with_suffix(".unfinished.json")
    unfinished.write_text(text, encoding="utf-8")
    unfinished.replace(path)


def main() -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.positions.obvious_build", description="The set of obvious moves."
    )
    parser.add_argument(
        "--rebuild", action="store_true", help="make the set anew (an hour; needs Stockfish)"
    )
    parser.add_argument("--seed", type=int, default=SEED, help="of all draws")
    parser.add_argument("--per-kind", type=int, default=PER_KIND, help="positions of each kind")
    parser.add_argument("--num-engines", type=int, default=2, help="engine processes")
    parser.add_argument("--without", type=Path, help="use no position of this other set")
    parser.add_argument("--out", type=Path, default=OBVIOUS_PATH, help="file to read or write")
    arguments = parser.parse_args()
    if arguments.rebuild:
        rebuild(
            arguments.out,
            seed=arguments.seed,
            per_kind=arguments.per_kind,
            num_engines=arguments.num_engines,
            without=arguments.without,
        )
    found = read_obvious(arguments.out)
    print(f"{arguments.out}: {len(found)} positions, seed {found.seed}, judged by {found.judge}")
    for kind in KINDS:
        of_kind = found.of_kind(kind)
        white = sum(chess.Board(each.fen).turn for each in of_kind)
        print(f"  {kind}: {len(of_kind)}, White to move in {white}")


if __name__ == "__main__":
    main()
