"""Does reinforcement learning improve a pretrained policy more than more pretraining does, for the same CPU time?

    python -m benchmarks.learning.pretraining --out runs/pretraining --json benchmarks/results/pretraining.json
    python -m benchmarks.learning.pretraining --long --seeds 3 --json benchmarks/results/pretraining_long.json
    python -m benchmarks.learning.pretraining --out runs/try --smoke

For each seed a policy is pretrained until held-out regret no longer falls, and goes on in three ways from the same
checkpoint: `rl` (GRPO with the settings `strong`, but a frozen stem and a smaller step size and bonus), `continued`
(the pretraining run itself) and `restarted` (pretraining with a step size that rises and falls once more). All arms
see the same kinds of positions and the same evaluator, and have the CPU time of the RL run. RL's step size and bonus
were chosen in four short runs from the pretrained policies of seeds 1 and 2.

Pretrained policies, continued ones and those after RL play games too, as in `strong.py`. `--long` measures
something else: RL runs of four times the moves, and the policies they began from. Calling again continues. Three seeds
take about three hours on one core, a long run one.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from algorithms.reports.run_files import read_metrics
from algorithms.reports.student_t import student_t_quantile
from benchmarks.learning import strong
from benchmarks.records.command_line import chess_lab
from benchmarks.records.report import print_table, save

ROOT = Path(__file__).resolve().parents[2]
STARTS = "0.25*decided+0.6*random_plies:2-40+0.15*phase_mix"
RL_MOVES, RL_RATE, FROZEN = 5_000_000, 3e-4, ("stem",)
LONG_MOVES = 4 * RL_MOVES
RL_BONUS = 0.7, 0.3
"""First and last `ent_coef`: between what `strong` makes of a random policy and what pretraining leaves."""

RESTART_RATE = 1e-3
ARMS = ("rl", "continued", "restarted")
METRICS = ("eval/regret_cp_greedy", "eval/regret_cp")


@dataclasses.dataclass(frozen=True)
class Sizes:
    """Options that say how large the runs are.

    Attributes:
        labels: of every pretraining run: its positions and network.
        decay: of the first pretraining run alone.
        rl: of the runs of GRPO.
        long_rl: of the long ones.
        games: against each opponent.
    """

    labels: tuple[str, ...]
    decay: tuple[str, ...]
    rl: tuple[str, ...]
    long_rl: tuple[str, ...]
    games: int


NETWORK = "--policy.network", "resnet"
"""That of `strong`, with whose settings the policies go on."""

WHOLE = Sizes(
    labels=("--num-positions", "524288", *NETWORK, "--policy.size", "large"),
    decay=("--lr-decay-steps", "3000"),
    rl=("--total-moves", str(RL_MOVES)),
    long_rl=("--total-moves", str(LONG_MOVES)),
    games=200,
)
SMOKE = Sizes(
    labels=("--smoke", *NETWORK), decay=(), rl=("--smoke",), long_rl=("--smoke",), games=4
)


def finished(folder: Path) -> bool:
    """Whether this script has seen the run's command end well."""
    return (folder / "finished").exists()


def run_once(folder: Path, begin: list[str], go_on: list[str]) -> None:
    """None; begins a run or goes on with it, and notes its end."""
    if finished(folder):
        return
    chess_lab(*(go_on if (folder / "config.json").exists() else begin))
    (folder / "finished").touch()


def last(folder: Path, name: str) -> float:
    """The last value of a metric in a run's record."""
    values = [row[name] for row in read_metrics(folder) if row.get(name) is not None]
    return float(values[-1])  # type: ignore[arg-type]


def lowest(folder: Path, name: str) -> float:
    """The value of a metric at the evaluation with the lowest eval/regret_cp: the checkpoint `best`."""
    rows = [row for row in read_metrics(folder) if row.get("eval/regret_cp") is not None]
    return float(min(rows, key=lambda row: row["eval/regret_cp"] or 0.0)[name] or 0.0)


