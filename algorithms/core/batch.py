"""The record that flows from rollout to update, with the shape of every field.

Axes: P start positions or streams of play, G samples per group, T plies, L legal slots (padded), N
    flat states, K actions per flat state, F facts of a move.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

import torch
from torch import Tensor


@dataclasses.dataclass(frozen=True)
class FlatBatch:
    """States in one axis; what an algorithm's loss and the regulariser see.

    Attributes:
        obs: uint8 `[N, C, 8, 8]` planes, mover's view.
        legal_ids: int16 `[N, L]` legal action ids ascending, padded with -1.
        slots: int64 `[N, K]` index of each chosen action inside `legal_ids`.
        old_logprobs: float32 `[N, K]` log-probability of each chosen action when it was sampled (at
            `temperature`).
        valid: bool `[N, K]` True where the sample counts; everything else is padding.
        old_legal_logprobs: float32 `[N, L]` the whole behaviour distribution (-inf on padding).
        ref_legal_logprobs: float32 `[N, L]` the reference policy's distribution, or None.
        temperature: the rollout's softmax temperature.
        games: int64 `[N]` which game (form `games`) or state (form `positions`) each state belongs
            to, counted within the rollout.
        old_values: float32 `[N]` the critic's values when the moves were sampled, side to move's
            view; None without a critic.
        returns: float32 `[N, K]` targets of the critic; None without a critic.
        uniforms: float32 `[N, K]` random numbers in [0, 1), where the algorithm needs them.
        move_facts: uint8 `[N, L, F]` of each legal move (0 on padding); None where the policy reads none.
    """

    obs: Tensor
    legal_ids: Tensor
    slots: Tensor
    old_logprobs: Tensor
    valid: Tensor
    old_legal_logprobs: Tensor
    ref_legal_logprobs: Tensor | None
    temperature: float
    games: Tensor
    old_values: Tensor | None = None
    returns: Tensor | None = None
    uniforms: Tensor | None = None
    move_facts: Tensor | None = None

    @property
    def legal(self) -> Tensor:
        """Bool in the shape of `legal_ids`: True where it holds a move."""
        return self.legal_ids >= 0

    @property
    def num_states(self) -> int:
        """N."""
        return self.obs.shape[0]

    def select(self, index: Tensor | slice) -> FlatBatch:
        """The states of an int64 index `[M]`, in that order, or of a slice; a state's K actions stay together."""
        selected: dict[str, Any] = {
            field.name: rows_of(value, index)
            for field in dataclasses.fields(self)
            if isinstance(value := getattr(self, field.name), Tensor)
        }
        return dataclasses.replace(self, **selected)


def rows_of(values: Tensor, index: Tensor | slice) -> Tensor:
    """The rows of an int64 index `[M]`, or of a slice."""
    # The same as values[index], which takes ten times as long for rows of many small integers.
    return values[index] if isinstance(index, slice) else values.index_select(0, index)


BY_STATE = (
    "legal_ids",
    "move_facts",
    "old_legal_logprobs",
    "ref_legal_logprobs",
    "learner_legal_logprobs",
    "before_cp",
    "position_hash",
    "values",
    "next_values",
    "truncated",
    "ply",
    "side",
    "phase",
    "tempered",
)
"""Fields of a `RolloutBatch` whose shape begins with the state axes S."""

BY_MEMBER = ("slots", "actions", "old_logprobs", "rewards", "score_cp", "terminated", "valid")
"""Fields of a `RolloutBatch` whose shape begins with the member axes M."""


