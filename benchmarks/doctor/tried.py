"""Chooses for each cause of the doctor the remedy that did most, from the recorded matrices, for `chess-lab diagnose`.

    python -m benchmarks.doctor.tried

For each start by itself: of the remedies that cure or help against every fault that the doctor calls by this name and
that does harm from there, on another network too where they were tried on it, and that win back a quarter of the cost
at least. They are ranked by the least share of the cost that they win back, the whole at most; another algorithm is
taken only where no remedy of settings is left. Of those within a twentieth of the best, random weights get the remedy
of the warm policy if it is one of them, otherwise the one whose runs end with most entropy. Written to
algorithms/doctor/tried.json, with null where nothing is left.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

from algorithms import PRESETS
from algorithms.collapse import CAUSES
from algorithms.collapse.remedies import KEPT, REMEDIES, Remedy
from algorithms.collapse.trial import SOUND, TWIN, UNTREATED
from algorithms.doctor.matrices import TRIED
from algorithms.reports.statistics import interquartile_mean

RESULTS = Path(__file__).resolve().parents[1] / "results"


HELPFUL = ("cures", "helps")
"""Verdicts of a remedy that may be printed."""

NEAR = 0.05
"""Remedies whose shares are closer than this count as equal."""

LEAST = 0.25
"""Of the cost, that a remedy has to win back in every trial."""


def trials_of(found: dict[str, Any]) -> list[dict[str, Any]]:
    """An entry for each fault and remedy."""
    trials = []
    for fault, effects in found["verdicts"].items():
        if fault == SOUND:
            continue
        ends = {
            side: float(interquartile_mean([row["end_cp"] for row in found["trials"][fault][side]]))
            for side in (UNTREATED, TWIN)
        }
        trials += [
            {
                "cause": CAUSES[fault].doctor_class, "fault": fault, "start": found["plan"]["start"],
                "remedy": each["remedy"], "verdict": each["verdict"], "cost_cp": ends[UNTREATED] - ends[TWIN],
                "change_cp": each["change_cp"], "low": each["interval"][0], "high": each["interval"][1],
                "entropy": each["entropy"],
            }
            for each in effects
            if each["interval"] is not None
        ]  # fmt: skip
    return trials


Entries = dict[str, dict[str, Any] | None]


def chosen(trials: list[dict[str, Any]], repeats: list[dict[str, Any]], before: Entries) -> Entries:
    """{cause: its entry, or None where no remedy is left}, of the trials of one start.

    Args:
        trials: of every remedy that counts.
        repeats: of some of them, on another network.
        before: what was chosen for another start.
    """
    failed = {(each["fault"], each["remedy"]) for each in repeats if each["verdict"] not in HELPFUL}
    found: Entries = {}
    for cause in dict.fromkeys(each["cause"] for each in trials):
        own = [each for each in trials if each["cause"] == cause]
        asked = {each["fault"] for each in own}
        helping = {}
        for name in dict.fromkeys(each["remedy"] for each in own):
            of_it = [each for each in own if each["remedy"] == name]
            if len(of_it) == len(asked) and all(
                each["verdict"] in HELPFUL and (each["fault"], name) not in failed for each in of_it
            ):
                helping[name] = of_it
        won = {
            name: min(min(1.0, -each["change_cp"] / each["cost_cp"]) for each in of_it)
            for name, of_it in helping.items()
        }
        enough = [name for name, share in won.items() if share >= LEAST]
        if settings := [name for name in enough if not REMEDIES[name].algorithm]:
            enough = settings
        found[cause] = None
        if enough:
            best = max(won[name] for name in enough)
            near = [name for name in enough if won[name] > best - NEAR]
            known = (before.get(cause) or {}).get("remedy")
            name = (
                known
                if known in near
                else max(near, key=lambda n: min(each["entropy"] for each in helping[n]))
            )
            remedy = REMEDIES[name]
            kept = ("fault", "start", "cost_cp", "change_cp", "low", "high", "verdict")
            found[cause] = {
                "remedy": name, "title": remedy.title, "algorithm": remedy.algorithm, "keeps": list(_keeps(remedy)),
                "settings": dict(remedy.settings), "times": dict(remedy.times),
                "trials": [
                    {key: round(each[key], 1) if isinstance(each[key], float) else each[key] for key in kept}
                    for each in helping[name]
                ],
            }  # fmt: skip
    return found


def _keeps(remedy: Remedy) -> list[str]:
    """The settings that its algorithm took over from the run's."""
    if not remedy.algorithm:
        return []
    has = {field.name for field in dataclasses.fields(PRESETS[remedy.algorithm][0])}
    return [name for name in KEPT if name in has]


def main() -> None:
    causes: dict[str, Entries] = {}
    before: Entries = {}
    for start in ("warm", "cold"):
        found, repeated = (
            json.loads((RESULTS / f"remedies_{name}.json").read_text(encoding="utf-8"))
            for name in (start, f"{start}_resnet")
        )
        before = chosen(trials_of(found), trials_of(repeated), before)
        for cause, entry in before.items():
            causes.setdefault(cause, {})[start] = entry
    values = {
        "remedies": len(found["plan"]["remedies"]),
        "seeds": len(found["seeds"]),
        "causes": causes,
    }
    TRIED.write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")
    for cause, tried in causes.items():
        named = {
            start: "none" if entry is None else entry["remedy"] for start, entry in tried.items()
        }
        print(f"{cause}: {named}")


if __name__ == "__main__":
    main()
