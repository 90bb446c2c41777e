"""Contracts as functions: does an evaluator, a start-position source or a reward term of your own keep them?

Each raises `ContractError`, an AssertionError whose sentence says which rule broke, and returns None otherwise.
"""

from chess_env.testing.contract import ContractError
from chess_env.testing.evaluator import check_evaluator
from chess_env.testing.reward_term import check_reward_term
from chess_env.testing.start_positions import check_start_positions

__all__ = ["ContractError", "check_evaluator", "check_reward_term", "check_start_positions"]
