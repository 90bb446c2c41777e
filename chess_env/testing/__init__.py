"""Contracts as functions: does an evaluator, a start-position source or a reward term of your own keep them?

Each raises `ContractError`, an AssertionError whose sentence says which rule broke, and returns None otherwise.
"""


class ContractError(AssertionError):
    """A contract is broken; the message is a sentence that names the rule and what was seen."""


def rule(holds: bool, sentence: str) -> None:
    """Raises ContractError(sentence) unless the rule holds."""
    if not holds:
        raise ContractError(sentence)


# Below, because the checks use what stands above.
from chess_env.testing.evaluator import check_evaluator  # noqa: E402
from chess_env.testing.reward_term import check_reward_term  # noqa: E402
from chess_env.testing.start_positions import check_start_positions  # noqa: E402

__all__ = ["ContractError", "check_evaluator", "check_reward_term", "check_start_positions"]
