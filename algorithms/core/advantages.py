"""Which rewards a move is credited with, and its advantage. Pure functions; none of them carries a gradient.

Every reward is from the view of the player who moves at that ply, so a later reward of the opponent
enters with the opposite sign. Where the opponent moves inside the environment's step (`alternating` is
False), all plies are the learner's and no sign changes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from algorithms.core.batch import RolloutBatch
from algorithms.core.checks import require_choice

AdvantageScale = Literal["group", "batch", "none"]
ExactScale = Literal["group", "none"]
Baseline = Literal["none", "batch", "group"]
SCALES: tuple[AdvantageScale, ...] = ("group", "batch", "none")
EXACT_SCALES: tuple[ExactScale, ...] = ("group", "none")
BASELINES: tuple[Baseline, ...] = ("none", "batch", "group")

STD_FLOOR = 1e-4
"""Added to a standard deviation before dividing (TRL's value), so that equal rewards amplify no noise."""


def group_mean(rewards: Tensor, valid: Tensor, group_axis: int) -> Tensor:
    """Mean over each group's valid members, in the shape of `rewards` with size 1 on the group axis; 0 without any.

    Summed in float64 and kept between the least and the greatest, so that equal rewards are exactly
    their mean; values of invalid members, NaN included, are never read.
    """
    count = valid.sum(group_axis, keepdim=True)
    total = torch.where(valid, rewards, 0.0).double().sum(group_axis, keepdim=True)
    mean = (total / count.clamp(min=1)).to(rewards.dtype)
    least = torch.where(valid, rewards, torch.inf).amin(group_axis, keepdim=True)
    greatest = torch.where(valid, rewards, -torch.inf).amax(group_axis, keepdim=True)
    return torch.where(count > 0, mean.clamp(least, greatest), 0.0)


@torch.no_grad()
def group_relative(
    rewards: Tensor, valid: Tensor, group_axis: int, scale: AdvantageScale
) -> Tensor:
    """Rewards minus the mean over their group's valid members, optionally scaled; same shape.

    GRPO (arXiv:2402.03300) divides by the group's standard deviation (`group`, unbiased as in TRL
    and verl); Dr. GRPO (arXiv:2503.20783) does not (`none`). `batch` divides by one number for the
    whole batch, after Lite PPO (arXiv:2508.08221): here the root mean square of the *centred*
    rewards, because groups are different positions and the spread between positions says nothing
    about the spread within one.

    Members that are not valid get 0, and so does every member of a group with fewer than two valid
    members: a mean over one reward is no baseline (`batch_metrics` counts these as
    `rollout/small_groups`).

    Args:
        rewards: float `[...]` raw rewards.
        valid: bool, same shape.
        group_axis: the axis along which members of one group lie.
        scale: `group`, `batch` or `none`.

    Raises:
        ValueError: shapes differ or the scale is unknown.
    """
    if rewards.shape != valid.shape:
        raise ValueError(
            f"rewards have shape {tuple(rewards.shape)} and valid {tuple(valid.shape)}: they must "
            "be equal"
        )
    require_choice("scale", scale, SCALES)
    count = valid.sum(group_axis, keepdim=True)
    used = valid & (count >= 2)
    centred = torch.where(used, rewards - group_mean(rewards, valid, group_axis), 0.0)
    if scale == "none":
        return centred
    if scale == "group":
        variance = centred.square().sum(group_axis, keepdim=True) / (count - 1).clamp(min=1)
        return centred / (variance.sqrt() + STD_FLOOR)
    return centred / (centred.square().sum().div(used.sum().clamp(min=1)).sqrt() + STD_FLOOR)


@torch.no_grad()
def leave_one_out(rewards: Tensor, valid: Tensor, group_axis: int) -> Tensor:
    """Rewards minus the mean of the *other* valid members of their group; same shape.

    RLOO (arXiv:2402.14740): the baseline does not contain the sample itself, so the estimator is
    unbiased. With n valid members it is n / (n - 1) times the reward minus the group's mean.
    Members that are not valid get 0, and so do those of groups with fewer than two valid ones.

    Args:
        rewards: float `[...]` raw rewards.
        valid: bool, same shape.
        group_axis: the axis along which members of one group lie.
    """
    count = valid.sum(group_axis, keepdim=True)
    centred = group_relative(rewards, valid, group_axis, "none")
    return centred * count / (count - 1).clamp(min=1)


@torch.no_grad()
def baselined(rewards: Tensor, valid: Tensor, group_axis: int, baseline: Baseline) -> Tensor:
    """Rewards minus a baseline, 0 where not valid; same shape.

    `none` subtracts nothing, `batch` the mean over all valid samples, `group` the mean over the
    group's valid members (see `group_relative`). The last two contain the sample itself, which
    scales the expected gradient by (n - 1) / n.

    Raises:
        ValueError: the baseline is unknown.
    """
    require_choice("baseline", baseline, BASELINES)
    if baseline == "group":
        return group_relative(rewards, valid, group_axis, "none")
    if baseline == "none":
        return torch.where(valid, rewards, 0.0)
    # The batch is one group.
    mean = group_mean(rewards.flatten(), valid.flatten(), 0)
    return torch.where(valid, rewards - mean, 0.0)


@torch.no_grad()
def gae(
    rewards: Tensor,
    values: Tensor,
    next_values: Tensor,
    ended: Tensor,
    alive: Tensor,
    discount: float,
    gae_lambda: float,
) -> Tensor:
    """`[..., T]` generalised advantages, every quantity in the view of who moves; 0 where not alive.

    GAE (arXiv:1506.02438): delta_t = r_t + discount V(s_{t+1}) - V(s_t) and A_t = delta_t + discount
    gae_lambda A_{t+1}. The term A_{t+1} is dropped where a game ended and after the last ply. Computed
    in float64, returned in the rewards' dtype.

    Args:
        rewards: `[..., T]` of the moves that were played.
        values: `[..., T]` V(s_t).
        next_values: `[..., T]` V(s_{t+1}) in the view of *its* side to move; 0 where the game
            terminated; where a ply limit cut it, the value of the position reached.
        ended: bool `[..., T]` the game is over after this ply, by rule or ply limit.
        alive: bool `[..., T]` the ply counts; values of other plies, NaN included, are never read.
        discount: what a unit at the next ply is worth at this one, in [-1, 1]: gamma where one player
            makes all the moves (its opponent's are part of the environment), -gamma where two players
            move in turn (self-play).
        gae_lambda: in [0, 1]; 0 trusts the values, 1 the rewards.
    """
    delta = rewards.double() + discount * next_values.double() - values.double()
    delta = torch.where(alive, delta, 0.0)
    advantages = torch.zeros_like(delta)
    following = torch.zeros_like(delta[..., 0])
    for t in range(delta.shape[-1] - 1, -1, -1):
        carried = torch.where(ended[..., t], 0.0, following)
        following = torch.where(
            alive[..., t],
            delta[..., t] + discount * gae_lambda * carried,
            torch.zeros_like(carried),
        )
        advantages[..., t] = following
    return advantages.to(rewards.dtype)


@torch.no_grad()
def exact(
    rewards: Tensor, old_logprobs: Tensor, valid: Tensor, scale: ExactScale = "none"
) -> Tensor:
    """`[..., K]` R(a) - sum_b pi_old(b) R(b) over a state's legal moves, 0 where not valid.

    The true advantage of each move over the policy that moved, without sampling. Computed in
    float64, returned in the rewards' dtype. `group` divides by the standard deviation of the state's
    rewards, every legal move counted once: unlike that of a sampled group it does not shrink as the
    policy sharpens, so a position weighs the same from the first update to the last.

    Args:
        rewards: `[..., K]` of all legal moves.
        old_logprobs: `[..., K]` their log-probabilities under the behaviour policy.
        valid: bool `[..., K]` True where a slot holds a legal move; a state without any gets 0.
        scale: `group` or `none`.

    Raises:
        ValueError: the scale is unknown, or some legal moves of a state are missing.
    """
    probs = torch.where(valid, old_logprobs, -torch.inf).double().exp()
    total = probs.sum(-1, keepdim=True)
    scored = valid.any(-1, keepdim=True)
    # Log-probabilities rounded to bfloat16 (`logprob_dtype`) add up to 1 within this.
    if (scored & ((total - 1).abs() > 0.02)).any():
        worst = float(total[scored][(total[scored] - 1).abs().argmax()])
        raise ValueError(
            f"the probabilities of a state's scored moves add up to {worst:.3f}, not 1: all legal "
            "moves must be scored, once each; set rollout.form to 'positions'"
        )
    known = torch.where(valid, rewards, 0.0).double()
    expected = (probs * known).sum(-1, keepdim=True) / torch.where(scored, total, 1.0)
    advantages = torch.where(valid, known - expected, 0.0)
    require_choice("scale", scale, EXACT_SCALES)
    if scale == "group":
        count = valid.sum(-1, keepdim=True).clamp(min=1)
        centred = torch.where(valid, known - known.sum(-1, keepdim=True) / count, 0.0)
        std = (centred.square().sum(-1, keepdim=True) / count).sqrt()
        advantages = advantages / (std + STD_FLOOR)
    return advantages.to(rewards.dtype)


def normalized(advantages: Tensor, valid: Tensor) -> Tensor:
    """Advantages minus their mean over their standard deviation among the valid samples, same shape.

    As PPO's implementations do with each minibatch (SB3: unbiased standard deviation, plus 1e-8;
    fewer than two samples are left as they are). 0 where not valid. Never together with a group's
    standard deviation.
    """
    count = valid.sum()
    kept = torch.where(valid, advantages, 0.0).double()
    centred = torch.where(valid, kept - kept.sum() / count.clamp(min=1), 0.0)
    std = (centred.square().sum() / (count - 1).clamp(min=1)).sqrt()
    return torch.where(count < 2, kept, centred / (std + 1e-8)).to(advantages.dtype)


def require_success(batch: RolloutBatch, name: str) -> None:
    """Refuses a batch in which a valid sample's reward is neither 0 nor 1.

    Args:
        batch: the rollout.
        name: of the algorithm, for the message.

    Raises:
        ValueError: there is such a reward; the message has the first one.
    """
    rewards = batch.rewards
    other = batch.valid & (rewards != 0) & (rewards != 1)
    if other.any():
        raise ValueError(
            f"a reward is {float(rewards[other][0]):.6g}: {name} learns from success (1) and failure (0) "
            "alone; set env.reward to success, or to a term of your own that pays 0 or 1"
        )


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
        ValueError: the batch has the form `positions`.
    """
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


def group_advantages(
    batch: RolloutBatch, credit: Credit, gamma: float, scale: AdvantageScale
) -> Tensor:
    """Credited rewards relative to their group, shaped like `batch.rewards`: `group_relative` of `credited`."""
    rewards = credited(batch, credit, gamma)
    return group_relative(rewards, batch.valid, batch.group_axis, scale)


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
