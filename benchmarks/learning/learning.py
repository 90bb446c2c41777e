"""The learning claim: `make train`'s default run for several seeds, its figures, and the curve in the docs.

    python -m benchmarks.learning.learning --seeds 1 2 3 --json benchmarks/results/learning.json
    python -m benchmarks.learning.learning --draw benchmarks/results/learning.json

The default settings were chosen on seed 0, so other seeds are measured. The first command trains
(several minutes a seed on two cores); the second draws docs/figures/learning_curve.svg from the
figures. The target is at most 30 % of the starting eval/regret_cp within 300,000 scored moves and 10
CPU-minutes (trainer and engines), with held-out entropy never below 0.4 nats.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.records.report import print_table, save

ROOT = Path(__file__).resolve().parents[2]
FIGURE = ROOT / "docs" / "figures" / "learning_curve.svg"
TARGET_PERCENT, TARGET_ENTROPY = 30.0, 0.4


def run(seed: int, extra: list[str]) -> tuple[dict[str, Any], list[dict[str, float]]]:
    """(result, curve) of one run of the default settings in a process of its own."""
    with tempfile.TemporaryDirectory() as scratch:
        folder, result = Path(scratch) / "run", Path(scratch) / "result.json"
        command = [sys.executable, "-m", "algorithms.cli", "train", "grpo", "--seed", str(seed)]
        command += ["--run-dir", str(folder), "--json", str(result), *extra]
        subprocess.run(command, cwd=ROOT, check=True)
        rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
        summary = json.loads(result.read_text())
    names = (
        "scored_moves",
        "time/cpu_s",
        "eval/regret_cp",
        "eval/regret_cp_greedy",
        "eval/entropy",
    )
    curve = [
        {name: round(row[name], 3) for name in names} for row in rows if "eval/regret_cp" in row
    ]
    summary.pop("run_dir")
    return summary, curve


def draw(path: Path) -> None:
    """None; the learning curve of every seed in a results file, as an SVG in the docs."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "learning_curve"
    from matplotlib import pyplot

    record = json.loads(path.read_text())
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    for row, color in zip(record["rows"], ("C0", "C1", "C2", "C3", "C4", "C5"), strict=False):
        curve = record["settings"]["curves"][str(row["seed"])]
        moves = [point["scored_moves"] / 1000 for point in curve]
        left.plot(moves, [p["eval/regret_cp"] for p in curve], color, label=f"seed {row['seed']}")
        left.plot(moves, [p["eval/regret_cp_greedy"] for p in curve], color, lw=0.8, ls=":")
        right.plot(moves, [p["eval/entropy"] for p in curve], color)
    start = record["rows"][0]["regret_cp_start"]
    left.axhline(start * TARGET_PERCENT / 100, color="grey", lw=0.8, ls="--")
    left.text(300, 60, "dashed: 30 % of the start", color="grey", fontsize=8, ha="right")
    right.axhline(TARGET_ENTROPY, color="grey", lw=0.8, ls="--")
    left.set(
        xlabel="scored moves (thousands)", ylabel="held-out regret, centipawns", ylim=(0, None)
    )
    right.set(xlabel="scored moves (thousands)", ylabel="held-out entropy, nats", ylim=(0, None))
    left.set_title("sampled (solid) and greedy (dotted)", fontsize=9)
    left.legend(frameon=False, fontsize=8)
    FIGURE.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(FIGURE, metadata={"Date": None})
    print(f"written to {FIGURE.relative_to(ROOT)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--json", type=Path, default=None, help="write the figures here too")
    parser.add_argument(
        "--draw", type=Path, default=None, help="only draw the figures of this file"
    )
    arguments, extra = parser.parse_known_args()
    if arguments.draw is not None:
        draw(arguments.draw)
        return
    rows, curves = [], {}
    for seed in arguments.seeds:
        result, curve = run(seed, extra)
        curves[str(seed)] = curve
        rows.append(
            {
                "seed": seed,
                "regret_cp_start": round(result["regret_cp_start"], 1),
                "regret_cp_end": round(result["regret_cp_end"], 1),
                "percent_of_start": round(result["percent_of_start"], 1),
                "interval_95": "{:.1f} to {:.1f}".format(*result["percent_of_start_interval"]),
                "entropy_min": round(result["entropy_min"], 2),
                "scored_moves": result["scored_moves"],
                "cpu_minutes": round(result["cpu_s"] / 60, 1),
                "wall_minutes": round(result["wall_s"] / 60, 1),
            }
        )
    print_table(rows)
    save(
        arguments.json, "learning", rows, curves=curves, extra=extra, evaluator=result["evaluator"]
    )


if __name__ == "__main__":
    main()
