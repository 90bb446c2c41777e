"""Scores from engines on many machines, the nodes of a Ray cluster: `ray:` before the name of any evaluator.

The same scores and the same id as on one machine. `evaluator.py` is what a caller holds, `crew.py` hands batches
to the engines, `worker.py` is one engine on its node, `nodes.py` compares the nodes before anything starts,
and `connection.py` finds the cluster.
"""

from __future__ import annotations

from chess_env.evaluators.cluster.evaluator import ClusterEvaluator

__all__ = ["ClusterEvaluator"]