def pretrain(out: Path, seed: int, sizes: Sizes) -> Path:
    """The folder of the seed's pretraining run, which ended at a plateau."""
    folder = out / f"seed-{seed}" / "pretrained"
    settings = ["--seed", str(seed), "--label-seed", str(seed), "--run-dir", str(folder)]
    settings += ["--start-positions", STARTS, *sizes.labels, *sizes.decay]
    run_once(folder, ["pretrain", *settings], ["pretrain", "--resume", str(folder)])
    return folder


def reinforce(pretrained: Path, seed: int, name: str, size: tuple[str, ...]) -> Path:
    """The folder of a run of GRPO from the pretrained policy."""
    folder = pretrained.parent / name
    settings = ["--preset", "strong", "--init-from", str(pretrained / "checkpoints" / "best")]
    settings += ["--optimizer.learning-rate", str(RL_RATE), "--optimizer.frozen-layers", *FROZEN]
    for name, ent_coef in zip(("ent-coef", "ent-coef-final"), RL_BONUS, strict=True):
        settings += [f"--regularizer.{name}", str(ent_coef)]
    settings += ["--match.opponents", "--seed", str(seed), *size]
    begin = ["train", "grpo", *settings, "--run-dir", str(folder)]
    run_once(folder, begin, ["train", "--resume", str(folder)])
    return folder


def steps_for(pretrained: Path, cpu_s: float) -> int:
    """Optimizer steps that the pretraining run would make in that CPU time; a multiple of its interval."""
    rows = read_metrics(pretrained)
    config = json.loads((pretrained / "config.json").read_text())
    made = [row for row in rows if row["step"]]
    seconds = (made[-1]["time/cpu_s"] or 0.0) - (made[0]["time/cpu_s"] or 0.0)
    a_step = seconds / max(1.0, (made[-1]["step"] or 0.0) - (made[0]["step"] or 0.0))
    interval = int(config["log_interval_steps"])
    return max(1, round(cpu_s / a_step / interval)) * interval


def go_on(pretrained: Path, steps: int) -> Path:
    """The folder of the pretraining run itself, continued beyond its plateau."""
    folder = pretrained.parent / "continued"
    if not folder.exists():
        scratch = folder.with_name("continued.partial")
        shutil.rmtree(scratch, ignore_errors=True)
        shutil.copytree(pretrained, scratch, symlinks=True)
        (scratch / "finished").unlink()
        scratch.rename(folder)
    total = int(last(pretrained, "step")) + steps
    command = ["pretrain", "--resume", str(folder), "--no-plateau", "--total-steps", str(total)]
    run_once(folder, command, command)
    return folder


def restart(pretrained: Path, seed: int, steps: int, sizes: Sizes) -> Path:
    """The folder of a pretraining run from the same checkpoint whose step size rises and falls again."""
    folder = pretrained.parent / "restarted"
    best = str(pretrained / "checkpoints" / "best")
    settings = ["--init-from", best, "--labels-dir", str(pretrained / "labels"), "--no-plateau"]
    settings += ["--seed", str(1_000 + seed), "--label-seed", str(seed), "--run-dir", str(folder)]
    settings += ["--optimizer.learning-rate", str(RESTART_RATE), "--optimizer.lr-final", "0.0"]
    settings += ["--lr-decay-steps", str(steps), "--total-steps", str(steps)]
    begin = ["pretrain", *settings, "--start-positions", STARTS, *sizes.labels]
    run_once(folder, begin, ["pretrain", "--resume", str(folder)])
    return folder


def seed_rows(out: Path, seed: int, sizes: Sizes) -> list[dict[str, Any]]:
    """A row for the pretrained policy and for each way of going on."""
    pretrained = pretrain(out, seed, sizes)
    learned = reinforce(pretrained, seed, "rl", sizes.rl)
    cpu_s = last(learned, "time/cpu_s")
    steps = steps_for(pretrained, cpu_s)
    folders = {
        "rl": learned,
        "continued": go_on(pretrained, steps),
        "restarted": restart(pretrained, seed, steps, sizes),
    }
    before = last(pretrained, "time/cpu_s")
    rows = [row_of("pretrained", seed, pretrained, before, lowest)]
    for name, folder in folders.items():
        spent = last(folder, "time/cpu_s") - (before if name == "continued" else 0.0)
        rows.append(row_of(name, seed, folder, spent, last))
    return rows


