"""Rollouts as `RolloutBatch`: streams of play, whole games, and groups that further rollouts replace; joined shards."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from algorithms.core.algorithm import Tempered
from algorithms.core.batch import RolloutBatch
from algorithms.core.metrics import legal_entropy
from algorithms.rollouts.sampling import (
    PlyRecord,
    Sampler,
    VecState,
    add_scores,
    pad_axis,
    padding_of,
    play_ply,
    stack,
)
from chess_env.evaluators.protocol import move_scores_of

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
    """
    if fens is None:
        vec.reset()
        fens = vec.fens()[::group_size]
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
    assert vec.evaluator is not None  # nothing else pays a run
    scores = move_scores_of(vec.evaluator, state.positions[rows])
    return {int(row): int(score.argmax()) for row, score in zip(rows, scores, strict=True)}


MAX_EXTRA_ROLLOUTS = 3


@dataclasses.dataclass(frozen=True)
class Collected:
    """The batch that one update learns from, and what it cost.

    Attributes:
        batch: the states and samples.
        scored_moves: valid samples of all rollouts, those that were thrown away included.
        plies: states of all rollouts with at least one valid sample.
        metrics: amounts of further rollouts; empty where the algorithm asks for none.
    """

    batch: RolloutBatch
    scored_moves: int
    plies: int
    metrics: dict[str, float] = dataclasses.field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Tensors and JSON values of every field, for other processes."""
        return {**vars(self), "batch": vars(self.batch)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Collected:
        """The batch and its cost of which these are the `to_dict()`."""
        return cls(**{**values, "batch": RolloutBatch(**values["batch"])})


def live_groups(batch: RolloutBatch) -> Tensor:
    """True where a group's valid rewards differ: bool `[P, T]`, or `[P]` in the form `games`.

    In `games` a group is all games from one start, and it is live if at some ply its valid rewards
    differ.
    """
    axis = batch.group_axis
    high = batch.rewards.masked_fill(~batch.valid, -torch.inf).amax(axis)
    low = batch.rewards.masked_fill(~batch.valid, torch.inf).amin(axis)
    live = high > low
    return live if batch.form == "positions" else live.any(-1)


def collect_live(
    first: RolloutBatch, roll: Callable[[int], RolloutBatch], affordable: Callable[[int], bool]
) -> Collected:
    """The first rollout with its dead groups replaced by live ones of at most three further ones.

    arXiv:2503.14476, section 3.2: prompts whose samples all have the same reward are filtered out and
    sampling goes on until the batch is full. Here the number of further rollouts is bounded, and dead
    groups for which none came stay, with advantage 0. Every scored move counts towards the budget,
    those of groups that are thrown away too.

    Args:
        first: a rollout.
        roll: makes a further one of the same form, with the same policy, given how many groups are
            wanted; it may hold more groups or fewer.
        affordable: whether the budget allows one more rollout after so many scored moves.

    Raises:
        ValueError: a reward is not finite; its group must not pass for a dead one.
    """
    first.require_finite_rewards()
    batch, moves, plies = first, first.scored_moves, first.plies
    replaced = extra = 0
    while extra < MAX_EXTRA_ROLLOUTS and affordable(moves):
        dead = (~live_groups(batch)).reshape(-1).nonzero().squeeze(-1)
        if dead.numel() == 0:
            break
        further = roll(dead.numel())
        further.require_finite_rewards()
        extra, moves, plies = extra + 1, moves + further.scored_moves, plies + further.plies
        live = live_groups(further).reshape(-1).nonzero().squeeze(-1)
        count = min(dead.numel(), live.numel())
        batch = replace_groups(batch, further, dead[:count], live[:count])
        replaced += count
    metrics = {
        "rollout/groups_replaced": float(replaced),
        "rollout/extra_rollouts": float(extra),
    }
    return Collected(batch, moves, plies, metrics)


TEMPERED_SHARE = 0.25
"""Groups sampled at another temperature, as a share of the batch's (the authors' code: a quarter of the prompts)."""


def collect_tempered(
    first: RolloutBatch,
    settings: Tempered,
    roll: Callable[[float, int], RolloutBatch],
    affordable: Callable[[int], bool],
    generator: torch.Generator,
) -> Collected:
    """The first rollout with some of its groups replaced by successes of a further one at another temperature.

    AEPO (arXiv:2510.08141; read in the authors' code 597358816/AEPO, verl/trainer/ray_trainer.py). A group can come
    over if it has a success (a reward above 0) and rewards that differ; its failures are then not valid. Which groups
    give way and which come over is drawn at random. Every scored move counts towards the budget, failures and
    groups that nobody takes too. Where the budget allows no further rollout, nothing is replaced.

    Args:
        first: a rollout of the form `positions`.
        settings: how many groups, and at which temperatures.
        roll: makes a further rollout with the same policy, given its tempering and about how many groups it has.
        affordable: whether the budget allows one more rollout after so many scored moves.
        generator: draws the groups, on the batch's device.

    Raises:
        ValueError: a reward is not finite.
    """
    first.require_finite_rewards()
    hot = float(legal_entropy(first.old_legal_logprobs).double().mean()) <= settings.ent_target
    groups = first.side.numel()
    # Less what rounding may have added to a whole number.
    wanted = math.ceil(groups * settings.share * (1.0 if hot else 0.5) - 1e-9)
    batch = dataclasses.replace(first, tempered=torch.zeros_like(first.truncated))
    moves, plies, extra = first.scored_moves, first.plies, affordable(first.scored_moves)
    into = torch.empty(0, dtype=torch.int64)
    if extra:
        tempering = settings.temperature_high if hot else settings.temperature_low
        further = roll(tempering, math.ceil(groups * TEMPERED_SHARE))
        further.require_finite_rewards()
        moves, plies = moves + further.scored_moves, plies + further.plies
        live = live_groups(further)
        successes = further.valid & (further.rewards > 0)
        further = dataclasses.replace(further, valid=successes, tempered=live)
        able = live.reshape(-1).nonzero().squeeze(-1)
        taken = able[_shuffled(able.numel(), generator)][:wanted]
        into = _shuffled(groups, generator)[: taken.numel()]
        batch = replace_groups(batch, further, into, taken)
    assert batch.tempered is not None
    metrics = {
        "rollout/extra_rollouts": float(extra),
        "rollout/hot_rollouts": float(extra and hot),
        "rollout/tempered_groups": float(into.numel()),
        "rollout/tempered_samples": float(batch.valid[batch.tempered].sum()),
    }
    return Collected(batch, moves, plies, metrics)


def _shuffled(count: int, generator: torch.Generator) -> Tensor:
    return torch.randperm(count, generator=generator, device=generator.device)


def replace_groups(
    batch: RolloutBatch, source: RolloutBatch, into: Tensor, taken: Tensor
) -> RolloutBatch:
    """`batch` with its groups `into` replaced by the groups `taken` of `source`.

    Args:
        batch: a rollout.
        source: another of the same form.
        into: int64 `[n]` numbers of groups, row-major over `[P, T]`, or over `[P]` in `games`.
        taken: int64 `[n]` likewise, of `source`.
    """
    axes = 2 if batch.form == "positions" else 1
    changed: dict[str, Tensor] = {}
    for field in dataclasses.fields(batch):
        target, other = getattr(batch, field.name), getattr(source, field.name)
        if not isinstance(target, Tensor):
            continue
        target, other = alike(field.name, batch, [target, other])
        lead, rest = target.shape[:axes], target.shape[axes:]
        flat = target.reshape(-1, *rest).clone()
        flat[into] = other.reshape(-1, *rest)[taken]
        changed[field.name] = flat.reshape(*lead, *rest)
    return dataclasses.replace(batch, **changed)  # type: ignore[arg-type]


def alike(name: str, batch: RolloutBatch, tensors: Sequence[Tensor]) -> list[Tensor]:
    """The column `name` of several rollouts, `[*S, ...]` each, padded to the longest legal list and game.

    Args:
        name: a field that holds tensors.
        batch: one of the rollouts.
        tensors: the field of each of them.
    """
    padding = padding_of(all_moves=batch.samples == "all_legal")
    axes = [-2 if name == "move_facts" else -1] if name in padding else []
    # A ply that a rollout did not reach has no legal move and no valid sample.
    axes += [2] if batch.form == "games" else []
    found = list(tensors)
    for axis in axes:
        size = max(tensor.shape[axis] for tensor in found)
        found = [pad_axis(tensor, axis, size, padding.get(name, 0)) for tensor in found]
    return found


def joined(parts: Sequence[Collected]) -> Collected:
    """One `Collected` with the start positions of all parts, and their amounts added up."""
    if len(parts) == 1:
        return parts[0]
    metrics: dict[str, float] = {}
    for part in parts:
        metrics = {name: metrics.get(name, 0.0) + value for name, value in part.metrics.items()}
    return Collected(
        joined_batches([part.batch for part in parts]),
        sum(part.scored_moves for part in parts),
        sum(part.plies for part in parts),
        metrics,
    )


def joined_batches(batches: Sequence[RolloutBatch]) -> RolloutBatch:
    """One batch with the start positions of all, `[P1 + P2 + ..., ...]`; lists and games are padded to the longest."""
    first = batches[0]
    columns: dict[str, Any] = {}
    for field in dataclasses.fields(first):
        found = [getattr(batch, field.name) for batch in batches]
        if isinstance(found[0], Tensor):
            columns[field.name] = torch.cat(alike(field.name, first, found))
    return dataclasses.replace(first, **columns)
