"""What truncated importance sampling and IcePop cure, of three samplers that are not the learner.

    python -m benchmarks.learning.corrections --out runs/corrections --json benchmarks/results/corrections.json

Each cause of collapse is run as it is, with either correction, and as its cured twin, with the same eight seeds. What
is in OUT is not run again.
"""

from __future__ import annotations

import argparse
import dataclasses
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch

from algorithms.collapse import CAUSES
from algorithms.reports.run_files import read, read_run
from algorithms.reports.statistics import difference_interval, interquartile_mean
from algorithms.training.session import Session
from algorithms.training.trainer import train
from benchmarks.doctor.matrix import Quiet
from benchmarks.records.report import print_table, save

NAMES = ("temperature_mismatch", "forward_mismatch", "stale_behaviour")
CORRECTIONS: tuple[Any, ...] = ("none", "tis", "icepop")
TWIN = "cured twin"
SEEDS = tuple(range(1, 9))
READINGS = {
    "regret at the end, cp": "last eval/regret_cp",
    "entropy at the end, nats": "last eval/entropy",
}


def run_one(name: str, network: str, correction: Any, seed: int, folder: Path) -> dict[str, float]:
    """The readings of one run, which is made where its folder is not there yet."""
    cause, cured = CAUSES[name].on_network(network), correction == TWIN
    config = cause.config(cured=cured, seed=seed)

    def make_session(settings: Any, *, fresh: bool) -> Session:
        session = Session(settings, fresh=fresh)
        if cause.fault is not None and not cured:
            torch.manual_seed(settings.seed)
            cause.fault(session)
        return session

    if not folder.exists():
        kind: Any = "none" if cured else correction
        optimizer = dataclasses.replace(config.optimizer, sampler_correction=kind)
        config = dataclasses.replace(config, optimizer=optimizer, run_dir=folder, preflight=False)
        train(config, make_session=make_session, display=Quiet())
    rows = read_run(folder).rows
    return {title: read(rows, reading) for title, reading in READINGS.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--network", choices=("resnet", "move_net"), default="move_net")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    cells = [
        (name, options.network, correction, seed, options.out / f"{name}-{correction}-{seed}")
        for name in NAMES
        for correction in (*CORRECTIONS, TWIN)
        for seed in SEEDS
    ]
    with get_context("spawn").Pool(options.jobs) as pool:
        found = dict(zip(cells, pool.starmap(run_one, cells, chunksize=1), strict=True))
    rows = []
    for name in NAMES:
        of = {
            correction: [found[cell] for cell in cells if cell[0] == name and cell[2] == correction]
            for correction in (*CORRECTIONS, TWIN)
        }
        for correction, runs in of.items():
            row: dict[str, Any] = {"cause": name, "correction": correction}
            for title in READINGS:
                ours = [run[title] for run in runs]
                row[title] = f"{float(interquartile_mean(ours)):.3g}"
                base = [run[title] for run in of["none"]]
                gap = [one - other for one, other in zip(ours, base, strict=True)]
                if correction != "none":
                    ends = difference_interval(gap)
                    row[title] += f" ({ends.low:+.3g} to {ends.high:+.3g} against none)"
            rows.append(row)
    print_table(rows)
    save(options.json, "corrections", rows, network=options.network, seeds=len(SEEDS))


if __name__ == "__main__":
    main()
