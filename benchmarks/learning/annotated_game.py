"""One game of a policy, with what the policy thought of each move and what the move was worth.

    python -m benchmarks.learning.annotated_game example --json benchmarks/results/strong_game.json

The shortest win among 20 pairs of games against the material-greedy player. Scores are the built-in
evaluator's, of the position after the move, from the view of the player who made it.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import chess
import numpy as np
import torch

from algorithms.evaluation.load_policy import load_policy
from algorithms.evaluation.policy_player import GREEDY, PolicyPlayer
from algorithms.playing.policy_moves import PolicyMoves
from algorithms.playing.position import reached
from algorithms.playing.requests import Request
from benchmarks.records.report import save
from chess_env.evaluators import make_evaluator
from chess_env.games.players import make_player
from chess_env.matches.arena import MATCH_PLIES, play_match
from chess_env.matches.match_result import Game
from chess_env.moves import action_to_move, legal_actions
from chess_env.positions.start_positions import make_start_positions
from chess_env.rules.fen import parse_fen, to_fen

OPPONENT, PAIRS, SEED = "material", 20, 1_000


def shortest_win(player: PolicyPlayer) -> Game:
    """The won game with the fewest plies; the first of several.

    Raises:
        RuntimeError: no game was won.
    """
    match = play_match(
        player, make_player(OPPONENT), openings=make_start_positions("openings"),
        pairs=PAIRS, seed=SEED, max_plies=MATCH_PLIES,
    )  # fmt: skip
    won = [game for game in match.games if game.points == 1.0]
    if not won:
        raise RuntimeError(f"{player.name} won none of {2 * PAIRS} games against {OPPONENT}")
    return min(won, key=lambda game: len(game.actions))


def annotated(policy: Any, game: Game) -> list[dict[str, Any]]:
    """A row for each ply: the move, its score, and for the policy's the probability and the best move."""
    evaluator = make_evaluator("builtin")
    moves_of, opening, played = PolicyMoves(policy), to_fen(game.opening), list[str]()
    board, rows = chess.Board(opening), []
    for action in game.actions.tolist():
        ids, position = legal_actions(board), parse_fen(board.fen(en_passant="legal"))
        (scores,) = evaluator.score_moves(position[None])
        slot, best = int(np.flatnonzero(ids == action)[0]), int(np.argmax(scores))
        move = action_to_move(action, board)
        row: dict[str, Any] = {
            "fen": board.fen(),
            "by_policy": (board.turn == chess.WHITE) == game.first_is_white,
            "san": board.san(move),
            "score_cp": int(scores[slot]),
        }
        if row["by_policy"]:
            asked = Request(reached(opening, played), 1.0, top_k=0, seed=0, searchmoves=None)
            answer = moves_of(asked)
            row["probability"] = round(answer.probs[answer.moves.index(move)], 3)
            row["best_san"] = board.san(action_to_move(int(ids[best]), board))
            row["best_score_cp"] = int(scores[best])
        rows.append(row)
        played.append(move.uci())
        board.push(move)
    rows.append({"fen": board.fen(), "by_policy": False, "san": "", "score_cp": 0})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("policy", nargs="?", default="example", help="as of `chess-lab eval`")
    parser.add_argument("--json", type=Path, default=None)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    policy = load_policy(arguments.policy)
    game = shortest_win(PolicyPlayer(policy, temperature=GREEDY, label=arguments.policy))
    rows = annotated(policy, game)
    for row in rows:
        print(row["san"], row["score_cp"], row.get("probability", ""), row.get("best_san", ""))
    save(
        arguments.json, "strong_game", rows, opponent=OPPONENT, pairs=PAIRS, seed=SEED,
        pair=game.pair, policy_is_white=game.first_is_white, ending=game.ending,
    )  # fmt: skip


if __name__ == "__main__":
    main()
