"""Every runnable name: an algorithm's instance and the regulariser that it runs with.

Settings that were chosen by measurement are marked. The others are those of the source, or those of GRPO
where a preset differs from GRPO in one thing. A preset that is described as dr_grpo with another surrogate
or gate averages over samples, as its source does; in `positions` form that is the same. It also has no entropy
bonus where its point is to hold the entropy by other means.
"""

from __future__ import annotations

import math

from algorithms.aepo import AEPO
from algorithms.aspo import ASPO
from algorithms.bapo import BAPO
from algorithms.ce_gppo import CEGPPO
from algorithms.cispo import CISPO
from algorithms.clip_cov import ClipCov
from algorithms.core.algorithm import Algorithm
from algorithms.delightful_pg import DelightfulPG
from algorithms.dppo import DPPO
from algorithms.erc import ERC
from algorithms.exact import Exact
from algorithms.flowrl import FlowRL
from algorithms.grpo import GRPO
from algorithms.gspo import GSPO
from algorithms.kondo import Kondo
from algorithms.lp_reg import LpReg
from algorithms.maxrl import MaxRL
from algorithms.pass_at_k import PassAtK
from algorithms.ppo import PPO
from algorithms.regularization import RegularizerConfig
from algorithms.reinforce import Reinforce
from algorithms.rloo import RLOO
from algorithms.sapo import SAPO
from algorithms.steer import STEER
from algorithms.w_reinforce import WReinforce

# What has an advantage, surrogate or gate of its own.
ALGORITHMS: dict[str, type[Algorithm]] = {
    cls.name: cls
    for cls in (
        *(Reinforce, PPO, GRPO, CISPO, RLOO, DelightfulPG, ClipCov, Exact),
        *(DPPO, SAPO, CEGPPO, ASPO, BAPO, GSPO, ERC, STEER, LpReg, Kondo),
        *(MaxRL, PassAtK, WReinforce, FlowRL, AEPO),
    )
}

# Bonuses chosen on seed 0 (the figures in docs/benchmarks are of other seeds), shared by all whose
# advantages have the same scale, so that they differ in the algorithm alone. The first is for
# advantages in reward units, the second for those divided by a standard deviation.
FADING_BONUS = RegularizerConfig(ent_coef=0.03, ent_coef_final=0.008)
UNIT_SCALE_BONUS = RegularizerConfig(ent_coef=0.35, ent_coef_final=0.09)
# For those whose point is to hold the entropy by other means, or to show what happens without.
NO_BONUS = RegularizerConfig()

