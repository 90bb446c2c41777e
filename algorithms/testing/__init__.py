"""Contracts as functions: does an algorithm or a policy network of your own keep them?

Each raises `chess_env.testing.ContractError`, whose sentence says which rule broke, and returns None otherwise.
"""

from algorithms.testing.algorithm import check_algorithm
from algorithms.testing.network import check_policy_network

__all__ = ["check_algorithm", "check_policy_network"]
