"""Scores from real Stockfish processes, as a pure function of the position and the evaluator's id."""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chess_env.evaluators.pool import MAX_MULTIPV, EnginePool, Quarantine, QueryKind
from chess_env.evaluators.protocol import Positions, RuleAwareEvaluator, Scores
from chess_env.evaluators.uci import (
    INSTALL_HINT,
    EngineError,
    Handshake,
    action_of_uci,
    find_stockfish,
    parse_best_move,
    parse_move_scores,
    parse_score,
    uci_of_action,
)

PROTOCOL_VERSION = "v1"
"""Part of every id: raised when the commands or the reading of scores change."""


def engine_id(handshake: Handshake, options: Mapping[str, object], limit: str, mode: str) -> str:
    """Such as `stockfish-15.1;net=nn-ad9b42354671;Hash=1;Threads=1;depth=4;pure;v1`.

    Args:
        handshake: what the engine said of itself.
        options: UCI options that were set, by name.
        limit: what follows `go`, such as "depth 4".
        mode: "pure" or "fast".

    Raises:
        ValueError: an option names the file of a network that is not there.
    """
    nets = []
    options = {handshake.options[name.lower()].name: value for name, value in options.items()}
    for key in ("EvalFile", "EvalFileSmall"):
        if key in options:
            file = Path(str(options[key]))
            if not file.is_file():
                raise ValueError(
                    f"UCI option {key} is {str(file)!r}: no such file; give the path of a network"
                )
            nets.append("sha256-" + hashlib.sha256(file.read_bytes()).hexdigest()[:12])
        elif key.lower() in handshake.options:
            nets.append(handshake.options[key.lower()].default.removesuffix(".nnue"))
    name = re.sub(r"[\s;]+", "-", handshake.name.strip().lower())
    by_name = sorted(options.items(), key=lambda item: item[0].lower())
    shown = [f"{key}={value}" for key, value in by_name if "EvalFile" not in key]
    network = "net=" + "+".join(nets or ["none"])
    return ";".join([name, network, *shown, limit.replace(" ", "="), mode, PROTOCOL_VERSION])


DEFAULT_DEPTH = 4
_LIMITS = {"depth": (1, 60), "nodes": (1, 10**12)}
# Threads race, and weakened play draws from a generator seeded with the clock.
_IMPURE_OPTIONS = (
    "threads",
    "skill level",
    "uci_limitstrength",
    "uci_elo",
    "multipv",
    "uci_chess960",
    "ponder",
)


def default_deadline_s(depth: int | None, nodes: int | None) -> float:
    """Seconds after which a query counts as hung: at least 5, far more than a query needs on a loaded machine."""
    if nodes is not None:
        return max(5.0, nodes / 10_000)
    assert depth is not None
    return max(5.0, 0.05 * 1.9 ** (depth - 4))


def _checked_limit(name: str, value: int) -> int:
    low, high = _LIMITS[name]
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise ValueError(f"{name}={value!r}: expected an integer from {low} to {high}")
    return value


