"""What a broken contract is reported with."""

from __future__ import annotations


class ContractError(AssertionError):
    """A contract is broken; the message is a sentence that names the rule and what was seen."""


def rule(holds: bool, sentence: str) -> None:
    """None; ContractError(sentence) unless the rule holds."""
    if not holds:
        raise ContractError(sentence)
