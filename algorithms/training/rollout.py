"""Self-play with the current policy on the vector environment, recorded as a `RolloutBatch`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from algorithms.core.batch import RolloutBatch
from algorithms.core.distribution import MaskedCategorical
from algorithms.training.planes import planes_of
from algorithms.training.policy import PolicyNet

if TYPE_CHECKING:
    from chess_env.vector_env import ChessSelfPlayVectorEnv


@dataclasses.dataclass
class RolloutState:
    """The boards as they stand between two rollouts, so that the streams of play go on.

    Attributes:
        positions: uint64 `[N, 8]`, packed; the planes are made where the network runs.
        repetitions: uint8 `[N]`, earlier occurrences of each position in its game.
        legal_ids: int16 `[N, 218]` ascending, padded with -1.
        num_legal: int16 `[N]`.
        ply: int32 `[N]`.
        turn: int8 `[N]`, 1 White.
        phase: int8 `[N]`.
    """

    positions: NDArray[np.uint64]
    repetitions: NDArray[np.uint8]
    legal_ids: NDArray[np.int16]
    num_legal: NDArray[np.int16]
    ply: NDArray[np.int32]
    turn: NDArray[np.int8]
    phase: NDArray[np.int8]

    @classmethod
    def of(cls, vec: ChessSelfPlayVectorEnv, info: Mapping[str, Any]) -> RolloutState:
        """The boards of `vec` after the `reset` or `step` that returned `info`; keeps its arrays."""
        names = ("legal_ids", "num_legal", "ply", "turn", "phase")
        return cls(vec.positions, vec.repetitions, **{name: info[name] for name in names})

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays by name, for a checkpoint."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> RolloutState:
        """The inverse of `to_arrays`."""
        return cls(**arrays)


def start_rollout(vec: ChessSelfPlayVectorEnv, seed: int | None) -> RolloutState:
    """The boards after `vec.reset(seed=seed)`."""
    _, info = vec.reset(seed=seed)
    return RolloutState.of(vec, info)


def _to_device(array: NDArray[Any], device: torch.device) -> Tensor:
    """The array on `device`; on CUDA through pinned memory, without waiting for the copy."""
    tensor = torch.from_numpy(np.ascontiguousarray(array))
    if device.type == "cuda":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


@torch.no_grad()
def _play_ply(
    vec: ChessSelfPlayVectorEnv,
    policy: PolicyNet,
    state: RolloutState,
    *,
    num_samples: int,
    temperature: float,
    generator: torch.Generator,
    device: torch.device,
) -> tuple[dict[str, Tensor | NDArray[Any]], RolloutState]:
    """One forward pass, `num_samples` moves per board, one evaluator call; sample 0 is played on.

    Returns the recorded columns (tensors on the device, arrays still on the host) and the boards
    afterwards. The copy of the actions to the host is the only point that waits for the device.
    """
    width = int(state.num_legal.max())
    legal_ids = _to_device(state.legal_ids[:, :width], device)
    packed = _to_device(state.positions.view(np.int64), device)
    obs = planes_of(packed, _to_device(state.repetitions, device))
    dist = MaskedCategorical(policy(obs, legal_ids), legal_ids >= 0, temperature)
    slots = dist.sample(num_samples, generator)
    actions = legal_ids.long().gather(1, slots)
    host_actions = actions.cpu().numpy()
    scored = vec.score_actions(host_actions)
    _, _, terminated, truncated, info = vec.step(host_actions[:, 0])
    record: dict[str, Tensor | NDArray[Any]] = {
        "obs": obs,
        "legal_ids": legal_ids,
        "slots": slots,
        "actions": actions,
        "old_logprobs": dist.gather(slots),
        "old_legal_logprobs": dist.logprobs,
        "rewards": scored["rewards"],
        "terminated": scored["terminated"],
        "truncated": truncated & ~terminated,
        "ended": terminated | truncated,
        "ply": state.ply,
        "side": state.turn,
        "phase": state.phase,
    }
    if "score_cp" in scored:
        record["score_cp"] = scored["score_cp"]
    return record, RolloutState.of(vec, info)


def _stack(
    records: Sequence[Mapping[str, Tensor | NDArray[Any]]], device: torch.device
) -> dict[str, Tensor]:
    """Columns of the plies stacked to `[boards, T, ...]` on `device`, legal lists padded alike."""
    width = max(record["legal_ids"].shape[1] for record in records)
    padding = {"legal_ids": -1, "old_legal_logprobs": -torch.inf}
    columns: dict[str, Tensor] = {}
    for name, first in records[0].items():
        values = [record[name] for record in records]
        if isinstance(first, Tensor):
            tensors = [value for value in values if isinstance(value, Tensor)]
            if name in padding:
                tensors = [F.pad(t, (0, width - t.shape[1]), value=padding[name]) for t in tensors]
            columns[name] = torch.stack(tensors, dim=1)
        else:
            columns[name] = _to_device(np.stack([np.asarray(v) for v in values], axis=1), device)
    return columns


def collect_positions(
    vec: ChessSelfPlayVectorEnv,
    policy: PolicyNet,
    state: RolloutState,
    *,
    num_plies: int,
    group_size: int,
    temperature: float,
    generator: torch.Generator,
    device: torch.device,
    policy_version: int = 0,
) -> tuple[RolloutBatch, RolloutState]:
    """A `positions` batch, and the boards as they stand afterwards.

    At every ply each of the P boards goes through the network once, G moves are drawn independently
    from that one distribution and scored, and the first of them is played on. Finished games
    restart (same-step autoreset), so a stream runs through several games; every sample is valid. A
    ply limit truncates a game without terminating it.

    Args:
        vec: P boards.
        policy: the behaviour policy.
        state: the boards, from `start_rollout` or the previous call.
        num_plies: T.
        group_size: G.
        temperature: softmax temperature, stored in the batch.
        generator: source of the samples, on `device`.
        device: where the network runs and the batch lives.
        policy_version: number of updates behind `policy`.
    """
    records = []
    for _ in range(num_plies):
        record, state = _play_ply(
            vec,
            policy,
            state,
            num_samples=group_size,
            temperature=temperature,
            generator=generator,
            device=device,
        )
        records.append(record)
    columns = _stack(records, device)
    columns.pop("ended")
    batch = RolloutBatch(
        form="positions",
        valid=torch.ones_like(columns["slots"], dtype=torch.bool),
        temperature=temperature,
        policy_version=policy_version,
        **columns,
    )
    return batch, state


def collect_games(
    vec: ChessSelfPlayVectorEnv,
    policy: PolicyNet,
    *,
    num_plies: int,
    group_size: int,
    temperature: float,
    generator: torch.Generator,
    device: torch.device,
    train_sides: Literal["both", "start"] = "both",
    fens: Sequence[str] | None = None,
    policy_version: int = 0,
) -> RolloutBatch:
    """A `games` batch: P starts, G games from each, up to T plies.

    T shrinks when every game ends earlier. `valid` is False after the end of a game and, with
    `train_sides="start"`, for the plies of the start player's opponent. Rewards are from the view of
    the player who moved, at every ply.

    Args:
        vec: P * G boards; they are reset.
        policy: the behaviour policy, playing both sides.
        num_plies: T.
        group_size: G.
        temperature: softmax temperature, stored in the batch.
        generator: source of the samples, on `device`.
        device: where the network runs and the batch lives.
        train_sides: train on `both` sides' plies or only on the `start` player's.
        fens: the P start positions; None draws them from the environment's own start positions.
        policy_version: number of updates behind `policy`.

    Raises:
        ValueError: the number of boards is not P * G.
    """
    if train_sides not in ("both", "start"):
        raise ValueError(f"train_sides is {train_sides!r}: expected 'both' or 'start'")
    if vec.num_envs % group_size:
        raise ValueError(
            f"num_envs is {vec.num_envs}, not a multiple of group_size {group_size}: a games "
            "rollout plays group_size games from each start; set num_envs to starts * group_size"
        )
    if fens is None:
        vec.reset()
        fens = vec.fens()[::group_size]
    if len(fens) * group_size != vec.num_envs:
        raise ValueError(
            f"{len(fens)} start positions times group_size {group_size} is not num_envs "
            f"{vec.num_envs}; give {vec.num_envs // group_size} FENs"
        )
    _, info = vec.reset(options={"fens": [fen for fen in fens for _ in range(group_size)]})
    state = RolloutState.of(vec, info)
    start_turn, alive = state.turn.copy(), np.ones(vec.num_envs, bool)
    records: list[dict[str, Tensor | NDArray[Any]]] = []
    while len(records) < num_plies and alive.any():
        trained = alive & ((state.turn == start_turn) | (train_sides == "both"))
        record, state = _play_ply(
            vec,
            policy,
            state,
            num_samples=1,
            temperature=temperature,
            generator=generator,
            device=device,
        )
        alive = alive & ~np.asarray(record["ended"])
        records.append(record | {"valid": trained})
    columns = _stack(records, device)
    columns.pop("ended")
    for name in ("slots", "actions", "old_logprobs", "rewards", "score_cp", "terminated"):
        if name in columns:
            columns[name] = columns[name].squeeze(-1)
    shaped = {name: c.unflatten(0, (len(fens), group_size)) for name, c in columns.items()}
    return RolloutBatch(
        form="games", temperature=temperature, policy_version=policy_version, **shaped
    )


@torch.no_grad()
def reference_logprobs(policy: PolicyNet, batch: RolloutBatch, *, minibatch_size: int) -> Tensor:
    """Log-probabilities float32 `[*S, L]` of `policy` at the batch's states and temperature."""
    flat = batch.flat()
    parts = [
        MaskedCategorical(policy(obs, legal_ids), legal_ids >= 0, batch.temperature).logprobs
        for obs, legal_ids in zip(
            flat.obs.split(minibatch_size), flat.legal_ids.split(minibatch_size), strict=True
        )
    ]
    return torch.cat(parts).reshape(batch.old_legal_logprobs.shape)
