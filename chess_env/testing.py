"""Contracts as functions: does an evaluator, a start-position source or a reward term of your own keep them?

Each raises `ContractError`, an AssertionError whose sentence says which rule broke, and returns None otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chess_env.custom_objects import missing_members, protocol_members
from chess_env.evaluators import MATE_SCORE, Evaluator
from chess_env.positions.heldout import is_heldout
from chess_env.positions.start_positions import make_start_positions
from chess_env.rewards import MATE_SCORE_CP, RewardTerm
from chess_env.rules import rules
from chess_env.rules.fen import pack_fens, parse_fen, to_fen, to_fens
from chess_env.rules.rules import ONGOING, STATUS_NAMES, random_walk, status_batch

__all__ = ["ContractError", "check_evaluator", "check_reward_term", "check_start_positions"]


class ContractError(AssertionError):
    """A contract is broken; the message is a sentence that names the rule and what was seen."""


def rule(holds: bool, sentence: str) -> None:
    """Raises ContractError(sentence) unless the rule holds."""
    if not holds:
        raise ContractError(sentence)


START = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1"
MATED = "rnb1kbnr/pppp1ppp/8/4p3/6Pq/5P2/PPPPP2P/RNBQKBNR w KQkq - 1 3"
STALEMATE = "7k/5Q2/6K1/8/8/8/8/8 b - - 0 1"
BARE_KINGS = "8/8/4k3/8/8/3K4/8/8 w - - 0 1"
MATE_IN_ONE = "6k1/5ppp/8/8/8/8/8/R3K3 w Q - 0 1"
QUEEN_UP = "4k3/8/8/8/8/8/8/Q3K3 w - - 0 1"
QUEEN_DOWN = "4k3/8/8/8/8/8/8/Q3K3 b - - 0 1"
STALEMATING = "7k/8/6K1/8/5Q2/8/8/8 w - - 0 1"


def check_evaluator(make: Callable[[], Evaluator], *, seed: int = 0) -> None:
    """Checks that the evaluators that `make` makes keep the contract of `Evaluator`.

    It asks about 300 positions, some of them of a second evaluator made by `make`.

    Args:
        make: makes an evaluator; called without arguments, twice.
        seed: of the positions.

    Raises:
        ContractError: what broke. In this order: members, id, dtype and range, rule endings, sign, purity
            (repetition, order, batches, clocks, form of the input, a second evaluator), moves, counters, closing.
    """
    evaluator = make()
    _check_members(evaluator)
    try:
        positions = _positions(seed)
        scores = _check_scores(evaluator, positions)
        _check_endings(evaluator)
        _check_purity(evaluator, positions, scores)
        _check_moves(evaluator, positions[:4])
        counters = evaluator.counters()
        rule(
            isinstance(counters, dict)
            and all(isinstance(n, int | float | np.number) for n in counters.values()),
            f"counters() must be a dict of numbers, not {counters!r}",
        )
        other = make()
        try:
            rule(
                other.id == evaluator.id,
                f"two evaluators made alike must have one id, not {evaluator.id!r} and {other.id!r}",
            )
            rule(
                _equal(other.evaluate(positions), scores),
                "another evaluator with the same id must give the same scores",
            )
        finally:
            other.close()
    finally:
        evaluator.close()
    try:
        evaluator.close()
    except Exception as error:  # whatever it raises, closing twice must be harmless
        raise ContractError(
            f"close() must be harmless the second time, it raised {error!r}"
        ) from error


def _check_members(evaluator: Any) -> None:
    missing = missing_members(evaluator, protocol_members(Evaluator))
    rule(not missing, f"an evaluator has {', '.join(missing)}; this one has not")
    rule(
        isinstance(evaluator.id, str) and evaluator.id != "",
        f"id must be a text that is not empty, not {evaluator.id!r}",
    )


def _check_scores(evaluator: Evaluator, positions: NDArray[np.uint64]) -> NDArray[np.int32]:
    """The scores, once dtype, shape, range and the caller's array are right."""
    given = positions.copy()
    try:
        scores = evaluator.evaluate(given)
    except ValueError as error:  # as of RuleAwareEvaluator, which checks what its subclass gives
        raise ContractError(str(error)) from error
    rule(_equal(given, positions), "evaluate must leave the caller's array as it was")
    _check_array(scores, len(positions), "evaluate")
    rule(
        _equal(evaluator.evaluate(given), scores),
        "a score must not change when the same question is repeated",
    )
    empty = evaluator.evaluate(positions[:0])
    _check_array(empty, 0, "evaluate of no position")
    return scores


