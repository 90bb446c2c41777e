"""Judges the doctor on the runs of its matrix, on whole records and on records with parts missing.

    python -m benchmarks.doctor.judge --runs runs/doctor --json benchmarks/results/doctor_matrix.json

A fault is harmful where the run ends with more held-out regret than its twin: by `MARGIN` of the twin's start in the
mean over the seeds, with a 95 % interval (Student's t, pairs of the same seed) above 0. It is harmless where the mean
is below half of that. Between the two it is neither, and counts for no figure. With one seed the mean decides alone.
The twin decides this and not the doctor.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from algorithms.collapse.doctor import RULES, Diagnosis, diagnose
from algorithms.collapse.doctor.finding import Named
from algorithms.collapse.doctor.record import Record
from algorithms.reports.student_t import student_t_quantile
from algorithms.reports.summaries import Rows
from benchmarks.doctor.cells import Cell, cells
from benchmarks.doctor.rates import by_rule, calibration, rates, table
from benchmarks.records.report import machine

MARGIN = 0.05
"""Of the twin's regret at the start: the difference at the end that is called harm."""

Row = Mapping[str, float | None]
CORE = (
    "policy/entropy", "policy/clip_fraction", "policy/approx_kl", "reg/kl_old", "rollout/reward_",
)  # fmt: skip


def _kept(keep: Callable[[str], bool]) -> Callable[[Rows], Rows]:
    def less(rows: Rows) -> Rows:
        return [{name: row[name] for name in row if name == "step" or keep(name)} for row in rows]

    return less


LEVELS: dict[str, Callable[[Rows], Rows]] = {
    "all": lambda rows: rows,
    "no step0/*": _kept(lambda name: not name.startswith("step0/")),
    "no ratio/*": _kept(lambda name: not name.startswith(("ratio/", "step0/"))),
    "entropy, clip, KL, rewards": _kept(lambda name: name.startswith(CORE)),
    "evaluations only": _kept(lambda name: name.startswith("eval/")),
    "first five updates missing": lambda rows: [r for r in rows if (r.get("step") or 0) > 5],
    "every second row missing": lambda rows: [
        r for r in rows if (r.get("step") or 0) % 2 == 0 or "eval/regret_cp" in r
    ],
}
"""What of a record the doctor is given."""


def records(runs: Path, cell: Cell) -> dict[int, list[Row]]:
    """Seed -> the rows of a cell's finished runs."""
    found = {}
    for folder in sorted((runs / cell.name).glob("[0-9]*")):
        path = folder / "metrics.jsonl"
        if folder.name.isdigit() and path.exists() and not (folder / "error.txt").exists():
            found[int(folder.name)] = [json.loads(line) for line in path.read_text().splitlines()]
    return found


def ends(rows: Rows) -> tuple[float, float]:
    """Held-out regret at the first and the last evaluation, centipawns."""
    values = Record(rows).series("eval/regret_cp")
    return values[0], values[-1]


def harm(faulty: Mapping[int, Rows], twin: Mapping[int, Rows]) -> dict[str, Any]:
    """What the fault did to regret: the mean difference, its interval, and "harmful", "harmless" or "between"."""
    seeds = sorted(set(faulty) & set(twin))
    if not seeds:
        return {"seeds": 0, "harm": "unknown"}
    apart = [ends(faulty[s])[1] - ends(twin[s])[1] for s in seeds]
    margin = MARGIN * float(np.mean([ends(twin[s])[0] for s in seeds]))
    mean = float(np.mean(apart))
    half = 0.0
    if len(apart) > 1:
        half = (
            student_t_quantile(0.975, len(apart) - 1)
            * float(np.std(apart, ddof=1))
            / math.sqrt(len(apart))
        )
    low, high = mean - half, mean + half
    word = (
        "harmful" if mean > margin and low > 0 else "harmless" if mean < margin / 2 else "between"
    )
    return {
        "seeds": len(seeds),
        "difference_cp": round(mean, 1),
        "interval_cp": [round(low, 1), round(high, 1)],
        "harm": word,
    }


def said(diagnosis: Diagnosis) -> dict[str, Any]:
    """What is kept of a diagnosis; each cause as [name, harmful, confidence, since, size]."""
    causes = []
    for finding in diagnosis.causes:
        found = finding.verdict
        assert isinstance(found, Named)
        numbers = (round(finding.confidence, 3), found.since, round(found.size, 2))
        causes.append([finding.name, finding.is_harmful, *numbers])
    return {
        "verdict": diagnosis.verdict,
        "learning": diagnosis.outcome.learning,
        "entropy": diagnosis.outcome.entropy,
        "causes": causes,
        "untold": [finding.name for finding in diagnosis.untold],
    }


def judged(runs: Path) -> list[dict[str, Any]]:
    """A row for each cell that was run: its harm, and what the doctor said of each seed at each level."""
    every = {cell.name: cell for cell in cells()}
    cache = {name: records(runs, cell) for name, cell in every.items()}
    rows = []
    for name, cell in every.items():
        if not cache[name]:
            continue
        levels = {
            level: {str(s): said(diagnose(less(r))) for s, r in cache[name].items()}
            for level, less in LEVELS.items()
        }
        told = {
            level: sorted(
                {
                    rule.name
                    for r in list(cache[name].values())[:1]
                    for rule in RULES
                    if any(Record(less(r)).has(*need) for need in rule.needs)
                }
            )
            for level, less in LEVELS.items()
        }
        rows.append(
            {
                "name": name,
                "group": cell.group,
                "size": cell.size,
                "algorithm": cell.algorithm,
                "expected": list(cell.expected),
                "also": list(cell.also),
                "regret_cp": {
                    str(s): [round(v, 1) for v in ends(r)] for s, r in cache[name].items()
                },
                "harm": harm(cache[name], cache[cell.twin]) if cell.twin else None,
                "said": levels,
                "columns": told,
            }
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[], help="for the record")
    parser.add_argument("--seeds-from", metavar="COMMIT", help="for the record")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = judged(options.runs)
    found = rates(rows)
    print("\n".join(table(found)))
    for name, bands in by_rule(rows).items():
        print(f'    "{name}": {bands},')
    if options.json is not None:
        record = {
            "benchmark": "doctor_matrix",
            "settings": {
                "seeds": options.seeds,
                "seeds_from": options.seeds_from,
                "margin": MARGIN,
            },
            "machine": machine(),
            "rates": found,
            "calibration": calibration(rows),
        }
        # A line for each cell: what differs between two matrices can be read.
        cells_text = ",\n".join(json.dumps(row) for row in rows)
        text = json.dumps(record, indent=1)[:-2] + f',\n "cells": [\n{cells_text}\n ]\n}}\n'
        options.json.write_text(text)


if __name__ == "__main__":
    main()
