"""Held-out regret of each network after the same CPU-minutes of self-play, engines included.

    python -m benchmarks.networks.tuning --out runs/networks --json benchmarks/results/network_tuning.json
    python -m benchmarks.networks.by_cpu_time --out runs/networks --json benchmarks/results/networks.json

Each run is `chess-lab train ALGORITHM --policy.network NAME --policy.size SIZE` with the step size, which falls to 0 at
the end of the budget, and the bonus that `tuning` chose on other seeds. A budget is counted in scored moves: a first
run of 65,536 moves tells how many of them a CPU-second pays for, once all is loaded. The table has the CPU-minutes
that were used. Rows that the file of --json holds are kept and what is missing is run, so the command can be stopped
and given again, also with other networks, budgets or seeds.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.records.command_line import chess_lab
from benchmarks.records.report import machine, print_table, save

RESULTS = Path(__file__).resolve().parents[1] / "results"
ALGORITHMS = ("grpo", "ppo_one_ply", "rloo", "delightful_pg")
NETWORKS = ("move_net:medium", "transformer:small", "resnet:medium")
MINUTES = (0.5, 2.0)
SEEDS = (1, 2, 3)
CALIBRATION_MOVES = 65_536
COLUMNS = ("eval/regret_cp", "eval/regret_cp_greedy", "eval/entropy")
NEVER = "1000000"
KEY = ("evaluator", "algorithm", "network", "minutes", "seed")
"""What tells two rows apart."""

Settings = Mapping[str, float]
"""Dotted names of a run's settings, and their values."""


class Column(NamedTuple):
    """What is trained: an algorithm on a network (`NAME:SIZE`), with rewards of an evaluator."""

    algorithm: str
    network: str
    evaluator: str

    @property
    def label(self) -> str:
        """A name for folders."""
        evaluator = self.evaluator.partition(":")[0]
        return f"{self.algorithm}-{self.network.replace(':', '-')}-{evaluator}"

    @property
    def arguments(self) -> tuple[str, ...]:
        """What follows `chess-lab train`."""
        name, _, size = self.network.partition(":")
        network = ("--policy.network", name, "--policy.size", size)
        run = ("--env.evaluator", self.evaluator, "--diagnostics-interval-updates", NEVER)
        return (self.algorithm, *network, *run)


def train(folder: Path, arguments: Sequence[str]) -> dict[str, Any]:
    """The result of the run in `folder`, which is made where it is not there."""
    # A budget of half a minute has a dot in its name.
    result = folder.parent / f"{folder.name}.json"
    if not result.exists():
        if folder.exists():
            chess_lab("train", "--resume", str(folder), "--json", str(result))
        else:
            chess_lab("train", *arguments, "--run-dir", str(folder), "--json", str(result))
    found: dict[str, Any] = json.loads(result.read_text())
    return found


def learning_cpu_s(folder: Path, skipped: int = 0) -> tuple[float, int]:
    """(CPU-seconds, scored moves) of a run from one row to its last; the first row is that before any update."""
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    rows = [row for row in map(json.loads, lines) if "time/cpu_s" in row]
    first, last = rows[skipped], rows[-1]
    moves = int(last["scored_moves"] - first["scored_moves"])
    return last["time/cpu_s"] - first["time/cpu_s"], moves


def moves_a_second(out: Path, column: Column) -> float:
    """Scored moves that a CPU-second pays for, of a short run of its own."""
    folder = out / f"{column.label}-calibration"
    few = ("--total-moves", str(CALIBRATION_MOVES), "--eval-interval-updates", NEVER)
    train(folder, [*column.arguments, "--seed", "0", *few])
    cpu_s, moves = learning_cpu_s(folder, skipped=8)
    return moves / cpu_s


def measure(
    out: Path, column: Column, minutes: float, seed: int, settings: Settings
) -> dict[str, Any]:
    """A row of the table: one column, budget and seed.

    Args:
        out: folder of the runs.
        column: what is trained.
        minutes: the budget, CPU-minutes.
        seed: of the run.
        settings: what it has in place of its defaults; at least one.
    """
    total = round(60 * minutes * moves_a_second(out, column))
    changed = [(f"--{name.replace('_', '-')}", str(value)) for name, value in settings.items()]
    own = "-".join(f"{value:g}" for value in settings.values())
    folder = out / f"{column.label}-{minutes:g}min-{own}-seed{seed}"
    every = max(1, total // 2048 // 10)
    budget = ("--total-moves", str(total), "--eval-interval-updates", str(every))
    arguments = [*column.arguments, *itertools.chain(*changed), "--seed", str(seed), *budget]
    result = train(folder, arguments)
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    last = [row for row in lines if COLUMNS[0] in row][-1]
    return {
        "evaluator": column.evaluator,
        "algorithm": column.algorithm,
        "network": column.network,
        "minutes": minutes,
        "seed": seed,
        **settings,
        "scored_moves": int(last["scored_moves"]),
        "cpu_minutes": round(learning_cpu_s(folder)[0] / 60, 2),
        "regret_cp": round(last["eval/regret_cp"], 1),
        "regret_cp_greedy": round(last["eval/regret_cp_greedy"], 1),
        "entropy": round(last["eval/entropy"], 2),
        "lowest_entropy": round(result["entropy_min"], 2),
        "commit": machine()["commit"],
    }


def key_of(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """What tells it from other rows."""
    return tuple(row[name] for name in KEY)


def kept(path: Path | None, name: str) -> list[dict[str, Any]]:
    """What a file of results holds under `name` ("rows", "chosen"); nothing where there is no file."""
    if path is None or not path.exists():
        return []
    record = json.loads(path.read_text())
    found: list[dict[str, Any]] = (record | record["settings"])[name]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("runs/networks"))
    parser.add_argument("--algorithms", nargs="+", default=list(ALGORITHMS))
    parser.add_argument("--networks", nargs="+", default=list(NETWORKS))
    parser.add_argument("--minutes", type=float, nargs="+", default=list(MINUTES))
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS))
    parser.add_argument("--evaluator", default="builtin")
    parser.add_argument("--tuning", type=Path, default=RESULTS / "network_tuning.json")
    parser.add_argument("--json", type=Path, default=None, help="rows are kept and added here")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    chosen = {
        (row["algorithm"], row["network"]): row["settings"]
        for row in kept(options.tuning, "chosen")
    }
    rows = {key_of(row): row for row in kept(options.json, "rows")}
    # Seed by seed, so that a drift of the machine is everyone's.
    cells = itertools.product(options.seeds, options.minutes, options.algorithms, options.networks)
    for seed, minutes, algorithm, network in cells:
        column = Column(algorithm, network, options.evaluator)
        key = (column.evaluator, algorithm, network, minutes, seed)
        name = network.partition(":")[0]
        if key in rows:
            continue
        if (algorithm, name) not in chosen:
            raise SystemExit(
                f"{options.tuning} has no settings for {algorithm} on {name}: run "
                f"`python -m benchmarks.networks.tuning --algorithms {algorithm} --networks {network}` first"
            )
        rows[key] = measure(options.out, column, minutes, seed, chosen[algorithm, name])
        print(rows[key], flush=True)
        save(options.json, "networks", list(rows.values()))
    print_table(list(rows.values()))


if __name__ == "__main__":
    main()