def _check_array(scores: Any, count: int, what: str) -> None:
    shown = (
        f"{scores.dtype} {list(scores.shape)}" if isinstance(scores, np.ndarray) else repr(scores)
    )
    rule(
        isinstance(scores, np.ndarray) and scores.dtype == np.int32 and scores.shape == (count,),
        f"{what} must give int32 [{count}], not {shown}",
    )
    rule(
        bool((np.abs(scores.astype(np.int64)) <= MATE_SCORE).all()),
        f"scores must lie in +-{MATE_SCORE} centipawns (mate in n is +-({MATE_SCORE} - n)), {what} gave "
        f"{scores[np.abs(scores.astype(np.int64)).argmax()] if count else None}",
    )


def _check_endings(evaluator: Evaluator) -> None:
    mated, stalemate, bare = evaluator.evaluate([MATED, STALEMATE, BARE_KINGS]).tolist()
    rule(
        mated == -MATE_SCORE,
        f"the side that is checkmated has -{MATE_SCORE}: mate is bad for the side to move; got {mated}",
    )
    rule(stalemate == 0, f"stalemate is a draw and scores 0, got {stalemate}")
    rule(bare == 0, f"bare kings are a draw by the rules and score 0, got {bare}")
    up, down = evaluator.evaluate([QUEEN_UP, QUEEN_DOWN]).tolist()
    rule(
        up > 0 > down,
        "scores are the side to move's view: a queen up must be above 0 and a queen down below, "
        f"got {up} and {down}",
    )


def _check_purity(
    evaluator: Evaluator, positions: NDArray[np.uint64], scores: NDArray[np.int32]
) -> None:
    order = np.random.default_rng(1).permutation(len(positions))
    rule(
        _equal(evaluator.evaluate(positions[order]), scores[order]),
        "a score must not depend on the order in which positions are asked",
    )
    alone = [int(evaluator.evaluate(positions[i : i + 1])[0]) for i in range(len(positions))]
    rule(
        alone == scores.tolist(),
        "a score must not depend on what else is in the batch",
    )
    fens = to_fens(positions)
    rule(
        _equal(evaluator.evaluate(fens), scores),
        "FEN strings and packed positions must give the same scores",
    )
    worn = pack_fens([f"{fen.rsplit(' ', 2)[0]} 37 90" for fen in fens])
    rule(
        _equal(evaluator.evaluate(worn), scores),
        "a score must not depend on the clocks: they belong to the game, not to the position",
    )


def _check_moves(evaluator: Evaluator, positions: NDArray[np.uint64]) -> None:
    moves = evaluator.score_moves(positions)
    rule(
        isinstance(moves, list) and len(moves) == len(positions),
        f"score_moves must give a list with an entry for each of {len(positions)} positions",
    )
    for position, scores in zip(positions, moves, strict=True):
        count = len(rules.children(position)[1])
        _check_array(scores, count, f"score_moves of a position with {count} legal moves")
    again = evaluator.score_moves(positions[::-1])
    rule(
        all(_equal(one, other) for one, other in zip(moves, again[::-1], strict=True)),
        "a move's score must not depend on the order in which positions are asked",
    )
    rule(evaluator.score_moves(positions[:0]) == [], "score_moves of no position must be []")
    (none,) = evaluator.score_moves([MATED])
    rule(len(none) == 0, f"a mated side has no moves to score, score_moves gave {len(none)}")
    for fen, status, wanted, what in (
        (MATE_IN_ONE, rules.CHECKMATE, MATE_SCORE, "mates"),
        (STALEMATING, rules.STALEMATE, 0, "stalemates"),
    ):
        (scores,) = evaluator.score_moves([fen])
        after = rules.status_batch(rules.children(parse_fen(fen))[0], False)
        ending = scores[after == status]
        rule(
            bool((ending == wanted).all()),
            f"score_moves is the mover's view: a move that {what} scores {wanted}, got {ending.tolist()}",
        )


def _positions(seed: int) -> NDArray[np.uint64]:
    """uint64 [24, 8]: distinct positions of random games in which the game goes on."""
    rng, found = np.random.default_rng(seed), dict[bytes, Any]()
    start = parse_fen(START)
    while len(found) < 24:
        path = random_walk(start, int(rng.integers(1, 80)), rng)
        if rules.status_batch(path[-1:])[0] == rules.ONGOING:
            found[path[-1, :7].tobytes()] = path[-1]
    return np.array(list(found.values()), np.uint64)


def _equal(one: Any, other: Any) -> bool:
    return np.array_equal(np.asarray(one), np.asarray(other))


