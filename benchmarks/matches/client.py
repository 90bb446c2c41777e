"""Score of a policy against Stockfish in the arena and under a real client of UCI engines.

    python -m benchmarks.matches.client [--json benchmarks/results/match_client.json]

The same openings, colours, ply limit and draw rules, the policy greedy in both. The client is python-chess's
`SimpleEngine`: it sends every move of the game so far and clears the engine once a game, or before each move as the
arena does. `arena, blind` leaves the engine without the game, as matches did until this was measured.
"""

from __future__ import annotations

import argparse
import statistics
from collections import Counter
from pathlib import Path
from typing import Any

import chess
import chess.engine
import torch

from algorithms.evaluation.load_policy import load_policy
from algorithms.evaluation.policy_player import GREEDY, PolicyPlayer
from algorithms.playing.policy_moves import seen_by
from algorithms.playing.position import reached
from algorithms.reports.elo import count_pairs, judge_pairs
from benchmarks.records.report import print_table, save
from chess_env.games.players import EnginePlayer, make_player
from chess_env.matches.arena import MATCH_PLIES, draw_openings, play_match
from chess_env.positions.start_positions import make_start_positions
from chess_env.rules.fen import to_fen

OPENINGS = "openings"


class Blind:
    """An engine that is asked about the position alone."""

    def __init__(self, player: EnginePlayer) -> None:
        self._player, self.evaluator = player, player.evaluator
        self.name = f"{player.name}, blind"

    def choose(self, positions: Any, rngs: Any) -> Any:
        return self._player.choose(positions, rngs)

    def close(self) -> None:
        self._player.close()


Games = list[tuple[float, str, int]]
"""(points of the policy, ending, plies) of each game; two for each pair."""


def in_the_arena(policy: Any, engine: Any, pairs: int, seed: int) -> Games:
    """The games as `chess-lab eval` plays them."""
    match = play_match(
        PolicyPlayer(policy, temperature=GREEDY, label="policy"),
        engine,
        openings=make_start_positions(OPENINGS),
        pairs=pairs,
        seed=seed,
        max_plies=MATCH_PLIES,
    )
    return [(game.points, game.ending, len(game.actions)) for game in match.games]


def ending_of(board: chess.Board) -> str | None:
    """The name of the rule that has ended the game, by python-chess; None where it goes on."""
    if board.is_checkmate():
        return "checkmate"
    if board.is_stalemate():
        return "stalemate"
    if board.is_insufficient_material():
        return "insufficient_material"
    if board.is_fifty_moves():
        return "fifty_moves"
    return "threefold_repetition" if board.is_repetition(3) else None


def under_the_client(
    policy: Any, path: str, nodes: int, pairs: int, seed: int, *, clear_each_move: bool
) -> Games:
    """The games under python-chess's client."""
    found: Games = []
    limit = chess.engine.Limit(nodes=nodes)
    with chess.engine.SimpleEngine.popen_uci(path) as engine:
        engine.configure({"Threads": 1, "Hash": 1})
        for opening in draw_openings(make_start_positions(OPENINGS), seed, pairs):
            for policy_opens in (True, False):
                root = to_fen(opening)
                board, game = chess.Board(root), object()
                policy_is_white = board.turn == policy_opens
                while ending_of(board) is None and len(board.move_stack) < MATCH_PLIES:
                    if board.turn == policy_is_white:
                        position = reached(root, [move.uci() for move in board.move_stack])
                        seen = seen_by(policy, position, 1.0)
                        board.push(seen.moves[seen.ranked[0]])
                        continue
                    played = engine.play(board, limit, game=object() if clear_each_move else game)
                    assert played.move is not None
                    board.push(played.move)
                ending = ending_of(board) or "ply_limit"
                won = board.turn != policy_is_white  # the side to move is mated
                points = float(won) if ending == "checkmate" else 0.5
                found.append((points, ending, len(board.move_stack)))
    return found


def summary(contestant: str, games: Games) -> dict[str, Any]:
    """Score with its interval, results and draws by cause."""
    points = [each[0] for each in games]
    pairs = [one + other for one, other in zip(points[::2], points[1::2], strict=True)]
    judged = judge_pairs(count_pairs(pairs))
    draws = Counter(ending for result, ending, _ in games if result == 0.5)
    return {
        "games under": contestant,
        "games": len(games),
        "wins": points.count(1.0),
        "draws": points.count(0.5),
        "losses": points.count(0.0),
        "score_percent": round(100 * judged.score, 2),
        "low": round(100 * judged.interval.low, 2),
        "high": round(100 * judged.interval.high, 2),
        "by_repetition": draws["threefold_repetition"],
        "by_fifty_moves": draws["fifty_moves"],
        "by_ply_limit": draws["ply_limit"],
        "median_plies": statistics.median(plies for _, _, plies in games),
    }


def main() -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.matches.client", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--policy", default="example", help="what load_policy takes")
    parser.add_argument("--nodes", type=int, default=1, help="limit of the engine")
    parser.add_argument("--games", type=int, default=200, help="of each kind; even")
    parser.add_argument("--seed", type=int, default=0, help="of the openings")
    parser.add_argument("--json", type=Path, help="where to write the figures")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    policy = load_policy(arguments.policy).cpu().eval()
    engine = make_player(f"engine:nodes={arguments.nodes}")
    assert isinstance(engine, EnginePlayer)
    pairs, seed = arguments.games // 2, arguments.seed
    path, engine_id = str(engine.evaluator.path), engine.evaluator.id
    rows = []
    try:
        rows.append(summary("arena, blind", in_the_arena(policy, Blind(engine), pairs, seed)))
        rows.append(summary("arena", in_the_arena(policy, engine, pairs, seed)))
    finally:
        engine.close()
    for clear, name in ((True, "client, cleared each move"), (False, "client, cleared each game")):
        games = under_the_client(policy, path, arguments.nodes, pairs, seed, clear_each_move=clear)
        rows.append(summary(name, games))
    print_table(rows)
    save(
        arguments.json,
        "match_client",
        rows,
        policy=arguments.policy,
        engine=engine_id,
        openings=OPENINGS,
        seed=seed,
    )


if __name__ == "__main__":
    main()