@dataclasses.dataclass(frozen=True)
class RolloutBatch:
    """Everything one rollout produced. S stands for the state axes, M for the member axes.

    | form | S | M | a group is |
    |---|---|---|---|
    | `positions` | `[P, T]` | `[P, T, G]` | the G moves sampled from one position |
    | `games` | `[P, G, T]` | `[P, G, T]` | the G games from one start, ply by ply |

    Attributes:
        form: `positions` or `games`.
        obs: uint8 `[*S, C, 8, 8]` planes before the move, mover's view.
        legal_ids: int16 `[*S, L]` legal action ids ascending, padded with -1.
        slots: int64 `[*M]` index of the chosen action inside `legal_ids`.
        actions: int64 `[*M]` action ids.
        old_logprobs: float32 `[*M]` behaviour log-probability at `temperature`.
        old_legal_logprobs: float32 `[*S, L]` behaviour distribution (-inf on padding).
        rewards: float32 `[*M]` raw reward from the view of the player who moved.
        score_cp: int32 `[*M]` score of the position after the move, mover's view, centipawns;
            None without an evaluator.
        terminated: bool `[*M]` the move ends the game by the rules.
        truncated: bool `[*S]` the ply limit ended the game after the played move (no termination).
        valid: bool `[*M]` True where the sample is trained on and counts towards the budget.
        ply: int32 `[*S]` plies since the start position.
        side: int8 `[*S]` side to move, 1 White, 0 Black.
        phase: int8 `[*S]` 0 opening, 1 middlegame, 2 endgame.
        temperature: softmax temperature the moves were sampled at.
        policy_version: number of updates the sampling policy had received.
        samples: `drawn` from the policy, or `all_legal`: a state's samples are all its legal moves, in
            the order of its slots (form `positions`).
        ref_legal_logprobs: float32 `[*S, L]` reference distribution at `temperature`, or None.
        learner_legal_logprobs: float32 `[*S, L]` the learner's distribution when the batch was
            complete, where the regulariser asks for it (it differs from the behaviour's while the
            old policy is stale), or None.
        before_cp: int32 `[*S]` score of the position before the move, mover's view, centipawns;
            None without an evaluator.
        position_hash: int64 `[*S]` of board, side, castling and en passant; None if not computed.
        values: float32 `[*S]` critic's values, side to move's view, reward units; None without one.
        next_values: float32 `[*S]` critic's value of the position after the move that was played
            on, from *its* side to move's view; 0 where the game terminated; None without a critic.
        alternating: True: the players of a game move in turn, ply by ply; False: the opponent answers
            inside the environment's step, so that the learner makes every recorded move of a game.
        move_facts: uint8 `[*S, L, F]` of each legal move (0 on padding); None where the policy reads none.
        tempered: bool `[*S]` True where the samples were drawn at another temperature and only successes are valid
            (`Needs.tempered`); their probabilities are those at `temperature` all the same. None: nowhere.
    """

    form: Literal["positions", "games"]
    obs: Tensor
    legal_ids: Tensor
    slots: Tensor
    actions: Tensor
    old_logprobs: Tensor
    old_legal_logprobs: Tensor
    rewards: Tensor
    terminated: Tensor
    truncated: Tensor
    valid: Tensor
    ply: Tensor
    side: Tensor
    phase: Tensor
    temperature: float
    policy_version: int
    score_cp: Tensor | None = None
    ref_legal_logprobs: Tensor | None = None
    learner_legal_logprobs: Tensor | None = None
    before_cp: Tensor | None = None
    position_hash: Tensor | None = None
    values: Tensor | None = None
    next_values: Tensor | None = None
    alternating: bool = True
    samples: Literal["drawn", "all_legal"] = "drawn"
    move_facts: Tensor | None = None
    tempered: Tensor | None = None

    def __post_init__(self) -> None:
        if self.form not in ("positions", "games"):
            raise ValueError(f"form is {self.form!r}: expected 'positions' or 'games'")
        if self.form == "games" and not self.alternating:
            raise ValueError(
                "a 'games' batch holds both players' plies and alternating is False: collect against "
                "an opponent in the form 'positions'"
            )
        states = self.obs.shape[:-3]
        members = (*states, self.slots.shape[-1]) if self.form == "positions" else states
        leads = dict.fromkeys(BY_STATE, tuple(states)) | dict.fromkeys(BY_MEMBER, tuple(members))
        for name, lead in leads.items():
            value = getattr(self, name)
            if value is not None and tuple(value.shape[: len(lead)]) != lead:
                raise ValueError(
                    f"{name} has shape {tuple(value.shape)}: a '{self.form}' batch with obs "
                    f"{tuple(self.obs.shape)} "
                    f"needs it to start with {lead}"
                )

    @property
    def group_axis(self) -> int:
        """Axis of the group members in `rewards`: -1 for `positions`, 1 for `games`."""
        return -1 if self.form == "positions" else 1

    @property
    def scored_moves(self) -> int:
        """Number of valid samples: the unit budgets are counted in."""
        return int(self.valid.sum())

    @property
    def plies(self) -> int:
        """Number of states with at least one valid sample."""
        valid = self.valid.any(-1) if self.form == "positions" else self.valid
        return int(valid.sum())

    def require_finite_rewards(self) -> None:
        """Raises ValueError, with their number, where rewards of valid samples are not finite."""
        finite = torch.isfinite(self.rewards) | ~self.valid
        if not finite.all():
            raise ValueError(
                f"{int((~finite).sum())} of {self.scored_moves:,} rewards are not finite: nothing was "
                "learned from them; look at the reward term and the evaluator (env.reward, "
                "env.evaluator)"
            )

    def flatten(self, values: Tensor) -> Tensor:
        """`[N, K]` view of values shaped like `rewards`: K = G for `positions`, 1 for `games`."""
        return values.reshape(-1, values.shape[-1] if self.form == "positions" else 1)

    def with_reference(self, ref_legal_logprobs: Tensor) -> RolloutBatch:
        """The same batch carrying the reference distribution `[*S, L]` (-inf on padding)."""
        return dataclasses.replace(self, ref_legal_logprobs=ref_legal_logprobs)

    def flat(self) -> FlatBatch:
        """The states in one axis N (row-major over the state axes), each with its K actions."""
        slots_l = self.legal_ids.shape[-1]
        ref, facts = self.ref_legal_logprobs, self.move_facts
        return FlatBatch(
            obs=self.obs.reshape(-1, *self.obs.shape[-3:]),
            legal_ids=self.legal_ids.reshape(-1, slots_l),
            slots=self.flatten(self.slots),
            old_logprobs=self.flatten(self.old_logprobs),
            valid=self.flatten(self.valid),
            old_legal_logprobs=self.old_legal_logprobs.reshape(-1, slots_l),
            ref_legal_logprobs=None if ref is None else ref.reshape(-1, slots_l),
            temperature=self.temperature,
            games=self._games(),
            old_values=None if self.values is None else self.values.reshape(-1),
            move_facts=None if facts is None else facts.reshape(-1, *facts.shape[-2:]),
        )

    def _games(self) -> Tensor:
        states = self.obs.shape[:-3]
        plies = states[-1] if self.form == "games" else 1
        return torch.arange(states.numel(), device=self.obs.device) // plies

    def to(self, device: torch.device) -> RolloutBatch:
        """The same batch with every tensor on `device`."""
        moved: dict[str, Any] = {
            field.name: value.to(device)
            for field in dataclasses.fields(self)
            if isinstance(value := getattr(self, field.name), Tensor)
        }
        return dataclasses.replace(self, **moved)