def check_start_positions(source: Any, *, samples: int = 64) -> None:
    """Checks that a source of start positions keeps its contract.

    Args:
        source: an object with `sample(rng)`, or a spec such as "mymodule:MySource".
        samples: how many positions are drawn, from each of two seeds.

    Raises:
        ContractError: what broke: the method, dtype and shape, a legal position in which the game goes on, held-out
            positions, one generator as the only source of chance, no memory between draws, arrays of their own.
    """
    rule(
        isinstance(source, str) or callable(getattr(source, "sample", None)),
        "a source of start positions has a method sample(rng); this one has not",
    )
    made = make_start_positions(source)  # held-out positions are drawn again there
    rule(
        isinstance(made.name, str) and made.name != "",
        f"name must be a text that is not empty, not {made.name!r}",
    )
    for seed in (0, 1):
        first = _draw(made, seed, samples)
        for position in first:
            _check_position(position)
        first = [position.copy() for position in first]
        # What NumPy's global generator says in between must not matter.
        np.random.seed(seed + 17)  # noqa: NPY002
        again = _draw(made, seed, samples)
        rule(
            all(np.array_equal(one, other) for one, other in zip(first, again, strict=True)),
            "the same generator state must give the same positions: draw from `rng` alone, and remember nothing "
            "from draw to draw (a continued run restores the generator, not the source)",
        )
        if again[0].flags.writeable:
            again[0][:] = 0
            rule(
                np.array_equal(_draw(made, seed, 1)[0], first[0]),
                "each sample must be an array of its own: writing into one changed a later one",
            )


def _draw(source: Any, seed: int, count: int) -> list[NDArray[np.uint64]]:
    rng = np.random.default_rng(seed)
    return [source.sample(rng) for _ in range(count)]


def _check_position(position: Any) -> None:
    shown = (
        f"{position.dtype} {list(position.shape)}"
        if isinstance(position, np.ndarray)
        else f"a {type(position).__name__}"
    )
    rule(
        isinstance(position, np.ndarray) and position.dtype == np.uint64 and position.shape == (8,),
        f"sample must give a packed position, uint64 [8] (chess_env.rules.fen.parse_fen makes one), not {shown}",
    )
    try:
        fen = to_fen(position)
        legal = np.array_equal(parse_fen(fen), position)
    except ValueError as error:
        fen, legal = str(error), False
    rule(legal, f"a start position must be legal chess: {fen}")
    status = int(status_batch(position[None])[0])
    rule(
        status == ONGOING,
        f"the game must go on in a start position: {fen} is {STATUS_NAMES[status]}",
    )
    rule(not is_heldout(position), f"a start position must not be held out for evaluation: {fen}")


def check_reward_term(term: RewardTerm, *, seed: int = 0) -> None:
    """Checks that a function (after_cp, before_cp) -> float32 [N] keeps the contract of a reward term.

    Args:
        term: the function.
        seed: of the scores it is tried on.

    Raises:
        ContractError: what broke: dtype and shape, finite values over the whole range of scores, the caller's
            arrays, repetition, batches, the mover's view.
    """
    rng = np.random.default_rng(seed)
    edges = np.array([0, 1, -1, MATE_SCORE_CP, -MATE_SCORE_CP, MATE_SCORE_CP - 1], np.int32)
    drawn = rng.integers(-MATE_SCORE_CP, MATE_SCORE_CP + 1, (2, 64)).astype(np.int32)
    after = np.concatenate([np.repeat(edges, len(edges)), drawn[0]])
    before = np.concatenate([np.tile(edges, len(edges)), drawn[1]])
    given = after.copy(), before.copy()
    paid: Any = _call(term, *given)
    rule(
        np.array_equal(given[0], after) and np.array_equal(given[1], before),
        "a reward term must leave the caller's arrays as they were",
    )
    shown = f"{paid.dtype} {list(paid.shape)}" if isinstance(paid, np.ndarray) else repr(paid)
    rule(
        isinstance(paid, np.ndarray) and paid.dtype == np.float32 and paid.shape == after.shape,
        f"a reward term must give float32 [{len(after)}], one for each move, not {shown}",
    )
    bad = ~np.isfinite(paid)
    rule(
        not bad.any(),
        "a reward must be finite for every pair of scores, mates included; it is not for after_cp "
        f"{after[bad.argmax()]} and before_cp {before[bad.argmax()]}",
    )
    rule(
        np.array_equal(_call(term, after, before), paid),
        "a reward must not change when the same question is repeated",
    )
    alone = np.concatenate([_call(term, after[i : i + 1], before[i : i + 1]) for i in range(60)])
    rule(
        np.array_equal(alone, paid[:60]),
        "a reward must not depend on what other moves are in the batch",
    )
    good, bad_move = _call(term, np.array([500, -500], np.int32), np.array([0, 0], np.int32))
    rule(
        good > bad_move,
        "scores are the mover's view: from equality a move to +500 must pay more than one to -500, "
        f"it pays {good} and {bad_move}",
    )


def _call(term: RewardTerm, after: Any, before: Any) -> Any:
    try:
        return term(after, before)
    except Exception as error:  # whatever a user's function raises, the contract is what it breaks
        raise ContractError(
            f"a reward term is called with two arrays (after_cp, before_cp), it raised {error!r}"
        ) from error
