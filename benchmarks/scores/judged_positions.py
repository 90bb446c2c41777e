"""Draws positions from random play, engine games and decided games, and has Stockfish judge their moves.

    python -m benchmarks.scores.judged_positions --seed 1 --json benchmarks/data/judged_1.json

Every legal move of a decided position is judged, and eight drawn ones of each other position. It takes an hour or two.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import chess
import chess.engine

from chess_env.evaluators.uci import find_stockfish

SOURCES = {"random": 60, "engine": 60, "few_men": 40, "some_men": 40, "many_men": 40}
"""Positions of each source: random play of 2 to 40 plies; games of weakened engines; decided ones of at most 7, of at
most 14 and of more men."""

DECIDED_CP = 500
LOOK_DEPTH = 8
SAMPLED_MOVES = 8
MATE_SCORE = 10_000


def random_play(rng: random.Random) -> chess.Board:
    """The position after 2 to 40 random plies, of a game that goes on."""
    while True:
        board = chess.Board()
        for _ in range(rng.randint(2, 40)):
            if not board.is_game_over():
                board.push(rng.choice(list(board.legal_moves)))
        if not board.is_game_over():
            return board


def engine_game(engine: chess.engine.SimpleEngine, rng: random.Random) -> list[chess.Board]:
    """The positions of a game between two engines that play some random moves, after a random opening."""
    board, played = chess.Board(), []
    for _ in range(rng.randint(2, 10)):
        board.push(rng.choice(list(board.legal_moves)))
    share = {side: rng.choice([0, 0.03, 0.1, 0.3]) for side in chess.COLORS}
    while not board.is_game_over(claim_draw=True) and len(played) < 220:
        if rng.random() < share[board.turn]:
            move = rng.choice(list(board.legal_moves))
        else:
            limit = chess.engine.Limit(nodes=rng.choice([1, 50, 500, 3000]))
            found = engine.play(board, limit).move
            assert found is not None
            move = found
        board.push(move)
        played.append(board.copy(stack=False))
    return [position for position in played if not position.is_game_over()]


def score_cp(engine: chess.engine.SimpleEngine, board: chess.Board, depth: int) -> int:
    """Centipawns of the side to move, mate in n moves +-(10000 - n); the rules decide a game that is over."""
    if board.is_checkmate():
        return -MATE_SCORE
    if board.is_stalemate() or board.is_insufficient_material():
        return 0
    info = engine.analyse(board, chess.engine.Limit(depth=depth, time=6))
    found = info["score"].pov(board.turn).score(mate_score=MATE_SCORE)
    assert found is not None
    return found


def source_of(engine: chess.engine.SimpleEngine, board: chess.Board) -> str | None:
    """The source of decided positions that this one belongs to, if it is decided."""
    if abs(score_cp(engine, board, LOOK_DEPTH)) < DECIDED_CP:
        return None
    men = chess.popcount(board.occupied)
    return "few_men" if men <= 7 else "some_men" if men <= 14 else "many_men"


def draw(
    engine: chess.engine.SimpleEngine, seed: int, share: float
) -> Iterator[tuple[str, chess.Board]]:
    """(source, position) in a share of the counts of `SOURCES`, with three legal moves at least."""
    rng, seen = random.Random(seed), set[str]()
    left = {name: round(share * count) for name, count in SOURCES.items()}
    while any(left.values()):
        drawn: list[tuple[str | None, chess.Board]] = [("random", random_play(rng))]
        game = engine_game(engine, rng)
        rng.shuffle(game)
        drawn += [("engine", board) for board in game[:2]]
        drawn += [(source_of(engine, board), board) for board in game[2:8]]
        for source, board in drawn:
            if source is None or left[source] == 0 or board.epd() in seen:
                continue
            if board.legal_moves.count() >= 3:
                left[source] -= 1
                seen.add(board.epd())
                yield source, chess.Board(f"{board.epd()} 0 1")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--depth", type=int, default=18)
    parser.add_argument("--share", type=float, default=1.0, help="of the counts of SOURCES")
    parser.add_argument("--json", type=Path, required=True)
    options = parser.parse_args()
    path = find_stockfish()
    if path is None:
        raise SystemExit("no Stockfish found")
    rows: list[dict[str, Any]] = []
    with chess.engine.SimpleEngine.popen_uci(str(path)) as engine:
        engine.configure({"Threads": 1, "Hash": 64})
        for source, board in list(draw(engine, options.seed, options.share)):
            rng = random.Random(board.epd())
            moves = list(board.legal_moves)
            if source in ("random", "engine"):
                moves = rng.sample(moves, min(SAMPLED_MOVES, len(moves)))
            scores = {}
            for move in moves:
                board.push(move)
                scores[move.uci()] = -score_cp(engine, board, options.depth)
                board.pop()
            row = {"source": source, "fen": board.fen(), "moves": scores}
            rows.append(row | {"score_cp": score_cp(engine, board, options.depth)})
            name = engine.id["name"]
    record = {"judge": f"{name}, depth {options.depth}", "seed": options.seed, "positions": rows}
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(record, separators=(",", ":")) + "\n")
    print(f"{len(rows)} positions written to {options.json}")


if __name__ == "__main__":
    main()
