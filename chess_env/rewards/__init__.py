"""Rewards: named terms of scores and results, terms of your own, and sums of them as text."""

from chess_env.rewards.rewards import (
    ILLEGAL_REWARD,
    MATE_SCORE_CP,
    REWARDS,
    VALUE,
    Reward,
    RewardFunction,
    RewardTerm,
    make_reward,
    reward_text,
    terminal_score_cp,
    value,
)

__all__ = [
    "ILLEGAL_REWARD",
    "MATE_SCORE_CP",
    "REWARDS",
    "VALUE",
    "Reward",
    "RewardFunction",
    "RewardTerm",
    "make_reward",
    "reward_text",
    "terminal_score_cp",
    "value",
]
