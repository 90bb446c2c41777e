"""What matrices of runs say of a cause: how often it was named rightly, and which remedy is among the best.

The remedies are those of the matrix of faults and remedies (docs/remedies.md): `tried.json`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from algorithms.doctor.findings import Named, Verdict, rerun
from algorithms.doctor.pace import settings_of

RIGHT_OF = {
    "temperature_mismatch": (17, 17),
    "forward_mismatch": (17, 17),
    "stale_behaviour": (19, 22),
    "sampled_entropy_bonus": (2, 2),
    "loss_budget": (113, 117),
    "no_signal": (25, 29),
    "fixed_positions": (4, 5),
    "clip_asymmetry": (3, 3),
    "weak_entropy_high_lr": (0, 2),
}
"""Cause -> (harmful findings of it that were right, all of them) in the runs of the doctor's matrix,
`benchmarks/results/doctor_*.json`."""


def confidence(name: str, verdict: Verdict) -> float:
    """Share of such findings that were right, with half a finding added to each side; NaN where nothing is named."""
    if not isinstance(verdict, Named):
        return math.nan
    right, of = RIGHT_OF.get(name, (0, 0))
    return (right + 0.5) / (of + 1)


TRIED = Path(__file__).with_name("tried.json")


class Tried(NamedTuple):
    """A remedy that is among the best against the faults of a cause, tried from the start that the run had.

    Attributes:
        cause: as the doctor names it.
        remedy: its name in `chess-lab remedies list`.
        says: what it changed, in words.
        command: of a run with it, for a folder RUN.
    """

    cause: str
    remedy: str
    says: str
    command: str


def tried_against(cause: str, config: Mapping[str, Any]) -> Tried | None:
    """What is known of a cause; None where no remedy helped in every trial, or the run has it already.

    Asked are the trials from a run's own start, random weights or a policy; where the faults did no harm from there,
    those from the other.

    Args:
        cause: as the doctor names it.
        config: of the run's config.json.
    """
    found = json.loads(TRIED.read_text("utf-8"))
    tried = found["causes"].get(cause, {})
    starts = ("cold", "warm") if config.get("init_from", "") is None else ("warm", "cold")
    entry = next((tried[start] for start in starts if start in tried), None)
    if entry is None:
        return None
    given, settings = dict(settings_of(config, frozenset())), dict(entry["settings"])
    final = "regularizer.ent_coef_final"
    if "regularizer.ent_coef" in settings and given.get(final) is not None:
        settings[final] = None  # no trial had a schedule, and a controller goes with none
    flags = [_flag(name, value) for name, value in settings.items()]
    for name, factor in entry["times"].items():
        value = given.get(name)
        if not isinstance(value, int | float):
            return None
        flags.append(_flag(name, f"{type(value)(factor * value):g}"))
    if name := entry["algorithm"]:
        if config.get("preset") == name:
            return None
        # The trial kept these of the run, where both algorithms have them; a NAME alone would bring its own.
        held = {field: given.get(f"algorithm.{field}") for field in entry["keeps"]}
        flags += [_flag(f"algorithm.{f}", v) for f, v in held.items() if v is not None]
    elif not entry["times"] and all(given.get(n) == v for n, v in settings.items()):
        return None
    trials = "; ".join(
        f"{each['fault']}, {each['start']} start: {each['change_cp']:+.0f} cp "
        f"({each['low']:+.0f} to {each['high']:+.0f}) of the {each['cost_cp']:.0f} that it cost"
        for each in entry["trials"]
    )
    says = (
        f"of {found['remedies']} remedies tried on runs that kept the fault, on {found['seeds']} seeds, "
        f"{entry['remedy']} ({entry['title']}) is among the best: {trials}"
    )
    return Tried(cause, entry["remedy"], says, rerun(*flags, algorithm=name))


def _flag(name: str, value: Any) -> str:
    """The words that give a setting a value; one that is on has none."""
    flag = f"--{name.replace('_', '-')}"
    return flag if value is True else f"{flag} {value}"
