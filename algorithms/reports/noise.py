"""What a regret on the held-out table is to be compared with: the judge's own, and the teacher's.

`noise.json` is measured by `python -m benchmarks.learning.regret_noise`; docs/metrics.md has the definition.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from algorithms.reports.judges import judge_in_words

NOISE_PATH = Path(__file__).with_name("noise.json")


@cache
def load_noise() -> dict[str, Any]:
    """The committed figures as JSON values: the evaluators' ids, and `slices` of the table by name.

    Of a slice `judge` is the regret of the move that the table's judge (`judge_id`) likes best, by the scores of a
    deeper one (`deeper_id`), and `teacher` that of the move that `teacher_id` likes best, by the table: the mean over
    `num_positions` and its 95 % bootstrap interval, in centipawns.
    """
    values = json.loads(NOISE_PATH.read_text(encoding="utf-8"))
    return {name: values[name] for name in ("judge_id", "deeper_id", "teacher_id", "slices")}


def noise_line(evaluator_id: str, name: str) -> str | None:
    """One short line on a slice's regrets; None for scores of another judge than was measured, or no such slice."""
    noise = load_noise()
    if noise["judge_id"] != evaluator_id or name not in noise["slices"]:
        return None
    of = noise["slices"][name]
    return (
        f"the judge itself loses {of['judge']['mean_cp']:.0f} cp here, "
        f"{judge_in_words(noise['teacher_id'])} {of['teacher']['mean_cp']:.0f}"
    )


def noise_of_runs() -> str | None:
    """That line for `eval/regret_cp` of runs, which is of this slice of the committed table."""
    return noise_line(load_noise()["judge_id"], "random_2_40")
