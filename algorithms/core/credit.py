"""Which rewards a move is credited with. Pure functions; nothing here carries a gradient.

Every reward is from the view of the player who moves at that ply, so a later reward of the opponent
enters with the opposite sign. Where the opponent moves inside the environment's step (`alternating` is
False), all plies are the learner's and no sign changes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from algorithms.core.advantages import gae
from algorithms.core.batch import RolloutBatch
from algorithms.core.checks import require_choice, require_shares

Credit = Literal["step", "outcome", "return_to_go"]


def ended(batch: RolloutBatch) -> Tensor:
    """Bool `[..., T]`: the game is over after the move that was played on, by rule or ply limit."""
    terminated = batch.terminated[..., 0] if batch.form == "positions" else batch.terminated
    return terminated | batch.truncated


def alive(batch: RolloutBatch) -> Tensor:
    """Bool `[P, G, T]`: the ply belongs to the game that the row began with, valid or not.

    The boards restart when a game is over, so what follows its end belongs to another game.

    Raises:
        ValueError: the batch has the form `positions`, where streams run through several games.
    """
    _require_games(batch, "a game's extent")
    over = ended(batch).int()
    return over.cumsum(-1) - over == 0


def start_sign(batch: RolloutBatch) -> Tensor:
    """Float `[P, G, T]`: +1 where the player who began the row is to move, -1 for the opponent."""
    return torch.where(batch.side == batch.side[..., :1], 1.0, -1.0)


def outcome(batch: RolloutBatch) -> Tensor:
    """`[P, G, T]` what the whole game was worth to the player who moves, the same at all its plies.

    The sum of start-player-signed rewards over the plies alive, the opponent's included (trained on
    or not), times the sign of the ply. Without a discount. 0 after the game's end.

    Raises:
        ValueError: the batch has the form `positions`.
    """
    living, sign = alive(batch), start_sign(batch)
    total = (sign * torch.where(living, batch.rewards, 0.0)).double().sum(-1, keepdim=True)
    return torch.where(living, sign * total, 0.0).to(batch.rewards.dtype)


def return_to_go(batch: RolloutBatch, gamma: float) -> Tensor:
    """`[P, G, T]` discounted rewards from this ply on: R_t = r_t - gamma R_{t+1}.

    From the view of the player who moves at t; 0 after the game's end. Nothing is assumed about what
    would have followed a ply limit.

    Raises:
        ValueError: the batch has the form `positions`, or gamma is not in [0, 1].
    """
    require_shares(gamma=gamma)
    living = alive(batch)
    rewards = torch.where(living, batch.rewards, 0.0).double()
    returns = torch.zeros_like(rewards)
    following = torch.zeros_like(rewards[..., 0])
    for t in range(rewards.shape[-1] - 1, -1, -1):
        # Rows whose game is over hold zeros from there on, so nothing leaks back into the game.
        following = rewards[..., t] - gamma * following
        returns[..., t] = following
    return returns.to(batch.rewards.dtype)


CREDITS: dict[str, Callable[[RolloutBatch, float], Tensor]] = {
    "step": lambda batch, gamma: batch.rewards,
    "outcome": lambda batch, gamma: outcome(batch),
    "return_to_go": return_to_go,
}


def credited(batch: RolloutBatch, credit: Credit, gamma: float) -> Tensor:
    """Rewards that each sample is credited with, shaped like `batch.rewards`, in the view of its own mover.

    - `step`: its own reward (any form).
    - `outcome`: the whole game's (form `games`).
    - `return_to_go`: from its ply on, discounted with gamma (form `games`).

    Raises:
        ValueError: the credit is unknown, or the batch's form cannot carry it.
    """
    require_choice("credit", credit, CREDITS)
    if credit != "step":
        _require_games(batch, f"credit={credit!r}")
    return CREDITS[credit](batch, gamma)


def require_credit(credit: Credit, gamma: float) -> None:
    """Raises ValueError unless credit and gamma are settings that `credited` knows."""
    require_choice("credit", credit, CREDITS)
    require_shares(gamma=gamma)


def actor_critic(batch: RolloutBatch, gamma: float, gae_lambda: float) -> Tensor:
    """Generalised advantages shaped like `batch.rewards`, 0 where not valid; see `advantages.gae`.

    In `games` form they run along each game, over plies that are not trained on too. In `positions`
    form they run along each stream, whose samples other than the one played on have successors that
    nobody visited: with several samples gamma must be 0, where all get r - V(s).

    Raises:
        ValueError: the batch has no values, or several samples per position and gamma > 0.
    """
    if batch.values is None or batch.next_values is None:
        raise ValueError(
            "the batch has no values: collect it with a policy that has a value head, as needs() "
            "asks"
        )
    valid, values, next_values = batch.valid, batch.values, batch.next_values
    if batch.form == "games":
        living = alive(batch)
        found = gae(batch.rewards, values, next_values, ended(batch), living, -gamma, gae_lambda)
        return torch.where(valid, found, 0.0)
    if batch.rewards.shape[-1] == 1:
        played, everywhere = batch.rewards[..., 0], torch.ones_like(batch.truncated)
        discount = -gamma if batch.alternating else gamma
        found = gae(played, values, next_values, ended(batch), everywhere, discount, gae_lambda)
        return torch.where(valid, found.unsqueeze(-1), 0.0)
    if gamma != 0:
        raise ValueError(
            f"gamma is {gamma} with {batch.rewards.shape[-1]} samples per position: only the first "
            "is played on, so the positions after the others are unknown; set gamma to 0, group_size "
            "to 1, or rollout.form to 'games'"
        )
    return torch.where(valid, batch.rewards - values.unsqueeze(-1), 0.0)


def _require_games(batch: RolloutBatch, what: str) -> None:
    if batch.form != "games":
        raise ValueError(
            f"{what} needs whole games, but the rollout has the form {batch.form!r}, where a sample's "
            "game is one ply: set credit to 'step', or rollout.form to 'games'"
        )
