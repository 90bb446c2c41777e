"""Whether the callback for TRL changes a run, and what it costs: each run without it and with it, in turn.

    .venv-trl/bin/python -m benchmarks.foreign.trl_callback --out runs/callback --seeds 1 2 --json foreign_callback.json

The weights of the two are compared to the bit.
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path
from typing import Any

from benchmarks.foreign.trl_runs import OPEN, run

KINDS = ("sound", "sound_iterations2", "sound_steps4", "hot1.5", "dropout", "beta10")


def label(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "label.json").read_text())
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", required=True)
    parser.add_argument("--json", type=Path, default=None)
    options = parser.parse_args()
    import torch

    from algorithms.integrations.trl import DoctorCallback

    torch.set_num_threads(1)
    rows = []
    for seed in options.seeds:
        for kind in KINDS:
            for name, callbacks in (("off", []), ("on", [DoctorCallback()])):
                (options.out / name).mkdir(parents=True, exist_ok=True)
                run(OPEN[kind], kind, seed, options.out / name, callbacks)
            off, on = (label(options.out / name / f"{kind}__{seed}") for name in ("off", "on"))
            rows.append({
                "kind": kind, "seed": seed, "same_weights": on["weights"] == off["weights"],
                "time": round(on["seconds"] / off["seconds"], 3),
            })  # fmt: skip
    same = sum(row["same_weights"] for row in rows)
    time = statistics.median(row["time"] for row in rows)
    print(f"the same weights: {same} of {len(rows)}; time with it: {time:.3f} times that without")
    if options.json:
        found = {"rows": rows, "same": same, "of": len(rows), "median_time": time}
        options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
