"""Makes the JSON record of a matrix of causes from what became of its runs."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from algorithms.collapse import COMPOSITES
from algorithms.collapse.cause import Cause
from algorithms.comparison.grid_runs import Outcome
from algorithms.reports.run_files import read_metrics
from algorithms.run_folder.atomic_files import read_json

Result = Mapping[str, Any] | None
"""What `chess-lab causes run --json` wrote, and the curve; None where the run is broken."""

CURVES = {"moves": "scored_moves", "regret_cp": "eval/regret_cp", "entropy": "eval/entropy"}
DIGITS = 6


def load(outcome: Outcome) -> Result:
    """A finished run's result with its curve and the commit that ran it; None for any other."""
    result = outcome.grid_run.result()
    if outcome.state != "finished" or result is None:
        return None
    rows = [row for row in read_metrics(outcome.grid_run.folder) if "eval/regret_cp" in row]
    curve = {name: [row.get(metric) for row in rows] for name, metric in CURVES.items()}
    git = read_json(outcome.grid_run.folder / "environment.json").get("git") or {}
    commit = f"{git.get('commit') or 'unknown'}{'-dirty' if git.get('dirty') else ''}"
    return {**result, "curve": curve, "commit": commit}


def names(result: Mapping[str, Any]) -> list[str]:
    """The classes that the doctor named, the likeliest first."""
    return [cause["name"] for cause in result["diagnosis"]["causes"]]


def evidence(result: Mapping[str, Any]) -> str | None:
    """What the doctor measured of the likeliest class; None where it named none."""
    causes = result["diagnosis"]["causes"]
    return causes[0]["evidence"] if causes else None


def record(cause: Cause, sides: Mapping[str, Sequence[Result]]) -> dict[str, Any]:
    """What all runs of a cause came to; each list has one entry a seed, None for a broken run.

    Args:
        cause: the cause, or a composite.
        sides: "on" and, but for a composite, "cured" -> results, in the order of the seeds.
    """
    asked = [p.reading for p in cause.predicates] + [f.reading for f in cause.published]
    found: dict[str, Any] = {
        "readings": {
            reading: {
                side: [run and run["readings"][reading] for run in runs]
                for side, runs in sides.items()
            }
            for reading in dict.fromkeys(asked)
        }
    }
    if cause.composite:
        found["expected"] = list(cause.composite)
    else:
        found["predicates"] = held(cause, sides)
    found["diagnoses"] = _of_each(sides, names)
    found["evidence"] = _of_each(sides, evidence)
    found["verdicts"] = _of_each(sides, lambda run: run["diagnosis"]["verdict"])
    found["wall_s"] = _of_each(sides, lambda run: run["result"]["wall_s"])
    found["curves"] = _of_each(sides, lambda run: run["curve"])
    return found


def _of_each(sides: Mapping[str, Sequence[Result]], what: Any) -> dict[str, list[Any]]:
    return {
        side: [None if run is None else what(run) for run in runs] for side, runs in sides.items()
    }


def held(cause: Cause, sides: Mapping[str, Sequence[Result]]) -> list[dict[str, Any]]:
    """Each predicate, and whether it holds against the twin of the same seed; not if one is broken."""

    def pair(reading: str, on: Result, cured: Result) -> tuple[float, float] | None:
        if on is None or cured is None:
            return None
        value, twin = (run["readings"][reading] for run in (on, cured))
        return (
            math.nan if value is None else value,
            math.nan if twin is None else twin,
        )

    found = []
    for predicate in cause.predicates:
        pairs = [
            pair(predicate.reading, *runs) for runs in zip(sides["on"], sides["cured"], strict=True)
        ]
        holds = [each is not None and predicate.holds_against(*each) for each in pairs]
        found.append({"predicate": str(predicate), "holds": holds})
    return found


def wall(found: Mapping[str, Mapping[str, Any]]) -> dict[str, float | None]:
    """Seconds of the runs on one thread: `median_s` of one, `total_s` of all together."""
    seconds = [
        value
        for each in found.values()
        for side in each["wall_s"].values()
        for value in side
        if value is not None
    ]
    return {
        "median_s": statistics.median(seconds) if seconds else None,
        "total_s": sum(seconds),
    }


def held_together(found: Mapping[str, Any]) -> int:
    """Seeds for which all predicates of a cause hold."""
    return sum(map(all, zip(*(each["holds"] for each in found["predicates"]), strict=True)))


def summary(causes: Mapping[str, Mapping[str, Any]]) -> list[Any]:
    """A row for each cause: predicates held."""
    rows = []
    for name, found in causes.items():
        seeds = len(found["curves"]["on"])
        holds = [each["holds"] for each in found["predicates"]]
        rows.append(
            {
                "cause": name,
                "predicates held (all)": f"{held_together(found)} of {seeds}",
                "each": ", ".join(str(sum(each)) for each in holds),
            }
        )
    return rows


def composite_rows(composites: Mapping[str, Mapping[str, Any]]) -> list[Any]:
    """A row for each composite run: what was expected, found and missed."""
    rows = []
    for name, found in composites.items():
        for said in found["diagnoses"]["on"]:
            expected, named = COMPOSITES[name].composite, said or []
            rows.append(
                {
                    "composite": name,
                    "found": f"{len(set(expected) & set(named))} of {len(expected)}",
                    "missed": ", ".join(c for c in expected if c not in named) or "-",
                    "besides": ", ".join(c for c in named if c not in expected) or "-",
                }
            )
    return rows


def rounded(value: Any) -> Any:
    """The value with all floats to 6 significant digits."""
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, Mapping):
        return {key: rounded(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [rounded(inner) for inner in value]
    return value


def dumped(value: Any, depth: int = 0) -> str:
    """JSON text with objects indented and lists on one line each: small, and fit for a diff."""
    if not isinstance(value, Mapping) or not value:
        return json.dumps(value)
    inner = " " * (depth + 1)
    lines = [f"{inner}{json.dumps(k)}: {dumped(v, depth + 1)}" for k, v in value.items()]
    return "{\n" + ",\n".join(lines) + "\n" + " " * depth + "}"


def write(path: Path, values: Mapping[str, Any]) -> None:
    """None; writes the record and says how large it is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = dumped(rounded(values)) + "\n"
    path.write_text(text, encoding="utf-8")
    print(f"written to {path}: {len(text.encode()) / 1000:.0f} kB")
