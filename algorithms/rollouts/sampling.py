"""One ply on all boards: what the network reads of them, and moves that are drawn, scored and played."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from algorithms.core.distribution import MaskedCategorical
from algorithms.networks.policy_net import PolicyNet
from chess_env.observation import (
    EVERYWHERE,
    MAX_REPETITIONS,
    NUM_PLANES,
    ON_SQUARES,
    PLANE_INDEX,
    encode_batch,
)
from chess_env.rules.rules import hash_batch

if TYPE_CHECKING:
    from chess_env.vector_env import ChessSelfPlayVectorEnv


@dataclasses.dataclass
class VecState:
    """The boards as they stand between two rollouts, so that the streams of play go on.

    Attributes:
        positions: uint64 `[N, 8]`, packed; the planes are made where the network runs.
        repetitions: uint8 `[N]`, earlier occurrences of each position in its game.
        legal_ids: int16 `[N, 218]` ascending, padded with -1.
        num_legal: int16 `[N]`.
        ply: int32 `[N]`.
        turn: int8 `[N]`, 1 White.
        phase: int8 `[N]`.
        score_cp: int32 `[N]`, side to move's view, centipawns; None without an evaluator.
        move_facts: uint8 `[N, L, F]` of each legal move; None where the boards were made without.
    """

    positions: NDArray[np.uint64]
    repetitions: NDArray[np.uint8]
    legal_ids: NDArray[np.int16]
    num_legal: NDArray[np.int16]
    ply: NDArray[np.int32]
    turn: NDArray[np.int8]
    phase: NDArray[np.int8]
    score_cp: NDArray[np.int32] | None = None
    move_facts: NDArray[np.uint8] | None = None

    @classmethod
    def of(cls, vec: ChessSelfPlayVectorEnv, info: Mapping[str, Any]) -> VecState:
        """The boards of `vec` after the `reset` or `step` that returned `info`; keeps its arrays."""
        names = ("legal_ids", "num_legal", "ply", "turn", "phase")
        named = {name: info[name] for name in names}
        named |= {name: info[name] for name in ("score_cp", "move_facts") if name in info}
        return cls(vec.positions, vec.repetitions, **named)


# The groups that both directions treat as one.
_OWN_MEN = slice(PLANE_INDEX.mover_pawn, PLANE_INDEX.mover_king + 1)
_THEIR_MEN = slice(PLANE_INDEX.opponent_pawn, PLANE_INDEX.opponent_king + 1)
_RIGHTS = slice(PLANE_INDEX.mover_castles_kingside, PLANE_INDEX.opponent_castles_queenside + 1)


def planes_of(positions: Tensor, repetitions: Tensor) -> Tensor:
    """uint8 `[N, C, 8, 8]`: the planes of `chess_env.observation.encode_batch`, on the positions' device.

    Args:
        positions: int64 `[N, 8]`, packed positions (the bits of `chess_env.rules.movegen`'s uint64 words).
        repetitions: uint8 `[N]`, earlier occurrences of each position in its game.
    """
    squares = torch.arange(64, device=positions.device)
    men = ((positions[:, :7, None] >> squares) & 1).to(torch.uint8)
    kinds, own = men[:, :6], men[:, 6:]
    state = positions[:, 7, None]
    planes = torch.empty((len(positions), NUM_PLANES, 64), dtype=torch.uint8, device=men.device)
    planes[:, _OWN_MEN] = kinds * own
    planes[:, _THEIR_MEN] = kinds * (1 - own)
    for row, high, shown in EVERYWHERE:
        planes[:, row] = ((state >> shown.shift) & shown.mask).clamp(max=high)
    en_passant = (state >> 4) & 63
    planes[:, PLANE_INDEX.en_passant] = (squares == en_passant) & (en_passant > 0)
    if ON_SQUARES:
        rows = [row for row, _ in ON_SQUARES]
        seen = encode_batch(positions.cpu().numpy().view(np.uint64))[:, rows]
        planes[:, rows] = torch.from_numpy(seen).flatten(2).to(planes.device)
    planes[:, PLANE_INDEX.repetitions] = repetitions.clamp(max=MAX_REPETITIONS).unsqueeze(-1)
    return planes.view(-1, NUM_PLANES, 8, 8)


def positions_of(planes: Tensor, side: Tensor) -> Tensor:
    """int64 `[N, 8]`: the packed positions that the planes show; the inverse of `planes_of`.

    The planes say nothing of the full-move number (0 here) and end the rule-50 clock at 100.

    Args:
        planes: uint8 `[N, C, 8, 8]`, mover's view.
        side: int8 `[N]`, side to move, 1 White, 0 Black.
    """
    squares = torch.arange(64, device=planes.device)
    cells = planes.flatten(2).long()
    # One bit for each square, so no sum carries.
    own = (cells[:, _OWN_MEN] << squares).sum(-1)
    theirs = (cells[:, _THEIR_MEN] << squares).sum(-1)
    positions = torch.zeros((len(planes), 8), dtype=torch.int64, device=planes.device)
    positions[:, :6] = own | theirs
    positions[:, 6] = own.sum(-1)
    rights = (cells[:, _RIGHTS, 0] << squares[:4]).sum(-1)
    en_passant = (cells[:, PLANE_INDEX.en_passant] * squares).sum(-1) << 4
    black = (1 - side.long()) << 10
    positions[:, 7] = rights | en_passant | black | (cells[:, PLANE_INDEX.rule50_clock, 0] << 16)
    return positions


class NetworkInputs(NamedTuple):
    """The network's inputs for N boards, on its device.

    Attributes:
        obs: uint8 `[N, C, 8, 8]` planes.
        legal_ids: int16 `[N, L]`, padded with -1 to the longest list of legal moves.
        move_facts: uint8 `[N, L, F]`; None where the network reads none.
    """

    obs: Tensor
    legal_ids: Tensor
    move_facts: Tensor | None


@dataclasses.dataclass(frozen=True)
class Sampler:
    """The policy that plays, and how its moves are drawn.

    Attributes:
        policy: the behaviour policy.
        temperature: softmax temperature.
        generator: source of the samples, on `device`.
        device: where the network runs and the batch lives.
        greedy_fraction: share of the boards, drawn anew at every ply, that play on with the most
            probable move in place of a sample.
        policy_version: number of updates that `policy` has had.
        tempering: moves are drawn at this times `temperature`; what is recorded of them stays that at `temperature`.
    """

    policy: PolicyNet
    temperature: float
    generator: torch.Generator
    device: torch.device
    greedy_fraction: float = 0.0
    policy_version: int = 0
    tempering: float = 1.0

    def draw(self, dist: MaskedCategorical, num_samples: int) -> Tensor:
        """int64 `[N, num_samples]` slots drawn from the policy's distribution, tempered."""
        if self.tempering != 1:
            dist = MaskedCategorical(dist.logprobs, dist.legal, self.tempering)
        return dist.sample(num_samples, self.generator)

    def see(self, state: VecState) -> NetworkInputs:
        """The policy's inputs for the boards."""
        packed = to_device(state.positions.view(np.int64), self.device)
        planes = planes_of(packed, to_device(state.repetitions, self.device))
        return self.with_moves(planes, vars(state), slice(None))

    def with_moves(
        self, obs: Tensor, boards: Mapping[str, Any], rows: NDArray[np.int64] | slice
    ) -> NetworkInputs:
        """The planes `[n, C, 8, 8]` of some boards with their legal moves, cut to the longest list.

        Args:
            obs: on the device.
            boards: `legal_ids`, `num_legal` and, where the policy reads them, `move_facts` of N boards,
                as in the environment's `info`.
            rows: which of them, n.
        """
        width = int(boards["num_legal"][rows].max())
        legal_ids = to_device(boards["legal_ids"][rows, :width], self.device)
        facts = boards.get("move_facts") if self.policy.reads_move_facts else None
        if facts is None:
            return NetworkInputs(obs, legal_ids, None)
        return NetworkInputs(obs, legal_ids, to_device(facts[rows, :width], self.device))


def to_device(array: NDArray[Any], device: torch.device) -> Tensor:
    """The array on `device`, same shape and dtype; on CUDA through pinned memory, without waiting for the copy."""
    tensor = torch.from_numpy(np.ascontiguousarray(array))
    if device.type == "cuda":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


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
    drawn = sampler.draw(dist, num_samples or 1)
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
        positions = to_device(info["final_obs"][rows].view(np.int64), sampler.device)
        repetitions = to_device(info["final_info"]["repetitions"][rows], sampler.device)
        planes = planes_of(positions, repetitions)
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
