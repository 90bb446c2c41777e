"""Judges the doctor on the runs of its matrix, on whole records and on records with parts missing.

    python -m benchmarks.doctor.judge --runs runs/doctor --json benchmarks/results/doctor_matrix.json

What the file holds of other seeds is kept, as long as the rules are the same; so the runs may be made and judged seed
by seed, on several machines.

A fault is harmful where the run ends with more held-out regret than its twin: by `MARGIN` of the twin's start in the
mean over the seeds, with a 95 % interval (Student's t, pairs of the same seed) above 0. It is harmless where the mean
is below half of that. Between the two it is neither, and counts for no figure. With one seed the mean decides alone.
The twin decides this and not the doctor.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import stdtrit

from algorithms import doctor
from algorithms.doctor import Diagnosis, diagnose
from algorithms.doctor.findings import Named, Untold
from algorithms.doctor.metric_rows import MetricRows
from algorithms.reports.run_files import Rows
from benchmarks.doctor import packed
from benchmarks.doctor.cells import cells
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


def records(runs: Path) -> dict[str, dict[int, list[Row]]]:
    """Name of the cell -> seed -> rows: of all finished runs in a folder, as they were made or packed."""
    found: dict[str, dict[int, list[Row]]] = {}
    for seed, path in packed.seeds(runs).items():
        for name, rows in packed.read(path).items():
            found.setdefault(name, {})[seed] = list(rows)
    for path in packed.finished(runs):
        name, seed = path.parent.parent.name, int(path.parent.name)
        found.setdefault(name, {})[seed] = list(packed.read_lines(path))
    return found


def ends(rows: Rows) -> tuple[float, float]:
    """Held-out regret at the first and the last evaluation, centipawns."""
    values = MetricRows(rows).series("eval/regret_cp")
    return values[0], values[-1]


def harm(faulty: Mapping[str, list[float]], twin: Mapping[str, list[float]]) -> dict[str, Any]:
    """What the fault did to regret: the mean difference, its interval, and "harmful", "harmless" or "between".

    Args:
        faulty: seed -> regret at the first and the last evaluation, centipawns.
        twin: the same of the run without the fault.
    """
    seeds = sorted(set(faulty) & set(twin))
    if not seeds:
        return {"seeds": 0, "harm": "unknown"}
    apart = [faulty[seed][1] - twin[seed][1] for seed in seeds]
    margin = MARGIN * float(np.mean([twin[seed][0] for seed in seeds]))
    mean, half = float(np.mean(apart)), 0.0
    if len(apart) > 1:
        error = float(np.std(apart, ddof=1)) / math.sqrt(len(apart))
        half = stdtrit(len(apart) - 1, 0.975) * error
    worse = mean > margin and mean - half > 0
    return {
        "seeds": len(seeds),
        "difference_cp": round(mean, 1),
        "interval_cp": [round(mean - half, 1), round(mean + half, 1)],
        "harm": "harmful" if worse else "harmless" if mean < margin / 2 else "between",
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


def lacks(diagnosis: Diagnosis) -> list[str]:
    """The causes that cannot be told because columns are missing."""
    verdicts = [(finding.name, finding.verdict) for finding in diagnosis.findings]
    return [name for name, v in verdicts if isinstance(v, Untold) and v.missing]


def judged(runs: Path, kept: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A row for each cell that was run: its harm, and what the doctor said of each seed at each level.

    Args:
        runs: folder of the runs, or of their packed records (`benchmarks.doctor.packed`).
        kept: rows of other seeds by the name of the cell.
    """
    every = {cell.name: cell for cell in cells()}
    made = records(runs)
    rows = {}
    for name, cell in every.items():
        old = kept.get(name, {"regret_cp": {}, "said": {}, "lacking": {}})
        found = made.get(name, {})
        regret = old["regret_cp"] | {
            str(s): [round(v, 1) for v in ends(r)] for s, r in found.items()
        }
        if not regret:
            continue
        said_of, lacking = {}, {}
        for level, less in LEVELS.items():
            diagnoses = {str(seed): diagnose(less(r)) for seed, r in found.items()}
            new_said = {seed: said(diagnosis) for seed, diagnosis in diagnoses.items()}
            if level != "all":  # the file is read by people too
                short = ("verdict", "causes")
                new_said = {seed: {n: each[n] for n in short} for seed, each in new_said.items()}
            said_of[level] = old["said"].get(level, {}) | new_said
            new = {name for diagnosis in diagnoses.values() for name in lacks(diagnosis)}
            lacking[level] = sorted({*old["lacking"].get(level, ()), *new})
        rows[name] = {
            "name": name,
            "group": cell.group,
            "size": cell.size,
            "algorithm": cell.algorithm,
            "expected": list(cell.expected),
            "also": list(cell.also),
            "regret_cp": regret,
            "said": said_of,
            "lacking": lacking,
        }
    for name, row in rows.items():
        twin = every[name].twin
        there = rows[twin]["regret_cp"] if twin in rows else {}
        row["harm"] = harm(row["regret_cp"], there) if twin else None
    return list(rows.values())


_NO_RULES = (
    "confidence.py",
    "watch.py",
)  # rates that were measured with the rules; the line of a run that goes on


def rules_hash() -> str:
    """SHA-256 of the files with the doctor's rules, 12 digits: rows of other rules are not kept beside these."""
    files = sorted(Path(doctor.__file__).parent.glob("*.py"))
    text = b"".join(file.read_bytes() for file in files if file.name not in _NO_RULES)
    return hashlib.sha256(text).hexdigest()[:12]


def kept_rows(path: Path | None) -> dict[str, dict[str, Any]]:
    """The rows of a file, by the name of the cell; none where there is no file.

    Raises:
        SystemExit: the file was written by other rules.
    """
    if path is None or not path.exists():
        return {}
    record = json.loads(path.read_text())
    if record["settings"]["rules"] != rules_hash():
        raise SystemExit(f"{path} was judged by other rules ({record['settings']['rules']}, these are "
                         f"{rules_hash()}): choose another file, or remove it")  # fmt: skip
    return {row["name"]: row for row in record["cells"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--seeds-from", metavar="COMMIT", help="for the record")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--rates-only", action="store_true", help="write no rows of cells")
    options = parser.parse_args()
    rows = judged(options.runs, {} if options.rates_only else kept_rows(options.json))
    found = rates(rows)
    print("\n".join(table(found)))
    for name, bands in by_rule(rows).items():
        print(f'    "{name}": {bands},')
    if options.json is not None:
        record = {
            "benchmark": "doctor_matrix",
            "settings": {
                "seeds": sorted({int(seed) for row in rows for seed in row["regret_cp"]}),
                "seeds_from": options.seeds_from,
                "margin": MARGIN,
                "rules": rules_hash(),
                "cells": f"{len(rows)} of {len(cells())}",
            },
            "machine": machine(),
            "rates": found,
            "calibration": calibration(rows),
        }
        # A line for each cell: what differs between two matrices can be read.
        shown = [] if options.rates_only else [json.dumps(row) for row in rows]
        cells_text = ",\n".join(shown)
        text = json.dumps(record, indent=1)[:-2] + f',\n "cells": [\n{cells_text}\n ]\n}}\n'
        options.json.write_text(text)


if __name__ == "__main__":
    main()
