"""Does a trunk in bfloat16 learn as one in float32 does, and is a sampler in bfloat16 told from both? On CUDA.

    python -m benchmarks.learning.precision --json benchmarks/results/precision.json

GRPO on the residual network with the built-in evaluator, the same seeds for each of

- `float32`: `--precision.no-autocast`, where convolutions compute in TF32, which is torch's default;
- `bfloat16`: the default on CUDA: the trunk in bfloat16, head and log-softmax in float32;
- `low_precision`: the same with the fault of the cause of that name: the sampler's head in bfloat16 too.

An update recomputes the old log-probabilities by the pass it learns with wherever that rounds, so what is left of the
sampler's rounding is in the spread of the ratio on the first minibatch.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import dataclasses
import itertools
import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from algorithms.collapse.causes import CAUSES
from algorithms.config.names import named_run
from algorithms.config.run import TrainConfig
from algorithms.networks.device import DEVICES, choose_device
from algorithms.networks.settings import NetworkConfig, PrecisionConfig
from algorithms.reports.run_files import read_metrics
from algorithms.reports.statistics import difference_interval
from algorithms.training.session import Session
from algorithms.training.trainer import train
from benchmarks.records.report import print_table, save

FLOAT32, BFLOAT16, FAULTY = "float32", "bfloat16", "low_precision"
VARIANTS = (FLOAT32, BFLOAT16, FAULTY)
CURVES = {"moves": "scored_moves", "regret_cp": "eval/regret_cp", "entropy": "eval/entropy"}
SPREAD, MISMATCH = "ratio/std_first_minibatch", "ratio/mismatch"


def config_of(variant: str, seed: int, moves: int, run_dir: Path, device: str) -> TrainConfig:
    """One of the runs."""
    config = named_run("grpo")
    return dataclasses.replace(
        config,
        policy=NetworkConfig(network="resnet", size="large"),
        precision=PrecisionConfig(autocast=variant != FLOAT32),
        env=dataclasses.replace(config.env, evaluator="builtin"),
        total_moves=moves,
        seed=seed,
        device=device,  # type: ignore[arg-type] # one of DEVICES
        preflight=variant != FAULTY,  # which finds the fault
        run_dir=run_dir,
    )


def run(variant: str, seed: int, moves: int, device: str) -> dict[str, Any]:
    """A row of one run, its curve among it."""
    fault = CAUSES[FAULTY].fault

    def make_session(settings: TrainConfig, *, fresh: bool) -> Session:
        session = Session(settings, fresh=fresh)
        if variant == FAULTY:
            assert fault is not None
            fault(session)
        return session

    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "run"
        train(config_of(variant, seed, moves, folder, device), make_session=make_session)
        rows = read_metrics(folder)
    evaluated = [row for row in rows if "eval/regret_cp" in row]
    curve = {
        name: [float(f"{row[metric]:.6g}") for row in evaluated] for name, metric in CURVES.items()
    }
    return {
        "variant": variant,
        "seed": seed,
        "regret_cp": curve["regret_cp"][-1],
        "entropy": curve["entropy"][-1],
        "std_first_minibatch": _median(rows, SPREAD),
        "mismatch": _median(rows, MISMATCH),
        "curve": curve,
    }


def _median(rows: Sequence[Mapping[str, float | None]], metric: str) -> float:
    return statistics.median(x for row in rows if (x := row.get(metric)) is not None)


def table(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A row for each variant: medians over the seeds, and the difference from float32 with its interval."""
    found = []
    by_seed = {(row["variant"], row["seed"]): row for row in rows}
    seeds = sorted({row["seed"] for row in rows})
    for variant in dict.fromkeys(row["variant"] for row in rows):
        mine = [by_seed[variant, seed] for seed in seeds]
        regrets = [row["regret_cp"] for row in mine]
        found.append(
            {
                "variant": variant,
                "seeds": len(seeds),
                "regret_cp": f"{statistics.median(regrets):.1f} ({min(regrets):.1f} to {max(regrets):.1f})",
                "minus_float32_cp": _difference(mine, [by_seed.get((FLOAT32, s)) for s in seeds]),
                "entropy": round(statistics.median(row["entropy"] for row in mine), 2),
                "std_first_minibatch": f"{statistics.median(r['std_first_minibatch'] for r in mine):.1e}",
                "mismatch": f"{statistics.median(r['mismatch'] for r in mine):.1e}",
            }
        )
    return found


def _difference(mine: list[dict[str, Any]], others: list[dict[str, Any] | None]) -> str:
    """Mean difference of the regret with its 95 % interval over the seeds."""
    pairs = [(a["regret_cp"], b["regret_cp"]) for a, b in zip(mine, others, strict=True) if b]
    if len(pairs) < 2 or mine[0]["variant"] == FLOAT32:
        return ""
    gaps = [a - b for a, b in pairs]
    interval = difference_interval(gaps)
    return f"{statistics.mean(gaps):+.1f} ({interval.low:+.1f} to {interval.high:+.1f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--moves", type=int, default=300_000, help="budget of a run")
    parser.add_argument("--jobs", type=int, default=9, help="runs at a time, on the one device")
    parser.add_argument("--device", choices=DEVICES, default="cuda")
    parser.add_argument("--json", type=Path, default=None, help="write the figures here too")
    options = parser.parse_args()
    device = choose_device(options.device)
    asked = list(itertools.product(VARIANTS, options.seeds, [options.moves], [options.device]))
    spawn = multiprocessing.get_context("spawn")  # a forked process cannot use CUDA
    with concurrent.futures.ProcessPoolExecutor(options.jobs, mp_context=spawn) as pool:
        rows = list(pool.map(run, *zip(*asked, strict=True)))
    found = table(rows)
    print_table(found)
    card = torch.cuda.get_device_name(device) if device.type == "cuda" else "none"
    date = time.strftime("%Y-%m-%d")
    save(options.json, "precision", found, moves=options.moves, card=card, date=date, runs=rows)


if __name__ == "__main__":
    main()