PRESETS: dict[str, tuple[Algorithm, RegularizerConfig]] = {
    # The score function with one baseline for the whole batch: no ratio, no clip, no groups.
    "reinforce": (Reinforce(), FADING_BONUS),
    # A critic instead of a group: one sample per position, credit flows back from later plies. That is
    # noisier, and the bonus of `grpo` drowned it (docs/benchmarks/learning.md).
    "ppo": (PPO(), FADING_BONUS),
    # PPO with the group algorithms' samples and credit horizon: r - V(s) for 8 moves of a position.
    "ppo_one_ply": (PPO(group_size=8, gamma=0.0), UNIT_SCALE_BONUS),
    # The group's mean as the baseline, its std as the unit, PPO's clipped ratio.
    "grpo": (GRPO(group_size=8), UNIT_SCALE_BONUS),
    # grpo without the std, its loss divided by a constant instead of each game's length.
    "dr_grpo": (GRPO(advantage_scale="none", reduction="constant_length"), FADING_BONUS),
    # grpo, with a wider upper bound, a mean over samples and fresh ones in place of dead groups.
    "dapo": (
        GRPO(clip_range=0.2, clip_range_high=0.28, reduction="sample_mean", live_groups=True),
        NO_BONUS,
    ),
    # dr_grpo, with the importance weight clipped instead of the loss: no gradient is ever cut.
    "cispo": (CISPO(), FADING_BONUS),
    # dr_grpo, with the mean of the others as the baseline and one on-policy step: no ratio at all.
    "rloo": (RLOO(), FADING_BONUS),
    # dr_grpo's advantages, the score function, and a gate that favours unlikely good moves.
    "delightful_pg": (DelightfulPG(), NO_BONUS),
    # dr_grpo, with a few samples of high covariance left out instead of clipped ratios.
    "clip_cov": (ClipCov(), NO_BONUS),
    # dr_grpo, with a KL penalty on the samples of highest covariance instead of clipped ratios.
    "kl_cov": (
        GRPO(
            advantage_scale="none",
            reduction="sample_mean",
            clip_range=1.0,
            clip_range_high=math.inf,
        ),
        RegularizerConfig(kl_cov_coef=1.0, kl_cov_fraction=0.02),
    ),
    # dr_grpo, with the entropy's gradient in the advantage instead of a bonus in the loss.
    "repo": (
        GRPO(advantage_scale="none", reduction="sample_mean"),
        RegularizerConfig(repo_coef=0.03),
    ),
    # dapo, with the upper clip bound moved up and down to hold the entropy of the first rollout.
    "adapo": (
        GRPO(clip_range=0.2, clip_range_high=0.28, reduction="sample_mean", live_groups=True),
        RegularizerConfig(clip_controller="adapo"),
    ),
    # dr_grpo, with each advantage scaled by its move's surprise; the strength follows the entropy.
    "repo_r": (
        GRPO(advantage_scale="none", reduction="sample_mean"),
        RegularizerConfig(repo_r_coef=0.001, repo_r_controller="doubling"),
    ),
    # dr_grpo, with a bound on how far a probability, not a ratio, may move away from the sampler's.
    "dppo": (DPPO(), FADING_BONUS),
    # dr_grpo, with a sigmoid of the ratio in place of the clip.
    "sapo": (SAPO(), FADING_BONUS),
    # dr_grpo, whose clipped samples keep a bounded gradient.
    "ce_gppo": (CEGPPO(), NO_BONUS),
    # dr_grpo, with the importance weight of good moves inverted (1 / r).
    "aspo": (ASPO(), NO_BONUS),
    # dr_grpo, with clip bounds searched in each minibatch for a balance of good and bad moves.
    "bapo": (BAPO(), NO_BONUS),
    # dr_grpo, learning from a position only while its entropy is near the sampler's.
    "erc": (ERC(), NO_BONUS),
    # dr_grpo, with samples weighed by the change of entropy that is predicted of them.
    "steer": (STEER(), NO_BONUS),
    # dr_grpo, with its least likely bad moves held near a filtered old policy and hardly any clip.
    "lp_reg": (LpReg(), NO_BONUS),
    # dr_grpo, learning from the fifth of the positions where the policy is least decided.
    "top_entropy": (
        GRPO(advantage_scale="none", reduction="sample_mean", top_entropy_fraction=0.2),
        NO_BONUS,
    ),
    # delightful_pg, whose gate keeps a sample whole or leaves it out.
    "kondo": (Kondo(), NO_BONUS),
    # grpo in games form, with one ratio and one clip for a whole game. The source's bounds are for long texts.
    "gspo": (GSPO(clip_range=0.2, clip_range_high=0.28), UNIT_SCALE_BONUS),
    # Success or failure: the group's mean as baseline and as unit.
    "maxrl": (MaxRL(), NO_BONUS),
    # Success or failure: the chance that one of k samples succeeds.
    "pass_at_k": (PassAtK(), NO_BONUS),
    # Success or failure, without a baseline: failures count ten times as much, or alone.
    "w_reinforce": (WReinforce(), NO_BONUS),
    "nsr": (WReinforce(positive_weight=0.0), NO_BONUS),
    # grpo, with a slice of successes at another temperature that pulls the entropy towards a target.
    "aepo": (AEPO(), NO_BONUS),
    # The policy fitted to pi_ref exp(beta A) / Z instead of climbing the reward.
    "flowrl": (FlowRL(), NO_BONUS),
    # Every legal move scored: the policy gradient without sampling noise.
    "exact": (Exact(), NO_BONUS),
}
