"""One ply on all boards: a forward pass, and moves that are drawn, scored and played."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from algorithms.core.distribution import MaskedCategorical
from algorithms.rollouts.sampler import Sampler, to_device
from algorithms.rollouts.state import VecState
from chess_env.rules.rules import hash_batch

if TYPE_CHECKING:
    from chess_env.vector_env import ChessSelfPlayVectorEnv

PlyRecord = dict[str, Tensor | NDArray[Any]]
"""The record of one ply: field of `RolloutBatch` -> its values on all boards."""

_PADDING: dict[str, float] = {
    "legal_ids": -1,
    "old_legal_logprobs": -torch.inf,
    "ref_legal_logprobs": -torch.inf,
    "learner_legal_logprobs": -torch.inf,
    "move_facts": 0,
}
_ALL_MOVES_PADDING: dict[str, float] = {
    "slots": 0,
    "actions": -1,
    "old_logprobs": 0.0,
    "rewards": 0.0,
    "score_cp": 0,
    "terminated": False,
    "valid": False,
}


def padding_of(*, all_moves: bool) -> dict[str, float]:
    """Field -> what stands behind the legal moves of a state in it, of the fields that have an axis of legal moves.

    Args:
        all_moves: the samples of a state are its legal moves.
    """
    return _PADDING | (_ALL_MOVES_PADDING if all_moves else {})


@torch.no_grad()
def play_ply(
    vec: ChessSelfPlayVectorEnv,
    sampler: Sampler,
    state: VecState,
    *,
    num_samples: int | None,
    forced: Mapping[int, int] | None = None,
) -> tuple[PlyRecord, VecState]:
    """One forward pass, one evaluator call for all samples of a ply; sample 0 is played on.

    Against an opponent a ply is the learner's move with the reply to it, and there is one sample.

    Returns the recorded columns (tensors on the device, arrays still on the host) and the boards
    afterwards. Inside `vec.scoring.later()` rewards and scores are not among the columns. The copy of
    the actions to the host is the only point that waits for the device.

    Args:
        vec: N boards.
        sampler: draws the moves.
        state: the boards.
        num_samples: moves drawn on every board; None scores every legal move and plays one on that
            the policy draws.
        forced: board -> legal slot that is played there in place of the policy's own sample 0.
    """
    obs, legal_ids, move_facts = sampler.see(state)
    outputs = sampler.policy.outputs(obs, legal_ids, sampler.temperature, move_facts)
    dist = outputs.dist
    drawn = dist.sample(num_samples or 1, sampler.generator)
    for row, slot in (forced or {}).items():
        drawn[row, 0] = slot
    if num_samples is None:
        slots = torch.where(dist.legal, torch.arange(dist.legal.shape[-1], device=drawn.device), 0)
        valid = dist.legal
    else:
        slots, valid = drawn, torch.ones_like(drawn, dtype=torch.bool)
    actions = legal_ids.long().gather(1, slots)
    # Padding asks for the first legal move again: the environment scores rectangles, and an
    # evaluator scores a repeated position once.
    host_actions = actions.cpu().numpy()
    played = host_actions[:, 0]
    if num_samples is None or sampler.greedy_fraction > 0:
        chosen = _played_on(sampler, dist, drawn[:, :1])
        played = legal_ids.long().gather(1, chosen)[:, 0].cpu().numpy()
    versus = vec.settings.opponent is not None
    scored = {} if versus else vec.score_actions(host_actions)
    _, rewards, terminated, truncated, info = vec.step(played)
    if versus:  # what a move pays is known once it has been answered
        paid = rewards.astype(np.float32)
        scored = {"rewards": paid[:, None], "terminated": terminated[:, None]}
    record: PlyRecord = {
        "obs": obs,
        "legal_ids": legal_ids,
        "slots": slots,
        "actions": actions,
        "old_logprobs": dist.gather(slots),
        "old_legal_logprobs": dist.logprobs,
        "terminated": scored["terminated"],
        "truncated": truncated & ~terminated,
        "ended": terminated | truncated,
        "valid": valid,
        "ply": state.ply,
        "side": state.turn,
        "phase": state.phase,
        "position_hash": hash_batch(state.positions).view(np.int64),
    }
    if move_facts is not None:
        record["move_facts"] = move_facts
    if "rewards" in scored:  # else they come when all plies have been played
        record["rewards"] = scored["rewards"]
        if state.score_cp is not None:
            record["before_cp"] = state.score_cp
        if "score_cp" in scored:
            record["score_cp"] = scored["score_cp"]
    if outputs.values is not None:
        record["values"] = outputs.values
        record["final_values"] = _final_values(sampler, outputs.values, truncated, info)
    return record, VecState.of(vec, info)


def add_scores(
    records: Sequence[PlyRecord],
    scored: Sequence[Mapping[str, NDArray[Any]]],
    vec: ChessSelfPlayVectorEnv,
    state: VecState,
) -> VecState:
    """The boards with their scores; adds to each record what `vec.scoring.later()` found, if anything."""
    if not scored:  # the scores came with the plies
        return state
    for record, found in zip(records, scored, strict=True):
        record.update(found)
    return dataclasses.replace(state, score_cp=vec.scoring.score_cp.copy())


def _played_on(sampler: Sampler, dist: MaskedCategorical, sampled: Tensor) -> Tensor:
    """int64 `[N, 1]` the slots that are played on: the samples, on some boards the greedy moves.

    Where all boards play samples, nothing is drawn from the generator.
    """
    if sampler.greedy_fraction == 0:
        return sampled
    chance = torch.rand(sampled.shape, generator=sampler.generator, device=sampled.device)
    greedy = dist.logprobs.argmax(-1, keepdim=True)
    return torch.where(chance < sampler.greedy_fraction, greedy, sampled)


def _final_values(
    sampler: Sampler, values: Tensor, truncated: NDArray[np.bool_], info: Mapping[str, Any]
) -> Tensor:
    """Critic's values `[N]` of the last positions of games cut by the ply limit; 0 elsewhere.

    Those boards already hold new games (same-step autoreset). A position that ended by the rules on
    the very ply of the limit is not looked at: its game terminated.
    """
    final = torch.zeros_like(values)
    rows = np.flatnonzero(truncated)
    if len(rows):
        planes = to_device(info["final_obs"][rows], sampler.device)
        last = sampler.policy.values(*sampler.with_moves(planes, info["final_info"], rows))
        assert last is not None  # `values` are of the same network
        final[to_device(rows, sampler.device)] = last
    return final


def stack(
    records: Sequence[PlyRecord],
    sampler: Sampler,
    state: VecState,
    *,
    all_moves: bool = False,
) -> dict[str, Tensor]:
    """Columns of the plies stacked to `[boards, T, ...]` on the device, legal lists padded alike.

    Args:
        records: one for each ply.
        sampler: drew the moves.
        state: the boards after the last ply, whose values the last ply's `next_values` are.
        all_moves: the samples are the legal moves, and padded likewise.
    """
    width = max(record["legal_ids"].shape[1] for record in records)
    padding = padding_of(all_moves=all_moves)
    columns: dict[str, Tensor] = {}
    for name, first in records[0].items():
        values = [record[name] for record in records]
        if name in padding:
            tensors = [torch.as_tensor(value, device=sampler.device) for value in values]
            columns[name] = torch.stack(
                [pad_axis(t, 1, width, padding[name]) for t in tensors], dim=1
            )
        elif isinstance(first, Tensor):
            columns[name] = torch.stack([v for v in values if isinstance(v, Tensor)], dim=1)
        else:
            host = np.stack([np.asarray(v) for v in values], axis=1)
            columns[name] = to_device(host, sampler.device)
    if all_moves:
        # What the rectangle held beyond the legal moves was the first move once more.
        for name in _ALL_MOVES_PADDING.keys() & columns.keys():
            columns[name] = torch.where(columns["valid"], columns[name], padding[name])
    ended = columns.pop("ended")
    if "values" in columns:
        final = columns.pop("final_values")
        with torch.no_grad():
            last = sampler.policy.values(*sampler.see(state))
        assert last is not None
        following = torch.cat([columns["values"][:, 1:], last[:, None]], dim=1)
        # Cut by the ply limit: its last position's; ended by the rules: 0.
        cut = torch.where(columns["truncated"], final, 0.0)
        columns["next_values"] = torch.where(ended, cut, following)
    return columns


def pad_axis(tensor: Tensor, axis: int, size: int, fill: float) -> Tensor:
    """`[..., size, ...]`: the tensor with `fill` behind its entries along one axis."""
    behind = tensor.dim() - 1 - axis % tensor.dim()
    return F.pad(tensor, (0, 0) * behind + (0, size - tensor.shape[axis]), value=fill)
