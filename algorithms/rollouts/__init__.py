"""From boards to a `RolloutBatch`: positions, moves, scores and rewards.

Nothing here computes an advantage or a loss.
"""
