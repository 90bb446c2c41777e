"""What an evaluator's rewards make of the set of obvious moves: is a right move paid more than every wrong one?

The rewards are those of the environment: its scores, its terms, and its rules on mates, stalemates and repetitions,
with the history of a position where it has one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import chess
import numpy as np

from chess_env.evaluators import Evaluator
from chess_env.games.arguments import Settings, make_settings
from chess_env.games.games import Games
from chess_env.games.scoring import Scoring
from chess_env.moves import action_to_move, move_to_action
from chess_env.positions.obvious_moves import KINDS, ObviousPosition
from chess_env.rewards import Reward
from chess_env.rules.fen import parse_fen

MIN_MARGIN = 0.01
"""What the best paid right move has to be paid beyond every wrong one; less, ties included, is a failure."""


@dataclass(frozen=True)
class PaidPosition:
    """What the right and the wrong moves of a position are paid.

    Attributes:
        position: with its moves.
        rewards: UCI move -> reward, all legal moves.
    """

    position: ObviousPosition
    rewards: dict[str, float]

    @property
    def best_right(self) -> str:
        """The right move that is paid most; the first of equals."""
        return max(self.position.right, key=self.rewards.__getitem__)

    @property
    def best_wrong(self) -> str:
        """The wrong move that is paid most."""
        return max(self.position.wrong, key=self.rewards.__getitem__)

    @property
    def margin(self) -> float:
        """What the best paid right move gets beyond the best paid wrong one; neutral moves play no part."""
        return self.rewards[self.best_right] - self.rewards[self.best_wrong]

    @property
    def paid_right(self) -> bool:
        """Whether the margin is at least `MIN_MARGIN`."""
        return self.margin >= MIN_MARGIN


@dataclass(frozen=True)
class KindSummary:
    """The positions of one kind.

    Attributes:
        kind: one of `KINDS`, or "all".
        positions: how many.
        paid_right: share in which a right move is paid at least `MIN_MARGIN` more than every wrong one.
        mean_margin: mean of the best right move's reward minus the best wrong one's.
        worst_margin: the lowest.
        mean_right: mean reward of the best paid right move.
        mean_wrong: mean reward of the best paid wrong move.
    """

    kind: str
    positions: int
    paid_right: float
    mean_margin: float
    worst_margin: float
    mean_right: float
    mean_wrong: float


def paid_positions(
    positions: Sequence[ObviousPosition], evaluator: Evaluator, reward: Reward = None
) -> list[PaidPosition]:
    """What each position's moves are paid.

    Args:
        positions: of a set of obvious moves.
        evaluator: Scores the moves; the caller closes it.
        reward: As the environment takes it; None is its default.

    Raises:
        ValueError: Unknown reward, or scores that are none.
        EngineError: The engine does not answer.
    """
    settings = make_settings(evaluator=evaluator, reward=reward)
    return [PaidPosition(each, _rewards(each, settings)) for each in positions]


def _rewards(position: ObviousPosition, settings: Settings) -> dict[str, float]:
    """UCI move -> what the environment pays for it after the position's history."""
    games = Games(1, settings)
    scoring = Scoring(games)
    try:
        games.start(games.everywhere, [parse_fen(position.start_fen)])
        board = chess.Board(position.start_fen)
        for text in position.history:
            move = chess.Move.from_uci(text)
            games.advance(games.everywhere, np.array([move_to_action(move, board.turn)]))
            board.push(move)
        scoring.score_now(games.everywhere)
        legal = games.boards.legal_ids[:, : int(games.boards.num_legal[0])]
        paid = scoring.score_actions(legal)["rewards"][0]
    finally:
        scoring.close()
    moves = [action_to_move(int(action), board).uci() for action in legal[0]]
    return dict(zip(moves, paid.astype(float).tolist(), strict=True))


def summaries(paid: Sequence[PaidPosition]) -> list[KindSummary]:
    """One row for each kind that is there, in the order of `KINDS`, and "all" at the end."""
    rows = []
    for kind in (*KINDS, "all"):
        part = [each for each in paid if kind in (each.position.kind, "all")]
        if part:
            margins = [each.margin for each in part]
            rows.append(
                KindSummary(
                    kind,
                    len(part),
                    float(np.mean([each.paid_right for each in part])),
                    float(np.mean(margins)),
                    float(np.min(margins)),
                    float(np.mean([each.rewards[each.best_right] for each in part])),
                    float(np.mean([each.rewards[each.best_wrong] for each in part])),
                )
            )
    return rows
