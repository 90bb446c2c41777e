"""The evaluator that needs no engine: a piece-square evaluation with a quiescence search, compiled."""

from chess_env.evaluators.builtin.evaluator import BuiltinEvaluator

__all__ = ["BuiltinEvaluator"]
