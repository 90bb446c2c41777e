"""Do clip-higher, CE-GPPO and DPPO raise good moves that the policy seldom plays more than GRPO's clip does?

    python -m benchmarks.learning.rare_moves --out runs/rare --json benchmarks/results/rare_moves.json

The sound run of the causes without a bonus, from the warm policy of `move_net`, with each method, with one pass over a
batch and with four, on the same seeds. `no_clip` says what the clip does at all. On the held-out positions the policy
of the start tells which good moves (regret of 50 cp or less) are rare: those of less than 1 % each. Compared at the
end: the probability that these moves have together, and that of a good move in the positions in which all good moves
together had at most 5 %. What is in OUT is not run again.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import statistics
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from algorithms.collapse.cause import baseline
from algorithms.collapse.remedies import ALONE, REMEDIES, Remedy
from algorithms.evaluation.load_policy import load_policy
from algorithms.evaluation.move_quality import policy_probs
from algorithms.evaluation.regret import (
    MAIN_SLICE,
    SUCCESS_REGRET_CP,
    HeldoutSlice,
    move_regret_cp,
    prepare_slice,
)
from algorithms.reports.run_files import read_metrics
from algorithms.reports.statistics import difference_interval, holm, interquartile_mean, sign_flip_p
from algorithms.run_folder.console import Display
from algorithms.training.trainer import train
from benchmarks.records.report import print_table, save
from chess_env.positions.heldout import load_heldout

NETWORK = "move_net"
SEEDS = tuple(range(5001, 5013))
PASSES = (1, 4)
RARE, HARD = 0.01, 0.05
PLAIN = "grpo"
METHODS = {
    PLAIN: None,
    **{name: REMEDIES[name] for name in ("clip_higher", "ce_gppo", "dppo")},
    "no_clip": Remedy(
        "no_clip", "no clip", "a control",
        settings={"algorithm.clip_range": 1.0, "algorithm.clip_range_high": math.inf},
    ),
}  # fmt: skip
SHOWN = {
    "rare_percent": "rare good moves, %",
    "hard_percent": "a good move where hard, %",
    "regret_cp": "regret, cp",
    "entropy": "entropy, nats",
    "clipped_percent": "rises of rare samples clipped, %",
}
"""Key of a row -> what the table calls it."""
TOLD = ("rare_percent", "hard_percent", "regret_cp")
"""The quantities that are compared with plain GRPO."""


def run_one(method: str, passes: int, seed: int, folder: Path) -> dict[str, Any]:
    """The row of one run, which is made where its folder does not hold it yet."""
    kept = folder / "row.json"
    if kept.exists():
        found: dict[str, Any] = json.loads(kept.read_text(encoding="utf-8"))
        return found
    torch.set_num_threads(1)
    config = baseline(NETWORK)
    config = dataclasses.replace(
        config,
        algorithm=dataclasses.replace(config.algorithm, update_epochs=passes),
        regularizer=dataclasses.replace(config.regularizer, ent_coef=ALONE["regularizer.ent_coef"]),
        env=dataclasses.replace(config.env, num_engines=1, num_threads=1),
        seed=seed,
        run_dir=folder / "run",
        device="cpu",
        preflight=False,
        signal_chain="off",
        eval_interval_updates=10**9,
        diagnostics_interval_updates=10**9,
    )
    remedy = METHODS[method]
    train(config if remedy is None else remedy.treated(config), display=Display())
    row = {"method": method, "passes": passes, "seed": seed, **_measured(folder / "run")}
    kept.write_text(json.dumps(row), encoding="utf-8")
    return row


def _measured(run: Path) -> dict[str, float]:
    heldout = prepare_slice(load_heldout(), MAIN_SLICE)
    before = _probs(baseline(NETWORK).init_from or "", heldout)
    after = _probs(str(run), heldout)
    good = (move_regret_cp(heldout) <= SUCCESS_REGRET_CP) & (heldout.legal_ids >= 0)
    rare = good & (before < RARE)
    hard = (good * before).sum(axis=1) <= HARD
    rows = read_metrics(run)
    last = [row for row in rows if "eval/regret_cp" in row][-1]
    # A sample in one of several passes; in the first minibatch no ratio has moved yet.
    clipped = [row["clip/up_p_below_01"] for row in rows if "clip/up_p_below_01" in row]
    return {
        "rare_moves": int(rare.sum()),
        "hard_positions": int(hard.sum()),
        "rare_percent_before": _percent(before, rare),
        "rare_percent": _percent(after, rare),
        "hard_percent_before": 100 * float((good * before).sum(axis=1)[hard].mean()),
        "hard_percent": 100 * float((good * after).sum(axis=1)[hard].mean()),
        "regret_cp": last["eval/regret_cp"],
        "entropy": last["eval/entropy"],
        "clipped_percent": 100 * statistics.mean(clipped) if clipped else math.nan,
    }


def _probs(source: str, heldout: HeldoutSlice) -> NDArray[np.float64]:
    return policy_probs(load_policy(source), heldout, temperature=1.0, device=torch.device("cpu"))


def _percent(probs: NDArray[np.float64], rare: NDArray[np.bool_]) -> float:
    """Mean over the positions that have such moves of what they hold together."""
    has = rare.any(axis=1)
    return 100 * float((probs * rare).sum(axis=1)[has].mean())


def compared(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A line for each method and number of passes; in brackets its difference to plain GRPO, with a star where told.

    It is told by sign flips, adjusted by Holm for all of these differences of a number of passes, and an interval
    without 0.
    """
    lines = []
    for passes in PASSES:
        of = {
            method: [row for row in rows if (row["method"], row["passes"]) == (method, passes)]
            for method in METHODS
        }
        gaps = {
            (method, name): [ours[name] - plain[name] for ours, plain in zip(own, of[PLAIN], strict=True)]
            for method, own in of.items()
            for name in TOLD
            if method != PLAIN
        }  # fmt: skip
        p_values = dict(
            zip(gaps, holm([float(sign_flip_p(gap)) for gap in gaps.values()]), strict=True)
        )
        for method, own in of.items():
            line: dict[str, Any] = {"passes": str(passes), "method": method}
            for name, title in SHOWN.items():
                line[title] = f"{float(interquartile_mean([row[name] for row in own])):.2f}"
                if (gap := gaps.get((method, name))) is not None:
                    ends = difference_interval(gap)
                    sure = p_values[method, name] <= 0.05 and ends.excludes(0.0)
                    line[title] += f" ({ends.low:+.2f} to {ends.high:+.2f}{'*' if sure else ''})"
            lines.append(line)
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    cells = [
        (method, passes, seed, options.out / f"{method}-{passes}-{seed}")
        for seed in options.seeds
        for passes in PASSES
        for method in METHODS
    ]
    with get_context("spawn").Pool(options.jobs) as pool:
        rows = pool.starmap(run_one, cells, chunksize=1)
    lines = compared(rows)
    print_table(lines)
    save(options.json, "rare_moves", lines, seeds=options.seeds, runs=rows)


if __name__ == "__main__":
    main()
