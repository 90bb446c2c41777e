"""The data of an update: targets from a rollout's rewards, the states that it learns from, and their order."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import torch
from torch import Tensor

from algorithms.config.run import OptimizerConfig
from algorithms.core.algorithm import Algorithm
from algorithms.core.batch import FlatBatch, RolloutBatch
from algorithms.networks.policy_net import PolicyNet
from algorithms.regularization import Regularizer
from algorithms.updates.learner import Learner, Passes


@dataclasses.dataclass(frozen=True)
class Targets:
    """The targets of an update, each shaped like `batch.rewards`.

    Attributes:
        advantages: as the regulariser shaped them; of an algorithm that asks for
            `Needs.normalize_advantages`, as they are before normalisation and shaping, which are the
            minibatch's.
        weights: each sample's share of the policy loss.
        returns: targets of the critic, reward units; None without a critic.
    """

    advantages: Tensor
    weights: Tensor
    returns: Tensor | None = None


@torch.no_grad()
def make_targets(algorithm: Algorithm, regularizer: Regularizer, batch: RolloutBatch) -> Targets:
    """Advantages, weights and returns of one rollout; `batch.rewards` stay raw.

    The returns are the algorithm's own advantages (of rewards that the regulariser may have shaped)
    plus the values; what the regulariser does to advantages (REPO) is no part of them: the critic
    learns what the rewards pay.

    Raises:
        ValueError: rewards that are not finite, a critic's algorithm on a batch without values, or
            what `algorithm.advantages` refuses.
    """
    batch.require_finite_rewards()
    raw = algorithm.advantages(dataclasses.replace(batch, rewards=regularizer.shape_reward(batch)))
    returns = None
    if algorithm.needs().critic is not None:
        if batch.values is None:
            raise ValueError(
                f"{algorithm.name} learns a critic and the batch has no values: sample it with a "
                "policy built with critic=True"
            )
        returns = raw + (batch.values.unsqueeze(-1) if batch.form == "positions" else batch.values)
    by_minibatch = algorithm.needs().normalize_advantages
    return Targets(
        advantages=raw if by_minibatch else regularizer.shape_advantage(raw, batch),
        weights=algorithm.weights(batch),
        returns=returns,
    )


@dataclasses.dataclass(frozen=True)
class TrainingBatch:
    """The states of a rollout with at least one valid sample; padding in it is finite.

    Attributes:
        flat: N states.
        advantages: `[N, K]`; 0 where not valid.
        weights: `[N, K]` each sample's share of the policy loss.
        whole_games: minibatches are drawn by games, not by states.
        correction: `[N, K]` what each sample's policy loss is multiplied with, because another policy drew it;
            None: nothing.
        penalty_scale: what a minibatch's mean over states is multiplied with to be an unbiased share
            of the batch's; 1 where states are drawn.
    """

    flat: FlatBatch
    advantages: Tensor
    weights: Tensor
    whole_games: bool = False
    correction: Tensor | None = None
    penalty_scale: float = 1.0

    @property
    def policy_weights(self) -> Tensor:
        """`[N, K]` each sample's share of the policy loss, corrected; a critic's loss has `weights`."""
        return self.weights if self.correction is None else self.weights * self.correction

    @property
    def num_drawn(self) -> int:
        """Number of games or states, whichever minibatches are drawn from."""
        return int(self.flat.games.unique().numel()) if self.whole_games else self.flat.num_states

    def select(self, index: Tensor) -> TrainingBatch:
        """The states of an int64 index `[n]`, their weights scaled up to those of the whole batch.

        The loss of a minibatch is so an unbiased share of the batch's: scaled by the number of games,
        not of states, where whole games are drawn, for those differ in length.
        """
        minibatch = dataclasses.replace(
            self,
            flat=self.flat.select(index),
            advantages=self.advantages[index],
            weights=self.weights[index],
            correction=None if self.correction is None else self.correction[index],
        )
        scale = self.num_drawn / minibatch.num_drawn
        shares = scale * index.numel() / self.flat.num_states if self.whole_games else 1.0
        return dataclasses.replace(
            minibatch, weights=minibatch.weights * scale, penalty_scale=shares
        )


def make_training_batch(
    algorithm: Algorithm, batch: RolloutBatch, targets: Targets, generator: torch.Generator
) -> TrainingBatch:
    """The batch that `update` learns from.

    Args:
        algorithm: whose needs decide what is added.
        batch: one rollout.
        targets: from `make_targets`.
        generator: CPU generator of the uniforms; nothing is drawn where none are needed.

    Raises:
        ValueError: the batch has no valid sample.
    """
    flat, needs = batch.flat(), algorithm.needs()
    if targets.returns is not None:
        flat = dataclasses.replace(flat, returns=batch.flatten(targets.returns))
    advantages, weights = batch.flatten(targets.advantages), batch.flatten(targets.weights)
    used = flat.valid.any(-1).nonzero().squeeze(-1)
    if used.numel() == 0:
        raise ValueError(
            "the batch has no valid sample; nothing to learn from (did every game end before its "
            "first ply?)"
        )
    if used.numel() < flat.num_states:
        flat, advantages, weights = flat.select(used), advantages[used], weights[used]
    # Padding may hold anything; a NaN there would reach the gradient through 0 * NaN.
    padding = ~flat.valid
    flat = dataclasses.replace(flat, old_logprobs=flat.old_logprobs.masked_fill(padding, 0.0))
    if flat.returns is not None:
        flat = dataclasses.replace(flat, returns=flat.returns.masked_fill(padding, 0.0))
    if needs.uniforms:
        uniforms = torch.rand(flat.slots.shape, generator=generator).to(flat.obs.device)
        flat = dataclasses.replace(flat, uniforms=uniforms)
    return TrainingBatch(
        flat,
        advantages.masked_fill(padding, 0.0),
        weights.masked_fill(padding, 0.0),
        whole_games=needs.whole_games,
    )


def shuffled(
    flat: FlatBatch, minibatch_size: int, generator: torch.Generator, *, whole_games: bool
) -> Iterator[Tensor]:
    """Int64 index tensors `[M]` that go once through the states, in equal parts, M at most `minibatch_size`.

    Args:
        flat: N states.
        minibatch_size: states in one part.
        generator: CPU generator of the order.
        whole_games: games are shuffled in place of states, and stay whole; parts then have equal
            numbers of games (give or take one) and may exceed `minibatch_size` where games differ
            in length.
    """
    parts = -(-flat.num_states // minibatch_size)
    if not whole_games:
        order = torch.randperm(flat.num_states, generator=generator).to(flat.obs.device)
        yield from order.tensor_split(parts)
        return
    numbers, game = flat.games.unique(return_inverse=True)
    order = torch.randperm(numbers.numel(), generator=generator).to(flat.obs.device)
    for chosen in order.tensor_split(min(parts, numbers.numel())):
        yield torch.isin(game, chosen).nonzero().squeeze(-1)


def largest_gap(logprobs: Tensor, old_logprobs: Tensor, valid: Tensor) -> Tensor:
    """Largest |learner / sampler - 1| over the valid samples before any step, a scalar."""
    return torch.where(valid, (logprobs - old_logprobs).expm1().abs(), 0.0).max()


@torch.no_grad()
def corrected(
    logprobs: Tensor, sampler_logprobs: Tensor, valid: Tensor, settings: OptimizerConfig
) -> Tensor:
    """`[N, K]` weights of samples that another policy than the learner drew; 0 where not valid.

    r = learner / sampler before the first step. `tis`: r clamped to the bounds (truncated importance sampling,
    Yao et al. 2025, https://fengyao.notion.site/off-policy-rl; bounds as in slime). `icepop`: r inside the
    bounds and 0 outside (arXiv:2510.18855, second-hand; its form as in slime). Neither is unbiased: what is cut
    off is the price of a bounded variance.

    Args:
        logprobs: `[N, K]` the learner's, nats.
        sampler_logprobs: `[N, K]` of the policy that drew the moves, as it recorded them.
        valid: bool `[N, K]`; what other samples hold is never looked at.
        settings: which correction, and its bounds.
    """
    low, high = settings.correction_bounds
    ratio = torch.where(valid, logprobs - sampler_logprobs, 0.0).exp()
    inside = (ratio >= low) & (ratio <= high)
    if settings.sampler_correction == "icepop":
        return torch.where(valid & inside, ratio, 0.0)
    return torch.where(valid, ratio.clamp(low, high), 0.0)


@torch.no_grad()
def with_learner_logprobs(
    learner: Learner, training: TrainingBatch, size: int, passes: Passes
) -> tuple[TrainingBatch, dict[str, Tensor]]:
    """The batch with old log-probabilities of the update's own forward pass, where the settings ask for it.

    Under a sampler correction they are the learner's, and the batch has the correction. Where the pass may round
    below float32 they are the sampler's weights in the learner's arithmetic. Otherwise nothing changes.

    Args:
        learner: before its first step on the batch.
        training: what it learns from.
        size: states in one pass.
        passes: how they are computed.

    Returns:
        Beside the batch, metrics, each a scalar: `ratio/mismatch`, and of a correction `correction/weight_mean` and
        `correction/out_of_bounds`.
    """
    correcting = learner.settings.sampler_correction != "none"
    if not correcting and not learner.policy.reduced_precision(training.flat.obs.device):
        return training, {}
    sampled, valid = training.flat.old_logprobs, training.flat.valid
    policy = learner.policy if correcting else learner.behaviour
    flat, gap = relabel(policy, training.flat, size, passes)
    training = dataclasses.replace(training, flat=flat)
    if not correcting:
        return training, {"ratio/mismatch": gap}
    weights = corrected(flat.old_logprobs, sampled, valid, learner.settings)
    low, high = learner.settings.correction_bounds
    ratio = (flat.old_logprobs - sampled).exp()
    outside = valid & ((ratio < low) | (ratio > high))
    metrics = {
        "ratio/mismatch": gap,
        "correction/weight_mean": weights.sum() / valid.sum(),
        "correction/out_of_bounds": outside.sum() / valid.sum(),
    }
    return dataclasses.replace(training, correction=weights), metrics


@torch.no_grad()
def relabel(
    policy: PolicyNet, flat: FlatBatch, minibatch_size: int, passes: Passes
) -> tuple[FlatBatch, Tensor]:
    """(The batch with the learner's own old log-probabilities, the largest gap to the sampler's, a scalar)."""
    starts = range(0, flat.num_states, minibatch_size)
    parts = [flat.select(slice(start, start + minibatch_size)) for start in starts]
    legal = torch.cat([passes.outputs(policy, part).dist.logprobs for part in parts])
    old_logprobs = legal.gather(-1, flat.slots).masked_fill(~flat.valid, 0.0)
    gap = largest_gap(old_logprobs, flat.old_logprobs, flat.valid)
    relabelled = dataclasses.replace(flat, old_logprobs=old_logprobs, old_legal_logprobs=legal)
    return relabelled, gap
