"""Whole games from shared starts, recorded as a `RolloutBatch` of the form `games`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from algorithms.core.batch import RolloutBatch
from algorithms.rollouts.ply import PlyRecord, add_scores, play_ply, stack
from algorithms.rollouts.sampler import Sampler
from algorithms.rollouts.state import VecState

if TYPE_CHECKING:
    from chess_env.vector_env import ChessSelfPlayVectorEnv

_BY_MEMBER = ("slots", "actions", "old_logprobs", "rewards", "score_cp", "terminated")


def collect_games(
    vec: ChessSelfPlayVectorEnv,
    sampler: Sampler,
    *,
    num_plies: int,
    group_size: int,
    train_sides: Literal["both", "start"] = "both",
    teacher_fraction: float = 0.0,
    fens: Sequence[str] | None = None,
) -> RolloutBatch:
    """A `games` batch: P starts, G games from each, up to T plies.

    T shrinks when every game ends earlier. `valid` is False after the end of a game and, with
    `train_sides="start"`, for the plies of the start player's opponent. Rewards are from the view of
    the player who moved, at every ply.

    Args:
        vec: P * G boards; they are reset.
        sampler: the behaviour policy, playing both sides.
        num_plies: T.
        group_size: G.
        train_sides: train on `both` sides' plies or only on the `start` player's.
        teacher_fraction: share of the opponent's plies on which the evaluator's best legal move is
            played in place of the policy's; its queries count as evaluations, never as scored
            moves. Needs `train_sides="start"`: what a teacher plays is no sample of the policy.
        fens: the P start positions; None draws them from the environment's own start positions.

    Raises:
        ValueError: the number of boards is not P * G, or there can be no teacher.
    """
    _check(vec, group_size, train_sides, teacher_fraction)
    if fens is None:
        vec.reset()
        fens = vec.fens()[::group_size]
    if len(fens) * group_size != vec.num_envs:
        raise ValueError(
            f"{len(fens)} start positions times group_size {group_size} is not num_envs "
            f"{vec.num_envs}; give {vec.num_envs // group_size} FENs"
        )
    _, info = vec.reset(options={"fens": [fen for fen in fens for _ in range(group_size)]})
    state = VecState.of(vec, info)
    start_turn, alive = state.turn.copy(), np.ones(vec.num_envs, bool)
    records: list[PlyRecord] = []
    # A teacher asks the evaluator itself, and one question is asked at a time.
    with vec.scoring.later(wanted=teacher_fraction == 0) as scored:
        while len(records) < num_plies and alive.any():
            trained = alive & ((state.turn == start_turn) | (train_sides == "both"))
            forced: dict[int, int] = {}
            if teacher_fraction > 0:
                forced = _teach(vec, sampler, state, alive & ~trained, teacher_fraction)
            record, state = play_ply(vec, sampler, state, num_samples=1, forced=forced)
            alive = alive & ~np.asarray(record["ended"])
            records.append(record | {"valid": trained})
    state = add_scores(records, scored, vec, state)
    columns = stack(records, sampler, state)
    for name in _BY_MEMBER:
        if name in columns:
            columns[name] = columns[name].squeeze(-1)
    shaped: dict[str, Any] = {
        name: column.unflatten(0, (len(fens), group_size)) for name, column in columns.items()
    }
    return RolloutBatch(
        form="games",
        temperature=sampler.temperature,
        policy_version=sampler.policy_version,
        **shaped,
    )


def _check(
    vec: ChessSelfPlayVectorEnv, group_size: int, train_sides: str, teacher_fraction: float
) -> None:
    if train_sides not in ("both", "start"):
        raise ValueError(f"train_sides is {train_sides!r}: expected 'both' or 'start'")
    if vec.num_envs % group_size:
        raise ValueError(
            f"num_envs is {vec.num_envs}, not a multiple of group_size {group_size}: a games "
            "rollout plays group_size games from each start; set num_envs to starts * group_size"
        )
    if teacher_fraction > 0 and (train_sides != "start" or vec.evaluator is None):
        raise ValueError(
            f"teacher_fraction is {teacher_fraction}: a teacher plays the opponent's plies only, by "
            f"an evaluator; set train_sides='start' (it is {train_sides!r}) and an evaluator (it is "
            f"{vec.evaluator_id!r}), or set teacher_fraction to 0"
        )


def _teach(
    vec: ChessSelfPlayVectorEnv,
    sampler: Sampler,
    state: VecState,
    opponent: NDArray[np.bool_],
    share: float,
) -> dict[int, int]:
    """Board -> slot of the evaluator's best move, on a random share of the boards `opponent`."""
    drawn = torch.rand(len(opponent), generator=sampler.generator, device=sampler.device)
    rows = np.flatnonzero(opponent & (drawn.cpu().numpy() < share))
    if len(rows) == 0:
        return {}
    assert vec.evaluator is not None  # see _check
    scores = vec.evaluator.score_moves(state.positions[rows])
    return {int(row): int(score.argmax()) for row, score in zip(rows, scores, strict=True)}
