"""A run's probe tensors as plain data for pictures, because the report page knows no chess."""

from __future__ import annotations

from pathlib import Path

import chess
import numpy as np
from numpy.typing import NDArray

from algorithms.reports.page import MoveChance, PolicyPicture, Probe
from algorithms.reports.probe_files import probe_path, probed_updates, read_probe
from chess_env.moves import action_to_move
from chess_env.rules.fen import to_fen

ARROWS = 4


def probe_pictures(run_dir: Path) -> list[Probe]:
    """The first position of each kind with the policy of the first and the last look at it.

    Raises:
        ValueError: a file is damaged, the two are of different positions, or a legal id is no move.
        OSError: a file cannot be read.
    """
    updates = probed_updates(run_dir)
    if not updates:
        return []
    first, last = (read_probe(probe_path(run_dir, update)) for update in (updates[0], updates[-1]))
    if first.sheet.set_sha256 != last.sheet.set_sha256:
        raise ValueError(
            f"updates {updates[0]} and {updates[-1]} of {run_dir} are of different sets of positions: "
            "the run was continued with another version"
        )
    rows = dict(
        zip(reversed(first.sheet.kinds), reversed(range(len(first.sheet.kinds))), strict=True)
    )
    pictures = []
    for kind in dict.fromkeys(first.sheet.kinds):
        row = rows[kind]
        board = chess.Board(to_fen(first.sheet.positions[row]))
        policies = [
            policy_picture(
                board, first.sheet.legal_ids[row], probes.logprobs[0, row], update, ARROWS
            )
            for update, probes in ((updates[0], first), (updates[-1], last))
        ]
        num_legal = int((first.sheet.legal_ids[row] >= 0).sum())
        pictures.append(Probe(kind, board.fen(), num_legal, *policies))
    return pictures


def policy_picture(
    board: chess.Board,
    legal_ids: NDArray[np.int16],
    logprobs: NDArray[np.floating],
    step: int,
    most_moves: int,
) -> PolicyPicture:
    """What one policy plays in one position.

    Args:
        board: the position.
        legal_ids: `[L]` action ids of its legal moves, padded with -1.
        logprobs: `[L]`, nats.
        step: updates done.
        most_moves: how many of the likeliest moves are shown.

    Raises:
        ValueError: an id is no move.
    """
    legal = legal_ids >= 0
    actions, logs = legal_ids[legal], logprobs[legal].astype(float)
    probabilities = np.exp(logs)
    # A probability of 0 has log -inf, and 0 · -inf is to count as 0.
    entropy = float((probabilities * np.where(probabilities > 0, -logs, 0.0)).sum())
    entropy = round(entropy, 6) + 0.0  # a forced move's -1e-9 is shown as 0.00
    # A stable order: of equally likely moves the lower action comes first, on every machine.
    likeliest = np.argsort(-probabilities, kind="stable")[:most_moves]
    moves = []
    for place in likeliest:
        move = action_to_move(int(actions[place]), board)
        chance = float(probabilities[place])
        moves.append(MoveChance(move.from_square, move.to_square, move.uci(), chance))
    return PolicyPicture(step, entropy, moves)
