"""What a comparison can claim at most, and about how long it takes: said before it runs."""

from __future__ import annotations

import math
from collections.abc import Mapping

from algorithms.comparison.plan import Plan
from algorithms.comparison.readings import LEVELS
from algorithms.reports.statistics import minimum_seeds

MOVES_PER_S = {"move_net": 7_000, "resnet": 2_000}
"""Scored moves a second of one core with the built-in evaluator, evaluations and diagnostics among them."""

ENOUGH_MOVES = {"move_net": 16_384, "resnet": 65_536}
"""Moves by which all of 128 runs on move_net, and 105 of 112 on resnet, had come down to the first of `LEVELS`."""


def outlook(plan: Plan, columns: Mapping[str, int], at_a_time: int | None) -> list[str]:
    """Sentences on what cannot be claimed whatever comes out, and how long it takes.

    Args:
        plan: of the comparison.
        columns: family -> how many columns it has.
        at_a_time: cells; None where that is not known.
    """
    lines = []
    widest = max(columns.values())
    pairs = math.comb(widest, 2)
    if widest < 2:
        lines.append(
            "nothing can be claimed: there is one column; name another algorithm, or vary a setting with --grid"
        )
    elif plan.num_seeds < (needed := minimum_seeds(pairs)):
        lines.append(
            f"nothing can be claimed of {plan.num_seeds} seed{'s'[: plan.num_seeds != 1]}: {widest} columns make "
            f"{pairs} pair{'s'[: pairs != 1]}, which takes {needed} seeds (--seeds {needed})"
        )
    enough = ENOUGH_MOVES.get(plan.network, 0) if plan.presets else 0
    if widest > 1 and plan.budget_moves < enough:
        lines.append(
            f"--budget-moves is {plan.budget_moves:,}: with fewer than {enough:,} not every run comes down to "
            f"{max(LEVELS)} % of its starting regret, and then nothing can be claimed about entropy"
        )
    return lines + _time(plan, columns, at_a_time)


def _time(plan: Plan, columns: Mapping[str, int], at_a_time: int | None) -> list[str]:
    """How long the runs of presets take, where runs like them were timed."""
    speed = MOVES_PER_S.get(plan.network)
    runs = plan.num_seeds * sum(columns.values())
    if (
        speed is None
        or at_a_time is None
        or plan.causes
        or not plan.evaluator.startswith("builtin")
    ):
        return []
    minutes = runs * plan.budget_moves / speed / 60 / min(at_a_time, runs)
    tuning = ", without the tuning before" if plan.tune else ""
    return [
        f"{runs} runs of {plan.budget_moves:,} moves: about {max(1, round(minutes))} min on free cores{tuning}"
    ]
