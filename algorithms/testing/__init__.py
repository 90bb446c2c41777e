"""Contracts as functions: does an algorithm, a policy network or a regulariser term of your own keep them?

Each raises `chess_env.testing.ContractError`, whose sentence says which rule broke, and returns None otherwise.
"""

from algorithms.testing.algorithm_contract import check_algorithm
from algorithms.testing.network_contract import check_policy_network
from algorithms.testing.term_contract import check_regularizer_term

__all__ = ["check_algorithm", "check_policy_network", "check_regularizer_term"]