def row_of(arm: str, seed: int, folder: Path, cpu_s: float, read: Any) -> dict[str, Any]:
    regret = {name: round(read(folder, name), 2) for name in METRICS}
    entropy = round(read(folder, "eval/entropy"), 3)
    return {"arm": arm, "seed": seed, "cpu_s": round(cpu_s), **regret, "eval/entropy": entropy}


Played = tuple[str, int, float, Path, Path | None]
"""(name, seed, scored moves, run folder, its checkpoint or None for the last one) of a policy that plays games."""


def compared_policies(out: Path, seeds: Sequence[int]) -> Iterator[Played]:
    """Each seed's policy before, after more pretraining and after RL."""
    for seed in seeds:
        pretrained, learned = out / f"seed-{seed}" / "pretrained", out / f"seed-{seed}" / "rl"
        yield "pretrained", seed, 0, pretrained, pretrained / "checkpoints" / "best"
        yield "continued", seed, 0, pretrained.parent / "continued", None
        yield "rl", seed, last(learned, "scored_moves"), learned, None


def long_policies(out: Path, seeds: Sequence[int], sizes: Sizes) -> Iterator[Played]:
    """Each seed's policy before and after the long RL run."""
    for seed in seeds:
        pretrained = pretrain(out, seed, sizes)
        learned = reinforce(pretrained, seed, "long", sizes.long_rl)
        yield "pretrained", seed, 0, pretrained, pretrained / "checkpoints" / "best"
        yield "long", seed, last(learned, "scored_moves"), learned, None


def strength(policies: Iterable[Played], games: int) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """(a row for each policy; what is behind each): single moves, and games against each opponent."""
    rows, behind = [], {}
    for kind, seed, moves, folder, policy in policies:
        name = f"{kind}-seed{seed}"
        row, behind[name], _ = strong.row_of(name, seed, round(moves), folder, policy, games)
        rows.append(row)
    return rows, behind


def difference(rows: list[dict[str, Any]], control: str, name: str) -> dict[str, Any]:
    """RL minus a control, seed by seed: the mean with its 95 % interval by Student's t; below 0 RL is better."""
    value = {(row["arm"], row["seed"]): row[name] for row in rows}
    seeds = sorted({row["seed"] for row in rows})
    found = np.array([value["rl", seed] - value[control, seed] for seed in seeds])
    mean = float(found.mean())
    half = float("nan")
    if len(found) > 1:
        half = (
            student_t_quantile(0.975, len(found) - 1) * float(found.std(ddof=1)) / len(found) ** 0.5
        )
    return {
        "control": control, "metric": name, "seeds": len(found), "difference_cp": round(mean, 2),
        "low": round(mean - half, 2), "high": round(mean + half, 2),
        "rl_is_better": bool(mean + half < 0),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "runs" / "pretraining")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--long", action="store_true", help="long RL runs instead")
    parser.add_argument("--smoke", action="store_true", help="a check of the parts, in a minute")
    parser.add_argument("--json", type=Path, default=None, help="write the figures here too")
    arguments = parser.parse_args()
    sizes = SMOKE if arguments.smoke else WHOLE
    if arguments.long:
        policies = long_policies(arguments.out, arguments.seeds, sizes)
        played, behind = strength(policies, sizes.games)
        print_table(played)
        settings = {"starts": STARTS, "rl_moves": LONG_MOVES, "games": sizes.games}
        save(arguments.json, "pretraining_long", played, runs=behind, **settings)
        return
    rows = [row for seed in arguments.seeds for row in seed_rows(arguments.out, seed, sizes)]
    print_table(rows)
    found = [difference(rows, control, name) for control in ARMS[1:] for name in METRICS]
    print()
    print_table(found)
    played, behind = strength(compared_policies(arguments.out, arguments.seeds), sizes.games)
    print()
    print_table(played)
    save(
        arguments.json, "pretraining", rows, differences=found, strength=played, runs=behind, starts=STARTS,
        rl_moves=RL_MOVES, games=sizes.games,
    )  # fmt: skip


if __name__ == "__main__":
    main()
