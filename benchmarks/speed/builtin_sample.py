"""Builds benchmarks/data/builtin_sample.npz: positions, some of their children, and Stockfish's scores of all of them.

    python -m benchmarks.speed.builtin_sample --rebuild      (a few minutes with two engine processes)

510 positions with at least two legal moves: 170 from uniformly random games, 180 from engine games
(8 random plies, then Stockfish at depth 4), 160 from games that mix both move by move. Of each, at
most 5 legal moves are drawn without replacement. Positions and children are scored by Stockfish in
pure mode (`ucinewgame` before each, Hash 1, one thread, canonical FEN) at depth 14, depth 4 and
nodes 1. The games come from one seed, so that the same Stockfish gives the same file.
"""

from __future__ import annotations

import argparse
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import chess
import chess.engine
import numpy as np
from numpy.typing import NDArray

from chess_env.evaluators.uci import find_stockfish
from chess_env.rules.fen import engine_fens, pack_board
from chess_env.rules.rules import (
    CHECKMATE,
    ONGOING,
    apply_batch,
    hash_batch,
    legal_actions_batch,
    status_batch,
)

SAMPLE = Path(__file__).resolve().parents[1] / "data" / "builtin_sample.npz"
SEED = 20_251_201
COUNTS = {"random": 170, "engine": 180, "mixed": 160}
CHILDREN = 5
LIMITS = {
    "depth14": chess.engine.Limit(depth=14),
    "depth4": chess.engine.Limit(depth=4),
    "nodes1": chess.engine.Limit(nodes=1),
}
MATE_SCORE, MAX_CP = 10_000, 9_000


@dataclass(frozen=True)
class Sample:
    """Positions, children and reference scores.

    Attributes:
        parents: uint64 [P, 8].
        children: uint64 [C, 8], each one move after its parent.
        group: int [C], index of each child's parent.
        source: int8 [P], index into COUNTS (random, engine, mixed).
        parent_cp: int16 [P] by limit name, side to move's view; mate in n is +-(10000 - n).
        child_cp: int16 [C] by limit name, side to move's view, that is the opponent's.
    """

    parents: NDArray[np.uint64]
    children: NDArray[np.uint64]
    group: NDArray[np.intp]
    source: NDArray[np.int8]
    parent_cp: dict[str, NDArray[np.int16]]
    child_cp: dict[str, NDArray[np.int16]]


def load_sample(path: Path = SAMPLE) -> Sample:
    """The committed sample; OSError when it is missing (rebuild it, see the module's docstring)."""
    with np.load(path) as stored:
        parents, actions = stored["parents"], stored["actions"]
        group, column = np.nonzero(actions >= 0)
        children = apply_batch(parents[group], actions[group, column])
        return Sample(
            parents,
            children,
            group,
            stored["source"],
            {name: stored[f"parent_{name}"] for name in LIMITS},
            {name: stored[f"child_{name}"] for name in LIMITS},
        )


class Engines:
    """Stockfish processes that score positions in pure mode and play moves."""

    def __init__(self, count: int) -> None:
        path = find_stockfish()
        if path is None:
            raise SystemExit(
                "building the sample needs Stockfish: install it or set STOCKFISH_PATH"
            )
        self.engines = [chess.engine.SimpleEngine.popen_uci(str(path)) for _ in range(count)]
        for engine in self.engines:
            engine.configure({"Threads": 1, "Hash": 1})

    def move(self, board: chess.Board) -> chess.Move:
        played = self.engines[0].play(
            board.copy(stack=False), chess.engine.Limit(depth=4), game=object()
        )
        assert played.move is not None
        return played.move

    def _score(self, engine: chess.engine.SimpleEngine, fen: str, limit: chess.engine.Limit) -> int:
        info = engine.analyse(
            chess.Board(fen), limit, game=object()
        )  # a new game: sends `ucinewgame`
        score = info["score"].relative
        mate = score.mate()
        if mate is not None:
            return MATE_SCORE - mate if mate > 0 else -MATE_SCORE - mate
        return max(-MAX_CP, min(MAX_CP, score.score() or 0))

    def score(self, positions: NDArray[np.uint64], limit: chess.engine.Limit) -> NDArray[np.int16]:
        """int16 [N]: centipawns, side to move's view; finished games are scored by the rules."""
        fens = [fen.decode() for fen in engine_fens(positions)]
        status = status_batch(positions)
        scores = np.where(status == CHECKMATE, -MATE_SCORE, 0).astype(np.int16)
        open_games = np.flatnonzero(status == ONGOING)

        def work(index: int) -> None:
            for i in open_games[index :: len(self.engines)]:
                scores[i] = self._score(self.engines[index], fens[i], limit)

        with ThreadPoolExecutor(len(self.engines)) as pool:
            list(pool.map(work, range(len(self.engines))))
        return scores

    def close(self) -> None:
        for engine in self.engines:
            engine.quit()


