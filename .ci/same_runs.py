"""Compares seeded runs of two clones on this machine: same_runs.py OTHER_CLONE [--python PYTHON] [RUN ...].

For a change that must not change behaviour: each command below runs in both clones, and records (without
times), final weights, configurations and help texts must be equal. Differences are printed; the exit code is
1 where there are any.
"""

from __future__ import annotations

import argparse
import difflib
import functools
import hashlib
import json
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from algorithms.networks.settings import NetworkConfig

SMALL = (
    *("--env.evaluator", "builtin", "--num-threads", "1", "--device", "cpu"),
    *("--policy.channels", "16", "--policy.blocks", "1", "--rollout.num-plies", "4"),
    *("--eval-interval-updates", "3", "--diagnostics-interval-updates", "2", "--no-preflight"),
)
RL = (*SMALL, "--rollout.num-envs", "16", "--checkpoint-interval-updates", "3")
RUNS: dict[str, tuple[str, ...]] = {
    "grpo": ("train", "grpo", *RL, "--total-moves", "4096", "--algorithm.update-epochs", "2"),
    "rloo_games": (
        *("train", "rloo", *SMALL, "--rollout.form", "games", "--rollout.num-envs", "4"),
        *("--rollout.train-sides", "start", "--rollout.teacher-fraction", "0.3"),
        *("--algorithm.credit", "return_to_go", "--total-moves", "1024", "--seed", "3"),
    ),
    "ppo": ("train", "ppo", *RL, "--total-moves", "1024", "--match.opponents", "random",
            "--match.games", "4", "--match.interval-updates", "8"),
    "ppo_games": ("train", "ppo", *RL, "--rollout.form", "games", "--total-moves", "1024"),
    "exact": ("train", "exact", *RL, "--total-moves", "12000", "--policy.dropout", "0.1"),
    "dapo": ("train", "dapo", *RL, "--total-moves", "4096", "--rollout.greedy-fraction", "0.5"),
    "clip_cov": ("train", "clip_cov", *RL, "--total-moves", "3072"),
    "delightful_pg": ("train", "delightful_pg", *RL, "--total-moves", "3072", "--precision.head-dtype",
                      "bfloat16", "--precision.logprob-dtype", "float16"),
    "kl_cov": ("train", "kl_cov", *RL, "--total-moves", "3072", "--algorithm.update-epochs", "3"),
    "repo": ("train", "repo", *RL, "--total-moves", "3072"),
    "regularised": (
        *("train", "grpo", *RL, "--total-moves", "6144", "--algorithm.update-epochs", "2"),
        *("--regularizer.ent-coef-final", "None", "--regularizer.ent-controller", "recovery"),
        *("--regularizer.ent-alert", "3.2"),
        *("--regularizer.ent-patience", "2", "--regularizer.kl-ref-coef", "0.1"),
        *("--regularizer.kl-ref-placement", "reward", "--regularizer.kl-ref-estimator", "k2"),
        *("--regularizer.ref-refresh-interval", "3", "--regularizer.kl-old-coef", "0.02"),
        *("--regularizer.kl-old-estimator", "weighted_k3", "--regularizer.repo-r-coef", "0.05"),
        *("--rollout.sync-interval-updates", "2", "--optimizer.frozen-layers", "stem"),
    ),
    "adaptive_kl": (
        *("train", "grpo", *RL, "--total-moves", "6144", "--algorithm.update-epochs", "2"),
        *("--regularizer.ent-coef-final", "None", "--regularizer.ent-controller", "target"),
        *("--regularizer.kl-controller", "ziegler"),
        *("--regularizer.kl-old-coef", "0.05", "--regularizer.kl-old-placement", "reward"),
        *("--regularizer.kl-old-estimator", "k1", "--rollout.sync-interval-updates", "3"),
        *("--init-from", "warm", "--policy.channels", "64", "--policy.blocks", "4"),
    ),
    "versus": ("train", "ppo", *RL, "--env.opponent", "random", "--total-moves", "1024"),
    "one_ply": (
        *("train", "ppo_one_ply", *RL, "--total-moves", "4096"),
        *("--regularizer.ent-coef-final", "0.1"),
    ),
    "pretrain": (
        *("pretrain", "--evaluator", "builtin", "--policy.channels", "16", "--policy.blocks", "1"),
        *("--num-positions", "512", "--total-steps", "24", "--num-threads", "1", "--device", "cpu"),
    ),
}  # fmt: skip
RESUMED = {"grpo": ("--total-moves", "6144"), "adaptive_kl": ("--total-moves", "8192")}
HELP = ("train grpo", "train ppo", "pretrain", "eval", "compare", "report", "causes run", "diagnose",
        "check", "uci", "completion", "")  # fmt: skip

REMOVED = (
    *("crc32", "loop", "step0/mask_errors", "step0/illegal_mass", "step0/entropy_excess"),
    *(
        "step0/repeated_starts",
        "step0/repeated_states",
        "step0/stale_out_of_range",
        "step0/stale_ess",
    ),
)
"""Fields of a record or a configuration that commit 7167c44 has and this one has no more."""
ADDED = ("step0/order_error_cp",)
"""Fields that are new since."""


