"""What the matrix of faults and remedies (docs/remedies.md) supports against a cause: `tried.json`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from algorithms.doctor.findings import rerun
from algorithms.doctor.pace import settings_of

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