def _game_position(rng: np.random.Generator, source: str, engines: Engines) -> chess.Board:
    """A board at a random ply of one game; the game may have ended on it."""
    board = chess.Board()
    opening = 8 if source == "engine" else 0
    share = {"random": 0.0, "engine": 1.0, "mixed": 0.5}[source]
    for ply in range(int(rng.integers(2, 81)) + opening):
        if board.is_game_over(claim_draw=False):
            break
        if ply >= opening and rng.random() < share:
            board.push(engines.move(board))
        else:
            moves = sorted(board.legal_moves, key=chess.Move.uci)
            board.push(moves[int(rng.integers(len(moves)))])
    return board


def build_positions(
    seed: int, counts: dict[str, int], children: int, engines: Engines
) -> tuple[NDArray[np.uint64], NDArray[np.int16], NDArray[np.int8]]:
    """(uint64 [P, 8] distinct unfinished positions, int16 [P, children] actions padded with -1, int8 [P] source)."""
    rng = np.random.default_rng(seed)
    parents, actions, sources = [], [], []
    seen: set[int] = set()
    for index, (source, count) in enumerate(counts.items()):
        while sum(s == index for s in sources) < count:
            board = _game_position(rng, source, engines)
            board.halfmove_clock, board.fullmove_number = 0, 1
            position = pack_board(board)[None]
            legal, num_legal = legal_actions_batch(position)
            identity = int(hash_batch(position)[0])
            if status_batch(position)[0] != ONGOING or num_legal[0] < 2 or identity in seen:
                continue
            seen.add(identity)
            drawn = rng.permutation(int(num_legal[0]))[:children]
            row = np.full(children, -1, np.int16)
            row[: len(drawn)] = np.sort(legal[0, drawn])
            parents.append(position[0])
            actions.append(row)
            sources.append(index)
    return np.array(parents), np.array(actions), np.array(sources, np.int8)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--rebuild", action="store_true", required=True, help="play, score and write the sample"
    )
    parser.add_argument("--out", type=Path, default=SAMPLE)
    parser.add_argument("--engines", type=int, default=2)
    arguments = parser.parse_args()
    engines = Engines(arguments.engines)
    try:
        parents, actions, source = build_positions(SEED, COUNTS, CHILDREN, engines)
        group, column = np.nonzero(actions >= 0)
        children = apply_batch(parents[group], actions[group, column])
        print(f"{len(parents)} positions, {len(children)} children", flush=True)
        arrays = {"parents": parents, "actions": actions, "source": source}
        for name, limit in reversed(LIMITS.items()):
            arrays[f"parent_{name}"] = engines.score(parents, limit)
            arrays[f"child_{name}"] = engines.score(children, limit)
            print(f"scored at {name}", flush=True)
    finally:
        engines.close()
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(arguments.out, **arrays)
    print(f"wrote {arguments.out} ({arguments.out.stat().st_size / 1000:.0f} kB)")


if __name__ == "__main__":
    main()
