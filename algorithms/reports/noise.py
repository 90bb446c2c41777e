"""What a regret on the held-out table is to be compared with: the judge's own, and the teacher's.

`noise.json` is measured by `python -m benchmarks.learning.regret_noise`; docs/metrics.md has the definition.
"""

from __future__ import annotations

import dataclasses
import json
from functools import cache
from pathlib import Path
from typing import Any

from algorithms.reports.judges import judge_in_words

NOISE_PATH = Path(__file__).with_name("noise.json")


@dataclasses.dataclass(frozen=True)
class Mean:
    """A mean over positions.

    Attributes:
        mean_cp: centipawns.
        low_cp: lower end of its 95 % bootstrap interval.
        high_cp: upper end.
        num_positions: how many.
    """

    mean_cp: float
    low_cp: float
    high_cp: float
    num_positions: int


@dataclasses.dataclass(frozen=True)
class SliceNoise:
    """Of one slice of the table.

    Attributes:
        judge: regret of the move that the table's judge likes best, by a deeper judge's scores.
        teacher: regret of the move that the teacher likes best, by the table.
    """

    judge: Mean
    teacher: Mean


@dataclasses.dataclass(frozen=True)
class Noise:
    """What was measured, and with which evaluators.

    Attributes:
        judge_id: of the table.
        deeper_id: judged the judge.
        teacher_id: played.
        slices: by name.
    """

    judge_id: str
    deeper_id: str
    teacher_id: str
    slices: dict[str, SliceNoise]

    def line(self, name: str) -> str | None:
        """One short line of a slice; None where it was not measured."""
        if name not in self.slices:
            return None
        of = self.slices[name]
        return (
            f"the judge itself loses {of.judge.mean_cp:.0f} cp here, "
            f"{judge_in_words(self.teacher_id)} {of.teacher.mean_cp:.0f}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values, from which `read` makes it again."""
        return dataclasses.asdict(self)


@cache
def load_noise() -> Noise:
    """The committed figures."""
    return read(json.loads(NOISE_PATH.read_text(encoding="utf-8")))


def read(values: dict[str, Any]) -> Noise:
    """What `to_dict` gave; other keys, such as the commit, are passed over."""
    slices = {
        name: SliceNoise(Mean(**both["judge"]), Mean(**both["teacher"]))
        for name, both in values["slices"].items()
    }
    return Noise(values["judge_id"], values["deeper_id"], values["teacher_id"], slices)


def noise_line(evaluator_id: str, name: str) -> str | None:
    """One short line on a slice's regrets; None for scores of another judge than was measured."""
    noise = load_noise()
    return noise.line(name) if noise.judge_id == evaluator_id else None


def noise_of_runs() -> str | None:
    """That line for `eval/regret_cp` of runs, which is of this slice of the committed table."""
    return load_noise().line("random_2_40")
