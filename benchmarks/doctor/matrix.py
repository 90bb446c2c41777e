"""How often the doctor is right: faults of every stage, sound runs, and what each did against its twin.

    python -m benchmarks.doctor.matrix --part sealed --out runs/sealed --json benchmarks/results/doctor_sealed.json

A run is *harmful* where it ends with more held-out regret than the sound run of the same start and seed, by more than
5 % of the regret at the start. The twin decides this, not the doctor. Every run has its signal chain at every second
update. What is in OUT already is not run again. Warm runs are the causes' baseline (40 updates of 1,024 moves), cold
ones the command line's defaults from random weights (20 updates of 2,048); the built-in evaluator scores.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

from algorithms import PRESETS
from algorithms.collapse.cause import baseline
from algorithms.config.changes import changed
from algorithms.config.run import EnvConfig, TrainConfig
from algorithms.doctor import diagnose_run
from algorithms.doctor.diagnosis import AS_USUAL, LEARNS, UNMEASURED
from algorithms.doctor.signal_chain import STAGES
from algorithms.networks.settings import NetworkConfig
from algorithms.run_folder.console import Display
from benchmarks.doctor.faults import (
    BETWEEN,
    BONUSES,
    CREDITS,
    OPEN,
    SAMPLER_KLS,
    SEALED,
    SOUND,
    SOUND_OTHERWISE,
    Kind,
)
from benchmarks.records.report import Row, rate, save

PARTS = {
    "open": OPEN, "sealed": SEALED, "sound": SOUND_OTHERWISE, "bonuses": BONUSES, "sampler_kls": SAMPLER_KLS,
    "credits": CREDITS, "presets": BETWEEN,
}  # fmt: skip
HARMFUL = 0.05


class Start(NamedTuple):
    """Where runs of all kinds begin.

    Attributes:
        weights: "warm" or "cold".
        network: its kind.
        preset: the algorithm.
        seeds: of the runs.
    """

    weights: str
    network: str
    preset: str
    seeds: tuple[int, ...]


STARTS: dict[str, tuple[Start, ...]] = {
    "open": (
        Start("warm", "move_net", "grpo", (11, 12)),
        Start("cold", "move_net", "grpo", (11, 12)),
    ),
    "sealed": (
        Start("warm", "move_net", "grpo", (51,)),
        Start("cold", "move_net", "grpo", (52,)),
        Start("cold", "move_net", "rloo", (53,)),
        Start("warm", "resnet", "grpo", (54,)),
    ),
}
STARTS["sound"] = (
    *(
        Start("cold", "move_net", preset, (61,))
        for preset in ("grpo", "rloo", "delightful_pg", "dr_grpo", "cispo")
    ),
    Start("warm", "move_net", "grpo", (62,)),
    Start("warm", "resnet", "grpo", (63,)),
)
STARTS["bonuses"] = (
    *(
        Start("cold", "move_net", preset, (71, 72))
        for preset in ("grpo", "rloo", "dr_grpo", "cispo", "reinforce")
    ),
    Start("cold", "resnet", "grpo", (73,)),
    Start("cold", "resnet", "dr_grpo", (73,)),
    Start("cold", "transformer", "grpo", (73,)),
    Start("warm", "move_net", "grpo", (74,)),
    Start("warm", "move_net", "rloo", (74,)),
    Start("warm", "resnet", "grpo", (75,)),
)

STARTS["sampler_kls"] = (
    *(
        Start("cold", "move_net", preset, (seed,))
        for preset, seed in (
            ("dr_grpo", 111),
            ("ppo_one_ply", 112),
            ("dapo", 113),
            ("clip_cov", 115),
        )
    ),
    Start("warm", "move_net", "cispo", (114,)),
    Start("cold", "resnet", "grpo", (116,)),
    Start("cold", "transformer", "grpo", (117,)),
)

STARTS["credits"] = (
    Start("cold", "move_net", "grpo", (211,)),
    Start("cold", "move_net", "delightful_pg", (212,)),
    Start("cold", "move_net", "dr_grpo", (201,)),
    Start("cold", "transformer", "grpo", (203,)),
    Start("warm", "move_net", "rloo", (202,)),
)

STARTS["presets"] = (
    Start("cold", "move_net", "reinforce", (501,)),
    Start("cold", "move_net", "ppo_one_ply", (502,)),
    Start("cold", "move_net", "delightful_pg", (503,)),
    Start("cold", "move_net", "dapo", (504,)),
    Start("cold", "move_net", "exact", (505,)),
    Start("cold", "resnet", "dr_grpo", (506,)),
    Start("cold", "transformer", "cispo", (507,)),
    Start("warm", "move_net", "sapo", (508,)),
    Start("warm", "resnet", "rloo", (509,)),
)

EARLIER = (
    "reinforce", "ppo", "ppo_one_ply", "grpo", "dr_grpo", "dapo", "cispo", "rloo", "delightful_pg", "clip_cov",
    "kl_cov", "repo", "exact",
)  # fmt: skip
"""Presets of which open and sealed part have sound runs; of the others the part of sound runs has them."""

LATER = tuple(preset for preset in PRESETS if preset not in (*EARLIER, "gspo"))
"""All but gspo, whose sequences have several moves."""

SOUND_STARTS = (
    *(Start("cold", "move_net", preset, (21, 22)) for preset in EARLIER),
    Start("warm", "move_net", "grpo", (21, 22, 23)),
    Start("warm", "move_net", "rloo", (21,)),
    Start("warm", "move_net", "delightful_pg", (21,)),
    Start("warm", "move_net", "ppo", (21,)),
    Start("warm", "resnet", "grpo", (21, 22)),
    Start("cold", "resnet", "grpo", (21, 22)),
    Start("cold", "transformer", "grpo", (21,)),
)

ALONE = {
    "open": SOUND_STARTS,
    "sealed": SOUND_STARTS,
    "sound": tuple(Start("cold", "move_net", preset, (21, 22)) for preset in LATER),
}
"""Starts of sound runs beside the twins."""


class Job(NamedTuple):
    """A run."""

    part: str
    kind: str
    start: Start
    seed: int

    @property
    def name(self) -> str:
        """Of its folder."""
        start = self.start
        return f"{self.kind}__{start.weights}__{start.network}__{start.preset}__{self.seed}"


def jobs(part: str) -> Iterator[Job]:
    """The runs of a part."""
    for start in STARTS[part]:
        for seed in start.seeds:
            yield from (
                Job(part, name, start, seed)
                for name, kind in PARTS[part].items()
                if _fits(kind, start.preset)
            )
    for start in ALONE.get(part, ()):
        yield from (Job(part, SOUND, start, seed) for seed in start.seeds)


def _fits(kind: Kind, preset: str) -> bool:
    """Whether the algorithm has the settings that make the fault, and can have old samples where they make it."""
    algorithm, names = PRESETS[preset][0], [name.partition(".") for name in kind.settings]
    if "rollout.sync_interval_updates" in kind.settings and algorithm.needs().single_step:
        return False
    return all(hasattr(algorithm, field) for part, _, field in names if part == "algorithm")


def config_of(job: Job, kind: Kind) -> TrainConfig:
    """The settings of a run."""
    start = job.start
    algorithm, regularizer = PRESETS[start.preset]
    if start.weights == "warm":
        config = baseline(start.network)
        if start.preset != "grpo":
            config = dataclasses.replace(
                config, algorithm=algorithm, regularizer=regularizer, preset=start.preset
            )
    else:
        config = TrainConfig(
            algorithm,
            regularizer,
            policy=NetworkConfig(network=start.network),
            env=EnvConfig(evaluator="builtin"),
            total_moves=20 * 2048,
            preset=start.preset,
        )
    if start.preset == "ppo":
        moves = config.rollout.num_envs * config.rollout.num_plies
        config = dataclasses.replace(config, total_moves=80 * moves)
    settings = dict(kind.settings)
    if "ent_coef" in settings:
        coefficient = settings.pop("ent_coef") * config.regularizer.ent_coef
        settings |= {"regularizer.ent_coef": coefficient, "regularizer.ent_coef_final": None}
    if "learning_rate" in settings:
        rate = config.settled().optimizer.full_learning_rate
        settings["optimizer.learning_rate"] = rate * settings.pop("learning_rate")
    if "algorithm.group_size" in settings:
        fewer = config.algorithm.group_size // settings["algorithm.group_size"]
        settings["rollout.num_plies"] = config.rollout.num_plies * fewer
    return dataclasses.replace(
        changed(config, settings),
        seed=job.seed,
        device="cpu",
        preflight=False,
        diagnostics_interval_updates=2,
        eval_interval_updates=16 if start.preset == "ppo" else 4,
        checkpoint_interval_updates=10**6,
        env=dataclasses.replace(changed(config, settings).env, num_threads=1),
    )


def run(job: Job, out: Path) -> None:
    """Leaves the record of a run in OUT/NAME/metrics.jsonl."""
    import torch

    from algorithms.collapse.experiment import session_with
    from algorithms.training.trainer import train

    torch.set_num_threads(1)
    kind, scratch = PARTS[job.part][job.kind], out / f"{job.name}.running"
    shutil.rmtree(scratch, ignore_errors=True)
    config = dataclasses.replace(config_of(job, kind), run_dir=scratch)
    train(config, make_session=session_with(kind.fault), display=Display())
    scratch.rename(out / job.name)


def _run(todo: tuple[Job, Path]) -> str:
    run(*todo)
    return todo[0].name


def judged(part: str, out: Path) -> list[dict[str, Any]]:
    """A row for each run: what it did against its twin, and what the doctor says of it."""
    rows = []
    for job in jobs(part):
        kind, record = PARTS[part][job.kind], read(out / job.name)
        twin = read(out / Job(part, SOUND, job.start, job.seed).name)
        start, end = regrets(record)
        harm = end - regrets(twin)[1]
        found = diagnose_run(out / job.name)
        named = [cause for cause in found.causes if cause.is_harmful]
        # A cause says at which stage it acts, where none loses as much as its bound.
        stages = [loss.stage.name for loss in found.chain.losses] or [each.stage for each in named]
        rows.append({
            "kind": job.kind, "weights": job.start.weights, "network": job.start.network,
            "preset": job.start.preset, "seed": job.seed, "start_cp": round(start, 1),
            "end_cp": round(end, 1), "harm_cp": round(harm, 1),
            "harmful": not is_sound(job.kind) and harm > HARMFUL * regrets(twin)[0],
            "stage": kind.stage, "cause": kind.cause, "verdict": found.verdict,
            "lost": stages[0] if stages else "", "named": [cause.name for cause in named],
            "links": links(record),
        })  # fmt: skip
    return rows


def is_sound(kind: str) -> bool:
    """Whether the kind has no fault."""
    return kind in SOUND_OTHERWISE


def links(record: Sequence[dict[str, Any]]) -> dict[str, float | None]:
    """What each stage keeps on average over the later half of the measured updates; null where none is measured."""
    found: dict[str, float | None] = {}
    for stage in STAGES:
        name = f"signal/{stage.name}"
        values = [row[name] for row in record if row.get(name) is not None]
        later = values[len(values) // 2 :]
        found[stage.name] = round(sum(later) / len(later), 3) if later else None
    return found


def read(folder: Path) -> list[dict[str, Any]]:
    """The rows of a record."""
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def regrets(record: Sequence[dict[str, Any]]) -> tuple[float, float]:
    """Held-out regret at the first and at the last evaluation, centipawns."""
    values = [row["eval/regret_cp"] for row in record if row.get("eval/regret_cp") is not None]
    return values[0], values[-1]


def rates(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """How often the doctor is right, with 95 % intervals."""
    harmful = [row for row in rows if row["harmful"]]
    listed = [row for row in harmful if row["cause"]]
    sound = [row for row in rows if is_sound(row["kind"])]
    harmless = [row for row in rows if not is_sound(row["kind"]) and not row["harmful"]]
    figures: list[tuple[str, Sequence[Row], Callable[[Row], bool]]] = [
        ("harmful, called learning", harmful, _learns),
        ("harmful with a stage: stage right", [row for row in harmful if row["stage"]], _stage_right),
        ("harmful and listed: the cause first", listed, lambda row: row["named"][:1] == [row["cause"]]),
        ("harmful: another cause first", harmful, lambda row: row["named"][:1] not in ([], [row["cause"]])),
        ("sound, accused", sound, lambda row: not _learns(row)),
        ("fault without harm, accused", harmless, lambda row: not _learns(row)),
    ]  # fmt: skip
    return [rate(*figure) for figure in figures if figure[1]]


def _learns(row: dict[str, Any]) -> bool:
    return row["verdict"] in (AS_USUAL, LEARNS, UNMEASURED)


def _stage_right(row: dict[str, Any]) -> bool:
    return bool(row["lost"] == row["stage"])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--part", choices=PARTS, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", type=Path, default=None)
    options = parser.parse_args()
    os.environ["NUMBA_NUM_THREADS"] = "1"
    todo = [
        (job, options.out) for job in jobs(options.part) if not (options.out / job.name).exists()
    ]
    print(f"{len(todo)} runs to do", flush=True)
    with get_context("spawn").Pool(options.jobs, maxtasksperchild=40) as pool:
        for count, name in enumerate(pool.imap_unordered(_run, todo), 1):
            print(f"{count}/{len(todo)} {name}", flush=True)
    rows = judged(options.part, options.out)
    for row in rates(rows):
        print(row)
    save(options.json, "doctor", rows, part=options.part, rates=rates(rows))


if __name__ == "__main__":
    main()