def chess_lab(clone: Path, python: str, arguments: tuple[str, ...]) -> str:
    """Standard output of a command of one clone."""
    command = [python, "-m", "algorithms.cli", *arguments]
    done = subprocess.run(command, cwd=clone, capture_output=True, text=True)
    if done.returncode:
        sys.exit(
            f"{clone}: {' '.join(arguments)} failed\n{done.stdout[-2000:]}{done.stderr[-4000:]}"
        )
    return done.stdout


@functools.cache
def network_of(clone: Path, python: str) -> tuple[str, ...]:
    """The options that ask a clone for `resnet`: none where it is of before there were several networks."""
    known = "resnet" in chess_lab(clone, python, ("train", "grpo", "--help"))
    return ("--policy.network", "resnet") if known else ()


def run_of(clone: Path, name: str, run_dir: Path, python: str) -> dict[str, str]:
    """The record of one named run of one clone, continued once where RESUMED says so."""
    chess_lab(clone, python, (*RUNS[name], *network_of(clone, python), "--run-dir", str(run_dir)))
    if name in RESUMED:
        chess_lab(clone, python, (*RUNS[name][:2], "--resume", str(run_dir), *RESUMED[name]))
    return record(run_dir)


def record(run_dir: Path) -> dict[str, str]:
    """What a run left behind, as comparable text by name."""
    found: dict[str, str] = {}
    for path in sorted(run_dir.rglob("*")):
        name = str(path.relative_to(run_dir))
        if path.name == "metrics.jsonl":
            rows = [json.loads(line) for line in path.read_text().splitlines()]
            left_out = ("time/", *REMOVED, *ADDED)
            kept = [{k: v for k, v in row.items() if not k.startswith(left_out)} for row in rows]
            found[name] = "\n".join(json.dumps(row, sort_keys=True, indent=0) for row in kept)
        elif path.name == "config.json":
            values = json.loads(path.read_text())
            for gone in ("run_dir", "sha256", *REMOVED):
                values.pop(gone, None)
            values["policy"] = in_numbers(values["policy"])
            found[name] = json.dumps(flat(values), indent=0, sort_keys=True)
        elif path.suffix in (".safetensors", ".npz"):
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def in_numbers(policy: dict[str, Any]) -> dict[str, Any]:
    """A policy's settings with its numbers in the place of its size, which older ones have no name for."""
    given = {name: policy.get(name) for name in ("channels", "blocks", "head_dim")}
    size = policy.get("size", "medium")
    found = NetworkConfig(network=policy["network"], size=size, **given).dimensions._asdict()
    return {name: value for name, value in policy.items() if name != "size"} | found


def flat(values: Any, prefix: str = "") -> dict[str, Any]:
    """{"section.field": value} of nested JSON values."""
    if not isinstance(values, dict):
        return {prefix: values}
    return {
        name: value
        for key, inner in values.items()
        for name, value in flat(inner, f"{prefix}.{key}" if prefix else key).items()
    }


def differences(ours: dict[str, str], theirs: dict[str, str]) -> list[str]:
    """Lines of a diff of two records."""
    lines = []
    for name in sorted({*ours, *theirs}):
        old, new = theirs.get(name, "(absent)"), ours.get(name, "(absent)")
        if old != new:
            diff = difflib.unified_diff(
                old.splitlines(), new.splitlines(), name, name, "", "", 0, ""
            )
            lines += list(diff)[:60]
    return lines


def main() -> int:
    """Exit code: 0 where nothing differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("other", type=Path)
    parser.add_argument("runs", nargs="*")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--help-texts", action="store_true", help="compare the help texts too")
    options = parser.parse_args()
    clones = {"ours": Path(__file__).parents[1].resolve(), "theirs": options.other.resolve()}
    found = 0
    with tempfile.TemporaryDirectory() as scratch:
        for name in options.runs or RUNS:
            with ThreadPoolExecutor(2) as both:
                seen = dict(
                    both.map(
                        lambda side, name=name: (
                            side,
                            run_of(clones[side], name, Path(scratch) / side / name, options.python),
                        ),
                        clones,
                    )
                )
            different = differences(seen["ours"], seen["theirs"])
            found += bool(different)
            print(f"{name}: {'DIFFERENT' if different else 'equal'} ({len(seen['ours'])} files)")
            print("\n".join(different), end="\n" if different else "", flush=True)
        for command in HELP if options.help_texts else ():
            texts = {
                side: chess_lab(clone, options.python, (*command.split(), "--help"))
                for side, clone in clones.items()
            }
            different = differences({command: texts["ours"]}, {command: texts["theirs"]})
            found += bool(different)
            print(f"chess-lab {command} --help: {'DIFFERENT' if different else 'equal'}")
            print("\n".join(different), end="\n" if different else "", flush=True)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
