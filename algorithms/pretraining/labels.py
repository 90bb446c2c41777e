"""Positions labelled by an evaluator: short walks from drawn starts, every legal move scored.

Shard k is a pure function of (source, evaluator, seed, sizes, k), so a run that was killed makes the
shards that are missing and nothing else.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from algorithms.pretraining.config import LabelConfig
from algorithms.pretraining.shards import LabelledPositions, ShardFolder
from chess_env.evaluators import Evaluator
from chess_env.positions.heldout import heldout_hashes
from chess_env.positions.start_positions import StartPositions
from chess_env.rules.packed import Positions
from chess_env.rules.rules import (
    ONGOING,
    apply_batch,
    hash_batch,
    legal_actions_batch,
    status_batch,
)

BOARDS = 256
"""Walks side by side, at most; part of what a shard is a function of."""

_IDENTITY_DRAWS = 32


def identity_of(
    config: LabelConfig, source: StartPositions, evaluator: Evaluator
) -> dict[str, Any]:
    """JSON values of everything that the content of a shard is a function of.

    A few draws of the source are part of it: a spec may name a file whose content changes.
    """
    rng = np.random.default_rng(config.label_seed)
    drawn = np.stack([source.sample(rng) for _ in range(_IDENTITY_DRAWS)])
    return {
        "kind": "evaluator",
        "start_positions": source.name,
        "start_positions_sha256": hashlib.sha256(drawn.tobytes()).hexdigest(),
        "evaluator": evaluator.id,
        "walk_plies": config.walk_plies,
        "random_move_fraction": config.random_move_fraction,
        "shard_size": config.shard_size,
        "label_seed": config.label_seed,
        "boards": BOARDS,
    }


def label_shard(
    config: LabelConfig,
    source: StartPositions,
    evaluator: Evaluator,
    index: int,
    *,
    report: Callable[[int], None],
    stopped: Callable[[], bool],
) -> LabelledPositions | None:
    """Shard `index`: `[shard_size]` positions with the scores of all their legal moves, centipawns.

    Forced moves are played on and not labelled: there is nothing to learn from them. A walk that
    meets the end of its game or a held-out position is replaced by a new start.

    Args:
        config: source, walks and sizes.
        source: of the starts.
        evaluator: scores the moves, and plays.
        index: of the shard.
        report: is given the number of its positions so far.
        stopped: asked before every ply; None is returned where it says True.
    """
    rng = np.random.default_rng([config.label_seed, index])
    # So few boards that a small shard still holds walks and not their starts alone.
    num_boards = max(1, min(BOARDS, config.shard_size // (config.walk_plies + 1)))
    boards = np.stack([source.sample(rng) for _ in range(num_boards)])
    plies = np.zeros(num_boards, np.int64)
    kept: list[Positions] = []
    scores: list[NDArray[np.int32]] = []
    while len(scores) < config.shard_size:
        if stopped():
            return None
        legal_ids, num_legal = legal_actions_batch(boards)
        move_scores = evaluator.score_moves(boards)
        free = np.flatnonzero(num_legal >= 2)
        kept.append(boards[free])
        scores += [move_scores[row] for row in free]
        report(min(len(scores), config.shard_size))
        slots = _choose(move_scores, config.random_move_fraction, rng)
        boards = apply_batch(boards, legal_ids[np.arange(num_boards), slots])
        plies += 1
        over = (plies > config.walk_plies) | ~_may_go_on(boards)
        for row in np.flatnonzero(over):
            boards[row], plies[row] = source.sample(rng), 0
    return _pack(np.concatenate(kept), scores, config.shard_size)


def _choose(
    move_scores: list[NDArray[np.int32]], random_fraction: float, rng: np.random.Generator
) -> NDArray[np.int64]:
    """int64 `[N]` slots of the moves played: a random one, or one of the best, equal ones by lot."""
    draws = rng.random((len(move_scores), 2))
    slots = np.empty(len(move_scores), np.int64)
    for row, (scores, (which, where)) in enumerate(zip(move_scores, draws, strict=True)):
        among = np.arange(len(scores))
        if which >= random_fraction:
            among = np.flatnonzero(scores == scores.max())
        slots[row] = among[int(where * len(among))]
    return slots


def _may_go_on(boards: Positions) -> NDArray[np.bool_]:
    """bool `[N]`, True where the game goes on and the position is not held out."""
    held_out = np.fromiter(heldout_hashes(), np.uint64)
    ongoing: NDArray[np.bool_] = status_batch(boards) == ONGOING
    return ongoing & ~np.isin(hash_batch(boards), held_out)


def _pack(positions: Positions, scores: list[NDArray[np.int32]], size: int) -> LabelledPositions:
    """The first `size` of the positions, with their scores."""
    scores = scores[:size]
    counts = [len(row) for row in scores]
    return LabelledPositions(
        positions=positions[:size],
        offsets=np.concatenate([[0], np.cumsum(counts)]).astype(np.int32),
        child_score_cp=np.concatenate(scores).astype(np.int16),
        played=np.full(size, -1, np.int16),
    )


def make_shards(
    folder: ShardFolder,
    config: LabelConfig,
    source: StartPositions,
    evaluator: Evaluator,
    *,
    report: Callable[[int], None],
    stopped: Callable[[], bool],
) -> dict[str, int]:
    """Counts of what was `made`, `remade` (damaged before) and `kept`, in shards.

    Args:
        folder: of the shards.
        config: source, walks and sizes.
        source: of the starts.
        evaluator: scores the moves, and plays.
        report: is given the number of positions so far.
        stopped: asked before every ply; labelling ends early where it says True.
    """
    counts = {"made": 0, "remade": 0, "kept": 0}
    for index in range(config.num_shards):
        state, before = folder.state(index), index * config.shard_size
        if state == "intact":
            counts["kept"] += 1
            report(before + config.shard_size)
            continue

        def report_within(done: int, before: int = before) -> None:
            report(before + done)

        shard = label_shard(config, source, evaluator, index, report=report_within, stopped=stopped)
        if shard is None:
            return counts
        folder.write(index, shard)
        counts["remade" if state == "damaged" else "made"] += 1
    return counts