def blank_batch(
    form: Literal["positions", "games"],
    states: tuple[int, ...],
    *,
    samples: int = 1,
    num_legal: int = 2,
    temperature: float = 1.0,
) -> RolloutBatch:
    """A blank batch: empty planes, a uniform policy, rewards of 0, every sample valid.

    Checks and tests replace the fields that they need.

    Args:
        form: of the rollout.
        states: the state axes S.
        samples: of each state in `positions` form; the samples go round the legal moves.
        num_legal: legal moves of every state.
        temperature: of the softmax.
    """
    members = (*states, samples) if form == "positions" else states
    slots = torch.arange(members[-1] if form == "positions" else 1).expand(members) % num_legal
    plies = torch.arange(states[-1])
    return RolloutBatch(
        form=form,
        obs=torch.zeros(*states, 1, 8, 8, dtype=torch.uint8),
        legal_ids=torch.arange(num_legal, dtype=torch.int16).expand(*states, num_legal),
        slots=slots,
        actions=slots,
        old_logprobs=torch.full(members, 1 / num_legal).log(),
        old_legal_logprobs=torch.full((*states, num_legal), 1 / num_legal).log(),
        rewards=torch.zeros(members),
        terminated=torch.zeros(members, dtype=torch.bool),
        truncated=torch.zeros(states, dtype=torch.bool),
        valid=torch.ones(members, dtype=torch.bool),
        ply=plies.to(torch.int32).expand(states),
        side=(1 - plies % 2).to(torch.int8).expand(states),
        phase=torch.zeros(states, dtype=torch.int8),
        temperature=temperature,
        policy_version=0,
    )