class StockfishEvaluator(RuleAwareEvaluator):
    """Stockfish at a depth or node limit: one thread each, canonical FEN (legal en passant only, clocks `0 1`).

    Args:
        path: the binary; None looks where `find_stockfish` does.
        depth: search depth, 4 when neither limit is given. Depth 4 is the best signal per microsecond measured.
        nodes: node limit instead of a depth. Below about 5,000 nodes the search is often cut inside an aspiration
            window; the last exact score is then taken.
        num_engines: processes; more than CPU cores does not help.
        pure: clear the engine before every position (`ucinewgame`, about 0.2 ms), so that a score depends on the
            position and `id` alone. False is up to twice as fast and gives other scores in another order: measured
            without clearing, 55 % of depth-4 and 94 % of nodes=1000 scores differ from the pure ones (standard
            deviation about 100 centipawns). They cannot be cached or replayed; their average quality is the same.
        hash_mb: transposition table of each engine. Pure scores do not depend on it at small limits; clearing it
            costs time.
        options: further UCI options by name, checked against what the engine offers; part of `id`.
        deadline_s: an engine that needs longer for one position is killed and replaced, and the position asked
            again with twice the time. None: at least 5 s, more for large limits.

    A position during which engines end, hang or reply with nonsense three times (the last two times engines that
    have done nothing else) is quarantined: it is reported in an EngineError that names it, and not asked again for ten
    minutes. An engine that somebody kills or stops does not count against a position. The other scores of the batch
    are kept in the error and in the evaluator, so that asking again without that position costs nothing.

    Raises:
        EngineError: no Stockfish is found, or the binary is not a working one.
        ValueError: a limit or an option outside its range.
    """

    in_background = True

    def __init__(
        self,
        path: str | Path | None = None,
        *,
        depth: int | None = None,
        nodes: int | None = None,
        num_engines: int = 2,
        pure: bool = True,
        hash_mb: int = 1,
        options: Mapping[str, str | int | bool] | None = None,
        deadline_s: float | None = None,
    ) -> None:
        super().__init__()
        if depth is not None and nodes is not None:
            raise ValueError(
                f"depth={depth!r} and nodes={nodes!r}: expected one limit, leave the other out"
            )
        if not isinstance(num_engines, int) or not 1 <= num_engines <= 1024:
            raise ValueError(f"num_engines={num_engines!r}: expected an integer from 1 to 1024")
        if deadline_s is not None and not deadline_s > 0:
            raise ValueError(
                f"deadline_s={deadline_s!r}: expected seconds above 0, or None for the default"
            )
        self.pure, self.num_engines = bool(pure), num_engines
        self.depth: int | None
        self.nodes: int | None
        self.depth, self.nodes = None, None
        if nodes is None:
            self.depth = _checked_limit("depth", DEFAULT_DEPTH if depth is None else depth)
            self._limit = f"depth {self.depth}"
        else:
            self.nodes = _checked_limit("nodes", nodes)
            self._limit = f"nodes {self.nodes}"
        self._deadline_s = deadline_s or default_deadline_s(self.depth, self.nodes)
        extra = dict(options or {})
        if self.pure and (bad := [name for name in extra if name.lower() in _IMPURE_OPTIONS]):
            raise ValueError(
                f"UCI option {bad[0]!r} makes scores irreproducible; leave it out, or set pure=False"
            )
        self._arguments: dict[str, Any] = {
            "path": path, "depth": depth, "nodes": nodes, "num_engines": num_engines, "pure": pure,
            "hash_mb": hash_mb, "options": options, "deadline_s": deadline_s,
        }  # fmt: skip
        self.path = find_stockfish(path)
        if self.path is None:
            raise EngineError(f"No Stockfish found. {INSTALL_HINT}")
        uci_options = {"Threads": 1, "Hash": hash_mb, **extra}
        self._pool = EnginePool(self.path, num_engines, uci_options)
        try:
            mode = "pure" if self.pure else "fast"
            self._id = engine_id(self._pool.handshake, uci_options, self._limit, mode)
        except BaseException:
            self._pool.close()
            raise
        self._quarantine = Quarantine()
        # Answers of batches in which other positions failed, by kind of question and FEN.
        self._kept: dict[tuple[str, bytes], Any] = {}

    @property
    def id(self) -> str:
        """Such as `stockfish-15.1;net=nn-ad9b42354671;Hash=1;Threads=1;depth=4;pure;v1`; `fast` marks pure=False."""
        return self._id

    @property
    def name(self) -> str:
        """What the engine calls itself, such as `Stockfish 15.1`."""
        return self._pool.handshake.name

    def engine_pids(self) -> list[int]:
        """Process ids of the engines running now."""
        return self._pool.pids()

    def _ask(
        self,
        fens: list[bytes],
        limit: str,
        multipv: int,
        parse: Callable[[int, bytes], Any],
        deadline_s: float,
        always_clear: bool = False,
    ) -> tuple[list[Any], EngineError | None]:
        """(an answer per FEN, None where there is none; the error that says why). `parse` gets the FEN's index.

        `fens` may go on with ` moves ...`. Then the engine must be cleared before each of them, which waits for
        its search to end: moves that are sent while it searches count as nodes of that search.
        """
        failed = self._quarantine.reasons(fens)
        kind = f"{limit} multipv {multipv} {parse.__qualname__}"
        answers = [self._kept.get((kind, fen)) for fen in fens]
        asked = [i for i, answer in enumerate(answers) if answer is None and i not in failed]
        clear = b"ucinewgame\n"
        job = QueryKind(
            prefix=(clear if self.pure or always_clear else b"") + b"position fen ",
            suffix=f"\ngo {limit}\n".encode(),
            parse=lambda i, reply: parse(asked[i], reply),
            deadline_s=deadline_s,
            # No search runs between two batches, so options may be set. In fast mode the clearing keeps the node
            # counter of one kind of limit out of the next.
            prepare=(b"" if self.pure else clear)
            + f"setoption name MultiPV value {multipv}\n".encode(),
        )
        new, new_failed = self._pool.run(job, [fens[i] for i in asked])
        for i, answer in zip(asked, new, strict=True):
            answers[i] = answer
        for i, reason in new_failed.items():
            failed[asked[i]] = reason
            self._quarantine.add(fens[asked[i]], reason)
        if not failed:
            self._kept.clear()
            return answers, None
        kept = zip(fens, answers, strict=True)
        self._kept |= {(kind, fen): answer for fen, answer in kept if answer is not None}
        first = min(failed)
        error = EngineError(
            f"{len(failed)} of {len(fens)} positions could not be scored by {self.name} and are quarantined; first: "
            f"{fens[first].decode()!r}: {failed[first]}. The other answers are kept: leave these positions out and "
            "ask again."
        )
        error.failed = {fens[i].decode(): reason for i, reason in failed.items()}
        return answers, error

    def _score_ongoing(self, positions: NDArray[np.uint64]) -> Scores:
        from chess_env.rules.fen import engine_fens

        answers, error = self._ask(
            engine_fens(positions), self._limit, 1, _parse_score, self._deadline_s
        )
        if error is not None:
            error.answered = np.array([answer is not None for answer in answers], np.bool_)
            error.scores = np.array([answer or 0 for answer in answers], np.int32)
            raise error
        return np.array(answers, np.int32)

    def score_moves(self, positions: Positions, depth: int = 1) -> list[Scores]:
        """int32 [L_i] per position: each legal move's score from the mover's view, ordered as `legal_actions`.

        One MultiPV search of all legal moves to `depth` (whatever the limit of `evaluate` is): at depth 1 the
        price of two or three single scores. Pure as `evaluate` is. A move's score is minus the score of the
        position it leads to; moves that end the game are scored by the rules (mating is +10000).

        Raises:
            EngineError: a move has no score, or positions that no engine survived.
        """
        by_engine = functools.partial(self._ask_moves, depth=_checked_limit("depth", depth))
        return self._score_moves_by(positions, by_engine)

    def _ask_moves(
        self, positions: NDArray[np.uint64], actions: list[NDArray[np.int16]], depth: int
    ) -> list[Scores]:
        from chess_env.rules.fen import engine_fens

        fens = engine_fens(positions)
        self._unique_queries += len(fens)

        def parse(index: int, reply: bytes) -> Scores:
            black = fens[index].split(b" ", 2)[1] == b"b"
            table, scores = action_of_uci(black), {}
            for text, score in parse_move_scores(reply).items():
                scores[table.get(text, -1)] = score
            legal = actions[index].tolist()
            if scores.keys() != set(legal):
                raise ValueError(f"scores for {len(scores)} moves where {len(legal)} are legal")
            return np.array([scores[action] for action in legal], np.int32)

        deadline_s = max(self._deadline_s, 4 * default_deadline_s(depth, None))
        answers, error = self._ask(fens, f"depth {depth}", MAX_MULTIPV, parse, deadline_s)
        if error is not None:
            raise error
        return answers

    def best_moves(self, positions: NDArray[np.uint64]) -> NDArray[np.int64]:
        """int64 [N]: the action that the engine itself would play in positions in which the game goes on.

        Raises:
            EngineError: positions that no engine survived.
        """
        from chess_env.rules.fen import engine_fens

        fens = engine_fens(positions)
        return self._best_moves(fens, [fen.split(b" ", 2)[1] == b"b" for fen in fens])

    def best_moves_in_games(
        self, starts: NDArray[np.uint64], moves: Sequence[Sequence[int]]
    ) -> NDArray[np.int64]:
        """int64 [N]: the action that the engine itself would play at the end of each game, told its moves.

        It knows of repetitions and of the rule-50 clock what any client tells it. It is cleared before each
        position, also where `pure` is False.

        Args:
            starts: uint64 [N, 8], packed, with their clocks: where each game, or the part of it since its last
                capture or pawn move, began.
            moves: the action ids since then, neither captures nor pawn moves; N lists.

        Raises:
            EngineError: positions that no engine survived; or an answer that is no move.
        """
        from chess_env.rules.fen import to_fens

        questions, black_to_move = [], []
        for fen, actions in zip(to_fens(starts), moves, strict=True):
            black = fen.split(" ", 2)[1] == "b"
            sides = uci_of_action(black), uci_of_action(not black)
            texts = [sides[number % 2][action] for number, action in enumerate(actions)]
            questions.append(" ".join([fen, "moves", *texts] if texts else [fen]).encode())
            black_to_move.append(black != (len(actions) % 2 == 1))
        return self._best_moves(questions, black_to_move, always_clear=True)

    def _best_moves(
        self, fens: list[bytes], black_to_move: list[bool], *, always_clear: bool = False
    ) -> NDArray[np.int64]:
        def parse(index: int, reply: bytes) -> int:
            text = parse_best_move(reply)
            action = action_of_uci(black_to_move[index]).get(text, -1)
            if action < 0:
                raise ValueError(f"the move {text[:20]!r}")
            return action

        answers, error = self._ask(fens, self._limit, 1, parse, self._deadline_s, always_clear)
        if error is not None:
            raise error
        return np.array(answers, np.int64)

    def counters(self) -> dict[str, int | float]:
        """Cumulative: queries, unique_queries, engine_restarts, quarantined, engine_cpu_s (CPU seconds of engines)."""
        return super().counters() | {
            "engine_restarts": self._pool.restarts,
            "quarantined": len(self._quarantine),
            "engine_cpu_s": self._pool.engine_cpu_s(),
        }

    def close(self) -> None:
        """Ends the engines; the evaluator answers no more."""
        self._pool.close()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled as its arguments: the copy starts engines of its own."""
        return functools.partial(StockfishEvaluator, **self._arguments), ()


def _parse_score(_: int, reply: bytes) -> int:
    return parse_score(reply)
