"""Runs the comparison of GRPO, PPO, RLOO and Delightful PG: who keeps most entropy at equal regret?

    python -m benchmarks.learning.four_algorithms --out runs/four --json benchmarks/results/four_algorithms.json
    python -m benchmarks.learning.four_algorithms --network move_net --out runs/four_move_net \
        --json benchmarks/results/four_algorithms_move_net.json

The same as the `chess-lab compare` that it prints; calling again continues it. docs/findings.md has the tables and
the claims of the recorded comparisons.
"""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from algorithms.comparison.compare import compare
from algorithms.comparison.executors import add_options, jobs_of
from algorithms.comparison.grid import StoppedError
from algorithms.comparison.grid_runs import GridRun
from algorithms.comparison.plan import TUNING_SEEDS, Plan
from algorithms.comparison.readings import UnreadableError, read_run
from benchmarks.records.causes import write

PRESETS = ("grpo", "ppo", "rloo", "delightful_pg")

FOLDERS = {"resnet": "runs/four", "move_net": "runs/four_move_net"}
"""Network -> where its documented command puts the comparison."""


def plan(network: str) -> Plan:
    """The comparison on one network; its step sizes are tried around the network's own."""
    return Plan(
        presets=PRESETS,
        num_seeds=8,
        budget_moves=65_536,
        treatments=("none", "equal", "share"),
        tune=True,
        network=network,
    )


def command(network: str) -> str:
    """The command line that makes the same comparison."""
    asked = plan(network)
    return (
        f"chess-lab compare {' '.join(asked.presets)} --seeds {asked.num_seeds} --budget-moves "
        f"{asked.budget_moves} --regularization {','.join(asked.treatments)} --tune --jobs 2 "
        f"--out {FOLDERS[network]} --network {network}"
    )


def tuning_runs(folder: Path, rates: Sequence[float]) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """{algorithm: {step size: [a run for each tuning seed]}}: its seed, regret at the end and entropies.

    A run that broke is not in it.

    Args:
        folder: of the tuning runs, in that of the comparison.
        rates: the step sizes.
    """
    found: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for name in PRESETS:
        for rate in rates:
            runs = []
            for seed in TUNING_SEEDS:
                own = folder / f"{name}+learning_rate={rate:g}" / f"seed-{seed}"
                with contextlib.suppress(UnreadableError):
                    run = read_run(GridRun(own.name, (), own), name, seed, None)
                    values = run.to_dict()
                    kept = {key: values[key] for key in ("percent_of_start", "entropy_at_percent")}
                    runs.append({"seed": seed, **kept, "entropy_end": run.entropy[-1]})
            found.setdefault(name, {})[f"{rate:g}"] = runs
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--network", choices=FOLDERS, default="resnet", help="of all runs")
    add_options(parser, jobs=2)
    parser.add_argument("--out", type=Path, required=True, help="folder of the comparison")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    print(command(options.network), flush=True)
    try:
        result = compare(
            plan(options.network), options.out, jobs=jobs_of(options), ray=options.ray,
            cell_cpus=options.cell_cpus,
        )  # fmt: skip
    except StoppedError as stopped:
        print(f"{stopped}: the same command continues; nothing is written")
        return stopped.grid.exit_code
    print("\n".join(result.lines()))
    if options.json is not None:
        # Without the command line as it was given: its paths mean nothing elsewhere.
        provenance = {k: v for k, v in result.values["provenance"].items() if k != "command"}
        rates = plan(options.network).tried_rates
        runs = tuning_runs(options.out / "tuning", rates)
        values = result.values | {"provenance": provenance, "tuning_runs": runs}
        shown = {"benchmark": "four_algorithms", "command": command(options.network)}
        write(options.json, shown | values)
    return 1 if result.broken else 0


if __name__ == "__main__":
    raise SystemExit(main())
