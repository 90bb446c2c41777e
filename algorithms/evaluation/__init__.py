"""Evaluation of a policy: regret on held-out positions, matches, the ladder of opponents, a policy as a player."""
