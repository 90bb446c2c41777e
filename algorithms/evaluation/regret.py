"""Exact evaluation on the committed held-out table: no engine, no sampling."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from algorithms.networks.policy_net import PolicyNet
from chess_env.move_facts import move_facts_batch, with_further_facts
from chess_env.observation import encode_batch
from chess_env.rules.packed import Positions
from chess_env.rules.rules import legal_actions_batch

if TYPE_CHECKING:
    from chess_env.positions.heldout import Heldout

SCORE_CLIP_CP = 1000
"""Bound of child scores and of the regret in `eval/regret_cp`; part of its definition for ever."""

SUCCESS_REGRET_CP = 50
"""A move is a success for `eval/pass_at_k` if its regret is at most this, half a pawn."""

MAIN_SLICE = "random_2_40"
"""The slice of `eval/regret_cp` and of the checkpoint `best`."""

PASS_K = 8
"""Tries in `eval/pass_at_8`."""


@dataclasses.dataclass(frozen=True)
class HeldoutSlice:
    """One named slice of the table, ready for the network.

    Attributes:
        name: the slice.
        obs: uint8 `[M, C, 8, 8]`.
        legal_ids: int16 `[M, L]` padded with -1.
        child_score_cp: float64 `[M, L]` score of every child from the mover's view, centipawns,
            unclipped; 0 on padding.
        num_legal: int64 `[M]`.
        positions: uint64 `[M, 8]`, packed; no position has occurred before in its game.
    """

    name: str
    obs: NDArray[np.uint8]
    legal_ids: NDArray[np.int16]
    child_score_cp: NDArray[np.float64]
    num_legal: NDArray[np.int64]
    positions: Positions

    @cached_property
    def move_facts(self) -> NDArray[np.uint8]:
        """uint8 `[M, L, F]`: the facts of each legal move, made when they are first asked for."""
        return move_facts_batch(self.positions, self.legal_ids)

    def facts_for(self, policy: PolicyNet) -> NDArray[np.uint8] | None:
        """uint8 `[M, L, F]`: the facts that the policy reads; None where it reads none."""
        asked = policy.reads_move_facts
        if not asked:
            return None
        return with_further_facts(self.move_facts, self.positions, self.legal_ids, asked)

    def inputs(
        self, policy: PolicyNet, device: torch.device, minibatch_size: int
    ) -> Iterator[tuple[Tensor, Tensor, Tensor | None]]:
        """Inputs of a policy on `device`, part after part: (`[n, C, 8, 8]`, `[n, L]`, `[n, L, F]` or None).

        Args:
            policy: is given the facts of moves where it reads them.
            device: where it runs.
            minibatch_size: n, but for the last part.
        """
        facts = self.facts_for(policy)
        for start in range(0, len(self.obs), minibatch_size):
            rows = slice(start, start + minibatch_size)
            yield (
                torch.from_numpy(self.obs[rows]).to(device),
                torch.from_numpy(self.legal_ids[rows]).to(device),
                None if facts is None else torch.from_numpy(facts[rows]).to(device),
            )


_MEANS = (
    "regret_cp", "regret_cp_greedy", "entropy", "entropy_normalized", "effective_moves", "pass_at_1", "pass_at_8",
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Regret:
    """Result of `regret_cp`: means over the slice and the values behind them.

    Attributes:
        regret_cp: mean exact expected regret of the policy, centipawns (`eval/regret_cp`).
        regret_cp_greedy: mean regret of its most probable move (`eval/regret_cp_greedy`).
        entropy: mean entropy over positions with at least 2 legal moves, nats (`eval/entropy`).
        entropy_normalized: mean of entropy / ln(num_legal) over the same positions
            (`eval/entropy_normalized`).
        effective_moves: mean of exp(entropy) over the same positions (`eval/effective_moves`).
        pass_at_1: mean probability of a move with a regret of at most `SUCCESS_REGRET_CP`
            (`eval/pass_at_1`).
        pass_at_8: mean probability that one of `PASS_K` independent moves is such
            (`eval/pass_at_8`).
        per_position_cp: float64 `[M]`.
        per_position_greedy_cp: float64 `[M]`.
        per_position_entropy: float64 `[M]`, NaN where the move is forced.
        per_position_success: float64 `[M]` probability of a successful move.
    """

    regret_cp: float
    regret_cp_greedy: float
    entropy: float
    entropy_normalized: float
    effective_moves: float
    pass_at_1: float
    pass_at_8: float
    per_position_cp: NDArray[np.float64]
    per_position_greedy_cp: NDArray[np.float64]
    per_position_entropy: NDArray[np.float64]
    per_position_success: NDArray[np.float64]

    def metrics(self, prefix: str = "eval") -> dict[str, float]:
        """The means under their metric names."""
        return {f"{prefix}/{name}": getattr(self, name) for name in _MEANS}


def prepare_slice(heldout: Heldout, name: str) -> HeldoutSlice:
    """The slice's planes, legal moves and child scores as padded arrays.

    Raises:
        ValueError: there is no such slice, or the table does not fit the rules core's legal moves.
    """
    rows = heldout.indices(name)
    positions = np.ascontiguousarray(heldout.positions[rows])
    legal_ids, num_legal = legal_actions_batch(positions)
    starts, ends = heldout.offsets[rows], heldout.offsets[rows + 1]
    wrong = np.flatnonzero(ends - starts != num_legal)
    if wrong.size:
        row = int(rows[wrong[0]])
        raise ValueError(
            f"held-out position {row} has {int(ends[wrong[0]] - starts[wrong[0]])} child scores "
            f"and {int(num_legal[wrong[0]])} legal moves: the table was built by other rules; rebuild "
            "heldout.npz"
        )
    width = int(num_legal.max())
    scores = np.zeros((len(rows), width))
    scores[np.arange(width) < num_legal[:, None]] = np.concatenate(
        [heldout.child_score_cp[start:end] for start, end in zip(starts, ends, strict=True)]
    )
    return HeldoutSlice(
        name=name,
        obs=encode_batch(positions, np.zeros(len(rows), np.uint8)),
        legal_ids=np.ascontiguousarray(legal_ids[:, :width]),
        child_score_cp=scores,
        num_legal=num_legal.astype(np.int64),
        positions=positions,
    )


def move_regret_cp(heldout_slice: HeldoutSlice) -> NDArray[np.float64]:
    """Regret float64 `[M, L]` of every legal move, centipawns: min(1000, best child - child).

    Scores are first clipped to +-1000 cp. Padding gets 0.
    """
    legal = heldout_slice.legal_ids >= 0
    clipped = np.clip(heldout_slice.child_score_cp, -SCORE_CLIP_CP, SCORE_CLIP_CP)
    best = np.where(legal, clipped, -np.inf).max(axis=1, keepdims=True)
    return np.where(legal, np.minimum(SCORE_CLIP_CP, best - clipped), 0.0)


@torch.no_grad()
def regret_cp(
    policy: PolicyNet,
    heldout_slice: HeldoutSlice,
    *,
    temperature: float,
    device: torch.device,
    minibatch_size: int = 256,
) -> Regret:
    """Exact regret of the policy on a slice, centipawns, with its entropy and success rates.

    The mean over positions of sum_a pi_T(a|s) regret(s, a); see `move_regret_cp`.

    Args:
        policy: on `device`.
        heldout_slice: from `prepare_slice`.
        temperature: T, the rollout's.
        device: where the network runs.
        minibatch_size: positions per forward pass; memory only.
    """
    probs, entropy, best = [], [], []
    for obs, legal_ids, facts in heldout_slice.inputs(policy, device, minibatch_size):
        dist = policy.outputs(obs, legal_ids, temperature, facts).dist
        probs.append(dist.probs.double().cpu().numpy())
        entropy.append(dist.entropy().double().cpu().numpy())
        best.append(dist.logprobs.argmax(-1).cpu().numpy())
    regret = move_regret_cp(heldout_slice)
    all_probs = np.concatenate(probs)
    expected = (all_probs * regret).sum(axis=1)
    # Probabilities of padding are exactly 0; a sum of float32 ones may pass 1 by its rounding.
    success = np.minimum((all_probs * (regret <= SUCCESS_REGRET_CP)).sum(axis=1), 1.0)
    greedy = regret[np.arange(len(regret)), np.concatenate(best)]
    free = heldout_slice.num_legal >= 2
    entropies = np.where(free, np.concatenate(entropy), np.nan)
    return Regret(
        regret_cp=float(expected.mean()),
        regret_cp_greedy=float(greedy.mean()),
        entropy=float(entropies[free].mean()),
        entropy_normalized=float((entropies[free] / np.log(heldout_slice.num_legal[free])).mean()),
        effective_moves=float(np.exp(entropies[free]).mean()),
        pass_at_1=float(success.mean()),
        pass_at_8=float((1 - (1 - success) ** PASS_K).mean()),
        per_position_cp=expected,
        per_position_greedy_cp=greedy,
        per_position_entropy=entropies,
        per_position_success=success,
    )
