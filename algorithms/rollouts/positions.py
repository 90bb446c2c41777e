"""Self-play with the current policy on the vector environment, recorded as a `RolloutBatch`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from algorithms.core.batch import RolloutBatch
from algorithms.rollouts.ply import PlyRecord, add_scores, play_ply, stack
from algorithms.rollouts.sampler import Sampler
from algorithms.rollouts.state import VecState

if TYPE_CHECKING:
    from chess_env.vector_env import ChessSelfPlayVectorEnv


def start_rollout(vec: ChessSelfPlayVectorEnv, seed: int | None) -> VecState:
    """The boards after `vec.reset(seed=seed)`."""
    _, info = vec.reset(seed=seed)
    return VecState.of(vec, info)


def collect_positions(
    vec: ChessSelfPlayVectorEnv,
    sampler: Sampler,
    state: VecState,
    *,
    num_plies: int,
    group_size: int | None,
) -> tuple[RolloutBatch, VecState]:
    """A `positions` batch, and the boards as they stand afterwards.

    At every ply each of the P boards goes through the network once, G moves are drawn independently
    from that one distribution and scored, and the first of them is played on. Finished games
    restart (same-step autoreset), so a stream runs through several games; every sample is valid. A
    ply limit truncates a game without terminating it. Boards with an opponent take one sample; the
    stream then holds the learner's plies alone (`alternating` is False).

    Args:
        vec: P boards.
        sampler: the behaviour policy; its `greedy_fraction` changes which positions come next, and no
            sample and no reward.
        state: the boards, from `start_rollout` or the previous call.
        num_plies: T.
        group_size: G; None scores every legal move: then K = L, `slots` counts up through the legal
            slots (0 on padding), `valid` is True on legal moves, and the move that is played on is
            drawn from the policy.
    """
    records: list[PlyRecord] = []
    # Engines score a ply while the network looks at the next one.
    with vec.scoring.later() as scored:
        for _ in range(num_plies):
            record, state = play_ply(vec, sampler, state, num_samples=group_size)
            records.append(record)
    state = add_scores(records, scored, vec, state)
    columns: dict[str, Any] = stack(records, sampler, state, all_moves=group_size is None)
    batch = RolloutBatch(
        form="positions",
        temperature=sampler.temperature,
        policy_version=sampler.policy_version,
        samples="all_legal" if group_size is None else "drawn",
        alternating=vec.settings.opponent is None,
        **columns,
    )
    return batch, state
