"""Chooses for each cause of the doctor the remedy that did most, from the recorded matrices, for `chess-lab diagnose`.

    python -m benchmarks.doctor.tried

For each start by itself: of the remedies that cure or help against every fault that the doctor calls by this name and
that does harm from there, and that win back a quarter of the cost at least. They are ranked by the least share of the
cost that they win back, the whole at most; another algorithm is taken only where no remedy of settings is left. Of
those within a twentieth of the best, it is the one whose runs end with most entropy. Written to
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
from algorithms.collapse.trial import SOUND, STARTS, TWIN, UNTREATED
from algorithms.doctor.tried import TRIED
from algorithms.reports.statistics import interquartile_mean

RESULTS = Path(__file__).resolve().parents[1] / "results"


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


def chosen(trials: list[dict[str, Any]]) -> dict[str, dict[str, Any] | None]:
    """{cause: its entry, or None where no remedy is left}, of the trials of one start."""
    found: dict[str, dict[str, Any] | None] = {}
    for cause in dict.fromkeys(each["cause"] for each in trials):
        own = [each for each in trials if each["cause"] == cause]
        asked = {each["fault"] for each in own}
        helping = {}
        for name in dict.fromkeys(each["remedy"] for each in own):
            of_it = [each for each in own if each["remedy"] == name]
            if len(of_it) == len(asked) and all(
                each["verdict"] in ("cures", "helps") for each in of_it
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
            name = max(near, key=lambda n: min(each["entropy"] for each in helping[n]))
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
    recorded = [
        json.loads(path.read_text(encoding="utf-8"))
        for start in STARTS
        if (path := RESULTS / f"remedies_{start}.json").exists()
    ]
    causes: dict[str, dict[str, Any]] = {}
    for found in recorded:
        for cause, entry in chosen(trials_of(found)).items():
            causes.setdefault(cause, {})[found["plan"]["start"]] = entry
    values = {
        "remedies": len(recorded[0]["plan"]["remedies"]),
        "seeds": len(recorded[0]["seeds"]),
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
