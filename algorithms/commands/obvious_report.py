"""What `chess-lab check --evaluator` says: how an evaluator's rewards pay the set of obvious moves."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from algorithms.core.checks import message_lines

if TYPE_CHECKING:
    from chess_env.games.obvious_rewards import KindSummary, PaidPosition

NUM_WORST = 5
"""How many kinds are shown with the position that is paid worst."""

_COLUMNS = "{:<19} {:>5}  {:>10}  {:>7} {:>7}  {:>8} {:>8}"


def report(
    evaluator: str, reward: str | None, path: Path | None
) -> tuple[list[str], dict[str, Any]]:
    """(lines of at most 80 columns but for FENs, values for --json).

    Args:
        evaluator: a name.
        reward: a sum of terms; None for the environment's default.
        path: the set; None for the committed one.

    Raises:
        ValueError: an unknown evaluator or reward term, or no set of obvious moves.
        EngineError: the engine does not work.
        FileNotFoundError: no such set.
    """
    from chess_env.evaluators import make_evaluator, of_version
    from chess_env.games.obvious_rewards import MIN_MARGIN, paid_positions, summaries
    from chess_env.positions.obvious_moves import OBVIOUS_PATH, read_obvious
    from chess_env.rewards import make_reward, sum_text

    obvious = read_obvious(OBVIOUS_PATH if path is None else path)
    text = sum_text(make_reward(reward, has_evaluator=True).weights)
    with closing(make_evaluator(evaluator)) as scorer:
        scorer_id = scorer.id
        paid = paid_positions(obvious.positions, scorer, text)
    kinds = summaries(paid)
    values = {
        "evaluator": evaluator,
        "evaluator_id": scorer_id,
        "reward": text,
        "min_margin": MIN_MARGIN,
        "set": {"path": None if path is None else str(path), "seed": obvious.seed},
        "kinds": [dataclasses.asdict(kind) for kind in kinds],
        "positions": [_values(each) for each in paid],
    }
    head = f"{len(paid)} obvious moves, evaluator {of_version(evaluator)}, reward {text}"
    return [*message_lines(head), "", *_table(kinds), "", *_worst(paid, MIN_MARGIN)], values


def _table(kinds: Sequence[KindSummary]) -> list[str]:
    lines = [
        _COLUMNS.format("", "", "", "margin", "", "best", "best"),
        _COLUMNS.format("kind", "n", "paid right", "mean", "worst", "right", "wrong"),
    ]
    for row in kinds:
        figures = (row.mean_margin, row.worst_margin, row.mean_right, row.mean_wrong)
        shown = [f"{figure:+.3f}" for figure in figures]
        lines.append(_COLUMNS.format(row.kind, row.positions, f"{row.paid_right:.1%}", *shown))
    return lines


def _worst(paid: Sequence[PaidPosition], min_margin: float) -> list[str]:
    """The position of each kind that is paid worst, the worst kinds first."""
    failed = sorted((each for each in paid if not each.paid_right), key=lambda each: each.margin)
    if not failed:
        return [f"In every position a right move is paid at least {min_margin} more."]
    said = (
        f"In {len(failed)} of {len(paid)} positions no right move is paid at least {min_margin} more than "
        "every wrong one. The worst of each kind:"
    )
    lines = message_lines(said, indent="")
    of_kind: dict[str, PaidPosition] = {}
    for each in failed:
        of_kind.setdefault(each.position.kind, each)
    for kind, each in list(of_kind.items())[:NUM_WORST]:
        position, rewards = each.position, each.rewards
        wrong, right = (_san(position.fen, move) for move in (each.best_wrong, each.best_right))
        paid_wrong, paid_right = rewards[each.best_wrong], rewards[each.best_right]
        how = f"is paid {-each.margin:.3f} more than {right}"
        if each.margin == 0:
            how = f"is paid as much as {right}"
        elif each.margin > 0:
            how = f"is paid only {each.margin:.3f} less than {right}"
        lines += [
            "",
            f"  {kind}: {wrong} {how} ({paid_wrong:+.3f}, {paid_right:+.3f})",
            f"    {position.fen}",
        ]
        if position.history:
            lines.append(f"    after {' '.join(position.history)}")
    return lines


def _san(fen: str, move: str) -> str:
    import chess

    return chess.Board(fen).san(chess.Move.from_uci(move))


def _values(paid: PaidPosition) -> dict[str, Any]:
    position = paid.position
    return {
        "kind": position.kind,
        "fen": position.fen,
        "start_fen": position.start_fen,
        "history": list(position.history),
        "paid_right": paid.paid_right,
        "margin": paid.margin,
        "best_right": paid.best_right,
        "right_reward": paid.rewards[paid.best_right],
        "best_wrong": paid.best_wrong,
        "wrong_reward": paid.rewards[paid.best_wrong],
    }
